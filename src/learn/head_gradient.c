#include "learn/head_gradient.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "kernels/vec.h"

#include <ggml.h>
#include <math.h>
#include <string.h>

/* A probability below which a token of a text that is read counts as any other. */
static const double LEAST_READ = 1e-4;

struct top {
    int32_t tokens[RV_HEAD_GRADIENT_TOP];
    float logits[RV_HEAD_GRADIENT_TOP];
    size_t n;
};

static void find_mean(struct rv_head_gradient *g)
{
    const struct rv_vec_ops *ops = rv_vec_best();

    for (size_t v = 0; v < g->n_vocab; v++) {
        rv_head_gradient_row(g, (int32_t)v, g->row);
        ops->add(g->mean, g->row, 1 / (float)g->n_vocab, g->n_dims);
    }
}

ruvllm_status rv_head_gradient_init(struct rv_head_gradient *out, const struct rv_manifest *manifest,
                                    const struct rv_hparams *hparams, struct ruvllm_error *err)
{
    size_t n = (size_t)hparams->n_embd;

    *out = (struct rv_head_gradient){.head = manifest->roots[manifest->tied ? RV_ROOT_EMBEDDING : RV_ROOT_OUTPUT],
                                     .n_vocab = (size_t)hparams->n_vocab,
                                     .n_dims = n,
                                     .cap = hparams->final_cap};
    out->row = rv_realloc_array(NULL, n, sizeof(*out->row));
    out->gradient = rv_realloc_array(NULL, n, sizeof(*out->gradient));
    out->mean = rv_calloc(n, sizeof(*out->mean));
    if (out->row && out->gradient && out->mean) {
        find_mean(out);
        return RUVLLM_OK;
    }
    rv_head_gradient_release(out);
    return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu numbers", 2 * n);
}

void rv_head_gradient_release(struct rv_head_gradient *gradient)
{
    rv_free(gradient->row);
    rv_free(gradient->gradient);
    rv_free(gradient->mean);
    *gradient = (struct rv_head_gradient){0};
}

void rv_head_gradient_row(const struct rv_head_gradient *gradient, int32_t token, float *out)
{
    const struct rv_gguf_tensor *head = gradient->head;
    size_t row_bytes = ggml_row_size(head->type, (int64_t)gradient->n_dims);
    const char *row = (const char *)head->data + (size_t)token * row_bytes;

    if (head->type == GGML_TYPE_F32)
        memcpy(out, row, row_bytes);
    else
        ggml_get_type_traits(head->type)->to_float(row, out, (int64_t)gradient->n_dims);
}

/* Insertion into a short sorted list; almost every logit fails the comparison with its last. */
static void find_top(const float *logits, size_t n_vocab, struct top *top)
{
    const struct rv_vec_ops *ops = rv_vec_best();
    float least = -INFINITY;

    top->n = 0;
    for (size_t i = 0; (i = ops->first_above(logits, i, n_vocab, least)) < n_vocab; i++) {
        size_t at;

        if (logits[i] == INFINITY)
            continue;
        top->n = top->n < RV_HEAD_GRADIENT_TOP ? top->n + 1 : top->n;
        for (at = top->n - 1; at > 0 && top->logits[at - 1] < logits[i]; at--) {
            top->logits[at] = top->logits[at - 1];
            top->tokens[at] = top->tokens[at - 1];
        }
        top->logits[at] = logits[i];
        top->tokens[at] = (int32_t)i;
        least = top->n == RV_HEAD_GRADIENT_TOP ? top->logits[top->n - 1] : least;
    }
}

/* How much a logit moves with what the cap was put on. */
static float give_of(const struct rv_head_gradient *g, float logit)
{
    float share = g->cap > 0 ? logit / g->cap : 0;

    return share < 1 && share > -1 ? 1 - share * share : 0;
}

/* A token of the list, as its weights have it. The mark depends on nothing but the place in the answer. */
static size_t draw(const double *weights, size_t n, double total, uint64_t seed)
{
    struct rv_rng rng;
    double mark, passed = 0;
    size_t i;

    rv_rng_init(&rng, seed);
    mark = rv_rng_uniform(&rng) * total;
    for (i = 0; i + 1 < n; i++) {
        passed += weights[i];
        if (passed > mark)
            break;
    }
    return i;
}

/* Rounds a gradient to the trace: the mean of rows less the row of a token. */
static void put(struct rv_head_gradient *g, uint16_t *out, int32_t token, float scale)
{
    rv_head_gradient_row(g, token, g->row);
    for (size_t i = 0; i < g->n_dims; i++)
        out[i] = rv_vec_to_bf16(g->gradient[i] - scale * g->row[i]);
}

/* What a row of the trace is made of, besides the gradient's first part, which is there. */
static void finish_row(struct rv_head_gradient *g, struct rv_trace *trace, const float *state, int32_t token,
                       float scale, float give, double logprob)
{
    size_t at = (size_t)trace->n_rows * g->n_dims;

    for (size_t i = 0; i < g->n_dims; i++)
        trace->states[at + i] = rv_vec_to_bf16(state[i]);
    put(g, trace->gradients + at, token, scale * give);
    trace->tokens[trace->n_rows] = token;
    trace->logprobs[trace->n_rows] = (float)logprob;
    trace->n_rows++;
}

/* Weights of the listed tokens by the first's, and their sum. */
static double weigh(const struct top *top, float scale, double *weights)
{
    double total = 0;

    for (size_t i = 0; i < top->n; i++) {
        weights[i] = exp((double)(scale * (top->logits[i] - top->logits[0])));
        total += weights[i];
    }
    return total;
}

/* A probe, and the list it was drawn from. */
static void put_probe(struct rv_head_gradient *g, struct rv_trace *trace, const struct top *top, const double *weights,
                      double total, float scale)
{
    size_t probe = draw(weights, top->n, total, (uint64_t)trace->n_rows);

    put(g, trace->probes + (size_t)trace->n_rows * g->n_dims, top->tokens[probe],
        scale * give_of(g, top->logits[probe]));
    for (size_t i = 0; i < RV_TRACE_TOP; i++)
        trace->top[(size_t)trace->n_rows * RV_TRACE_TOP + i] = i < top->n ? top->tokens[i] : -1;
    trace->scale = scale;
}

void rv_head_gradient_capture(struct rv_head_gradient *gradient, struct rv_trace *trace, const float *state,
                              const float *logits, float temperature, int32_t token)
{
    const struct rv_vec_ops *ops = rv_vec_best();
    struct rv_head_gradient *g = gradient;
    double weights[RV_HEAD_GRADIENT_TOP], total, own;
    float scale = temperature > 0 ? 1 / temperature : 1;
    struct top top;

    if (trace->n_rows == trace->cap)
        return;
    find_top(logits, g->n_vocab, &top);
    if (top.n == 0)
        return;
    total = weigh(&top, scale, weights);
    own = exp((double)(scale * (logits[token] - top.logits[0])));
    memset(g->gradient, 0, g->n_dims * sizeof(*g->gradient));
    for (size_t i = 0; i < top.n && weights[i] >= 1e-6 * total; i++) {
        rv_head_gradient_row(g, top.tokens[i], g->row);
        ops->add(g->gradient, g->row, scale * (float)(weights[i] / total) * give_of(g, top.logits[i]), g->n_dims);
    }
    put_probe(g, trace, &top, weights, total, scale);
    finish_row(g, trace, state, token, scale, give_of(g, logits[token]), log(own / (own > total ? own : total)));
}

/* The mean of all rows by their probabilities: those of any weight themselves, the rest as the mean of all. */
static void add_all(struct rv_head_gradient *g, const float *logits, float max, double total)
{
    const struct rv_vec_ops *ops = rv_vec_best();
    double rest = 1;

    memset(g->gradient, 0, g->n_dims * sizeof(*g->gradient));
    for (size_t v = 0; v < g->n_vocab; v++) {
        double p = (double)expf(logits[v] - max) / total;

        if (!(p >= LEAST_READ))
            continue;
        rv_head_gradient_row(g, (int32_t)v, g->row);
        ops->add(g->gradient, g->row, (float)p * give_of(g, logits[v]), g->n_dims);
        rest -= p;
    }
    ops->add(g->gradient, g->mean, (float)rest, g->n_dims);
}

void rv_head_gradient_read(struct rv_head_gradient *gradient, struct rv_trace *trace, const float *state,
                           const float *logits, int32_t token)
{
    struct rv_head_gradient *g = gradient;
    double weights[RV_HEAD_GRADIENT_TOP], listed, total = 0;
    struct top top;

    if (trace->n_rows == trace->cap)
        return;
    find_top(logits, g->n_vocab, &top);
    if (top.n == 0)
        return;
    for (size_t v = 0; v < g->n_vocab; v++)
        total += (double)expf(logits[v] - top.logits[0]);
    if (!isfinite(total))
        return;
    add_all(g, logits, top.logits[0], total);
    listed = weigh(&top, 1, weights);
    put_probe(g, trace, &top, weights, listed, 1);
    finish_row(g, trace, state, token, 1, give_of(g, logits[token]),
               (double)(logits[token] - top.logits[0]) - log(total));
}
