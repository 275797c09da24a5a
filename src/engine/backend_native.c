/*
 * The engine's own decoder. For one conversation it keeps keys and values itself (own_kv); an engine's lie in the
 * engine's pool, reserved and advanced by the scheduler.
 */
#include "base/alloc.h"
#include "engine/backend.h"
#include "engine/model.h"
#include "engine/own_kv.h"

struct native_state {
    struct rv_backend_state base; // first
    struct rv_own_kv kv;
    bool has_own_kv;
    struct rv_decoder *decoder;
};

static struct native_state *native_of(struct rv_backend_state *state)
{
    return (struct native_state *)(void *)state;
}

/* ---- models ---------------------------------------------------------------------------------- */

static ruvllm_status native_describe(struct ruvllm_model *model, const struct ruvllm_model_params *params,
                                     struct ruvllm_error *err)
{
    struct rv_rope_override rope = {.scaling = params->rope_scaling,
                                    .scale = params->rope_scale,
                                    .freq_base = params->rope_freq_base,
                                    .original_context = params->rope_original_context,
                                    .ext_factor = params->yarn_extrapolation,
                                    .attn_factor = params->yarn_attention,
                                    .beta_fast = params->yarn_beta_fast,
                                    .beta_slow = params->yarn_beta_slow};
    ruvllm_status rc = rv_hparams_read(&model->hparams, model->file, &rope, err);

    if (!rc)
        rc = rv_model_settle_context(model, params, err);
    if (!rc)
        rc = rv_manifest_init(&model->manifest, model->file, &model->hparams, err);
    return rc;
}

static ruvllm_status native_load(struct ruvllm_model *model, const struct ruvllm_model_params *params,
                                 struct ruvllm_error *err)
{
    struct rv_weights_options options = {.use_mmap = params->use_mmap,
                                         .repack = params->repack,
                                         .on_progress = params->on_progress,
                                         .progress_user = params->progress_user};

    return rv_weights_load(&model->weights, model->file, &model->manifest, &model->hparams, model->device, &options,
                           err);
}

static void native_unload(struct ruvllm_model *model)
{
    rv_weights_release(&model->weights);
    rv_manifest_release(&model->manifest);
}

/* ---- states ---------------------------------------------------------------------------------- */

static void native_close(struct rv_backend_state *state)
{
    struct native_state *s = native_of(state);

    if (!s)
        return;
    rv_decoder_free(s->decoder);
    if (s->has_own_kv)
        rv_own_kv_close(&s->kv);
    rv_free(s);
}

static ruvllm_status native_open(struct rv_backend_state **out, struct ruvllm_model *model,
                                 const struct rv_backend_state_config *config, struct ruvllm_error *err)
{
    struct native_state *s = rv_calloc(1, sizeof(*s));
    struct rv_decoder_config decoder = {.hparams = &model->hparams,
                                        .weights = &model->weights,
                                        .device = model->device,
                                        .pool = config->pool,
                                        .max_rows = config->max_rows,
                                        .max_context = config->max_context};
    ruvllm_status rc = RUVLLM_OK;

    *out = NULL;
    if (!s)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a model's state");
    s->base.ops = &rv_backend_native_ops;
    if (config->pool) {
        decoder.rotates = rv_block_pool_can_quantize(config->pool);
    } else {
        s->has_own_kv = true;
        rc = rv_own_kv_open(&s->kv, &model->hparams, model->device, config->max_context, err);
        decoder.kv = s->kv.cells;
        decoder.pool = s->kv.pool;
    }
    if (!rc)
        rc = rv_decoder_new(&s->decoder, &decoder, err);
    if (rc) {
        native_close(&s->base);
        return rc;
    }
    *out = &s->base;
    return RUVLLM_OK;
}

static ruvllm_status native_run(struct rv_backend_state *state, const struct rv_batch *batch,
                                enum rv_decoder_result result, float **rows, struct ruvllm_error *err)
{
    struct native_state *s = native_of(state);
    struct rv_batch own;
    ruvllm_status rc;

    if (!s->has_own_kv)
        return rv_decoder_run(s->decoder, batch, result, rows, err);
    own = *batch;
    rv_own_kv_reserve(&s->kv, &own);
    rc = rv_decoder_run(s->decoder, &own, result, rows, err);
    if (!rc)
        rv_own_kv_advance(&s->kv, &own);
    return rc;
}

static int32_t native_trim(struct rv_backend_state *state, int32_t seq, int32_t len)
{
    struct native_state *s = native_of(state);

    (void)seq;
    if (s->has_own_kv)
        rv_own_kv_trim(&s->kv, len);
    return len;
}

static uint64_t native_kv_bytes(const struct rv_backend_state *state)
{
    const struct native_state *s = (const struct native_state *)(const void *)state;

    return s->has_own_kv ? rv_own_kv_n_bytes(&s->kv) : 0;
}

static uint64_t native_scratch_bytes(const struct rv_backend_state *state)
{
    return rv_decoder_n_bytes(((const struct native_state *)(const void *)state)->decoder);
}

const struct rv_backend_ops rv_backend_native_ops = {
    .name = "native",
    .can_learn = true,
    .has_blocks = true,
    .describe = native_describe,
    .load = native_load,
    .unload = native_unload,
    .open = native_open,
    .close = native_close,
    .run = native_run,
    .trim = native_trim,
    .kv_bytes = native_kv_bytes,
    .scratch_bytes = native_scratch_bytes,
};
