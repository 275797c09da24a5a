/* SentencePiece-style tokenising. Text need not be UTF-8: symbols are cut by first bytes alone. */
#include "text/spm.h"

#include "base/alloc.h"
#include "text/merge.h"
#include "text/spelling.h"

#include <math.h>
#include <string.h>

/* One call's state; also the context of find_rule. */
struct job {
    const struct rv_spm *spm;
    const char *text;
    struct rv_merge merge;
    struct rv_buf *ids;
    struct ruvllm_error *err;
};

/* Maps a finite score to an integer that is smaller the higher the score is; equal scores stay equal. */
static uint32_t priority_of(float score)
{
    uint32_t bits;

    score += 0.0f; // -0 and 0 are one score
    memcpy(&bits, &score, sizeof(bits));
    return bits & 0x80000000u ? bits : 0x7FFFFFFFu - bits;
}

ruvllm_status rv_spm_init(struct rv_spm *spm, const struct rv_token_table *table, const float *scores, int32_t unknown,
                          struct ruvllm_error *err)
{
    bool is_control = unknown >= 0 && table->attrs[unknown] & RV_TOKEN_ATTR(RV_TOKEN_CONTROL);

    *spm = (struct rv_spm){.table = table, .unknown = is_control ? -1 : unknown};
    spm->priorities = rv_calloc(table->n_tokens, sizeof(*spm->priorities));
    if (!spm->priorities)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu scores", table->n_tokens);
    for (size_t i = 0; scores && i < table->n_tokens; i++) {
        if (!isfinite(scores[i])) {
            rv_spm_release(spm);
            return rv_fail(err, RUVLLM_FORMAT, "score of token %zu is not a finite number", i);
        }
        spm->priorities[i] = priority_of(scores[i]);
    }
    for (int i = 0; i < 256; i++) {
        char byte = (char)i;
        spm->byte_tokens[i] = table->byte_tokens[i];
        if (spm->byte_tokens[i] < 0)
            spm->byte_tokens[i] = rv_token_table_find(table, &byte, 1);
    }
    return RUVLLM_OK;
}

void rv_spm_release(struct rv_spm *spm)
{
    rv_free(spm->priorities);
    *spm = (struct rv_spm){0};
}

static bool find_rule(const void *context, const struct rv_merge_symbol *left, const struct rv_merge_symbol *right,
                      struct rv_merge_rule *rule)
{
    const struct job *job = context;
    int32_t id = rv_token_table_find(job->spm->table, job->text + left->start, (size_t)left->len + right->len);

    if (id < 0)
        return false;
    *rule = (struct rv_merge_rule){.priority = job->spm->priorities[id], .id = id};
    return true;
}

static void emit_bytes(struct job *job, const struct rv_merge_symbol *symbol)
{
    for (size_t i = 0; i < symbol->len; i++) {
        int32_t id = job->spm->byte_tokens[(unsigned char)job->text[symbol->start + i]];
        if (id < 0)
            id = job->spm->unknown;
        if (id >= 0)
            rv_buf_add(job->ids, &id, sizeof(id));
    }
}

/* Merges the symbols collected so far and appends their ids. */
static ruvllm_status flush(struct job *job)
{
    ruvllm_status rc = rv_merge_run(&job->merge, job->err);

    for (size_t i = 0; !rc && i < job->merge.n_symbols; i++) {
        const struct rv_merge_symbol *symbol = &job->merge.symbols[i];
        if (symbol->id >= 0)
            rv_buf_add(job->ids, &symbol->id, sizeof(symbol->id));
        else
            emit_bytes(job, symbol);
    }
    rv_merge_clear(&job->merge);
    return rc;
}

/*
 * True when merging may start anew at the U+2581 at i: no ordinary token goes on with one after the byte before.
 * It keeps runs short (a word each in most vocabularies) without changing the result.
 */
static bool starts_anew(const struct rv_token_table *table, const char *text, size_t len, size_t i)
{
    return i > 0 && rv_spelling_is_space(text, len, i) && !table->glue[(unsigned char)text[i - 1]] &&
           !(i >= RV_SPELLING_SPACE_LEN && rv_spelling_is_space(text, len, i - RV_SPELLING_SPACE_LEN));
}

static ruvllm_status encode_escaped(struct job *job, const char *text, size_t len)
{
    const struct rv_token_table *table = job->spm->table;
    ruvllm_status rc = RUVLLM_OK;

    for (size_t i = 0; !rc && i < len;) {
        size_t symbol_len = rv_spelling_symbol_len(text + i, len - i);
        if (starts_anew(table, text, len, i))
            rc = flush(job);
        if (!rc)
            rc = rv_merge_push(&job->merge, (uint32_t)i, (uint32_t)symbol_len,
                               rv_token_table_find(table, text + i, symbol_len), job->err);
        i += symbol_len;
    }
    return rc ? rc : flush(job);
}

ruvllm_status rv_spm_encode(const struct rv_spm *spm, const char *text, size_t len, bool space_before,
                            struct rv_buf *ids, struct ruvllm_error *err)
{
    struct job job = {.spm = spm, .ids = ids, .err = err};
    struct rv_buf escaped;
    ruvllm_status rc;

    rv_buf_init(&escaped, (len + 1) * RV_SPELLING_SPACE_LEN);
    if (space_before)
        rv_buf_add(&escaped, RV_SPELLING_SPACE, RV_SPELLING_SPACE_LEN);
    rv_spelling_add_escaped(&escaped, text, len);
    rc = rv_buf_status(&escaped, "text", err);
    if (!rc) {
        job.text = escaped.data;
        rv_merge_init(&job.merge, find_rule, &job);
        rc = encode_escaped(&job, escaped.data, escaped.len);
        rv_merge_release(&job.merge);
    }
    rv_buf_release(&escaped);
    return rc ? rc : rv_buf_status(ids, "list of tokens", err);
}
