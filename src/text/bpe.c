/*
 * Byte-pair encoding on token ids: a merge rule maps two ids to a rank and the id they become, so that merging never
 * touches a string.
 */
#include "text/bpe.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "text/merge.h"
#include "text/spelling.h"

#include <string.h>

struct rv_bpe_pair {
    int32_t left;
    int32_t right;
    uint32_t rank;
    int32_t id; // what they become; -1 marks a free slot
};

/* One call's buffers. */
struct job {
    const struct rv_bpe *bpe;
    const char *text; // repaired, and escaped where symbols are characters
    struct rv_merge merge;
    struct rv_buf *ids;
    struct ruvllm_error *err;
};

static size_t slot_of(const struct rv_bpe *bpe, int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;

    key = (key ^ bpe->seed) * UINT64_C(0x9E3779B97F4A7C15);
    key = (key ^ key >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return (size_t)(key >> 32) & (bpe->n_slots - 1);
}

/* The slot of the pair, or the free one where it would go. */
static struct rv_bpe_pair *probe(const struct rv_bpe *bpe, int32_t left, int32_t right)
{
    size_t i = slot_of(bpe, left, right);

    while (bpe->pairs[i].id >= 0 && (bpe->pairs[i].left != left || bpe->pairs[i].right != right))
        i = (i + 1) & (bpe->n_slots - 1);
    return &bpe->pairs[i];
}

/* Adds one merge; *skipped counts those that can never apply. */
static ruvllm_status add_merge(struct rv_bpe *bpe, struct rv_str merge, size_t rank, size_t *skipped,
                               struct ruvllm_error *err)
{
    char joined[RV_TOKEN_TABLE_MAX_TOKEN_LEN];
    const char *space = merge.len > 2 ? memchr(merge.data + 1, ' ', merge.len - 1) : NULL;
    size_t left_len = space ? (size_t)(space - merge.data) : 0, right_len;
    int32_t left, right, id;
    struct rv_bpe_pair *pair;

    if (!space || left_len + 1 == merge.len)
        return rv_fail(err, RUVLLM_FORMAT, "merge %zu does not name two tokens", rank);
    right_len = merge.len - left_len - 1;
    left = rv_token_table_find(bpe->table, merge.data, left_len);
    right = rv_token_table_find(bpe->table, space + 1, right_len);
    id = -1;
    if (left >= 0 && right >= 0 && merge.len - 1 <= bpe->table->max_text_len) {
        memcpy(joined, merge.data, left_len);
        memcpy(joined + left_len, space + 1, right_len);
        id = rv_token_table_find(bpe->table, joined, merge.len - 1);
    }
    if (id < 0) {
        *skipped += 1;
        return RUVLLM_OK;
    }
    pair = probe(bpe, left, right);
    if (pair->id < 0)
        *pair = (struct rv_bpe_pair){.left = left, .right = right, .rank = (uint32_t)rank, .id = id};
    return RUVLLM_OK;
}

static void read_byte_tokens(struct rv_bpe *bpe)
{
    if (rv_pretokenize_rules(bpe->pre)->raw_utf8) {
        memcpy(bpe->byte_tokens, bpe->table->byte_tokens, sizeof(bpe->byte_tokens));
        return;
    }
    for (int i = 0; i < 256; i++) {
        char utf8[2];
        size_t len = rv_spelling_byte_utf8((uint8_t)i, utf8);
        bpe->byte_tokens[i] = rv_token_table_find(bpe->table, utf8, len);
    }
}

ruvllm_status rv_bpe_init(struct rv_bpe *bpe, const struct rv_token_table *table, const struct rv_pretokenizer *pre,
                          const struct rv_str *merges, size_t n_merges, struct ruvllm_error *err)
{
    size_t skipped = 0;
    ruvllm_status rc = RUVLLM_OK;

    *bpe = (struct rv_bpe){.table = table, .pre = pre, .n_slots = 16, .seed = rv_rng_seed_from_system()};
    if (n_merges > INT32_MAX / 4)
        return rv_fail(err, RUVLLM_FORMAT, "vocabulary has %zu merges, more than %d", n_merges, INT32_MAX / 4);
    while (bpe->n_slots < n_merges * 2)
        bpe->n_slots *= 2;
    bpe->pairs = rv_calloc(bpe->n_slots, sizeof(*bpe->pairs));
    if (!bpe->pairs)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a table of %zu merges", n_merges);
    memset(bpe->pairs, -1, bpe->n_slots * sizeof(*bpe->pairs));
    for (size_t i = 0; !rc && i < n_merges; i++)
        rc = add_merge(bpe, merges[i], i, &skipped, err);
    if (rc) {
        rv_bpe_release(bpe);
        return rc;
    }
    if (skipped > 0)
        rv_log(RUVLLM_LOG_WARN, "vocabulary: %zu of %zu merges join no ordinary tokens", skipped, n_merges);
    read_byte_tokens(bpe);
    return RUVLLM_OK;
}

void rv_bpe_release(struct rv_bpe *bpe)
{
    rv_free(bpe->pairs);
    *bpe = (struct rv_bpe){0};
}

static bool find_rule(const void *context, const struct rv_merge_symbol *left, const struct rv_merge_symbol *right,
                      struct rv_merge_rule *rule)
{
    const struct rv_bpe_pair *pair;

    if (left->id < 0 || right->id < 0)
        return false;
    pair = probe(context, left->id, right->id);
    *rule = (struct rv_merge_rule){.priority = pair->rank, .id = pair->id};
    return pair->id >= 0;
}

static void emit(struct job *job, int32_t id)
{
    if (id >= 0)
        rv_buf_add(job->ids, &id, sizeof(id));
}

/* Merges the symbols collected so far and appends their ids. */
static ruvllm_status flush(struct job *job)
{
    ruvllm_status rc = rv_merge_run(&job->merge, job->err);

    for (size_t i = 0; !rc && i < job->merge.n_symbols; i++) {
        const struct rv_merge_symbol *symbol = &job->merge.symbols[i];
        if (symbol->id >= 0) {
            emit(job, symbol->id);
            continue;
        }
        for (size_t j = 0; j < symbol->len; j++)
            emit(job, job->bpe->byte_tokens[(unsigned char)job->text[symbol->start + j]]);
    }
    rv_merge_clear(&job->merge);
    return rc;
}

static ruvllm_status encode_bytes(struct job *job, size_t start, size_t end)
{
    const unsigned char *text = (const unsigned char *)job->text;
    ruvllm_status rc = RUVLLM_OK;

    for (size_t i = start; !rc && i < end; i++)
        rc = rv_merge_push(&job->merge, (uint32_t)i, 1, job->bpe->byte_tokens[text[i]], job->err);
    return rc ? rc : flush(job);
}

/*
 * Whole lines of characters. No ordinary token goes on with U+2581 after most characters, so merging can start anew
 * there: it keeps the runs short without changing the result.
 */
static ruvllm_status encode_chars(struct job *job, size_t start, size_t end)
{
    const struct rv_token_table *table = job->bpe->table;
    const char *text = job->text;
    ruvllm_status rc = RUVLLM_OK;

    for (size_t i = start; !rc && i < end;) {
        size_t len = rv_spelling_symbol_len(text + i, end - i);
        if (i > start && rv_spelling_is_space(text, end, i) && !table->glue[(unsigned char)text[i - 1]] &&
            !(i >= start + RV_SPELLING_SPACE_LEN && rv_spelling_is_space(text, end, i - RV_SPELLING_SPACE_LEN)))
            rc = flush(job);
        if (!rc)
            rc = rv_merge_push(&job->merge, (uint32_t)i, (uint32_t)len, rv_token_table_find(table, text + i, len),
                               job->err);
        i += len;
    }
    return rc ? rc : flush(job);
}

/* The token a word is as it stands, or -1. */
static int32_t whole_word(const struct job *job, size_t start, size_t end)
{
    char word[RV_TOKEN_TABLE_MAX_TOKEN_LEN + 2];
    size_t len = 0;

    for (size_t i = start; i < end; i++) {
        len += rv_spelling_byte_utf8((uint8_t)job->text[i], word + len);
        if (len > job->bpe->table->max_text_len)
            return -1;
    }
    return rv_token_table_find(job->bpe->table, word, len);
}

static ruvllm_status encode_word(struct job *job, size_t start, size_t end)
{
    const struct rv_pretokenize_rules *rules = rv_pretokenize_rules(job->bpe->pre);
    int32_t id = -1;

    if (rules->whole_words)
        id = whole_word(job, start, end);
    else if (rules->raw_utf8 && job->text[start] == '\n') // lines are cut so that newlines stand alone
        id = rv_token_table_find(job->bpe->table, job->text + start, end - start);
    if (id >= 0) {
        emit(job, id);
        return RUVLLM_OK;
    }
    return rules->raw_utf8 ? encode_chars(job, start, end) : encode_bytes(job, start, end);
}

/* Makes `out` the text that words are cut from, unless `text` is that already. */
static ruvllm_status prepare(const struct rv_bpe *bpe, const char *text, size_t len, struct rv_buf *out,
                             struct ruvllm_error *err)
{
    struct rv_buf escaped;
    ruvllm_status rc;

    rv_buf_init(&escaped, len * RV_SPELLING_SPACE_LEN);
    if (rv_pretokenize_rules(bpe->pre)->raw_utf8) {
        rv_spelling_add_escaped(&escaped, text, len);
        text = escaped.data;
        len = escaped.len;
    }
    rc = rv_buf_status(&escaped, "text", err);
    if (!rc && rv_utf8_valid(text, len))
        rv_buf_add(out, text, len);
    else if (!rc)
        rv_spelling_add_repaired(out, text, len);
    rv_buf_release(&escaped);
    return rc ? rc : rv_buf_status(out, "text", err);
}

ruvllm_status rv_bpe_encode(const struct rv_bpe *bpe, const char *text, size_t len, struct rv_buf *ids,
                            struct ruvllm_error *err)
{
    struct job job = {.bpe = bpe, .ids = ids, .err = err};
    struct rv_buf prepared, ends;
    ruvllm_status rc;
    size_t start = 0;

    if (len == 0)
        return RUVLLM_OK;
    rv_buf_init(&prepared, len * 3);
    rv_buf_init(&ends, len * 3 * sizeof(uint32_t));
    rv_merge_init(&job.merge, find_rule, bpe);
    rc = prepare(bpe, text, len, &prepared, err);
    job.text = prepared.data;
    if (!rc)
        rc = rv_pretokenize_split(bpe->pre, prepared.data, prepared.len, &ends, err);
    for (size_t i = 0; !rc && i < ends.len / sizeof(uint32_t); i++) {
        size_t end = ((const uint32_t *)(const void *)ends.data)[i];
        rc = encode_word(&job, start, end);
        start = end;
    }
    rv_merge_release(&job.merge);
    rv_buf_release(&ends);
    rv_buf_release(&prepared);
    return rc ? rc : rv_buf_status(ids, "list of tokens", err);
}
