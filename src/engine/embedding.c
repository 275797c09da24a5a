/*
 * Threads: the engine's way runs its pieces as errands on the engine's thread. In between, the blocks of what is
 * already computed are held, and the engine goes on with everybody else's tokens; so a long text delays them by one
 * piece at a time.
 */
#include "engine/embedding.h"

#include "base/alloc.h"

#include <math.h>

struct pooling {
    double *sum;
    size_t n_embd;
};

static void add_rows(void *user, float *rows, int32_t n_rows)
{
    struct pooling *p = user;

    for (int32_t row = 0; row < n_rows; row++) {
        for (size_t i = 0; i < p->n_embd; i++)
            p->sum[i] += (double)rows[(size_t)row * p->n_embd + i];
    }
}

static ruvllm_status begin(struct pooling *p, const struct ruvllm_model *model, size_t n_tokens,
                           struct ruvllm_error *err)
{
    *p = (struct pooling){.n_embd = (size_t)model->hparams.n_embd};
    if (n_tokens == 0)
        return rv_fail(err, RUVLLM_INVALID, "there is nothing to embed");
    if (n_tokens > (size_t)model->max_context)
        return rv_fail_kind(err, RUVLLM_TOO_LARGE, RUVLLM_ERROR_KV_CACHE,
                            "the input has %zu tokens, the context holds %d", n_tokens, model->max_context);
    p->sum = rv_calloc(p->n_embd, sizeof(*p->sum));
    return p->sum ? RUVLLM_OK : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an embedding");
}

/* Writes the result of a success and releases either way. */
static ruvllm_status end(struct pooling *p, ruvllm_status rc, float *out)
{
    double length = 0;

    for (size_t i = 0; i < p->n_embd && !rc; i++)
        length += p->sum[i] * p->sum[i];
    length = length > 0 ? sqrt(length) : 1;
    for (size_t i = 0; i < p->n_embd && !rc; i++)
        out[i] = (float)(p->sum[i] / length);
    rv_free(p->sum);
    return rc;
}

ruvllm_status rv_embedding_by_model(struct ruvllm_model *model, const int32_t *tokens, size_t n_tokens, float *out,
                                    struct ruvllm_error *err)
{
    struct pooling p;
    ruvllm_status rc = begin(&p, model, n_tokens, err);

    if (!rc) {
        (void)rv_model_rewind(model, 0);
        rc =
            rv_model_advance(model, tokens, (int32_t)n_tokens, (int32_t)n_tokens, RV_DECODER_HIDDEN, add_rows, &p, err);
    }
    return end(&p, rc, out);
}

/* ---- beside what an engine serves ------------------------------------------------------------ */

struct piece {
    struct pooling pooling;
    uint64_t tenant;
    struct rv_kv_seq kv;
    int32_t slot;          // -1: none yet
    const int32_t *tokens; // of this piece
    int32_t n;
    int32_t *rows; // scratch: positions, sequence numbers and rows to read, n of each
    ruvllm_status rc;
    struct ruvllm_error err;
};

/* A slot beside the scheduler's; false when all are taken. */
static bool take_slot(struct ruvllm_engine *e, struct piece *p)
{
    if (rv_model_has_blocks(e->model))
        return true; // blocks are all it takes
    for (int32_t i = 0; i < RV_ENGINE_N_ASIDE && p->slot < 0; i++) {
        if (e->is_aside_taken[i])
            continue;
        e->is_aside_taken[i] = true;
        p->slot = e->params.max_sequences + i;
    }
    return p->slot >= 0;
}

/* Room for the piece, if need be in the place of prefixes that nobody uses. */
static bool reserve(struct ruvllm_engine *e, struct piece *p)
{
    int32_t before = p->kv.n_blocks;

    while (!rv_kv_seq_reserve(&p->kv, p->n)) {
        if (!e->tree || rv_prefix_tree_evict(e->tree, p->tenant, rv_kv_seq_n_needed(&p->kv, p->n)) == 0)
            return false;
    }
    e->n_held += p->kv.n_blocks - before;
    return true;
}

static void run_piece(struct ruvllm_engine *e, void *arg)
{
    struct piece *p = arg;
    struct rv_kv_seq *seqs[1] = {&p->kv};
    struct rv_batch batch = {.n_rows = p->n,
                             .tokens = p->tokens,
                             .pos = p->rows,
                             .seq = p->rows + p->n,
                             .seqs = seqs,
                             .slots = &p->slot,
                             .out_rows = p->rows + 2 * p->n,
                             .n_out = p->n};
    float *rows;

    if (!take_slot(e, p)) {
        p->rc = rv_fail(&p->err, RUVLLM_BUSY, "%d embeddings are being computed already; try again later",
                        RV_ENGINE_N_ASIDE);
        return;
    }
    if (!reserve(e, p)) {
        p->rc = rv_fail_kind(&p->err, RUVLLM_BUSY, RUVLLM_ERROR_KV_CACHE,
                             "no room for the input's keys and values beside what runs; try again later");
        return;
    }
    for (int32_t i = 0; i < p->n; i++) {
        p->rows[i] = p->kv.len + i;
        p->rows[p->n + i] = 0;
        p->rows[2 * p->n + i] = i;
    }
    p->rc = e->model->backend->run(e->state, &batch, RV_DECODER_HIDDEN, &rows, &p->err);
    if (p->rc)
        return;
    rv_kv_seq_advance(&p->kv, p->n);
    add_rows(&p->pooling, rows, p->n);
}

static void give_back(struct ruvllm_engine *e, void *arg)
{
    struct piece *p = arg;

    e->n_held -= p->kv.n_blocks;
    rv_kv_seq_clear(&p->kv);
    if (p->slot < 0)
        return;
    e->is_aside_taken[p->slot - e->params.max_sequences] = false;
    (void)e->model->backend->trim(e->state, p->slot, 0);
}

static ruvllm_status run_pieces(struct ruvllm_engine *e, struct piece *p, const int32_t *tokens, int32_t n_tokens,
                                int32_t max_rows, struct ruvllm_error *err)
{
    bool is_open = true;

    for (int32_t done = 0; done < n_tokens && is_open && !p->rc; done += p->n) {
        p->tokens = tokens + done;
        p->n = n_tokens - done < max_rows ? n_tokens - done : max_rows;
        is_open = rv_engine_call(e, run_piece, p);
    }
    if (is_open)
        (void)rv_engine_call(e, give_back, p); // an engine that closes drops them anyway
    if (!is_open)
        return rv_fail(err, RUVLLM_CANCELLED, "the engine closes");
    if (p->rc && err)
        *err = p->err;
    return p->rc;
}

ruvllm_status rv_embedding_by_engine(struct ruvllm_engine *engine, const char *tenant, const int32_t *tokens,
                                     size_t n_tokens, float *out, struct ruvllm_error *err)
{
    struct rv_tier_policy f16 = rv_tier_policy_single(RV_KV_BLOCK_F16);
    struct piece p = {.tenant = rv_engine_scope(engine, tenant, &f16, 0).tenant, .slot = -1};
    int32_t max_rows = engine->params.prefill_tokens < engine->model->max_batch ? engine->params.prefill_tokens
                                                                                : engine->model->max_batch;
    ruvllm_status rc = begin(&p.pooling, engine->model, n_tokens, err);

    if (!rc)
        rc = rv_kv_seq_init(&p.kv, engine->pool, &f16, (int32_t)n_tokens, err);
    if (!rc) {
        p.rows = rv_calloc(3 * (size_t)max_rows, sizeof(*p.rows));
        rc = p.rows ? run_pieces(engine, &p, tokens, (int32_t)n_tokens, max_rows, err)
                    : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an embedding");
    }
    rv_free(p.rows);
    rv_free(p.kv.blocks); // the blocks themselves are given back
    return end(&p.pooling, rc, out);
}
