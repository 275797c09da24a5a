/* The model, one token and one number at a time. Rope is written anew here, from the papers. */
#include "golden/double_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

struct double_model {
    const struct rv_hparams *h;
    const struct rv_manifest *m;
    float *roots[RV_N_ROOTS];
    float *(*parts)[RV_N_PARTS];
};

static void *make(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);

    assert_non_null(p);
    return p;
}

static float *decoded(const struct rv_gguf_tensor *t)
{
    size_t n = t ? (size_t)(t->ne[0] * t->ne[1]) : 0;
    float *out;

    if (!t)
        return NULL;
    out = make(n, sizeof(*out));
    if (t->type == GGML_TYPE_F32)
        memcpy(out, t->data, n * sizeof(*out));
    else
        ggml_get_type_traits(t->type)->to_float(t->data, out, (int64_t)n);
    return out;
}

struct double_model *double_model_new(const struct rv_hparams *hparams, const struct rv_manifest *manifest)
{
    struct double_model *d = make(1, sizeof(*d));

    d->h = hparams;
    d->m = manifest;
    d->parts = make((size_t)hparams->n_layers, sizeof(*d->parts));
    for (int root = 0; root < RV_N_ROOTS; root++)
        d->roots[root] = decoded(manifest->roots[root]);
    for (int32_t layer = 0; layer < hparams->n_layers; layer++)
        for (int part = 0; part < RV_N_PARTS; part++)
            d->parts[layer][part] = decoded(manifest->layers[layer][part]);
    return d;
}

void double_model_free(struct double_model *model)
{
    for (int root = 0; root < RV_N_ROOTS; root++)
        free(model->roots[root]);
    for (int32_t layer = 0; layer < model->h->n_layers; layer++)
        for (int part = 0; part < RV_N_PARTS; part++)
            free(model->parts[layer][part]);
    free(model->parts);
    free(model);
}

const float *double_model_root(const struct double_model *model, enum rv_root root)
{
    return model->roots[root];
}

const float *double_model_part(const struct double_model *model, int32_t layer, enum rv_part part)
{
    return model->parts[layer][part];
}

/* y = W x + bias + scale B'(A x) */
static void linear(const struct double_model *d, const struct rv_trainable *trainable, int32_t layer, enum rv_part part,
                   enum rv_part bias, const double *x, double *y)
{
    const struct rv_gguf_tensor *t = d->m->layers[layer][part];
    const float *w = d->parts[layer][part], *b = d->parts[layer][bias];
    const struct rv_trainable_pair *p = trainable ? &trainable->layers[layer][part] : NULL;

    for (int64_t i = 0; i < t->ne[1]; i++) {
        y[i] = b ? (double)b[i] : 0;
        for (int64_t j = 0; j < t->ne[0]; j++)
            y[i] += (double)w[i * t->ne[0] + j] * x[j];
    }
    for (int32_t r = 0; p && r < p->rank; r++) {
        double low = 0;

        for (int32_t j = 0; j < p->n_in; j++)
            low += (double)p->a[r * p->n_in + j] * x[j];
        for (int32_t i = 0; i < p->n_out; i++)
            y[i] += (double)p->scale * (double)p->b[r * p->n_out + i] * low;
    }
}

static void norm(const struct double_model *d, const float *weight, const float *bias, int32_t n, const double *x,
                 double *y)
{
    double mean = 0, square = 0;

    for (int32_t i = 0; i < n && d->h->arch->norm == RV_ARCH_NORM_LAYER; i++)
        mean += x[i] / n;
    for (int32_t i = 0; i < n; i++)
        square += (x[i] - mean) * (x[i] - mean) / n;
    for (int32_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) / sqrt(square + (double)d->h->norm_eps) * (double)weight[i] + (bias ? (double)bias[i] : 0);
}

static void head_norms(const struct double_model *d, int32_t layer, enum rv_part part, int32_t n_heads, double *x)
{
    const struct rv_gguf_tensor *t = d->m->layers[layer][part];
    int32_t dim = d->h->head_dim;

    for (int32_t i = 0; t && i < n_heads; i++)
        norm(d, d->parts[layer][part] + (t->ne[1] > 1 ? i * dim : 0), NULL, dim, x + i * dim, x + i * dim);
}

/* Angle of a pair at a position, and by how much everything grows. */
static double angle(const struct double_model *d, int32_t layer, int32_t pos, int32_t i, double *magnitude)
{
    const struct rv_rope *r = &d->h->rope;
    bool windowed = d->h->layer_has_window[layer];
    double base = (double)(windowed ? r->freq_base_window : r->freq_base);
    double scale = (double)(windowed ? r->freq_scale_window : r->freq_scale);
    const float *factors = d->roots[RV_ROOT_ROPE_FREQS] ? d->roots[RV_ROOT_ROPE_FREQS] : d->roots[RV_ROOT_ROPE_SHORT];
    double plain = pos / pow(base, 2.0 * i / r->n_dims) / (factors ? (double)factors[i] : 1), low, high, ramp;

    *magnitude = (double)r->attn_factor;
    if (r->ext_factor == 0.0f)
        return plain * scale;
    *magnitude *= 1 - 0.1 * log(scale);
    low = r->n_dims * log(r->original_context / ((double)r->beta_fast * 2 * acos(-1))) / 2 / log(base);
    high = r->n_dims * log(r->original_context / ((double)r->beta_slow * 2 * acos(-1))) / 2 / log(base);
    low = fmax(floor(low), 0);
    high = fmin(ceil(high), r->n_dims - 1);
    ramp = 1 - fmin(1, fmax(0, (i - low) / fmax(0.001, high - low)));
    ramp *= (double)r->ext_factor;
    return plain * scale * (1 - ramp) + plain * ramp;
}

static void rotate(const struct double_model *d, int32_t layer, int32_t pos, int32_t n_heads, double *x)
{
    int32_t half = d->h->rope.n_dims / 2;

    for (int32_t head = 0; head < n_heads; head++)
        for (int32_t i = 0; i < half; i++) {
            double *row = x + head * d->h->head_dim, magnitude;
            double *a = row + (d->h->arch->rope_neox ? i : 2 * i), *b = a + (d->h->arch->rope_neox ? half : 1);
            double turn = angle(d, layer, pos, i, &magnitude), p = *a, q = *b;

            *a = magnitude * (p * cos(turn) - q * sin(turn));
            *b = magnitude * (p * sin(turn) + q * cos(turn));
        }
}

static void attend(const struct double_model *d, int32_t layer, int32_t pos, const double *qkv, double *out)
{
    const struct rv_hparams *h = d->h;
    int32_t n_q = rv_hparams_n_q(h), n_kv = rv_hparams_n_kv(h), row = n_q + 2 * n_kv, dim = h->head_dim;
    int32_t first = h->layer_has_window[layer] && pos + 1 > h->window ? pos + 1 - h->window : 0;
    double *p = make((size_t)pos + 1, sizeof(*p));

    for (int32_t head = 0; head < h->n_heads; head++) {
        int32_t kv = head / (h->n_heads / h->n_kv_heads);
        double max = -INFINITY, sum = 0;

        for (int32_t j = first; j <= pos; j++) {
            p[j] = 0;
            for (int32_t i = 0; i < dim; i++)
                p[j] += qkv[pos * row + head * dim + i] * qkv[j * row + n_q + kv * dim + i];
            p[j] *= (double)h->attention_scale;
            if (h->attention_cap > 0.0f)
                p[j] = (double)h->attention_cap * tanh(p[j] / (double)h->attention_cap);
            max = fmax(max, p[j]);
        }
        for (int32_t j = first; j <= pos; j++)
            sum += p[j] = exp(p[j] - max);
        for (int32_t i = 0; i < dim; i++) {
            out[head * dim + i] = 0;
            for (int32_t j = first; j <= pos; j++)
                out[head * dim + i] += p[j] / sum * qkv[j * row + n_q + n_kv + kv * dim + i];
        }
    }
    free(p);
}

static double gate(const struct double_model *d, double x)
{
    if (d->h->arch->activation == RV_ARCH_SILU)
        return x / (1 + exp(-x));
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static void project(const struct double_model *d, const struct rv_trainable *t, int32_t layer, const double *x,
                    double *qkv)
{
    int32_t n_q = rv_hparams_n_q(d->h), n_kv = rv_hparams_n_kv(d->h);

    if (d->m->layers[layer][RV_PART_QKV]) {
        linear(d, t, layer, RV_PART_QKV, RV_PART_QKV_B, x, qkv);
    } else {
        linear(d, t, layer, RV_PART_Q, RV_PART_Q_B, x, qkv);
        linear(d, t, layer, RV_PART_K, RV_PART_K_B, x, qkv + n_q);
        linear(d, t, layer, RV_PART_V, RV_PART_V_B, x, qkv + n_q + n_kv);
    }
    head_norms(d, layer, RV_PART_Q_NORM, d->h->n_heads, qkv);
    head_norms(d, layer, RV_PART_K_NORM, d->h->n_kv_heads, qkv + n_q);
}

static void feed_forward(const struct double_model *d, const struct rv_trainable *t, int32_t layer, const double *x,
                         double *out)
{
    int32_t n_ff = d->h->n_ff;
    double *wide = make(2 * (size_t)n_ff, sizeof(*wide));

    if (d->h->arch->fused_gate_up) {
        linear(d, t, layer, RV_PART_UP, RV_PART_UP_B, x, wide);
    } else {
        linear(d, t, layer, RV_PART_GATE, RV_PART_GATE_B, x, wide);
        linear(d, t, layer, RV_PART_UP, RV_PART_UP_B, x, wide + n_ff);
    }
    for (int32_t i = 0; i < n_ff; i++)
        wide[i] = gate(d, wide[i]) * wide[n_ff + i];
    linear(d, t, layer, RV_PART_DOWN, RV_PART_DOWN_B, wide, out);
    free(wide);
}

/* One layer over all tokens: x [n][n_embd] in place. */
static void run_layer(const struct double_model *d, const struct rv_trainable *t, int32_t layer, int32_t n, double *x)
{
    float *const *w = d->parts[layer];
    int32_t n_embd = d->h->n_embd, n_q = rv_hparams_n_q(d->h), row = n_q + 2 * rv_hparams_n_kv(d->h);
    double *qkv = make((size_t)n * (size_t)row, sizeof(*qkv)), *normed = make((size_t)n_embd, sizeof(*normed));
    double *out = make((size_t)n_embd, sizeof(*out)), *attended = make((size_t)n_q, sizeof(*attended));

    for (int32_t pos = 0; pos < n; pos++) {
        norm(d, w[RV_PART_ATTN_NORM], w[RV_PART_ATTN_NORM_B], n_embd, x + pos * n_embd, normed);
        project(d, t, layer, normed, qkv + pos * row);
        rotate(d, layer, pos, d->h->n_heads + d->h->n_kv_heads, qkv + pos * row);
    }
    for (int32_t pos = 0; pos < n; pos++) {
        double *at = x + pos * n_embd;

        norm(d, w[RV_PART_ATTN_NORM], w[RV_PART_ATTN_NORM_B], n_embd, at, normed);
        attend(d, layer, pos, qkv, attended);
        linear(d, t, layer, RV_PART_O, RV_PART_O_B, attended, out);
        if (w[RV_PART_ATTN_POST_NORM])
            norm(d, w[RV_PART_ATTN_POST_NORM], NULL, n_embd, out, out);
        for (int32_t i = 0; i < n_embd; i++)
            at[i] += out[i];
        if (w[RV_PART_FFN_NORM])
            norm(d, w[RV_PART_FFN_NORM], w[RV_PART_FFN_NORM_B], n_embd, at, normed);
        feed_forward(d, t, layer, normed, out);
        if (w[RV_PART_FFN_POST_NORM])
            norm(d, w[RV_PART_FFN_POST_NORM], NULL, n_embd, out, out);
        for (int32_t i = 0; i < n_embd; i++)
            at[i] += out[i];
    }
    free(qkv);
    free(normed);
    free(out);
    free(attended);
}

void double_model_logits(struct double_model *model, const struct rv_trainable *trainable, const int32_t *tokens,
                         int32_t n, double *logits)
{
    const struct double_model *d = model;
    int32_t n_embd = d->h->n_embd, n_vocab = d->h->n_vocab;
    double *x = make((size_t)n * (size_t)n_embd, sizeof(*x));
    double scale = d->h->arch->scale_embedding ? sqrt((double)n_embd) : 1, cap = (double)d->h->final_cap;
    const float *head = d->roots[RV_ROOT_OUTPUT], *bias = d->roots[RV_ROOT_OUTPUT_B];

    for (int32_t pos = 0; pos < n; pos++)
        for (int32_t i = 0; i < n_embd; i++)
            x[pos * n_embd + i] = scale * (double)d->roots[RV_ROOT_EMBEDDING][tokens[pos] * n_embd + i];
    for (int32_t layer = 0; layer < d->h->n_layers; layer++)
        run_layer(d, trainable, layer, n, x);
    for (int32_t pos = 0; pos < n; pos++) {
        double *at = x + pos * n_embd;

        norm(d, d->roots[RV_ROOT_OUTPUT_NORM], d->roots[RV_ROOT_OUTPUT_NORM_B], n_embd, at, at);
        for (int32_t v = 0; v < n_vocab; v++) {
            double z = bias ? (double)bias[v] : 0;

            for (int32_t i = 0; i < n_embd; i++)
                z += (double)head[v * n_embd + i] * at[i];
            logits[pos * n_vocab + v] = cap > 0 ? cap * tanh(z / cap) : z;
        }
    }
    free(x);
}

static double log_sum(const double *z, int32_t n)
{
    double max = z[0], sum = 0;

    for (int32_t i = 0; i < n; i++)
        max = fmax(max, z[i]);
    for (int32_t i = 0; i < n; i++)
        sum += exp(z[i] - max);
    return max + log(sum);
}

double double_model_loss(struct double_model *model, const struct rv_trainable *trainable, const int32_t *tokens,
                         int32_t n, const float *weights, const float *kl_weights)
{
    int32_t n_vocab = model->h->n_vocab;
    double *z = make((size_t)n * (size_t)n_vocab, sizeof(*z)), *base = make((size_t)n * (size_t)n_vocab, sizeof(*z));
    double loss = 0;

    double_model_logits(model, trainable, tokens, n, z);
    if (kl_weights)
        double_model_logits(model, NULL, tokens, n, base);
    for (int32_t i = 1; i < n; i++) {
        const double *row = z + (i - 1) * n_vocab, *base_row = base + (i - 1) * n_vocab;
        double total = log_sum(row, n_vocab), base_total = log_sum(base_row, n_vocab);

        loss += (double)weights[i] * (total - row[tokens[i]]);
        for (int32_t v = 0; kl_weights && v < n_vocab; v++)
            loss += (double)kl_weights[i] * exp(base_row[v] - base_total) * (base_row[v] - base_total - row[v] + total);
    }
    free(z);
    free(base);
    return loss;
}
