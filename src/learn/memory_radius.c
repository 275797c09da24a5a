/* Every row against every surprising one that follows the same token in another text. */
#include "learn/memory_radius.h"

#include "base/alloc.h"
#include "kernels/vec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const double rv_memory_radius_rate = 0.4;

static const float SURPRISING = -0.357f; // log 0.7, as lessons choose their keys

/* Whether two rows may be compared at all. */
static bool may_mean_the_same(const struct rv_memory_radius_rows *r, size_t row, size_t key)
{
    return r->contexts[key * RV_MEMORY_PAGE_CONTEXT] == r->contexts[row * RV_MEMORY_PAGE_CONTEXT] &&
           r->texts[key] >= 0 && r->texts[key] != r->texts[row] && r->tokens[key] != r->tokens[row] &&
           r->logprobs[key] < SURPRISING;
}

/* The squared distance to the nearest key that says something else. */
static double nearest_of(const struct rv_memory_radius_rows *r, const float *places, size_t dims, size_t row)
{
    const struct rv_vec_ops *ops = rv_vec_best();
    const float *x = places + row * dims;
    double own = (double)ops->dot(x, x, dims), nearest = INFINITY;

    for (size_t i = 0; i < r->n; i++) {
        const float *y = places + i * dims;
        double off, reach;

        if (!may_mean_the_same(r, row, i))
            continue;
        off = own + (double)ops->dot(y, y, dims) - 2 * (double)ops->dot(x, y, dims);
        reach = (double)rv_memory_page_reach(rv_memory_page_shared(r->contexts + i * RV_MEMORY_PAGE_CONTEXT,
                                                                   r->contexts + row * RV_MEMORY_PAGE_CONTEXT));
        off /= reach * reach;
        nearest = off < nearest ? off : nearest;
    }
    return nearest > 0 ? nearest : 0;
}

static int by_size(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

ruvllm_status rv_memory_radius_measure(const struct rv_memory_radius_rows *rows, const struct rv_whitening *whitening,
                                       double rate, float *radius, struct ruvllm_error *err)
{
    size_t dims = (size_t)whitening->n_dims, n = rows->n, n_asked = 0, at;
    float *places = rv_realloc_array(NULL, n * dims, sizeof(*places));
    double *nearest = rv_realloc_array(NULL, n, sizeof(*nearest));
    ruvllm_status rc = RUVLLM_OK;

    *radius = 0;
    if (!places || !nearest) {
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu states of %zu numbers", n, dims);
        goto out;
    }
    memcpy(places, rows->states, n * dims * sizeof(*places));
    rv_whitening_root(whitening, places, n);
    for (size_t i = 0; i < n; i++) {
        if (rows->texts[i] >= 0)
            nearest[n_asked++] = nearest_of(rows, places, dims, i);
    }
    qsort(nearest, n_asked, sizeof(*nearest), by_size);
    at = (size_t)(rate * (double)n_asked);
    if (at < n_asked && isfinite(nearest[at]))
        *radius = (float)sqrt(nearest[at]);
out:
    rv_free(places);
    rv_free(nearest);
    return rc;
}
