/*
 * Invariants: n_blocks covers len; all blocks but the last are full; blocks before n_settled need no more migration.
 * All that is not full is F16. See rv_kv_seq_room for why tiers change at multiples of a stride only.
 */
#include "kv/kv_seq.h"

#include "base/alloc.h"

#include <string.h>

static int32_t blocks_of(int32_t n_tokens)
{
    return (n_tokens + RV_KV_BLOCK_TOKENS - 1) / RV_KV_BLOCK_TOKENS;
}

ruvllm_status rv_kv_seq_init(struct rv_kv_seq *seq, struct rv_block_pool *pool, const struct rv_tier_policy *policy,
                             int32_t max_len, struct ruvllm_error *err)
{
    RV_ASSERT(rv_tier_policy_is_valid(policy));
    *seq = (struct rv_kv_seq){.pool = pool, .policy = *policy, .cap_blocks = blocks_of(max_len)};
    seq->blocks = rv_calloc((size_t)seq->cap_blocks, sizeof(*seq->blocks));
    if (!seq->blocks)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a table for %d tokens", max_len);
    return RUVLLM_OK;
}

void rv_kv_seq_clear(struct rv_kv_seq *seq)
{
    while (seq->n_blocks > 0)
        rv_block_pool_unref(seq->pool, seq->blocks[--seq->n_blocks]);
    seq->len = 0;
    seq->n_settled = 0;
}

void rv_kv_seq_release(struct rv_kv_seq *seq)
{
    if (seq->blocks)
        rv_kv_seq_clear(seq);
    rv_free(seq->blocks);
    *seq = (struct rv_kv_seq){0};
}

/* The block that the next token goes to is there, but others read it too, or find it by the tokens it held. */
static bool must_copy(const struct rv_kv_seq *seq)
{
    int32_t index = seq->len / RV_KV_BLOCK_TOKENS, block;

    if (index >= seq->n_blocks || seq->len % RV_KV_BLOCK_TOKENS == 0)
        return false;
    block = seq->blocks[index];
    return rv_block_pool_refs(seq->pool, block) > 1 || rv_block_pool_is_cached(seq->pool, block);
}

int32_t rv_kv_seq_n_needed(const struct rv_kv_seq *seq, int32_t n)
{
    int32_t n_new = blocks_of(seq->len + n) - seq->n_blocks; // below 0 when more was reserved before

    return (n_new > 0 ? n_new : 0) + must_copy(seq);
}

bool rv_kv_seq_reserve(struct rv_kv_seq *seq, int32_t n)
{
    int32_t n_wanted = blocks_of(seq->len + n);

    RV_ASSERT(n_wanted <= seq->cap_blocks);
    if (rv_kv_seq_n_needed(seq, n) > rv_block_pool_n_free(seq->pool))
        return false;
    if (must_copy(seq)) {
        int32_t *last = &seq->blocks[seq->len / RV_KV_BLOCK_TOKENS];
        int32_t copy = rv_block_pool_copy(seq->pool, *last);

        RV_ASSERT(copy >= 0);
        rv_block_pool_unref(seq->pool, *last);
        *last = copy;
    }
    while (seq->n_blocks < n_wanted) {
        int32_t block = rv_block_pool_take(seq->pool, RV_KV_BLOCK_F16);

        RV_ASSERT(block >= 0); // counted above
        seq->blocks[seq->n_blocks++] = block;
    }
    return true;
}

void rv_kv_seq_advance(struct rv_kv_seq *seq, int32_t n)
{
    RV_ASSERT(blocks_of(seq->len + n) <= seq->n_blocks);
    seq->len += n;
}

int32_t rv_kv_seq_trim(struct rv_kv_seq *seq, int32_t len)
{
    int32_t n_keep;

    if (len < seq->len)
        seq->len = len;
    if (seq->len % RV_KV_BLOCK_TOKENS != 0 &&
        rv_block_pool_format(seq->pool, seq->blocks[seq->len / RV_KV_BLOCK_TOKENS]) != RV_KV_BLOCK_F16)
        seq->len -= seq->len % RV_KV_BLOCK_TOKENS;
    n_keep = blocks_of(seq->len);
    while (seq->n_blocks > n_keep)
        rv_block_pool_unref(seq->pool, seq->blocks[--seq->n_blocks]);
    if (seq->n_settled > seq->n_blocks)
        seq->n_settled = seq->n_blocks;
    return seq->len;
}

void rv_kv_seq_drop_first(struct rv_kv_seq *seq, int32_t n)
{
    RV_ASSERT(n >= 0 && n * RV_KV_BLOCK_TOKENS <= seq->len);
    for (int32_t i = 0; i < n; i++)
        rv_block_pool_unref(seq->pool, seq->blocks[i]);
    seq->n_blocks -= n;
    seq->len -= n * RV_KV_BLOCK_TOKENS;
    seq->n_settled = seq->n_settled > n ? seq->n_settled - n : 0;
    memmove(seq->blocks, seq->blocks + n, (size_t)seq->n_blocks * sizeof(*seq->blocks));
}

void rv_kv_seq_set_policy(struct rv_kv_seq *seq, const struct rv_tier_policy *policy)
{
    RV_ASSERT(rv_tier_policy_is_valid(policy));
    seq->policy = *policy;
    seq->n_settled = 0;
}

void rv_kv_seq_append(struct rv_kv_seq *seq, int32_t block, int32_t n_tokens)
{
    RV_ASSERT(seq->len == seq->n_blocks * RV_KV_BLOCK_TOKENS && seq->n_blocks < seq->cap_blocks);
    RV_ASSERT(n_tokens > 0 && n_tokens <= RV_KV_BLOCK_TOKENS);
    seq->blocks[seq->n_blocks++] = block;
    seq->len += n_tokens;
}

void rv_kv_seq_share(struct rv_kv_seq *seq, int32_t block)
{
    rv_block_pool_ref(seq->pool, block);
    rv_kv_seq_append(seq, block, RV_KV_BLOCK_TOKENS);
}

void rv_kv_seq_fork(struct rv_kv_seq *seq, const struct rv_kv_seq *from)
{
    RV_ASSERT(seq->n_blocks == 0 && from->n_blocks <= seq->cap_blocks);
    for (int32_t i = 0; i < blocks_of(from->len); i++) {
        rv_block_pool_ref(seq->pool, from->blocks[i]);
        seq->blocks[seq->n_blocks++] = from->blocks[i];
    }
    seq->len = from->len;
}

int32_t rv_kv_seq_room_at(const struct rv_kv_seq *seq, int32_t len)
{
    if (seq->policy.n_tiers == 1 && seq->policy.tiers[0].format == RV_KV_BLOCK_F16)
        return INT32_MAX;
    return RV_KV_SEQ_STRIDE - len % RV_KV_SEQ_STRIDE;
}

int32_t rv_kv_seq_room(const struct rv_kv_seq *seq)
{
    return rv_kv_seq_room_at(seq, seq->len);
}

/* Lowers a block that no other sequence reads. */
static bool lower(struct rv_kv_seq *seq, int32_t index, enum rv_kv_block_format format)
{
    int32_t block = seq->blocks[index];

    if (format <= rv_block_pool_format(seq->pool, block) || rv_block_pool_refs(seq->pool, block) > 1)
        return false;
    rv_block_pool_convert(seq->pool, block, format);
    return true;
}

static enum rv_kv_block_format last_format(const struct rv_kv_seq *seq)
{
    return seq->policy.tiers[seq->policy.n_tiers - 1].format;
}

/* Blocks at the start that will not move again are not looked at again. */
static void settle(struct rv_kv_seq *seq, int32_t index)
{
    bool stays = index == 0 && seq->policy.keeps_first;

    if (index == seq->n_settled && (stays || rv_block_pool_format(seq->pool, seq->blocks[index]) >= last_format(seq)))
        seq->n_settled++;
}

int32_t rv_kv_seq_migrate(struct rv_kv_seq *seq)
{
    int32_t len = seq->len - seq->len % RV_KV_SEQ_STRIDE, n_moved = 0;

    if (!rv_block_pool_can_quantize(seq->pool))
        return 0;
    for (int32_t i = seq->n_settled; i < len / RV_KV_BLOCK_TOKENS; i++) {
        n_moved += lower(seq, i, rv_tier_format(&seq->policy, i, len));
        settle(seq, i);
    }
    return n_moved;
}

int32_t rv_kv_seq_squeeze(struct rv_kv_seq *seq, int32_t n_free)
{
    int32_t n_moved = 0;

    if (!rv_block_pool_can_quantize(seq->pool))
        return 0;
    for (int32_t i = seq->n_settled; i < seq->len / RV_KV_BLOCK_TOKENS; i++) {
        bool stays = i == 0 && seq->policy.keeps_first;

        if (rv_block_pool_n_free(seq->pool) >= n_free)
            break;
        if (stays)
            continue; // nor is it settled: its own tier may still be below what it is in
        n_moved += lower(seq, i, last_format(seq));
        settle(seq, i);
    }
    return n_moved;
}

static size_t block_bytes(const struct rv_kv_seq *seq, enum rv_kv_block_format format)
{
    return rv_block_pool_block_bytes(seq->pool, rv_block_pool_can_quantize(seq->pool) ? format : RV_KV_BLOCK_F16);
}

size_t rv_kv_seq_bytes_of(const struct rv_kv_seq *seq, int32_t n_tokens)
{
    const struct rv_tier_policy *p = &seq->policy;
    int32_t n_left = n_tokens / RV_KV_BLOCK_TOKENS; // full ones, of this tier or older
    size_t bytes = n_left < blocks_of(n_tokens) ? block_bytes(seq, RV_KV_BLOCK_F16) : 0;

    if (n_left > 0 && p->keeps_first) {
        bytes += block_bytes(seq, p->tiers[0].format);
        n_left--;
    }
    for (int32_t i = 0; i < p->n_tiers && n_left > 0; i++) {
        int32_t n_older =
            i + 1 < p->n_tiers ? (n_tokens - p->tiers[i].max_age) / RV_KV_BLOCK_TOKENS - p->keeps_first : 0;

        n_older = n_older < 0 ? 0 : n_older < n_left ? n_older : n_left;
        bytes += (size_t)(n_left - n_older) * block_bytes(seq, p->tiers[i].format);
        n_left = n_older;
    }
    return bytes;
}

size_t rv_kv_seq_bytes_squeezed(const struct rv_kv_seq *seq, int32_t n_tokens)
{
    int32_t n = blocks_of(n_tokens), n_f16 = 1 + seq->policy.keeps_first; // the one that fills, and the first

    if (n <= n_f16)
        return (size_t)n * block_bytes(seq, RV_KV_BLOCK_F16);
    return (size_t)n_f16 * block_bytes(seq, RV_KV_BLOCK_F16) + (size_t)(n - n_f16) * block_bytes(seq, last_format(seq));
}

size_t rv_kv_seq_bytes(const struct rv_kv_seq *seq)
{
    size_t n = 0;

    for (int32_t i = 0; i < seq->n_blocks; i++)
        n += rv_block_pool_block_bytes(seq->pool, rv_block_pool_format(seq->pool, seq->blocks[i]));
    return n;
}

bool rv_kv_seq_check(const struct rv_kv_seq *seq)
{
    if (seq->len < 0 || blocks_of(seq->len) > seq->n_blocks || seq->n_blocks > seq->cap_blocks ||
        seq->n_settled > seq->n_blocks)
        return false;
    for (int32_t i = 0; i < seq->n_blocks; i++) {
        bool is_full = (i + 1) * RV_KV_BLOCK_TOKENS <= seq->len;

        if (rv_block_pool_refs(seq->pool, seq->blocks[i]) < 1)
            return false;
        if (!is_full && rv_block_pool_format(seq->pool, seq->blocks[i]) != RV_KV_BLOCK_F16)
            return false;
    }
    return true;
}
