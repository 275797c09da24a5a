/* A graph without a cache, as training wants it, and ggml's walk back. */
#include "golden/autograd_model.h"

#include "base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <ggml-backend.h>
#include <ggml.h>

#include "model/device.h"
#include "support/test.h"

enum { GRAPH_SIZE = 16384 };

struct graph {
    struct ggml_context *ctx;
    const struct double_model *weights;
    const struct rv_hparams *h;
    const struct rv_manifest *m;
    const struct rv_trainable *t;
    struct ggml_tensor *(*params)[RV_N_PARTS][2]; // A and B of each pair
    struct ggml_tensor *pos, *mask, *factors;
    int32_t n;
};

static struct ggml_tensor *floats(struct graph *g, const float *data, int64_t ne0, int64_t ne1)
{
    struct ggml_tensor *t = ggml_new_tensor_2d(g->ctx, GGML_TYPE_F32, ne0, ne1);

    memcpy(t->data, data, ggml_nbytes(t));
    return t;
}

static struct ggml_tensor *part(struct graph *g, int32_t layer, enum rv_part id)
{
    const struct rv_gguf_tensor *t = g->m->layers[layer][id];

    return t ? floats(g, double_model_part(g->weights, layer, id), t->ne[0], t->ne[1]) : NULL;
}

/* B as ggml multiplies with it: [rank, n_out]. */
static struct ggml_tensor *make_b(struct graph *g, const struct rv_trainable_pair *p)
{
    struct ggml_tensor *b = ggml_new_tensor_2d(g->ctx, GGML_TYPE_F32, p->rank, p->n_out);

    for (int32_t r = 0; r < p->rank; r++)
        for (int32_t i = 0; i < p->n_out; i++)
            ((float *)b->data)[i * p->rank + r] = p->b[r * p->n_out + i];
    return b;
}

static struct ggml_tensor *linear(struct graph *g, int32_t layer, enum rv_part id, enum rv_part bias,
                                  struct ggml_tensor *x)
{
    const struct rv_trainable_pair *p = &g->t->layers[layer][id];
    struct ggml_tensor *y = ggml_mul_mat(g->ctx, part(g, layer, id), x), **params = g->params[layer][id], *low;

    if (part(g, layer, bias))
        y = ggml_add(g->ctx, y, part(g, layer, bias));
    if (p->rank == 0)
        return y;
    params[0] = floats(g, p->a, p->n_in, p->rank);
    params[1] = make_b(g, p);
    ggml_set_param(params[0]);
    ggml_set_param(params[1]);
    low = ggml_mul_mat(g->ctx, params[1], ggml_mul_mat(g->ctx, params[0], x));
    return ggml_add(g->ctx, y, ggml_scale(g->ctx, low, p->scale));
}

static struct ggml_tensor *norm(struct graph *g, struct ggml_tensor *weight, struct ggml_tensor *x)
{
    return ggml_mul(g->ctx, ggml_rms_norm(g->ctx, x, g->h->norm_eps), weight);
}

static struct ggml_tensor *rows(struct graph *g, struct ggml_tensor *x, int64_t first, int64_t n)
{
    return ggml_cont(g->ctx, ggml_view_2d(g->ctx, x, n, x->ne[1], x->nb[1], (size_t)first * sizeof(float)));
}

static struct ggml_tensor *heads(struct graph *g, struct ggml_tensor *x, int32_t n_heads, bool turns)
{
    const struct rv_rope *r = &g->h->rope;

    x = ggml_reshape_3d(g->ctx, x, g->h->head_dim, n_heads, g->n);
    if (!turns)
        return x;
    return ggml_rope_ext(g->ctx, x, g->pos, g->factors, r->n_dims,
                         g->h->arch->rope_neox ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL, r->original_context,
                         r->freq_base, r->freq_scale, r->ext_factor, r->attn_factor, r->beta_fast, r->beta_slow);
}

static struct ggml_tensor *attention(struct graph *g, int32_t layer, struct ggml_tensor *x)
{
    int32_t n_q = rv_hparams_n_q(g->h), n_kv = rv_hparams_n_kv(g->h);
    struct ggml_tensor *q, *k, *v, *scores;

    if (g->m->layers[layer][RV_PART_QKV]) {
        struct ggml_tensor *all = linear(g, layer, RV_PART_QKV, RV_PART_QKV_B, x);
        q = rows(g, all, 0, n_q);
        k = rows(g, all, n_q, n_kv);
        v = rows(g, all, n_q + n_kv, n_kv);
    } else {
        q = linear(g, layer, RV_PART_Q, RV_PART_Q_B, x);
        k = linear(g, layer, RV_PART_K, RV_PART_K_B, x);
        v = linear(g, layer, RV_PART_V, RV_PART_V_B, x);
    }
    q = ggml_permute(g->ctx, heads(g, q, g->h->n_heads, true), 0, 2, 1, 3);
    k = ggml_permute(g->ctx, heads(g, k, g->h->n_kv_heads, true), 0, 2, 1, 3);
    v = ggml_cont(g->ctx, ggml_permute(g->ctx, heads(g, v, g->h->n_kv_heads, false), 1, 2, 0, 3));
    scores = ggml_soft_max_ext(g->ctx, ggml_mul_mat(g->ctx, k, q), g->mask, g->h->attention_scale, 0);
    x = ggml_cont(g->ctx, ggml_permute(g->ctx, ggml_mul_mat(g->ctx, v, scores), 0, 2, 1, 3));
    return linear(g, layer, RV_PART_O, RV_PART_O_B, ggml_reshape_2d(g->ctx, x, n_q, g->n));
}

static struct ggml_tensor *feed_forward(struct graph *g, int32_t layer, struct ggml_tensor *x)
{
    struct ggml_tensor *gate, *up;

    if (g->h->arch->fused_gate_up) {
        struct ggml_tensor *both = linear(g, layer, RV_PART_UP, RV_PART_UP_B, x);
        gate = rows(g, both, 0, g->h->n_ff);
        up = rows(g, both, g->h->n_ff, g->h->n_ff);
    } else {
        gate = linear(g, layer, RV_PART_GATE, RV_PART_GATE_B, x);
        up = linear(g, layer, RV_PART_UP, RV_PART_UP_B, x);
    }
    return linear(g, layer, RV_PART_DOWN, RV_PART_DOWN_B, ggml_swiglu_split(g->ctx, gate, up));
}

static void make_inputs(struct graph *g, const int32_t *tokens, struct ggml_tensor **ids, struct ggml_tensor **labels)
{
    const struct rv_gguf_tensor *const *roots = g->m->roots;
    enum rv_root factors = roots[RV_ROOT_ROPE_FREQS] ? RV_ROOT_ROPE_FREQS : RV_ROOT_ROPE_SHORT;
    int32_t n = g->n;

    *ids = ggml_new_tensor_1d(g->ctx, GGML_TYPE_I32, n);
    g->pos = ggml_new_tensor_1d(g->ctx, GGML_TYPE_I32, n);
    g->mask = ggml_new_tensor_2d(g->ctx, GGML_TYPE_F32, n, n);
    *labels = ggml_new_tensor_2d(g->ctx, GGML_TYPE_F32, g->h->n_vocab, n);
    memset((*labels)->data, 0, ggml_nbytes(*labels));
    for (int32_t i = 0; i < n; i++) {
        ((int32_t *)(*ids)->data)[i] = tokens[i];
        ((int32_t *)g->pos->data)[i] = i;
        ((float *)(*labels)->data)[i * g->h->n_vocab + tokens[i + 1]] = 1.0f;
        for (int32_t j = 0; j < n; j++)
            ((float *)g->mask->data)[i * n + j] = j <= i ? 0.0f : -INFINITY;
    }
    if (roots[factors])
        g->factors = floats(g, double_model_root(g->weights, factors), roots[factors]->ne[0], 1);
}

static struct ggml_tensor *build_loss(struct graph *g, const int32_t *tokens)
{
    const struct rv_gguf_tensor *const *roots = g->m->roots;
    struct ggml_tensor *ids, *labels, *x, *loss;
    int64_t n_embd = g->h->n_embd, n_vocab = g->h->n_vocab;

    make_inputs(g, tokens, &ids, &labels);
    x = ggml_get_rows(g->ctx, floats(g, double_model_root(g->weights, RV_ROOT_EMBEDDING), n_embd, n_vocab), ids);
    for (int32_t layer = 0; layer < g->h->n_layers; layer++) {
        x = ggml_add(g->ctx, x, attention(g, layer, norm(g, part(g, layer, RV_PART_ATTN_NORM), x)));
        x = ggml_add(g->ctx, x, feed_forward(g, layer, norm(g, part(g, layer, RV_PART_FFN_NORM), x)));
    }
    assert_null(roots[RV_ROOT_OUTPUT_B]);
    x = norm(g, floats(g, double_model_root(g->weights, RV_ROOT_OUTPUT_NORM), n_embd, 1), x);
    x = ggml_mul_mat(g->ctx, floats(g, double_model_root(g->weights, RV_ROOT_OUTPUT), n_embd, n_vocab), x);
    loss = ggml_cross_entropy_loss(g->ctx, x, labels);
    ggml_set_loss(loss);
    ggml_set_output(loss);
    return loss;
}

static void read_grads(const struct graph *g, struct ggml_cgraph *graph, float *grads)
{
    for (int32_t layer = 0; layer < g->t->n_layers; layer++)
        for (int id = 0; id < RV_N_PARTS; id++) {
            const struct rv_trainable_pair *p = &g->t->layers[layer][id];
            struct ggml_tensor *a, *b;

            if (p->rank == 0)
                continue;
            a = ggml_graph_get_grad(graph, g->params[layer][id][0]);
            b = ggml_graph_get_grad(graph, g->params[layer][id][1]);
            assert_true(a && b);
            memcpy(grads + (p->a - g->t->values), a->data, ggml_nbytes(a));
            for (int32_t r = 0; r < p->rank; r++)
                for (int32_t i = 0; i < p->n_out; i++)
                    grads[p->b - g->t->values + r * p->n_out + i] = ((float *)b->data)[i * p->rank + r];
        }
}

double autograd_model_run(const struct double_model *weights, const struct rv_hparams *hparams,
                          const struct rv_manifest *manifest, const struct rv_trainable *trainable,
                          const int32_t *tokens, int32_t n, float *grads)
{
    const struct autograd_effort effort = {.n_threads = 1, .max_bytes = (size_t)1 << 30};

    return autograd_model_run_with(weights, hparams, manifest, trainable, tokens, n, &effort, grads, NULL);
}

double autograd_model_run_with(const struct double_model *weights, const struct rv_hparams *hparams,
                               const struct rv_manifest *manifest, const struct rv_trainable *trainable,
                               const int32_t *tokens, int32_t n, const struct autograd_effort *effort, float *grads,
                               double *seconds)
{
    struct graph g = {.weights = weights, .h = hparams, .m = manifest, .t = trainable, .n = n - 1};
    struct ggml_init_params params = {.mem_size = effort->max_bytes};
    struct rv_device *device;
    int64_t start;
    struct ggml_tensor *loss, **accumulators = calloc(4 * GRAPH_SIZE, sizeof(struct ggml_tensor *));
    struct ggml_cgraph *graph;
    double value;

    g.ctx = ggml_init(params);
    g.params = calloc((size_t)hparams->n_layers, sizeof(*g.params));
    assert_true(accumulators && g.ctx && g.params);
    assert_ok(rv_device_open(&device, "cpu", effort->n_threads, err));
    loss = build_loss(&g, tokens);
    graph = ggml_new_graph_custom(g.ctx, GRAPH_SIZE, true);
    ggml_build_forward_expand(graph, loss);
    ggml_build_backward_expand(g.ctx, graph, accumulators);
    ggml_graph_reset(graph);
    start = rv_clock_us();
    assert_int_equal(ggml_backend_graph_compute(rv_device_backend(device, 0), graph), GGML_STATUS_SUCCESS);
    if (seconds)
        *seconds = (double)(rv_clock_us() - start) / 1e6;
    value = (double)*(float *)loss->data;
    read_grads(&g, graph, grads);
    rv_device_close(device);
    ggml_free(g.ctx);
    free(g.params);
    free(accumulators);
    return value;
}
