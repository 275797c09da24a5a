#include "engine/own_kv.h"

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

ruvllm_status rv_own_kv_open(struct rv_own_kv *kv, const struct rv_hparams *hparams, const struct rv_device *device,
                             int32_t max_len, struct ruvllm_error *err)
{
    *kv = (struct rv_own_kv){0};
    kv->seqs[OWN_SEQ] = &kv->seq;
    return rv_device_is_cpu(device) ? open_blocks(kv, hparams, max_len, err)
                                    : rv_kv_cache_new(&kv->cells, hparams, device, max_len, err);
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
