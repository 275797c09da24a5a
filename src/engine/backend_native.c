/*
 * The engine's own decoder. For one conversation it keeps keys and values itself (own_kv). An engine's lie in the
 * engine's pool, reserved and advanced by the scheduler; on a device that is not the CPU the pool only counts, and they
 * lie in cells, a sequence known by its slot.
 */
#include "base/alloc.h"
#include "engine/backend.h"
#include "engine/model.h"
#include "engine/own_kv.h"

struct native_state {
    struct rv_backend_state base; // first
    struct rv_own_kv kv;
    bool has_own_kv;
    struct rv_kv_cache *cells; // an engine's on a device
    int32_t *slots;            // with cells: of the rows of a batch, max_rows
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
    rv_kv_cache_free(s->cells);
    rv_free(s->slots);
    rv_free(s);
}

/* As many cells as the blocks that the pool counts have places, all of which attention may have to look at. */
static ruvllm_status open_cells(struct native_state *s, const struct ruvllm_model *model,
                                const struct rv_backend_state_config *config, struct rv_decoder_config *decoder,
                                struct ruvllm_error *err)
{
    int32_t n_cells = rv_block_pool_n_ids(config->pool) * RV_KV_BLOCK_TOKENS;

    s->slots = rv_calloc((size_t)config->max_rows, sizeof(*s->slots));
    if (!s->slots)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a model's state");
    decoder->pool = NULL;
    decoder->max_context = n_cells;
    return rv_kv_cache_new(&s->cells, &model->hparams, model->device, n_cells, err);
}

/* Where the state keeps keys and values. */
static ruvllm_status open_kv(struct native_state *s, const struct ruvllm_model *model,
                             const struct rv_backend_state_config *config, struct rv_decoder_config *decoder,
                             struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;

    if (!config->pool) {
        s->has_own_kv = true;
        rc = rv_own_kv_open(&s->kv, model, config, err);
        decoder->kv = s->kv.cells;
        decoder->pool = s->kv.pool;
    } else if (rv_model_has_blocks(model)) {
        decoder->rotates = rv_block_pool_can_quantize(config->pool);
    } else {
        rc = open_cells(s, model, config, decoder, err);
        decoder->kv = s->cells;
    }
    return rc;
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
    ruvllm_status rc;

    *out = NULL;
    if (!s)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a model's state");
    s->base.ops = &rv_backend_native_ops;
    rc = open_kv(s, model, config, &decoder, err);
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
    struct rv_batch own = *batch;
    ruvllm_status rc;

    for (int32_t i = 0; s->cells && i < batch->n_rows; i++)
        s->slots[i] = batch->slots[batch->seq[i]];
    if (s->cells)
        own.seq = s->slots;
    if (!s->has_own_kv)
        return rv_decoder_run(s->decoder, &own, result, rows, err);
    rv_own_kv_reserve(&s->kv, &own);
    rc = rv_decoder_run(s->decoder, &own, result, rows, err);
    if (!rc)
        rv_own_kv_advance(&s->kv, &own);
    return rc;
}

static int32_t native_trim(struct rv_backend_state *state, int32_t seq, int32_t len)
{
    struct native_state *s = native_of(state);

    if (s->has_own_kv)
        rv_own_kv_trim(&s->kv, len);
    else if (s->cells)
        rv_kv_cache_seq_trim(s->cells, seq, len);
    return len;
}

static const float *native_states(const struct rv_backend_state *state)
{
    return rv_decoder_states(((const struct native_state *)(const void *)state)->decoder);
}

static uint64_t native_kv_bytes(const struct rv_backend_state *state)
{
    const struct native_state *s = (const struct native_state *)(const void *)state;

    return s->has_own_kv ? rv_own_kv_n_bytes(&s->kv) : s->cells ? rv_kv_cache_n_bytes(s->cells) : 0;
}

static uint64_t native_scratch_bytes(const struct rv_backend_state *state)
{
    return rv_decoder_n_bytes(((const struct native_state *)(const void *)state)->decoder);
}

const struct rv_backend_ops rv_backend_native_ops = {
    .name = "native",
    .can_learn = true,
    .has_adapters = true,
    .has_blocks = true,
    .describe = native_describe,
    .load = native_load,
    .unload = native_unload,
    .open = native_open,
    .close = native_close,
    .run = native_run,
    .trim = native_trim,
    .states = native_states,
    .kv_bytes = native_kv_bytes,
    .scratch_bytes = native_scratch_bytes,
};
