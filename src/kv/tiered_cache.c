/*
 * Invariants: never more than config.max_tokens; without rotation everything is F16. Blocks change their tier when the
 * number of tokens ever appended is a multiple of the batch, and the oldest block goes when a token finds the cache
 * full: both are counted in tokens, so calls may cut them as they like.
 */
#include "kv/tiered_cache.h"

#include "base/alloc.h"
#include "kernels/hadamard.h"
#include "kernels/plain_attention.h"
#include "kv/kv_seq.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS = RV_KV_BLOCK_TOKENS, MAX_Q = RV_ATTENTION_KERNEL_MAX_Q, ALIGNMENT = 64 };
enum { MAX_TOKENS = 1 << 24 };

struct ruvllm_kv_cache {
    struct ruvllm_kv_cache_config config;
    int32_t room;  // tokens the table was made for
    int32_t batch; // tokens from one migration to the next
    bool rotates;  // rows are kept rotated, as they must be before they are quantised
    uint64_t n_appended;
    uint64_t n_evicted;
    struct rv_block_pool *pool;
    struct rv_kv_seq seq;
    rv_attention_kernel_fn kernel;
    float *scratch; // of the kernel
    float *rotated; // MAX_Q rows
};

/* ---- policy -------------------------------------------------------------------------------- */

static bool format_of(ruvllm_precision precision, enum rv_kv_block_format *out)
{
    *out = precision == RUVLLM_PRECISION_Q4   ? RV_KV_BLOCK_Q4
           : precision == RUVLLM_PRECISION_Q8 ? RV_KV_BLOCK_Q8
                                              : RV_KV_BLOCK_F16;
    return *out != RV_KV_BLOCK_F16 || precision == RUVLLM_PRECISION_FP16;
}

static void add_tier(struct rv_tier_policy *policy, enum rv_kv_block_format format, int32_t max_age)
{
    policy->tiers[policy->n_tiers++] = (struct rv_tier){.format = format, .max_age = max_age};
}

static bool is_between(int32_t x, int32_t least, int32_t most)
{
    return x >= least && x <= most;
}

static ruvllm_status tiers_of(const struct ruvllm_kv_cache_config *c, struct rv_tier_policy *out,
                              struct ruvllm_error *err)
{
    const char *field = !is_between(c->tail_length, 0, MAX_TOKENS)       ? "tail_length"
                        : !is_between(c->warm_length, 0, MAX_TOKENS)     ? "warm_length"
                        : !is_between(c->max_tokens, TOKENS, MAX_TOKENS) ? "max_tokens"
                        : !is_between(c->migration_batch, 1, MAX_TOKENS) ? "migration_batch"
                                                                         : NULL;
    enum rv_kv_block_format tail, store;

    if (field)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG, "'%s' is out of range", field);
    if (!format_of(c->tail, &tail) || !format_of(c->store, &store) || tail == RV_KV_BLOCK_Q4 || store < tail)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG,
                            "the tail can be FP16 or Q8, the store FP16, Q8 or Q4 and no finer than the tail");
    *out = (struct rv_tier_policy){0};
    if (tail != store)
        add_tier(out, tail, c->tail_length);
    if (tail == RV_KV_BLOCK_F16 && store == RV_KV_BLOCK_Q4 && c->warm_length > 0)
        add_tier(out, RV_KV_BLOCK_Q8, c->tail_length + c->warm_length);
    add_tier(out, store, 0);
    return RUVLLM_OK;
}

static bool must_rotate(const struct ruvllm_kv_cache *cache)
{
    const struct rv_tier_policy *p = &cache->seq.policy;

    return rv_block_pool_can_quantize(cache->pool) && p->tiers[p->n_tiers - 1].format != RV_KV_BLOCK_F16;
}

static void take_limits(struct ruvllm_kv_cache *cache, const struct ruvllm_kv_cache_config *config)
{
    cache->config = *config;
    cache->batch = (config->migration_batch + RV_KV_SEQ_STRIDE - 1) / RV_KV_SEQ_STRIDE * RV_KV_SEQ_STRIDE;
}

/* ---- life ---------------------------------------------------------------------------------- */

static ruvllm_status allocate(struct ruvllm_kv_cache *cache, const struct rv_tier_policy *policy,
                              struct ruvllm_error *err)
{
    const struct ruvllm_kv_cache_config *c = &cache->config;
    struct rv_block_pool_config pool = {.n_layers = 1, .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim};
    size_t scratch = (rv_attention_kernel_scratch(c->head_dim) + 15) / 16 * 16; // floats, in whole cache lines
    size_t rotated = MAX_Q * (size_t)c->head_dim;
    ruvllm_status rc;

    pool.budget = rv_block_pool_budget_for(&pool, (c->max_tokens + TOKENS - 1) / TOKENS);
    rc = rv_block_pool_new(&cache->pool, &pool, err);
    if (!rc)
        rc = rv_kv_seq_init(&cache->seq, cache->pool, policy, c->max_tokens, err);
    if (rc)
        return rc;
    cache->scratch = aligned_alloc(ALIGNMENT, (scratch + rotated) * sizeof(float));
    if (!cache->scratch)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate attention");
    cache->rotated = cache->scratch + scratch;
    return RUVLLM_OK;
}

ruvllm_status rv_tiered_cache_new(struct ruvllm_kv_cache **out, const struct ruvllm_kv_cache_config *config,
                                  struct ruvllm_error *err)
{
    struct ruvllm_kv_cache *cache;
    struct rv_tier_policy policy;
    ruvllm_status rc;

    *out = NULL;
    rc = rv_plain_attention_check_shape(config->n_heads, config->n_kv_heads, config->head_dim, err);
    if (!rc)
        rc = tiers_of(config, &policy, err);
    if (rc)
        return rc;
    cache = rv_calloc(1, sizeof(*cache));
    if (!cache)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the cache");
    take_limits(cache, config);
    cache->room = config->max_tokens;
    cache->kernel = rv_attention_kernel_best();
    rc = allocate(cache, &policy, err);
    if (rc) {
        rv_tiered_cache_free(cache);
        return rc;
    }
    cache->rotates = must_rotate(cache);
    *out = cache;
    return RUVLLM_OK;
}

void rv_tiered_cache_free(struct ruvllm_kv_cache *cache)
{
    if (!cache)
        return;
    rv_kv_seq_release(&cache->seq);
    rv_block_pool_free(cache->pool);
    free(cache->scratch);
    rv_free(cache);
}

void rv_tiered_cache_clear(struct ruvllm_kv_cache *cache)
{
    rv_kv_seq_clear(&cache->seq);
    cache->n_appended = 0;
    cache->n_evicted = 0;
    cache->rotates = must_rotate(cache);
}

/* ---- rows ---------------------------------------------------------------------------------- */

/* Where a head's keys and values of a position are. */
struct place {
    uint8_t *k, *v;
    enum rv_kv_block_format format;
    int32_t slot;
};

static struct place place_of(const struct ruvllm_kv_cache *cache, int32_t pos, int32_t head)
{
    int32_t block = cache->seq.blocks[pos / TOKENS];
    struct place p = {.format = rv_block_pool_format(cache->pool, block), .slot = pos % TOKENS};
    uint8_t *data = rv_block_pool_data(cache->pool, block);

    p.k = data + rv_block_pool_k_offset(cache->pool, p.format, 0, head);
    p.v = data + rv_block_pool_v_offset(cache->pool, p.format, 0, head);
    return p;
}

static void write_row(struct ruvllm_kv_cache *cache, int32_t pos, int32_t head, const float *key, const float *value)
{
    struct place p = place_of(cache, pos, head);
    int32_t dim = cache->config.head_dim;

    if (cache->rotates) {
        float *k = cache->rotated, *v = k + dim;

        memcpy(k, key, (size_t)dim * sizeof(float));
        memcpy(v, value, (size_t)dim * sizeof(float));
        rv_hadamard(k, dim);
        rv_hadamard(v, dim);
        key = k;
        value = v;
    }
    rv_kv_block_put(p.k, p.v, dim, p.slot, key, value);
}

static void write_rows(struct ruvllm_kv_cache *cache, const float *keys, const float *values, int32_t n)
{
    size_t dim = (size_t)cache->config.head_dim, n_heads = (size_t)cache->config.n_kv_heads;

    for (int32_t i = 0; i < n; i++) {
        for (size_t head = 0; head < n_heads; head++) {
            size_t at = ((size_t)i * n_heads + head) * dim;

            write_row(cache, cache->seq.len + i, (int32_t)head, keys + at, values + at);
        }
    }
}

void rv_tiered_cache_read(const struct ruvllm_kv_cache *cache, float *keys, float *values)
{
    int32_t dim = cache->config.head_dim;

    for (int32_t pos = 0; pos < cache->seq.len; pos++) {
        for (int32_t head = 0; head < cache->config.n_kv_heads; head++, keys += dim, values += dim) {
            struct place p = place_of(cache, pos, head);

            rv_kv_block_get(p.format, p.k, p.v, dim, p.slot, keys, values);
            if (cache->rotates) {
                rv_hadamard(keys, dim);
                rv_hadamard(values, dim);
            }
        }
    }
}

/* ---- growing ------------------------------------------------------------------------------- */

static void evict(struct ruvllm_kv_cache *cache)
{
    rv_kv_seq_drop_first(&cache->seq, 1);
    cache->n_evicted += TOKENS;
}

/* Tokens until the cache is full or blocks are due to move. */
static int32_t chunk_of(const struct ruvllm_kv_cache *cache)
{
    int32_t to_full = cache->config.max_tokens - cache->seq.len;
    int32_t to_move = cache->batch - (int32_t)(cache->n_appended % (uint64_t)cache->batch);

    return to_full < to_move ? to_full : to_move;
}

void rv_tiered_cache_append(struct ruvllm_kv_cache *cache, const float *keys, const float *values, size_t n_tokens)
{
    size_t row = (size_t)cache->config.n_kv_heads * (size_t)cache->config.head_dim;

    while (n_tokens > 0) {
        int32_t n;
        bool fits;

        if (cache->seq.len == cache->config.max_tokens)
            evict(cache);
        n = chunk_of(cache);
        n = n_tokens < (size_t)n ? (int32_t)n_tokens : n;
        fits = rv_kv_seq_reserve(&cache->seq, n);
        RV_ASSERT(fits); // the pool holds max_tokens even in F16
        write_rows(cache, keys, values, n);
        rv_kv_seq_advance(&cache->seq, n);
        cache->n_appended += (uint64_t)n;
        if (cache->n_appended % (uint64_t)cache->batch == 0)
            (void)rv_kv_seq_migrate(&cache->seq); // how many moved is nobody's concern here
        keys += (size_t)n * row;
        values += (size_t)n * row;
        n_tokens -= (size_t)n;
    }
}

/* What was kept as it came becomes rotated: everything is still F16. */
static void rotate_held(struct ruvllm_kv_cache *cache)
{
    int32_t dim = cache->config.head_dim;

    cache->rotates = true;
    for (int32_t pos = 0; pos < cache->seq.len; pos++) {
        for (int32_t head = 0; head < cache->config.n_kv_heads; head++) {
            float *k = cache->rotated + 2 * dim, *v = k + dim;
            struct place p = place_of(cache, pos, head);

            rv_kv_block_get(p.format, p.k, p.v, dim, p.slot, k, v);
            write_row(cache, pos, head, k, v);
        }
    }
}

ruvllm_status rv_tiered_cache_update_policy(struct ruvllm_kv_cache *cache, const struct ruvllm_kv_cache_config *config,
                                            struct ruvllm_error *err)
{
    const struct ruvllm_kv_cache_config *c = &cache->config;
    struct rv_tier_policy policy;
    ruvllm_status rc = tiers_of(config, &policy, err);

    if (rc)
        return rc;
    if (config->n_kv_heads != c->n_kv_heads || config->head_dim != c->head_dim || config->n_heads != c->n_heads)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_KV_CACHE,
                            "a policy cannot change the number of heads or 'head_dim'");
    if (config->max_tokens > cache->room)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_KV_CACHE,
                            "'max_tokens' is %d, the cache was made for at most %d", config->max_tokens, cache->room);
    take_limits(cache, config);
    rv_kv_seq_set_policy(&cache->seq, &policy);
    while (cache->seq.len > config->max_tokens)
        evict(cache);
    if (must_rotate(cache) && !cache->rotates)
        rotate_held(cache);
    (void)rv_kv_seq_migrate(&cache->seq);
    return RUVLLM_OK;
}

/* ---- attending ----------------------------------------------------------------------------- */

/* Some heads of one KV head. */
static void attend_heads(struct ruvllm_kv_cache *cache, struct rv_attention_call *call, const float *query, float *out)
{
    size_t dim = (size_t)cache->config.head_dim;
    int32_t first[MAX_Q] = {0}, end[MAX_Q];
    const float *q[MAX_Q];
    float *outs[MAX_Q];

    for (int32_t i = 0; i < call->n_q; i++) {
        q[i] = query + (size_t)i * dim;
        outs[i] = out + (size_t)i * dim;
        end[i] = cache->seq.len;
        if (cache->rotates) {
            float *copy = cache->rotated + (size_t)i * dim;

            memcpy(copy, q[i], dim * sizeof(float));
            rv_hadamard(copy, (int32_t)dim);
            q[i] = copy;
        }
    }
    call->q = q;
    call->out = outs;
    call->first = first;
    call->end = end;
    cache->kernel(call);
    for (int32_t i = 0; cache->rotates && i < call->n_q; i++)
        rv_hadamard(outs[i], (int32_t)dim);
}

void rv_tiered_cache_attend(struct ruvllm_kv_cache *cache, const float *query, float scale, float *out)
{
    const struct ruvllm_kv_cache_config *c = &cache->config;
    int32_t group = c->n_heads / c->n_kv_heads;
    struct rv_attention_call call = {.head_dim = c->head_dim,
                                     .scale = scale,
                                     .blocks = rv_block_pool_blocks(cache->pool),
                                     .table = cache->seq.blocks,
                                     .scratch = cache->scratch};

    for (int32_t kv_head = 0; kv_head < c->n_kv_heads; kv_head++) {
        for (int f = 0; f < RV_KV_BLOCK_N_FORMATS; f++) {
            call.k_offset[f] = rv_block_pool_k_offset(cache->pool, (enum rv_kv_block_format)f, 0, kv_head);
            call.v_offset[f] = rv_block_pool_v_offset(cache->pool, (enum rv_kv_block_format)f, 0, kv_head);
        }
        for (int32_t i = 0; i < group; i += MAX_Q) {
            size_t at = (size_t)(kv_head * group + i) * (size_t)c->head_dim;

            call.n_q = group - i < MAX_Q ? group - i : MAX_Q;
            attend_heads(cache, &call, query + at, out + at);
        }
    }
}

/* ---- counts -------------------------------------------------------------------------------- */

int32_t rv_tiered_cache_head_dim(const struct ruvllm_kv_cache *cache)
{
    return cache->config.head_dim;
}

int32_t rv_tiered_cache_n_tokens(const struct ruvllm_kv_cache *cache)
{
    return cache->seq.len;
}

void rv_tiered_cache_stats(const struct ruvllm_kv_cache *cache, struct ruvllm_kv_cache_stats *out)
{
    const struct rv_tier_policy *p = &cache->seq.policy;
    enum rv_kv_block_format tail = p->tiers[0].format, store = p->tiers[p->n_tiers - 1].format;
    size_t token_bytes = 4 * (size_t)cache->config.n_kv_heads * (size_t)cache->config.head_dim; // a key and a value
    uint64_t bytes;

    *out = (struct ruvllm_kv_cache_stats){.struct_size = sizeof(*out),
                                          .total_tokens = cache->seq.len,
                                          .evicted_tokens = cache->n_evicted,
                                          .migration_batch = cache->batch,
                                          .can_quantize = rv_block_pool_can_quantize(cache->pool),
                                          .compression_ratio = 1};
    for (int32_t i = 0; i < cache->seq.n_blocks; i++) {
        enum rv_kv_block_format format = rv_block_pool_format(cache->pool, cache->seq.blocks[i]);
        size_t block_bytes = rv_block_pool_block_bytes(cache->pool, format);
        int32_t left = cache->seq.len - i * TOKENS, n = left < TOKENS ? left : TOKENS;

        if (format <= tail) {
            out->tail_tokens += n;
            out->tail_bytes += block_bytes;
        } else if (format >= store) {
            out->store_tokens += n;
            out->store_bytes += block_bytes;
        } else {
            out->warm_tokens += n;
            out->warm_bytes += block_bytes;
        }
    }
    bytes = out->tail_bytes + out->warm_bytes + out->store_bytes;
    if (bytes > 0)
        out->compression_ratio = (double)cache->seq.len * (double)token_bytes / (double)bytes;
}

bool rv_tiered_cache_check(const struct ruvllm_kv_cache *cache)
{
    bool is_f16 = rv_block_pool_n_used(cache->pool, RV_KV_BLOCK_Q8) == 0 &&
                  rv_block_pool_n_used(cache->pool, RV_KV_BLOCK_Q4) == 0;

    return rv_block_pool_check(cache->pool) && rv_kv_seq_check(&cache->seq) && (cache->rotates || is_f16) &&
           cache->seq.len <= cache->config.max_tokens &&
           cache->n_appended == cache->n_evicted + (uint64_t)cache->seq.len;
}
