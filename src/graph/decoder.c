/*
 * Builds the graph, keeps it while its shape stays, fills its inputs, runs it.
 *
 * On the CPU a graph is built for the longest context and its attention is narrowed before each step to what the cache
 * holds (the views' ne[1] and the masks' ne[0]); ggml reads those fields anew in every computation. Devices
 * with memory of their own get copies of the inputs made at build time, so there a change of length, in steps of
 * LENGTH_STEP cells, is a new graph.
 */
#include "graph/decoder.h"

#include "base/alloc.h"
#include "graph/attention.h"
#include "graph/feedforward.h"

#include <math.h>
#include <string.h>

enum {
    LENGTH_STEP_HOST = 64, // cells attention looks at are rounded up to these
    LENGTH_STEP_DEVICE = 256,
    RESERVED_OUT = 64, // results a step is given scratch memory for at once; a step with more takes more
    NODES_PER_LAYER = 56,
    STACK_NODES_PER_LAYER = 140, // where adapters are ggml's operations
    NODES_BESIDES = 64
};

/* What makes two steps run on the same graph. */
struct shape {
    int32_t n_rows;
    int32_t n_out;
    int32_t n_kv; // only on devices that need it fixed; else 0
    enum rv_decoder_result result;
    struct rv_lora_stack_shape lora; // what adapters need; beyond the needs only where they are stacked
};

struct rv_decoder {
    struct rv_decoder_config config;
    ggml_backend_sched_t sched;
    struct ggml_context *ctx;
    void *ctx_memory;
    size_t graph_size;
    bool has_graph;
    bool is_host;
    bool stacks_adapters;
    struct shape shape;
    struct rv_build build;
    struct rv_paged_attention *paged; // NULL with a cache of cells
    struct rv_lora *lora;             // adapters by nodes of our own; or
    struct rv_lora_stack *lora_stack; // by ggml's
    struct ggml_tensor *result;       /* [n_vocab or n_embd, n_out] */
    struct ggml_tensor *states;       /* [n_embd, n_out]: what the head reads; NULL when it is not computed */
    ggml_fp16_t *mask;                // max_rows x max_context
    int64_t *cells;                   // max_rows
    int32_t *gathered;                // max_rows: positions or sequences of the rows read out
    float *rows;                      // result copied from a device; NULL where it can be read in place
    size_t rows_cap;                  // floats
};

/* ---- building ------------------------------------------------------------------------------ */

static struct ggml_tensor *new_input(struct rv_build *b, enum ggml_type type, int64_t ne0, int64_t ne1,
                                     const char *name)
{
    struct ggml_tensor *t = ggml_new_tensor_2d(b->ctx, type, ne0, ne1);

    ggml_set_input(t);
    ggml_set_name(t, name);
    return t;
}

static bool any_window(const struct rv_hparams *h)
{
    for (int32_t i = 0; i < h->n_layers; i++) {
        if (h->layer_has_window[i])
            return true;
    }
    return false;
}

static void make_inputs(struct rv_build *b)
{
    struct rv_build_inputs *in = &b->in;
    bool windows = any_window(b->hparams);
    bool narrow = b->n_out < b->n_rows && b->n_out > 0;

    *in = (struct rv_build_inputs){0};
    in->tokens = new_input(b, GGML_TYPE_I32, b->n_rows, 1, "tokens");
    in->pos = new_input(b, GGML_TYPE_I32, b->n_rows, 1, "pos");
    if (narrow) {
        in->out_rows = new_input(b, GGML_TYPE_I32, b->n_out, 1, "out_rows");
        in->out_pos = new_input(b, GGML_TYPE_I32, b->n_out, 1, "out_pos");
    }
    if (b->paged)
        return;
    in->cells = new_input(b, GGML_TYPE_I64, b->n_rows, 1, "cells");
    in->mask = new_input(b, GGML_TYPE_F16, b->n_kv, b->n_rows, "mask");
    if (windows)
        in->window = new_input(b, GGML_TYPE_F16, b->n_kv, b->n_rows, "window");
    if (!narrow)
        return;
    in->out_mask = new_input(b, GGML_TYPE_F16, b->n_kv, b->n_out, "out_mask");
    if (windows)
        in->out_window = new_input(b, GGML_TYPE_F16, b->n_kv, b->n_out, "out_window");
}

/* Llama 3 ships one set of factors; long-rope models two, chosen by the context this engine was opened with. */
static struct ggml_tensor *pick_rope_factors(const struct rv_decoder_config *c)
{
    const struct rv_weights *w = c->weights;

    if (w->rope_freqs)
        return w->rope_freqs;
    return c->max_context > c->hparams->rope.original_context ? w->rope_long : w->rope_short;
}

/* One layer: x [n_embd, n_rows] to [n_embd, n_rows or n_out]; NULL when nothing is read out of the last one. */
static struct ggml_tensor *build_layer(struct rv_build *b, int32_t layer, struct ggml_tensor *x)
{
    const struct rv_layer_weights *l = &b->weights->layers[layer];
    bool is_last = layer == b->hparams->n_layers - 1;
    enum rv_attention_rows rows = !is_last ? RV_ATTENTION_ALL : b->n_out ? RV_ATTENTION_OUT : RV_ATTENTION_NONE;
    struct ggml_tensor *normed = rv_build_norm(b, x, l->attn_norm, l->attn_norm_b);
    struct ggml_tensor *attention = rv_attention(b, layer, normed, rows);
    struct ggml_tensor *residual = x, *ffn;

    if (!attention)
        return NULL;
    if (is_last && b->in.out_rows) {
        residual = ggml_get_rows(b->ctx, residual, b->in.out_rows);
        if (!l->ffn_norm)
            normed = ggml_get_rows(b->ctx, normed, b->in.out_rows);
    }
    if (l->attn_post_norm)
        attention = rv_build_norm(b, attention, l->attn_post_norm, NULL);
    residual = ggml_add(b->ctx, attention, residual);
    /* Without a second norm the two halves of the layer run side by side on the same input. */
    ffn = rv_feedforward(b, layer, l->ffn_norm ? rv_build_norm(b, residual, l->ffn_norm, l->ffn_norm_b) : normed);
    if (l->ffn_post_norm)
        ffn = rv_build_norm(b, ffn, l->ffn_post_norm, NULL);
    return ggml_add(b->ctx, ffn, residual);
}

/* Final norm and head. */
static struct ggml_tensor *build_head(struct rv_build *b, struct ggml_tensor *x, enum rv_decoder_result result,
                                      struct ggml_tensor **states)
{
    const struct rv_weights *w = b->weights;
    float cap = b->hparams->final_cap;

    x = rv_build_norm(b, x, w->output_norm, w->output_norm_b); /* [n_embd, n_out] */
    if (result == RV_DECODER_HIDDEN)
        return x;
    ggml_set_output(x);
    *states = x;
    x = rv_build_change_head(b, x);
    x = rv_build_linear(b, w->output, w->output_b, x); /* [n_vocab, n_out] */
    if (cap > 0)
        x = ggml_scale(b->ctx, ggml_tanh(b->ctx, ggml_scale(b->ctx, x, 1.0f / cap)), cap);
    return x;
}

static void begin_lora(struct rv_decoder *d, const struct shape *shape)
{
    if (d->lora)
        rv_lora_begin_graph(d->lora);
    else if (shape->lora.needs)
        rv_lora_stack_begin_graph(d->lora_stack, d->ctx, shape->n_rows, shape->n_out);
}

/* Makes the nodes; nothing is allocated on a device yet. */
static void build(struct rv_decoder *d, struct shape shape, int32_t n_kv)
{
    struct rv_build *b = &d->build;
    const struct rv_decoder_config *c = &d->config;
    struct ggml_tensor *x;

    ggml_reset(d->ctx);
    b->ctx = d->ctx;
    b->graph = ggml_new_graph_custom(d->ctx, d->graph_size, false);
    b->hparams = c->hparams;
    b->weights = c->weights;
    b->kv = c->kv;
    b->paged = d->paged;
    b->lora = d->lora;
    b->lora_stack = d->lora_stack;
    b->lora_needs = shape.lora.needs;
    b->rope_factors = pick_rope_factors(c);
    b->n_rows = shape.n_rows;
    b->n_out = shape.n_out;
    b->n_kv = n_kv;
    b->n_kv_views = 0;
    make_inputs(b);
    begin_lora(d, &shape);
    x = ggml_get_rows(b->ctx, c->weights->embedding, b->in.tokens); /* [n_embd, n_rows] */
    if (c->hparams->arch->scale_embedding)
        x = ggml_scale(b->ctx, x, sqrtf((float)c->hparams->n_embd));
    if (shape.lora.needs & RV_LORA_GATES)
        x = rv_lora_gate(b->lora, b->ctx, x);
    for (int32_t i = 0; i < c->hparams->n_layers; i++)
        x = build_layer(b, i, x);
    d->result = NULL;
    d->states = NULL;
    if (x) {
        d->result = build_head(b, x, shape.result, &d->states);
        ggml_set_output(d->result);
        ggml_build_forward_expand(b->graph, d->result);
    }
    d->shape = shape;
}

static bool same_shape(const struct shape *a, const struct shape *b)
{
    return a->n_rows == b->n_rows && a->n_out == b->n_out && a->n_kv == b->n_kv && a->result == b->result &&
           a->lora.needs == b->lora.needs && a->lora.n_used == b->lora.n_used && a->lora.version == b->lora.version;
}

static int32_t round_length(const struct rv_decoder *d, int32_t extent)
{
    int32_t step = d->is_host ? LENGTH_STEP_HOST : LENGTH_STEP_DEVICE;
    int32_t length = (extent + step - 1) / step * step;

    return length < d->config.max_context ? length : d->config.max_context;
}

/* Gets the graph for this shape ready, building it only if the last step's does not fit. */
static ruvllm_status prepare(struct rv_decoder *d, struct shape shape, struct ruvllm_error *err)
{
    if (d->has_graph && same_shape(&d->shape, &shape))
        return RUVLLM_OK;
    ggml_backend_sched_reset(d->sched);
    build(d, shape, shape.n_kv ? shape.n_kv : d->config.max_context);
    d->has_graph = ggml_backend_sched_alloc_graph(d->sched, d->build.graph);
    if (!d->has_graph)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate scratch memory for %d rows", shape.n_rows);
    return RUVLLM_OK;
}

static void set_mask_length(struct ggml_tensor *mask, int32_t n_kv)
{
    if (!mask)
        return;
    mask->ne[0] = n_kv;
    mask->nb[1] = (size_t)n_kv * sizeof(ggml_fp16_t);
    mask->nb[2] = mask->nb[1] * (size_t)mask->ne[1];
    mask->nb[3] = mask->nb[2];
}

/* Lets attention look at n_kv cells. */
static void set_length(struct rv_build *b, int32_t n_kv)
{
    if (b->n_kv == n_kv)
        return;
    for (int32_t i = 0; i < b->n_kv_views; i++)
        b->kv_views[i]->ne[1] = n_kv;
    set_mask_length(b->in.mask, n_kv);
    set_mask_length(b->in.window, n_kv);
    set_mask_length(b->in.out_mask, n_kv);
    set_mask_length(b->in.out_window, n_kv);
    b->n_kv = n_kv;
}

/* ---- running ------------------------------------------------------------------------------- */

static void set_input(struct ggml_tensor *t, const void *data)
{
    /* An input no node uses (the mask when only the cache is wanted) gets no memory. */
    if (t && t->buffer)
        ggml_backend_tensor_set(t, data, 0, ggml_nbytes(t));
}

static void set_mask(struct rv_decoder *d, struct ggml_tensor *t, const int32_t *pos, const int32_t *seq,
                     int32_t window)
{
    if (!t || !t->buffer)
        return;
    rv_kv_cache_mask(d->config.kv, pos, seq, (int32_t)t->ne[1], window, d->build.n_kv, d->mask);
    set_input(t, d->mask);
}

static void set_inputs(struct rv_decoder *d, const struct rv_batch *batch)
{
    const struct rv_build_inputs *in = &d->build.in;
    int32_t window = d->config.hparams->window;
    int32_t *out_pos = d->gathered, *out_seq = d->gathered + batch->n_out;

    set_input(in->tokens, batch->tokens);
    set_input(in->pos, batch->pos);
    set_input(in->cells, d->cells);
    set_mask(d, in->mask, batch->pos, batch->seq, 0);
    set_mask(d, in->window, batch->pos, batch->seq, window);
    if (!in->out_rows)
        return;
    for (int32_t i = 0; i < batch->n_out; i++) {
        out_pos[i] = batch->pos[batch->out_rows[i]];
        out_seq[i] = batch->seq[batch->out_rows[i]];
    }
    set_input(in->out_rows, batch->out_rows);
    set_input(in->out_pos, out_pos);
    set_mask(d, in->out_mask, out_pos, out_seq, 0);
    set_mask(d, in->out_window, out_pos, out_seq, window);
}

/* Results where the caller can read them: in place, or copied from the device. */
static ruvllm_status fetch(struct rv_decoder *d, float **rows, struct ruvllm_error *err)
{
    size_t n = d->result ? (size_t)ggml_nelements(d->result) : 0;

    *rows = NULL;
    if (n == 0)
        return RUVLLM_OK;
    if (ggml_backend_buffer_is_host(d->result->buffer)) {
        *rows = d->result->data;
        return RUVLLM_OK;
    }
    if (n > d->rows_cap) {
        float *bigger = rv_realloc_array(d->rows, n, sizeof(*bigger));
        if (!bigger)
            return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate room for %zu results", n);
        d->rows = bigger;
        d->rows_cap = n;
    }
    ggml_backend_tensor_get(d->result, d->rows, 0, n * sizeof(float));
    *rows = d->rows;
    return RUVLLM_OK;
}

/* Finds places for the rows' keys and values; *n_kv is how far attention over cells has to look. */
static ruvllm_status place(struct rv_decoder *d, const struct rv_batch *batch, int32_t *n_kv, struct ruvllm_error *err)
{
    *n_kv = d->build.n_kv;
    if (d->paged) {
        rv_paged_attention_begin(d->paged, batch);
        return RUVLLM_OK;
    }
    if (!rv_kv_cache_place(d->config.kv, batch->pos, batch->seq, batch->n_rows, d->cells))
        return rv_fail_kind(err, RUVLLM_TOO_LARGE, RUVLLM_ERROR_KV_CACHE,
                            "no room for %d more tokens in a context of %d", batch->n_rows, d->config.max_context);
    *n_kv = round_length(d, rv_kv_cache_extent(d->config.kv));
    return RUVLLM_OK;
}

ruvllm_status rv_decoder_run(struct rv_decoder *decoder, const struct rv_batch *batch, enum rv_decoder_result result,
                             float **rows, struct ruvllm_error *err)
{
    struct rv_decoder *d = decoder;
    struct shape shape = {.n_rows = batch->n_rows, .n_out = batch->n_out, .result = result};
    int32_t n_kv;
    ruvllm_status rc;

    RV_ASSERT(batch->n_rows > 0 && batch->n_rows <= d->config.max_rows && batch->n_out <= batch->n_rows);
    if (d->lora) {
        shape.lora.needs = rv_lora_begin(d->lora, batch);
    } else {
        rc = rv_lora_stack_begin(d->lora_stack, batch, &shape.lora, err);
        if (rc)
            return rc;
    }
    rc = place(d, batch, &n_kv, err);
    if (rc)
        return rc;
    if (!d->is_host)
        shape.n_kv = n_kv;
    rc = prepare(d, shape, err);
    if (rc)
        return rc;
    set_length(&d->build, n_kv);
    set_inputs(d, batch);
    if (d->lora_stack && shape.lora.needs)
        rv_lora_stack_set_inputs(d->lora_stack);
    if (ggml_backend_sched_graph_compute(d->sched, d->build.graph) != GGML_STATUS_SUCCESS)
        return rv_fail(err, RUVLLM_BACKEND, "device '%s' failed to compute a step of %d rows",
                       rv_device_name(d->config.device), batch->n_rows);
    return fetch(d, rows, err);
}

/* ---- life ---------------------------------------------------------------------------------- */

/* Takes the scratch memory of the worst case now, so that no step has to. */
static ruvllm_status reserve(struct rv_decoder *d, struct ruvllm_error *err)
{
    int32_t n_out = d->config.max_rows < RESERVED_OUT ? d->config.max_rows : RESERVED_OUT;
    struct shape shape = {.n_rows = d->config.max_rows, .n_out = n_out};

    if (d->lora)
        shape.lora.needs = RV_LORA_HEAD | RV_LORA_LAYERS | RV_LORA_GATES;
    build(d, shape, d->config.max_context);
    if (!ggml_backend_sched_reserve(d->sched, d->build.graph))
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot reserve scratch memory for batches of %d rows; try smaller ones",
                       d->config.max_rows);
    return RUVLLM_OK;
}

static ruvllm_status allocate(struct rv_decoder *d, struct ruvllm_error *err)
{
    const struct rv_decoder_config *c = &d->config;
    size_t n_layers = (size_t)c->hparams->n_layers, max_rows = (size_t)c->max_rows;
    ggml_backend_t backends[2];
    size_t memory;

    d->graph_size = n_layers * (d->stacks_adapters ? STACK_NODES_PER_LAYER : NODES_PER_LAYER) + NODES_BESIDES;
    memory = d->graph_size * ggml_tensor_overhead() + ggml_graph_overhead_custom(d->graph_size, false);
    d->ctx_memory = rv_malloc(memory);
    d->mask = c->pool ? NULL : rv_calloc(max_rows * (size_t)c->max_context, sizeof(*d->mask));
    d->cells = rv_calloc(max_rows, sizeof(*d->cells));
    d->gathered = rv_calloc(2 * max_rows, sizeof(*d->gathered));
    d->build.kv_views = rv_calloc(2 * n_layers, sizeof(struct ggml_tensor *));
    if (!d->ctx_memory || (!d->mask && !c->pool) || !d->cells || !d->gathered || !d->build.kv_views)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the decoder");
    d->ctx = ggml_init((struct ggml_init_params){.mem_size = memory, .mem_buffer = d->ctx_memory, .no_alloc = true});
    for (size_t i = 0; i < rv_device_n_backends(c->device); i++)
        backends[i] = rv_device_backend(c->device, i);
    d->sched = ggml_backend_sched_new(backends, NULL, (int)rv_device_n_backends(c->device), d->graph_size, false, true);
    if (!d->ctx || !d->sched)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the decoder's graph");
    return RUVLLM_OK;
}

static ruvllm_status open_lora(struct rv_decoder *d, struct ruvllm_error *err)
{
    struct rv_lora_config config = {.hparams = d->config.hparams,
                                    .max_rows = d->config.max_rows,
                                    .n_threads = rv_device_n_threads(d->config.device)};
    struct rv_lora_stack_config stack = {
        .hparams = d->config.hparams, .device = d->config.device, .max_rows = d->config.max_rows};

    return d->stacks_adapters ? rv_lora_stack_new(&d->lora_stack, &stack, err) : rv_lora_new(&d->lora, &config, err);
}

static ruvllm_status open_paged(struct rv_decoder *d, struct ruvllm_error *err)
{
    struct rv_paged_attention_config config = {.hparams = d->config.hparams,
                                               .pool = d->config.pool,
                                               .rotates = d->config.rotates,
                                               .max_rows = d->config.max_rows,
                                               .n_threads = rv_device_n_threads(d->config.device)};

    if (!d->is_host)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "block tables need the CPU, not device '%s'",
                       rv_device_name(d->config.device));
    return rv_paged_attention_new(&d->paged, &config, err);
}

ruvllm_status rv_decoder_new(struct rv_decoder **out, const struct rv_decoder_config *config, struct ruvllm_error *err)
{
    struct rv_decoder *d = rv_calloc(1, sizeof(*d));
    ruvllm_status rc;

    *out = NULL;
    if (!d)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the decoder");
    d->config = *config;
    d->is_host = rv_device_is_cpu(config->device);
    d->stacks_adapters = config->stacks_adapters || !d->is_host;
    rc = allocate(d, err);
    if (!rc)
        rc = open_lora(d, err);
    if (!rc && config->pool)
        rc = open_paged(d, err);
    if (!rc)
        rc = reserve(d, err);
    if (rc) {
        rv_decoder_free(d);
        return rc;
    }
    *out = d;
    return RUVLLM_OK;
}

void rv_decoder_free(struct rv_decoder *decoder)
{
    if (!decoder)
        return;
    ggml_backend_sched_free(decoder->sched);
    ggml_free(decoder->ctx);
    rv_paged_attention_free(decoder->paged);
    rv_lora_free(decoder->lora);
    rv_lora_stack_free(decoder->lora_stack);
    rv_free(decoder->ctx_memory);
    rv_free(decoder->mask);
    rv_free(decoder->cells);
    rv_free(decoder->gathered);
    rv_free(decoder->rows);
    rv_free(decoder->build.kv_views);
    rv_free(decoder);
}

const float *rv_decoder_states(const struct rv_decoder *decoder)
{
    const struct ggml_tensor *states = decoder->states;

    return states && states->buffer && ggml_backend_buffer_is_host(states->buffer) ? states->data : NULL;
}

uint64_t rv_decoder_n_bytes(const struct rv_decoder *decoder)
{
    uint64_t n = 0;

    for (size_t i = 0; i < rv_device_n_backends(decoder->config.device); i++)
        n += ggml_backend_sched_get_buffer_size(decoder->sched, rv_device_backend(decoder->config.device, i));
    return n;
}
