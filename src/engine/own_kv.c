#include "engine/own_kv.h"

#include "engine/model.h"

#include <string.h>

enum { OWN_SEQ = 0 };

static ruvllm_status open_blocks(struct rv_own_kv *kv, const struct rv_hparams *h, int32_t max_len,
                                 struct ruvllm_error *err)
{
    struct rv_tier_policy policy = rv_tier_policy_single(RV_KV_BLOCK_F16);
    struct rv_block_pool_config config = {
        .n_layers = h->n_layers, .n_kv_heads = h->n_kv_heads, .head_dim = h->head_dim};
    ruvllm_status rc;

    config.budget = rv_block_pool_budget_for(&config, (max_len + RV_KV_BLOCK_TOKENS - 1) / RV_KV_BLOCK_TOKENS);
    rc = rv_block_pool_new(&kv->pool, &config, err);
    return rc ? rc : rv_kv_seq_init(&kv->seq, kv->pool, &policy, max_len, err);
}

static bool is_named(const char *attention, const char *name)
{
    return attention && strcmp(attention, name) == 0;
}

ruvllm_status rv_own_kv_check_attention(const char *name, struct ruvllm_error *err)
{
    if (!name || is_named(name, "auto") || is_named(name, "own") || is_named(name, "ggml"))
        return RUVLLM_OK;
    return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG,
                        "there is no attention '%s'; choose own, ggml or auto", name);
}

ruvllm_status rv_own_kv_open(struct rv_own_kv *kv, const struct ruvllm_model *model,
                             const struct rv_backend_state_config *config, struct ruvllm_error *err)
{
    bool is_cpu = rv_device_is_cpu(model->device);

    *kv = (struct rv_own_kv){0};
    kv->seqs[OWN_SEQ] = &kv->seq;
    if (!is_cpu && is_named(config->attention, "own"))
        return rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_CONFIG,
                            "our own attention needs the CPU, not device '%s'; choose attention auto or ggml",
                            rv_device_name(model->device));
    if (is_cpu && !is_named(config->attention, "ggml"))
        return open_blocks(kv, &model->hparams, config->max_context, err);
    return rv_kv_cache_new(&kv->cells, &model->hparams, model->device, config->max_context, err);
}

void rv_own_kv_close(struct rv_own_kv *kv)
{
    rv_kv_seq_release(&kv->seq);
    rv_block_pool_free(kv->pool);
    rv_kv_cache_free(kv->cells);
    *kv = (struct rv_own_kv){0};
}

uint64_t rv_own_kv_n_bytes(const struct rv_own_kv *kv)
{
    return kv->cells ? rv_kv_cache_n_bytes(kv->cells) : kv->pool ? rv_block_pool_used(kv->pool) : 0;
}

void rv_own_kv_reserve(struct rv_own_kv *kv, struct rv_batch *batch)
{
    bool fits;

    if (!kv->pool)
        return; // the decoder finds cells
    fits = rv_kv_seq_reserve(&kv->seq, batch->n_rows);
    RV_ASSERT(fits);
    batch->seqs = kv->seqs;
}

void rv_own_kv_advance(struct rv_own_kv *kv, const struct rv_batch *batch)
{
    if (kv->pool)
        rv_kv_seq_advance(&kv->seq, batch->n_rows);
}

void rv_own_kv_trim(struct rv_own_kv *kv, int32_t len)
{
    if (kv->pool)
        (void)rv_kv_seq_trim(&kv->seq, len); // blocks in F16 can be cut anywhere
    else
        rv_kv_cache_seq_trim(kv->cells, OWN_SEQ, len);
}
