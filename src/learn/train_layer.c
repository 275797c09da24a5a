/*
 * The same steps as graph/attention.c and graph/feedforward.c, on plain memory, and their transposes in reverse order.
 *
 * Norms, activations and inputs of projections are computed again on the way back: they cost little, and keeping them
 * would double the memory.
 */
#include "learn/train_layer.h"

#include "learn/train_attention.h"
#include "learn/train_norm.h"

#include <string.h>

enum { STRIP = RV_TILE_GEMM_STRIP, ACTIVATION_ROWS = 64 };

static bool has_head_norms(const struct rv_manifest *m)
{
    return m->layers[0][RV_PART_Q_NORM] || m->layers[0][RV_PART_K_NORM];
}

size_t rv_train_layer_state_rows(const struct rv_hparams *hparams, const struct rv_manifest *manifest, float *memory,
                                 int32_t n_columns, struct rv_train_layer_state *out)
{
    size_t n_q = (size_t)rv_hparams_n_q(hparams), n_kv = (size_t)rv_hparams_n_kv(hparams);
    size_t n_embd = (size_t)hparams->n_embd, n = (size_t)n_columns;
    size_t raw = has_head_norms(manifest) ? n_q + n_kv : 0;
    size_t post = manifest->layers[0][RV_PART_ATTN_POST_NORM] ? n_embd : 0;
    size_t gate_up = 2 * (size_t)hparams->n_ff;

    if (out) {
        out->qkv = memory;
        out->attended = out->qkv + (n_q + 2 * n_kv) * n;
        out->middle = out->attended + n_q * n;
        out->gate_up = out->middle + n_embd * n;
        memory = out->gate_up + gate_up * n;
        out->qk_raw = raw ? memory : NULL;
        memory += raw * n;
        out->attn_out = post ? memory : NULL;
        out->ffn_out = post ? memory + post * n : NULL;
    }
    return n_q + 2 * n_kv + n_q + n_embd + gate_up + raw + 2 * post;
}

/* ---- norms ----------------------------------------------------------------------------------- */

struct norm_work {
    struct rv_train_norm norm;
    const float *x, *dy;
    float *out;
    size_t stride;
    bool adds;
};

static void norm_part(void *user, int32_t part, int32_t thread)
{
    struct norm_work *w = user;

    (void)thread;
    if (w->dy)
        rv_train_norm_backward(&w->norm, w->x, w->dy, w->stride, part * STRIP, w->adds, w->out);
    else
        rv_train_norm_forward(&w->norm, w->x, w->stride, part * STRIP, w->out);
}

static void run_norm(const struct rv_train_layer_context *c, struct norm_work *w)
{
    w->norm.kind = c->hparams->arch->norm;
    w->norm.eps = c->hparams->norm_eps;
    w->stride = (size_t)c->n_columns;
    rv_team_run(c->product->team, c->n_columns / STRIP, norm_part, w);
}

void rv_train_layer_norm(const struct rv_train_layer_context *c, const struct rv_gguf_tensor *weight,
                         const struct rv_gguf_tensor *bias, const float *x, float *y)
{
    struct norm_work w = {.x = x, .out = y};

    w.norm.n = c->hparams->n_embd;
    w.norm.n_groups = 1;
    w.norm.weight = weight->data;
    w.norm.bias = bias ? bias->data : NULL;
    run_norm(c, &w);
}

void rv_train_layer_norm_backward(const struct rv_train_layer_context *c, const struct rv_gguf_tensor *weight,
                                  const float *x, const float *dy, bool adds, float *dx)
{
    struct norm_work w = {.x = x, .dy = dy, .out = dx, .adds = adds};

    w.norm.n = c->hparams->n_embd;
    w.norm.n_groups = 1;
    w.norm.weight = weight->data;
    run_norm(c, &w);
}

/* Norm of each head: forward with dy NULL. */
static void head_norm(const struct rv_train_layer_context *c, const struct rv_gguf_tensor *weight, int32_t n_heads,
                      const float *x, const float *dy, float *out)
{
    struct norm_work w = {.x = x, .dy = dy, .out = out};

    w.norm.n = c->hparams->head_dim;
    w.norm.n_groups = n_heads;
    w.norm.weight = weight->data;
    w.norm.weight_by_group = weight->ne[1] > 1;
    run_norm(c, &w);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static const struct rv_gguf_tensor *tensor_of(const struct rv_train_layer_context *c, int32_t layer, enum rv_part part)
{
    return c->manifest->layers[layer][part];
}

static struct rv_product_linear linear_of(const struct rv_train_layer_context *c, int32_t layer, enum rv_part part)
{
    struct rv_product_linear l = {.pair = c->trainable ? &c->trainable->layers[layer][part] : NULL};
    ruvllm_status rc = rv_product_matrix(&l.w, tensor_of(c, layer, part), NULL);

    RV_ASSERT(rc == RUVLLM_OK); // every matrix was tried when the model was opened
    return l;
}

/* `bias` is the part that holds the projection's bias, where there is one. */
static void project(const struct rv_train_layer_context *c, int32_t layer, enum rv_part part, enum rv_part bias,
                    const float *x, float *y)
{
    struct rv_product_linear l = linear_of(c, layer, part);

    if (tensor_of(c, layer, bias))
        l.bias = tensor_of(c, layer, bias)->data;
    rv_product_forward(c->product, &l, x, c->n_columns, y);
}

static void project_back(const struct rv_train_layer_context *c, int32_t layer, enum rv_part part, const float *x,
                         const float *dy, bool adds, float *dx)
{
    struct rv_product_linear l = linear_of(c, layer, part);

    rv_product_backward(c->product, &l, x, dy, c->n_columns, adds, dx);
}

static void add(float *to, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += x[i];
}

static float *rows_at(float *x, const struct rv_train_layer_context *c, int32_t row)
{
    return x + (size_t)row * (size_t)c->n_columns;
}

/* ---- attention ------------------------------------------------------------------------------- */

struct attention_work {
    const struct rv_train_layer_context *c;
    struct rv_train_attention base;
    float *out;
    const float *dout;
    float *dq, *dk, *dv;
};

static void attention_part(void *user, int32_t part, int32_t thread)
{
    struct attention_work *w = user;
    const struct rv_train_layer_context *c = w->c;
    struct rv_train_attention a = w->base;
    int32_t kv_head = part % c->hparams->n_kv_heads;

    a.first = c->spans[part / c->hparams->n_kv_heads].first;
    a.n_columns = c->spans[part / c->hparams->n_kv_heads].n_columns;
    a.scratch = c->attention_scratch + (size_t)thread * c->attention_scratch_each;
    a.panels = rv_product_scratch(c->product, thread);
    if (w->dout)
        rv_train_attention_backward(&a, kv_head, w->dout, w->dq, w->dk, w->dv);
    else
        rv_train_attention_forward(&a, kv_head, w->out);
}

static void run_attention(struct attention_work *w, int32_t layer, const struct rv_train_layer_state *s)
{
    const struct rv_train_layer_context *c = w->c;
    const struct rv_hparams *h = c->hparams;

    w->base = (struct rv_train_attention){.ops = c->product->ops,
                                          .hparams = h,
                                          .stride = (size_t)c->n_columns,
                                          .window = h->layer_has_window[layer] ? h->window : 0,
                                          .q = s->qkv,
                                          .k = rows_at(s->qkv, c, rv_hparams_n_q(h)),
                                          .v = rows_at(s->qkv, c, rv_hparams_n_q(h) + rv_hparams_n_kv(h))};
    rv_team_run(c->product->team, c->n_spans * h->n_kv_heads, attention_part, w);
}

/* Turns positions into queries and keys, or out of their gradients. */
static void rotate(const struct rv_train_layer_context *c, int32_t layer, bool back, float *qk)
{
    const struct rv_hparams *h = c->hparams;

    rv_train_rope_apply(&c->rope, c->rope_table[h->layer_has_window[layer] ? 1 : 0], c->n_columns,
                        h->n_heads + h->n_kv_heads, back, qk);
}

static void queries_keys_values(const struct rv_train_layer_context *c, int32_t layer, const float *x,
                                const struct rv_train_layer_state *s)
{
    const struct rv_hparams *h = c->hparams;
    int32_t n_q = rv_hparams_n_q(h), n_kv = rv_hparams_n_kv(h);
    float *k = rows_at(s->qkv, c, n_q);

    if (tensor_of(c, layer, RV_PART_QKV)) {
        project(c, layer, RV_PART_QKV, RV_PART_QKV_B, x, s->qkv);
    } else {
        project(c, layer, RV_PART_Q, RV_PART_Q_B, x, s->qkv);
        project(c, layer, RV_PART_K, RV_PART_K_B, x, k);
        project(c, layer, RV_PART_V, RV_PART_V_B, x, rows_at(s->qkv, c, n_q + n_kv));
    }
    if (s->qk_raw) {
        memcpy(s->qk_raw, s->qkv, (size_t)(n_q + n_kv) * (size_t)c->n_columns * sizeof(float));
        if (tensor_of(c, layer, RV_PART_Q_NORM))
            head_norm(c, tensor_of(c, layer, RV_PART_Q_NORM), h->n_heads, s->qk_raw, NULL, s->qkv);
        if (tensor_of(c, layer, RV_PART_K_NORM))
            head_norm(c, tensor_of(c, layer, RV_PART_K_NORM), h->n_kv_heads, rows_at(s->qk_raw, c, n_q), NULL, k);
    }
    rotate(c, layer, false, s->qkv);
}

/* From the gradients of what attention reads to that of the layer's normed input. */
static void queries_keys_values_back(const struct rv_train_layer_context *c, int32_t layer, const float *x,
                                     const struct rv_train_layer_state *s, float *dqkv, bool adds, float *dx)
{
    const struct rv_hparams *h = c->hparams;
    int32_t n_q = rv_hparams_n_q(h), n_kv = rv_hparams_n_kv(h);
    float *dk = rows_at(dqkv, c, n_q);

    rotate(c, layer, true, dqkv);
    if (tensor_of(c, layer, RV_PART_Q_NORM))
        head_norm(c, tensor_of(c, layer, RV_PART_Q_NORM), h->n_heads, s->qk_raw, dqkv, dqkv);
    if (tensor_of(c, layer, RV_PART_K_NORM))
        head_norm(c, tensor_of(c, layer, RV_PART_K_NORM), h->n_kv_heads, rows_at(s->qk_raw, c, n_q), dk, dk);
    if (tensor_of(c, layer, RV_PART_QKV)) {
        project_back(c, layer, RV_PART_QKV, x, dqkv, adds, dx);
        return;
    }
    project_back(c, layer, RV_PART_Q, x, dqkv, adds, dx);
    project_back(c, layer, RV_PART_K, x, dk, true, dx);
    project_back(c, layer, RV_PART_V, x, rows_at(dqkv, c, n_q + n_kv), true, dx);
}

/* ---- activation ------------------------------------------------------------------------------ */

struct activation_work {
    const struct rv_train_layer_context *c;
    const float *gate, *up;
    float *out;        // act(gate) * up
    const float *dout; // NULL: forward
    float *dgate, *dup;
};

/* Value and slope of the gate's function; both are [n]. */
static void gate_function(const struct rv_tile_gemm_ops *ops, enum rv_arch_activation kind, const float *x, int32_t n,
                          float *value, float *slope)
{
    const float root = 0.797884561f, cubic = 0.044715f; // sqrt(2 / pi); Hendrycks' approximation of GELU

    if (kind == RV_ARCH_SILU) {
        ops->tanh_scaled(x, 0.5f, value, n);
        for (int32_t t = 0; t < n; t++) {
            float s = 0.5f + 0.5f * value[t];

            value[t] = x[t] * s;
            slope[t] = s + value[t] * (1.0f - s);
        }
        return;
    }
    for (int32_t t = 0; t < n; t++)
        value[t] = x[t] * (1.0f + cubic * x[t] * x[t]);
    ops->tanh_scaled(value, root, value, n);
    for (int32_t t = 0; t < n; t++) {
        float bent = value[t];

        slope[t] =
            0.5f * (1.0f + bent) + 0.5f * x[t] * (1.0f - bent * bent) * root * (1.0f + 3.0f * cubic * x[t] * x[t]);
        value[t] = 0.5f * x[t] * (1.0f + bent);
    }
}

static void activation_part(void *user, int32_t part, int32_t thread)
{
    struct activation_work *w = user;
    const struct rv_train_layer_context *c = w->c;
    int32_t n = c->n_columns, end = (part + 1) * ACTIVATION_ROWS;
    float *value = rv_product_scratch(c->product, thread), *slope = value + n;

    if (end > c->hparams->n_ff)
        end = c->hparams->n_ff;
    for (int32_t i = part * ACTIVATION_ROWS; i < end; i++) {
        size_t at = (size_t)i * (size_t)n;

        gate_function(c->product->ops, c->hparams->arch->activation, w->gate + at, n, value, slope);
        for (int32_t t = 0; t < n && !w->dout; t++)
            w->out[at + (size_t)t] = value[t] * w->up[at + (size_t)t];
        for (int32_t t = 0; t < n && w->dout; t++) {
            float d = w->dout[at + (size_t)t];

            w->dgate[at + (size_t)t] = d * w->up[at + (size_t)t] * slope[t];
            w->dup[at + (size_t)t] = d * value[t];
        }
    }
}

static void run_activation(struct activation_work *w, const struct rv_train_layer_state *s)
{
    const struct rv_train_layer_context *c = w->c;

    w->gate = s->gate_up;
    w->up = rows_at(s->gate_up, c, c->hparams->n_ff);
    rv_team_run(c->product->team, (c->hparams->n_ff + ACTIVATION_ROWS - 1) / ACTIVATION_ROWS, activation_part, w);
}

/* ---- the layer ------------------------------------------------------------------------------- */

/* What the feed-forward network reads: its own norm of `middle`, or the attention's input. */
static void ffn_input(const struct rv_train_layer_context *c, int32_t layer, const float *x,
                      const struct rv_train_layer_state *s, float *out)
{
    const struct rv_gguf_tensor *norm = tensor_of(c, layer, RV_PART_FFN_NORM);

    if (norm)
        rv_train_layer_norm(c, norm, tensor_of(c, layer, RV_PART_FFN_NORM_B), s->middle, out);
    else
        rv_train_layer_norm(c, tensor_of(c, layer, RV_PART_ATTN_NORM), tensor_of(c, layer, RV_PART_ATTN_NORM_B), x,
                            out);
}

void rv_train_layer_forward(const struct rv_train_layer_context *c, int32_t layer, const float *x,
                            const struct rv_train_layer_state *state, float *out)
{
    const struct rv_train_layer_state *s = state;
    size_t n = (size_t)c->hparams->n_embd * (size_t)c->n_columns;
    const struct rv_gguf_tensor *attn_post = tensor_of(c, layer, RV_PART_ATTN_POST_NORM);
    const struct rv_gguf_tensor *ffn_post = tensor_of(c, layer, RV_PART_FFN_POST_NORM);
    struct attention_work attention = {.c = c, .out = s->attended};
    struct activation_work activation = {.c = c, .out = c->wide};

    rv_train_layer_norm(c, tensor_of(c, layer, RV_PART_ATTN_NORM), tensor_of(c, layer, RV_PART_ATTN_NORM_B), x,
                        c->normed);
    queries_keys_values(c, layer, c->normed, s);
    run_attention(&attention, layer, s);
    project(c, layer, RV_PART_O, RV_PART_O_B, s->attended, attn_post ? s->attn_out : s->middle);
    if (attn_post)
        rv_train_layer_norm(c, attn_post, NULL, s->attn_out, s->middle);
    add(s->middle, x, n);
    ffn_input(c, layer, x, s, c->normed);
    if (c->hparams->arch->fused_gate_up) {
        project(c, layer, RV_PART_UP, RV_PART_UP_B, c->normed, s->gate_up);
    } else {
        project(c, layer, RV_PART_GATE, RV_PART_GATE_B, c->normed, s->gate_up);
        project(c, layer, RV_PART_UP, RV_PART_UP_B, c->normed, rows_at(s->gate_up, c, c->hparams->n_ff));
    }
    run_activation(&activation, s);
    project(c, layer, RV_PART_DOWN, RV_PART_DOWN_B, c->wide, ffn_post ? s->ffn_out : out);
    if (ffn_post)
        rv_train_layer_norm(c, ffn_post, NULL, s->ffn_out, out);
    add(out, s->middle, n);
}

/* From the gradient of the layer's output to that of what the feed-forward network read: the first narrow one. */
static void ffn_back(const struct rv_train_layer_context *c, int32_t layer, const float *x,
                     const struct rv_train_layer_state *s, const float *grad)
{
    const struct rv_gguf_tensor *post = tensor_of(c, layer, RV_PART_FFN_POST_NORM);
    float *dgate = c->grad_pair, *dup = rows_at(c->grad_pair, c, c->hparams->n_ff);
    struct activation_work again = {.c = c, .out = c->wide};
    struct activation_work back = {.c = c, .dout = c->grad_wide, .dgate = dgate, .dup = dup};
    float *out = c->grad_narrow[0];

    if (post) {
        rv_train_layer_norm_backward(c, post, s->ffn_out, grad, false, out);
        grad = out;
    }
    run_activation(&again, s);
    project_back(c, layer, RV_PART_DOWN, c->wide, grad, false, c->grad_wide);
    run_activation(&back, s);
    ffn_input(c, layer, x, s, c->normed);
    if (c->hparams->arch->fused_gate_up) {
        project_back(c, layer, RV_PART_UP, c->normed, dgate, false, out);
        return;
    }
    project_back(c, layer, RV_PART_GATE, c->normed, dgate, false, out);
    project_back(c, layer, RV_PART_UP, c->normed, dup, true, out);
}

/* From the gradient of `middle` to those of queries, keys and values. */
static void attention_back(const struct rv_train_layer_context *c, int32_t layer, const struct rv_train_layer_state *s,
                           const float *grad)
{
    const struct rv_hparams *h = c->hparams;
    const struct rv_gguf_tensor *post = tensor_of(c, layer, RV_PART_ATTN_POST_NORM);
    struct attention_work work = {.c = c, .dout = c->grad_narrow[1]};

    if (post) {
        rv_train_layer_norm_backward(c, post, s->attn_out, grad, false, c->normed);
        grad = c->normed;
    }
    project_back(c, layer, RV_PART_O, s->attended, grad, false, c->grad_narrow[1]);
    work.dq = c->grad_pair;
    work.dk = rows_at(c->grad_pair, c, rv_hparams_n_q(h));
    work.dv = rows_at(c->grad_pair, c, rv_hparams_n_q(h) + rv_hparams_n_kv(h));
    run_attention(&work, layer, s);
}

void rv_train_layer_backward(const struct rv_train_layer_context *c, int32_t layer, const float *x,
                             const struct rv_train_layer_state *state, bool is_first, float *grad)
{
    const struct rv_gguf_tensor *ffn_norm = tensor_of(c, layer, RV_PART_FFN_NORM);
    const struct rv_gguf_tensor *attn_norm = tensor_of(c, layer, RV_PART_ATTN_NORM);
    float *dnormed = c->grad_narrow[0];

    ffn_back(c, layer, x, state, grad);
    if (ffn_norm)
        rv_train_layer_norm_backward(c, ffn_norm, state->middle, dnormed, true, grad);
    attention_back(c, layer, state, grad);
    rv_train_layer_norm(c, attn_norm, tensor_of(c, layer, RV_PART_ATTN_NORM_B), x, c->normed);
    /* Side by side, both halves read the same norm: what the feed-forward network sent back stays in the sum. */
    queries_keys_values_back(c, layer, c->normed, state, c->grad_pair, !ffn_norm, is_first ? NULL : dnormed);
    if (!is_first)
        rv_train_layer_norm_backward(c, attn_norm, x, dnormed, true, grad);
}
