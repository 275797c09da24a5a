#include "engine/draft.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "kv/kv_seq.h"
#include "sample/weight.h"
#include "sched/speculate.h"

#include <string.h>

enum {
    PIECE = 256,  // rows of a step of the small model, and so what one catches up between two steps of the large one
    FEW_ROWS = 2, // of one sequence: the token that is due, and the last guess when all were right
};

static const size_t MAX_KV_BYTES = (size_t)1 << 30;

/* What the keys and values of a slot are of. */
struct slot {
    struct rv_kv_seq kv;
    uint64_t owner;
    int32_t n_certain; // tokens that were known when it was last asked; behind them are its guesses
    int32_t guesses[RV_SPECULATE_MAX];
};

struct rv_draft {
    struct ruvllm_model *model;
    struct rv_block_pool *pool;
    struct rv_backend_state *state;
    int32_t n_slots;
    struct slot *slots;           // n_slots
    struct rv_kv_seq **step_seqs; // of a step's parts, n_slots
    struct rv_draft_wish **parts; // likewise
    int32_t tokens[PIECE];
    int32_t pos[PIECE];
    int32_t seq[PIECE];
    int32_t batch_slots[PIECE];
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
        rc = rv_kv_seq_init(&d->slots[i].kv, d->pool, &policy, d->model->max_context, err);
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
    d->slots = rv_calloc(n, sizeof(*d->slots));
    d->step_seqs = rv_calloc(n, sizeof(struct rv_kv_seq *));
    d->parts = rv_calloc(n, sizeof(struct rv_draft_wish *));
    rc = d->slots && d->step_seqs && d->parts ? open_model(d, config, err)
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
    for (int32_t i = 0; draft->slots && draft->pool && i < draft->n_slots; i++) {
        if (draft->slots[i].kv.pool)
            rv_kv_seq_clear(&draft->slots[i].kv);
        rv_kv_seq_release(&draft->slots[i].kv);
    }
    if (draft->state)
        draft->model->backend->close(draft->state);
    rv_block_pool_free(draft->pool);
    rv_model_close(draft->model);
    rv_free(draft->slots);
    rv_free(draft->step_seqs);
    rv_free(draft->parts);
    rv_free(draft);
}

void rv_draft_vacate(struct rv_draft *draft, int32_t slot)
{
    if (slot < draft->n_slots)
        rv_kv_seq_clear(&draft->slots[slot].kv);
}

/* ---- guessing ------------------------------------------------------------------------------- */

/* Tokens of the sequence that the slot has keys and values of: guesses that did not hold are none of them. */
static int32_t n_followed(const struct slot *slot, uint64_t owner, const int32_t *tokens, int32_t n_tokens)
{
    int32_t n = slot->n_certain;

    if (slot->owner != owner)
        return 0;
    while (n < slot->kv.len && n < n_tokens && slot->guesses[n - slot->n_certain] == tokens[n])
        n++;
    return n < slot->kv.len ? n : slot->kv.len;
}

int32_t rv_draft_n_behind(const struct rv_draft *draft, int32_t slot, uint64_t owner, const int32_t *tokens,
                          int32_t n_tokens)
{
    return n_tokens - n_followed(&draft->slots[slot], owner, tokens, n_tokens);
}

/* Takes back what is not the large model's sequence; the last token is always to be read. */
static void follow(struct rv_draft *d, const struct rv_draft_wish *w)
{
    struct slot *slot = &d->slots[w->slot];
    int32_t n = n_followed(slot, w->owner, w->tokens, w->n_tokens);

    n = n < w->n_tokens ? n : w->n_tokens - 1;
    if (n < slot->kv.len)
        (void)rv_kv_seq_trim(&slot->kv, n);
    slot->owner = w->owner;
    slot->n_certain = w->n_tokens;
}

/* Token number `at` of what is known and guessed. */
static int32_t token_at(const struct rv_draft_wish *w, int32_t at)
{
    return at < w->n_tokens ? w->tokens[at] : w->out[at - w->n_tokens];
}

/* Adds a wish's pending tokens to the batch, all of them or what fits; a result is wanted of the last one only. */
static void add_part(struct rv_draft *d, struct rv_batch *b, struct rv_draft_wish *w)
{
    struct rv_kv_seq *kv = &d->slots[w->slot].kv;
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
    d->batch_slots[b->n_mixes] = w->slot;
    d->parts[b->n_mixes++] = w;
}

static int32_t likeliest(const float *row, int32_t n)
{
    float max = rv_weight_max(row, (size_t)n);
    int32_t i = 0;

    while (i < n - 1 && row[i] != max)
        i++;
    return i;
}

static void take_guess(struct rv_draft *d, struct rv_draft_wish *w, const float *row)
{
    struct slot *slot = &d->slots[w->slot];

    slot->guesses[w->n_given] = likeliest(row, d->model->hparams.n_vocab);
    w->out[w->n_given] = slot->guesses[w->n_given];
    w->n_given++;
}

/*
 * One step of the small model; false when nothing more is to be had. *n_rows is what it computed; *is_plain: nobody had
 * to catch up in it.
 */
static bool run_round(struct rv_draft *d, struct rv_draft_wish *wishes, int32_t n, int32_t *n_rows, bool *is_plain)
{
    struct rv_batch batch = {.tokens = d->tokens,
                             .pos = d->pos,
                             .seq = d->seq,
                             .seqs = d->step_seqs,
                             .slots = d->batch_slots,
                             .out_rows = d->out_rows};
    struct ruvllm_error err;
    int32_t n_parts, out = 0;
    float *rows;

    for (int32_t i = 0; i < n; i++)
        add_part(d, &batch, &wishes[i]);
    n_parts = batch.n_mixes; // counted there, and of no other use here
    batch.n_mixes = 0;
    *n_rows = 0;
    *is_plain = batch.n_rows <= FEW_ROWS * n_parts;
    if (batch.n_rows == 0)
        return false;
    if (d->model->backend->run(d->state, &batch, RV_DECODER_LOGITS, &rows, &err)) {
        rv_log(RUVLLM_LOG_WARN, "no guesses in this step: %s", err.message);
        return false;
    }
    *n_rows = batch.n_rows;
    for (int32_t i = 0, row = 0; i < n_parts; i++) {
        int32_t begin = row;

        while (row < batch.n_rows && d->seq[row] == i)
            row++;
        rv_kv_seq_advance(d->step_seqs[i], row - begin);
        if (out < batch.n_out && d->out_rows[out] == row - 1) {
            take_guess(d, d->parts[i], rows + (size_t)out * (size_t)d->model->hparams.n_vocab);
            out++;
        }
    }
    return batch.n_out > 0;
}

struct rv_draft_cost rv_draft_guess(struct rv_draft *draft, struct rv_draft_wish *wishes, int32_t n)
{
    struct rv_draft_cost cost = {0};
    int64_t start = rv_clock_us();
    int32_t n_plain = 0, n_rows;
    bool goes_on = true, is_plain;

    for (int32_t i = 0; i < n; i++) {
        RV_ASSERT(wishes[i].n_wanted <= RV_SPECULATE_MAX);
        wishes[i].n_given = 0;
        follow(draft, &wishes[i]);
    }
    while (goes_on) {
        int64_t now;

        goes_on = run_round(draft, wishes, n, &n_rows, &is_plain);
        now = rv_clock_us();
        if (is_plain) {
            cost.guess_us += n_rows > 0 ? now - start : 0;
            n_plain += n_rows > 0;
        } else {
            cost.catch_up_us += now - start;
            cost.n_caught_up += n_rows;
        }
        start = now;
    }
    cost.guess_us = n_plain ? cost.guess_us / n_plain : 0;
    return cost;
}
