#include "engine/draft.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "kv/kv_seq.h"

#include <string.h>

enum {
    PIECE = 256,  // rows of a step of the small model, and so what one catches up between two steps of the large one
    FEW_ROWS = 2, // of one sequence: the token that is due, and the last guess when all were right
};

static const size_t MAX_KV_BYTES = (size_t)1 << 30;

struct rv_draft {
    struct ruvllm_model *model;
    struct rv_block_pool *pool;
    struct rv_backend_state *state;
    int32_t n_slots;
    struct rv_kv_seq *seqs; // n_slots, as the next
    uint64_t *owners;
    struct rv_kv_seq **step_seqs; // of a step's parts, n_slots
    struct rv_draft_wish **parts; // likewise
    int32_t tokens[PIECE];
    int32_t pos[PIECE];
    int32_t seq[PIECE];
    int32_t slots[PIECE];
    int32_t out_rows[PIECE];
};

/* ---- life ----------------------------------------------------------------------------------- */

/* The same words under the same numbers. */
static ruvllm_status check_vocabulary(const struct ruvllm_model *draft, const struct ruvllm_model *target,
                                      struct ruvllm_error *err)
{
    size_t n = rv_vocab_n_tokens(target->vocab);

    if (rv_vocab_n_tokens(draft->vocab) != n || draft->hparams.n_vocab != target->hparams.n_vocab)
        return rv_fail(err, RUVLLM_INVALID, "it has %zu tokens and the model has %zu: they cannot work together",
                       rv_vocab_n_tokens(draft->vocab), n);
    for (size_t i = 0; i < n; i++) {
        struct rv_str ours = rv_vocab_piece(draft->vocab, (int32_t)i, true);
        struct rv_str theirs = rv_vocab_piece(target->vocab, (int32_t)i, true);

        if (ours.len != theirs.len || memcmp(ours.data, theirs.data, ours.len) != 0)
            return rv_fail(err, RUVLLM_INVALID, "its token %zu is not the model's: they cannot work together", i);
    }
    return RUVLLM_OK;
}

static ruvllm_status open_model(struct rv_draft *d, const struct rv_draft_config *c, struct ruvllm_error *err)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();
    ruvllm_status rc;

    params.max_context = c->target->max_context;
    params.max_batch = PIECE;
    params.n_threads = c->n_threads;
    rc = rv_model_open(&d->model, c->path, &params, false, err);
    if (!rc && !rv_model_has_blocks(d->model))
        rc = rv_fail(err, RUVLLM_UNSUPPORTED, "it does not run in the engine's own graph on the CPU");
    if (!rc)
        rc = check_vocabulary(d->model, c->target, err);
    return rc ? rc : rv_device_borrow_threads(d->model->device, c->target->device, err);
}

static ruvllm_status open_state(struct rv_draft *d, struct ruvllm_error *err)
{
    const struct rv_hparams *h = &d->model->hparams;
    struct rv_block_pool_config pool = {.n_layers = h->n_layers, .n_kv_heads = h->n_kv_heads, .head_dim = h->head_dim};
    struct rv_tier_policy policy = rv_tier_policy_single(RV_KV_BLOCK_F16);
    int32_t n_blocks = (d->model->max_context + RV_KV_BLOCK_TOKENS - 1) / RV_KV_BLOCK_TOKENS + 1;
    struct rv_backend_state_config state = {
        .n_slots = d->n_slots, .max_rows = PIECE, .max_context = d->model->max_context};
    ruvllm_status rc;

    pool.budget = rv_block_pool_budget_for(&pool, n_blocks);
    pool.budget = pool.budget < MAX_KV_BYTES / (size_t)d->n_slots ? pool.budget * (size_t)d->n_slots
                  : pool.budget < MAX_KV_BYTES                    ? MAX_KV_BYTES
                                                                  : pool.budget;
    rc = rv_block_pool_new(&d->pool, &pool, err);
    for (int32_t i = 0; i < d->n_slots && !rc; i++)
        rc = rv_kv_seq_init(&d->seqs[i], d->pool, &policy, d->model->max_context, err);
    state.pool = d->pool;
    return rc ? rc : d->model->backend->open(&d->state, d->model, &state, err);
}

ruvllm_status rv_draft_open(struct rv_draft **out, const struct rv_draft_config *config, struct ruvllm_error *err)
{
    struct rv_draft *d = rv_calloc(1, sizeof(*d));
    size_t n = (size_t)config->n_slots;
    ruvllm_status rc;

    *out = NULL;
    if (!d)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a draft model");
    d->n_slots = config->n_slots;
    d->seqs = rv_calloc(n, sizeof(*d->seqs));
    d->owners = rv_calloc(n, sizeof(*d->owners));
    d->step_seqs = rv_calloc(n, sizeof(struct rv_kv_seq *));
    d->parts = rv_calloc(n, sizeof(struct rv_draft_wish *));
    rc = d->seqs && d->owners && d->step_seqs && d->parts
             ? open_model(d, config, err)
             : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a draft model");
    if (!rc)
        rc = open_state(d, err);
    if (rc) {
        rv_draft_close(d);
        return rv_fail_in(err, rc, "cannot use '%s' as a draft model", config->path);
    }
    *out = d;
    return RUVLLM_OK;
}

void rv_draft_close(struct rv_draft *draft)
{
    if (!draft)
        return;
    for (int32_t i = 0; draft->seqs && draft->pool && i < draft->n_slots; i++) {
        if (draft->seqs[i].pool)
            rv_kv_seq_clear(&draft->seqs[i]);
        rv_kv_seq_release(&draft->seqs[i]);
    }
    if (draft->state)
        draft->model->backend->close(draft->state);
    rv_block_pool_free(draft->pool);
    rv_model_close(draft->model);
    rv_free(draft->seqs);
    rv_free(draft->owners);
    rv_free(draft->step_seqs);
    rv_free(draft->parts);
    rv_free(draft);
}

void rv_draft_vacate(struct rv_draft *draft, int32_t slot)
{
    if (slot < draft->n_slots)
        rv_kv_seq_clear(&draft->seqs[slot]);
}

/* ---- guessing ------------------------------------------------------------------------------- */

/* The sequence as far as it is what the large model has too. */
static struct rv_kv_seq *follow(struct rv_draft *d, const struct rv_draft_wish *w)
{
    struct rv_kv_seq *kv = &d->seqs[w->slot];

    if (d->owners[w->slot] != w->owner) {
        rv_kv_seq_clear(kv);
        d->owners[w->slot] = w->owner;
    }
    if (kv->len >= w->n_tokens)
        (void)rv_kv_seq_trim(kv, w->n_tokens - 1);
    return kv;
}

/* Token number `at` of what is known and guessed. */
static int32_t token_at(const struct rv_draft_wish *w, int32_t at)
{
    return at < w->n_tokens ? w->tokens[at] : w->out[at - w->n_tokens];
}

/* Adds a wish's pending tokens to the batch, all of them or what fits; a result is wanted of the last one only. */
static void add_part(struct rv_draft *d, struct rv_batch *b, struct rv_draft_wish *w)
{
    struct rv_kv_seq *kv = &d->seqs[w->slot];
    int32_t end = w->n_tokens + w->n_given, n = end - kv->len;

    n = n < PIECE - b->n_rows ? n : PIECE - b->n_rows;
    if (n < 1 || w->n_given == w->n_wanted || end > d->model->max_context || !rv_kv_seq_reserve(kv, n))
        return;
    for (int32_t i = 0; i < n; i++) {
        d->tokens[b->n_rows] = token_at(w, kv->len + i);
        d->pos[b->n_rows] = kv->len + i;
        d->seq[b->n_rows++] = b->n_mixes;
    }
    if (kv->len + n == end)
        d->out_rows[b->n_out++] = b->n_rows - 1;
    d->step_seqs[b->n_mixes] = kv;
    d->slots[b->n_mixes] = w->slot;
    d->parts[b->n_mixes++] = w;
}

static int32_t likeliest(const float *row, int32_t n)
{
    int32_t best = 0;

    for (int32_t i = 1; i < n; i++)
        best = row[i] > row[best] ? i : best;
    return best;
}

/*
 * One step of the small model; false when there was nothing to do, or it failed. *is_plain: nobody had to catch up in
 * it.
 */
static bool run_round(struct rv_draft *d, struct rv_draft_wish *wishes, int32_t n, bool *is_plain)
{
    struct rv_batch batch = {.tokens = d->tokens,
                             .pos = d->pos,
                             .seq = d->seq,
                             .seqs = d->step_seqs,
                             .slots = d->slots,
                             .out_rows = d->out_rows};
    struct ruvllm_error err;
    int32_t n_parts, out = 0;
    float *rows;

    for (int32_t i = 0; i < n; i++)
        add_part(d, &batch, &wishes[i]);
    n_parts = batch.n_mixes; // counted there, and of no other use here
    batch.n_mixes = 0;
    *is_plain = batch.n_rows <= FEW_ROWS * n_parts;
    if (batch.n_rows == 0)
        return false;
    if (d->model->backend->run(d->state, &batch, RV_DECODER_LOGITS, &rows, &err)) {
        rv_log(RUVLLM_LOG_WARN, "no guesses in this step: %s", err.message);
        return false;
    }
    for (int32_t i = 0, row = 0; i < n_parts; i++) {
        int32_t begin = row;

        while (row < batch.n_rows && d->seq[row] == i)
            row++;
        rv_kv_seq_advance(d->step_seqs[i], row - begin);
        if (out < batch.n_out && d->out_rows[out] == row - 1) {
            struct rv_draft_wish *w = d->parts[i];

            w->out[w->n_given++] =
                likeliest(rows + (size_t)out * (size_t)d->model->hparams.n_vocab, d->model->hparams.n_vocab);
            out++;
        }
    }
    return batch.n_out > 0;
}

int64_t rv_draft_guess(struct rv_draft *draft, struct rv_draft_wish *wishes, int32_t n)
{
    int64_t start = rv_clock_us(), us = 0;
    int32_t n_plain = 0;
    bool is_plain;

    for (int32_t i = 0; i < n; i++) {
        wishes[i].n_given = 0;
        (void)follow(draft, &wishes[i]);
    }
    while (run_round(draft, wishes, n, &is_plain)) {
        int64_t now = rv_clock_us();

        us += is_plain ? now - start : 0;
        n_plain += is_plain;
        start = now;
    }
    return n_plain ? us / n_plain : 0;
}
