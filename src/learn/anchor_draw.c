/* Half of the chances are even, half go by reach. */
#include "learn/anchor_draw.h"

#include "base/alloc.h"
#include "kernels/vec.h"

enum { MAX_PAIRS = RV_HEAD_ADAPTER_MAX_RANK + RV_HEAD_ADAPTER_STEP_RANK };

ruvllm_status rv_anchor_draw_init(struct rv_anchor_draw *out, const struct rv_anchors *anchors,
                                  struct ruvllm_error *err)
{
    *out = (struct rv_anchor_draw){.anchors = anchors};
    out->reach = rv_calloc(2 * (size_t)RV_ANCHORS_MAX, sizeof(*out->reach));
    if (!out->reach)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate chances of %d anchors", RV_ANCHORS_MAX);
    out->sums = out->reach + RV_ANCHORS_MAX;
    return RUVLLM_OK;
}

void rv_anchor_draw_release(struct rv_anchor_draw *draw)
{
    rv_free(draw->reach);
    *draw = (struct rv_anchor_draw){0};
}

static bool is_guard(size_t i)
{
    return i % RV_ANCHORS_GUARD == 0;
}

static size_t n_fitted(const struct rv_anchors *anchors)
{
    return (size_t)anchors->n - rv_anchors_n_guards(anchors);
}

static void look_at_reach(struct rv_anchor_draw *draw, const struct rv_head_adapter *x)
{
    const struct rv_vec_ops *ops = rv_vec_best();
    size_t dims = (size_t)x->n_dims, rank = (size_t)x->n_pairs;
    float inner[MAX_PAIRS], gram[MAX_PAIRS * MAX_PAIRS];

    for (size_t i = 0; i < rank; i++) {
        for (size_t k = 0; k < rank; k++)
            gram[i * rank + k] = ops->dot(x->b + i * dims, x->b + k * dims, dims);
    }
    for (size_t i = 0; i < (size_t)draw->anchors->n; i++) {
        float sum = 0;

        for (size_t k = 0; k < rank; k++)
            inner[k] = ops->dot_bf16(x->a + k * dims, draw->anchors->states + i * dims, dims);
        for (size_t j = 0; j < rank; j++)
            sum += inner[j] * ops->dot(gram + j * rank, inner, rank);
        draw->reach[i] = sum > 0 ? sum : 0;
    }
}

void rv_anchor_draw_look(struct rv_anchor_draw *draw, const struct rv_head_adapter *adapter)
{
    size_t n = (size_t)draw->anchors->n;
    double total = 0, passed = 0;

    look_at_reach(draw, adapter);
    for (size_t i = 0; i < n; i++)
        total += is_guard(i) ? 0 : (double)draw->reach[i];
    for (size_t i = 0; i < n; i++) {
        if (!is_guard(i))
            passed += 1 / (double)n_fitted(draw->anchors) + (total > 0 ? (double)draw->reach[i] / total : 0);
        draw->sums[i] = (float)passed;
    }
}

size_t rv_anchor_draw(const struct rv_anchor_draw *draw, struct rv_rng *rng, float *weight)
{
    const float *sums = draw->sums;
    size_t n = (size_t)draw->anchors->n, at = rv_rng_pick(rng, sums, n);

    at -= is_guard(at); // a mark that was rounded up to the end
    *weight = sums[n - 1] / (float)n_fitted(draw->anchors) / (sums[at] - (at ? sums[at - 1] : 0));
    return at;
}
