#include "engine/aside.h"

#include "base/alloc.h"

ruvllm_status rv_aside_init(struct rv_aside *out, struct ruvllm_engine *engine, const char *tenant, size_t n_tokens,
                            struct ruvllm_error *err)
{
    struct rv_tier_policy f16 = rv_tier_policy_single(RV_KV_BLOCK_F16);
    int32_t prefill = engine->params.prefill_tokens, max_batch = engine->model->max_batch;
    ruvllm_status rc;

    *out = (struct rv_aside){.tenant = rv_engine_scope(engine, tenant, &f16, 0).tenant,
                             .slot = -1,
                             .max_rows = prefill < max_batch ? prefill : max_batch};
    if (n_tokens == 0)
        return rv_fail(err, RUVLLM_INVALID, "there is nothing to compute");
    if (n_tokens > (size_t)engine->model->max_context)
        return rv_fail_kind(err, RUVLLM_TOO_LARGE, RUVLLM_ERROR_KV_CACHE,
                            "the input has %zu tokens, the context holds %d", n_tokens, engine->model->max_context);
    rc = rv_kv_seq_init(&out->kv, engine->pool, &f16, (int32_t)n_tokens, err);
    if (rc)
        return rc;
    out->rows = rv_calloc(3 * (size_t)out->max_rows, sizeof(*out->rows));
    return out->rows ? RUVLLM_OK : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a sequence of %zu tokens", n_tokens);
}

void rv_aside_release(struct rv_aside *aside)
{
    rv_free(aside->rows);
    rv_free(aside->kv.blocks); // the blocks themselves are given back
    *aside = (struct rv_aside){.slot = -1};
}

/* A slot beside the scheduler's; false when all are taken. */
static bool take_slot(struct ruvllm_engine *e, struct rv_aside *a)
{
    if (rv_model_has_blocks(e->model))
        return true; // blocks are all it takes
    for (int32_t i = 0; i < RV_ENGINE_N_ASIDE && a->slot < 0; i++) {
        if (e->is_aside_taken[i])
            continue;
        e->is_aside_taken[i] = true;
        a->slot = e->params.max_sequences + i;
    }
    return a->slot >= 0;
}

/* Room for n more, if need be in the place of prefixes that nobody uses. */
static bool reserve(struct ruvllm_engine *e, struct rv_aside *a, int32_t n)
{
    int32_t before = a->kv.n_blocks;

    while (!rv_kv_seq_reserve(&a->kv, n)) {
        if (!e->tree || rv_prefix_tree_evict(e->tree, a->tenant, rv_kv_seq_n_needed(&a->kv, n)) == 0)
            return false;
    }
    e->n_held += a->kv.n_blocks - before;
    return true;
}

ruvllm_status rv_aside_run(struct ruvllm_engine *engine, struct rv_aside *aside, const struct rv_aside_piece *piece,
                           float **rows, struct ruvllm_error *err)
{
    struct ruvllm_engine *e = engine;
    struct rv_aside *a = aside;
    int32_t n = piece->n;
    struct rv_kv_seq *seqs[1] = {&a->kv};
    const struct rv_adapter_mix *mixes[1] = {piece->mix};
    struct rv_batch batch = {.n_rows = n,
                             .tokens = piece->tokens,
                             .pos = a->rows,
                             .seq = a->rows + n,
                             .seqs = seqs,
                             .slots = &a->slot,
                             .out_rows = a->rows + 2 * (size_t)n,
                             .n_out = piece->is_read ? n : 0};
    ruvllm_status rc;

    if (!take_slot(e, a))
        return rv_fail(err, RUVLLM_BUSY, "%d texts are being computed already; try again later", RV_ENGINE_N_ASIDE);
    if (!reserve(e, a, n))
        return rv_fail_kind(err, RUVLLM_BUSY, RUVLLM_ERROR_KV_CACHE,
                            "no room for the input's keys and values beside what runs; try again later");
    if (piece->mix) {
        batch.adapters = batch.seq; // all 0: the first of one
        batch.mixes = mixes;
        batch.n_mixes = 1;
    }
    for (int32_t i = 0; i < n; i++) {
        a->rows[i] = a->kv.len + i;
        a->rows[n + i] = 0;
        a->rows[2 * n + i] = i;
    }
    rc = e->model->backend->run(e->state, &batch, piece->result, rows, err);
    if (!rc)
        rv_kv_seq_advance(&a->kv, n);
    return rc;
}

void rv_aside_give_back(struct ruvllm_engine *engine, struct rv_aside *aside)
{
    engine->n_held -= aside->kv.n_blocks;
    rv_kv_seq_clear(&aside->kv);
    if (aside->slot < 0)
        return;
    engine->is_aside_taken[aside->slot - engine->params.max_sequences] = false;
    (void)engine->model->backend->trim(engine->state, aside->slot, 0);
}
