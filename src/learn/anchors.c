#include "learn/anchors.h"

#include "base/alloc.h"

#include <string.h>

ruvllm_status rv_anchors_init(struct rv_anchors *out, int32_t n_dims, struct ruvllm_error *err)
{
    *out = (struct rv_anchors){.n_dims = n_dims};
    out->states = rv_calloc((size_t)RV_ANCHORS_MAX * (size_t)n_dims, sizeof(*out->states));
    out->top = rv_calloc((size_t)RV_ANCHORS_MAX * RV_TRACE_TOP, sizeof(*out->top));
    if (out->states && out->top)
        return RUVLLM_OK;
    rv_anchors_release(out);
    return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %d anchors", RV_ANCHORS_MAX);
}

void rv_anchors_release(struct rv_anchors *anchors)
{
    rv_free(anchors->states);
    rv_free(anchors->top);
    *anchors = (struct rv_anchors){0};
}

size_t rv_anchors_n_guards(const struct rv_anchors *anchors)
{
    return ((size_t)anchors->n + RV_ANCHORS_GUARD - 1) / RV_ANCHORS_GUARD;
}

void rv_anchors_add(struct rv_anchors *anchors, const struct rv_trace *trace)
{
    int32_t n = trace->n_rows < RV_ANCHORS_OF_TEXT ? trace->n_rows : RV_ANCHORS_OF_TEXT;
    size_t dims = (size_t)anchors->n_dims;

    for (int32_t i = 0; i < n && anchors->n < RV_ANCHORS_MAX; i++) {
        size_t at = (size_t)anchors->n++, from = (size_t)((2 * i + 1) * trace->n_rows / (2 * n));

        memcpy(anchors->states + at * dims, trace->states + from * dims, dims * sizeof(*trace->states));
        memcpy(anchors->top + at * RV_TRACE_TOP, trace->top + from * RV_TRACE_TOP, RV_TRACE_TOP * sizeof(*trace->top));
    }
}
