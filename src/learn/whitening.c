/* Subspace iteration on the states themselves; no matrix of n_dims x n_dims is ever made. */
#include "learn/whitening.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "kernels/row_sums.h"
#include "kernels/vec.h"

#include <math.h>
#include <string.h>

enum { ITERATIONS = 12 };

static const double RIDGE = 0.02;

/* Makes the rows orthonormal, in order; one that lies in the span of those before becomes 0. */
static void orthonormalise(float *rows, size_t n, size_t dims)
{
    const struct rv_vec_ops *ops = rv_vec_best();

    for (size_t i = 0; i < n; i++) {
        float *row = rows + i * dims;
        double before = rv_vec_norm(row, dims), after;

        for (int pass = 0; pass < 2; pass++) { // once more for what rounding left
            for (size_t j = 0; j < i; j++)
                ops->add(row, rows + j * dims, -ops->dot(row, rows + j * dims, dims), dims);
        }
        after = rv_vec_norm(row, dims);
        rv_vec_scale(row, after > 1e-6 * before && after > 0 ? (float)(1 / after) : 0.0f, dims);
    }
}

/* out = rows (H^T H) / n */
static void multiply(const float *states, size_t n, size_t dims, const float *rows, float *out, size_t n_rows)
{
    const struct rv_vec_ops *ops = rv_vec_best();

    memset(out, 0, n_rows * dims * sizeof(*out));
    for (size_t t = 0; t < n; t++) {
        const float *h = states + t * dims;

        for (size_t i = 0; i < n_rows; i++)
            ops->add(out + i * dims, h, ops->dot(rows + i * dims, h, dims) / (float)n, dims);
    }
}

static void swap_rows(float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float number = x[i];

        x[i] = y[i];
        y[i] = number;
    }
}

/* Variance along each direction, then sorted by it, the largest first. */
static void measure(struct rv_whitening *w, float *scratch, const float *states, size_t n)
{
    const struct rv_vec_ops *ops = rv_vec_best();
    size_t dims = (size_t)w->n_dims, n_rows = (size_t)w->n_directions;

    multiply(states, n, dims, w->directions, scratch, n_rows);
    for (size_t i = 0; i < n_rows; i++)
        w->variances[i] = ops->dot(w->directions + i * dims, scratch + i * dims, dims);
    for (size_t i = 1; i < n_rows; i++) {
        for (size_t j = i; j > 0 && w->variances[j] > w->variances[j - 1]; j--) {
            swap_rows(w->variances + j, w->variances + j - 1, 1);
            swap_rows(w->directions + j * dims, w->directions + (j - 1) * dims, dims);
        }
    }
}

static void iterate(struct rv_whitening *w, float *scratch, const float *states, size_t n)
{
    size_t dims = (size_t)w->n_dims, n_rows = (size_t)w->n_directions;
    struct rv_rng rng;

    rv_rng_init(&rng, 1);
    for (size_t i = 0; i < n_rows * dims; i++)
        w->directions[i] = (float)rv_rng_normal(&rng);
    orthonormalise(w->directions, n_rows, dims);
    for (int i = 0; i < ITERATIONS; i++) {
        multiply(states, n, dims, w->directions, scratch, n_rows);
        memcpy(w->directions, scratch, n_rows * dims * sizeof(*scratch));
        orthonormalise(w->directions, n_rows, dims);
    }
    measure(w, scratch, states, n);
}

ruvllm_status rv_whitening_init(struct rv_whitening *out, const float *states, size_t n, int32_t n_dims,
                                struct ruvllm_error *err)
{
    double total = 0, largest = 0;
    float *scratch;
    int32_t k;

    *out = (struct rv_whitening){.n_dims = n_dims};
    for (size_t i = 0; i < n * (size_t)n_dims; i++)
        total += (double)states[i] * (double)states[i];
    if (n == 0 || !isfinite(total) || total == 0)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA,
                            "states to learn from must be finite and not all 0");
    total /= (double)n;
    k = n_dims < RV_WHITENING_MAX_DIRECTIONS ? n_dims : RV_WHITENING_MAX_DIRECTIONS;
    k = (size_t)k < n ? k : (int32_t)n;
    out->n_directions = k;
    out->directions = rv_calloc((size_t)k * (size_t)n_dims, sizeof(*out->directions));
    out->variances = rv_calloc((size_t)k, sizeof(*out->variances));
    scratch = rv_calloc((size_t)k * (size_t)n_dims, sizeof(*scratch));
    if (!out->directions || !out->variances || !scratch) {
        rv_free(scratch);
        rv_whitening_release(out);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %d directions of %d numbers", (int)k, (int)n_dims);
    }
    iterate(out, scratch, states, n);
    rv_free(scratch);
    for (int32_t i = 0; i < k; i++)
        largest += (double)out->variances[i];
    out->rest = k < n_dims && total > largest ? (float)((total - largest) / (n_dims - k)) : 0.0f;
    out->ridge = (float)(RIDGE * total / n_dims);
    return rv_whitening_round(out, err);
}

ruvllm_status rv_whitening_round(struct rv_whitening *whitening, struct ruvllm_error *err)
{
    size_t dims = (size_t)whitening->n_dims, n = (size_t)whitening->n_directions * dims;

    whitening->halves = rv_realloc_array(NULL, n, sizeof(*whitening->halves));
    whitening->squares = rv_realloc_array(NULL, (size_t)whitening->n_directions, sizeof(*whitening->squares));
    if (!whitening->halves || !whitening->squares) {
        rv_whitening_release(whitening);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu numbers", n);
    }
    for (size_t i = 0; i < n; i++)
        whitening->halves[i] = rv_vec_to_bf16(whitening->directions[i]);
    for (size_t k = 0; k < (size_t)whitening->n_directions; k++) {
        double square = 0;

        for (size_t i = k * dims; i < (k + 1) * dims; i++)
            square += (double)rv_vec_from_bf16(whitening->halves[i]) * (double)rv_vec_from_bf16(whitening->halves[i]);
        whitening->squares[k] = square > 0 ? (float)square : 1; // a direction of 0 is none
    }
    return RUVLLM_OK;
}

void rv_whitening_release(struct rv_whitening *whitening)
{
    rv_free(whitening->halves);
    rv_free(whitening->squares);
    rv_free(whitening->directions);
    rv_free(whitening->variances);
    *whitening = (struct rv_whitening){0};
}

/* What is divided by, along direction i, or along all others; the mean variance is known by the ridge's share of it. */
static float size_of(const struct rv_whitening *w, int32_t i)
{
    return w->ridge / (float)RIDGE / (w->variances[i] + w->ridge);
}

/* Where there are no others, as the last: what is rounded of the directions then counts least. */
static float size_of_rest(const struct rv_whitening *w)
{
    float rest = w->n_directions == w->n_dims ? w->variances[w->n_directions - 1] : w->rest;

    return w->ridge / (float)RIDGE / (rest + w->ridge);
}

double rv_whitening_mean_square(const struct rv_whitening *whitening)
{
    return (double)whitening->ridge / RIDGE * whitening->n_dims;
}

void rv_whitening_parts(const struct rv_whitening *whitening, const float *rows, size_t n, size_t stride, float *out)
{
    const struct rv_row_sums_ops *sums = rv_row_sums_best();
    size_t dims = (size_t)whitening->n_dims, n_directions = (size_t)whitening->n_directions;
    float parts[RV_WHITENING_MAX_DIRECTIONS * RV_ROW_SUMS_MAX];

    for (size_t at = 0; at < n; at += RV_ROW_SUMS_MAX) {
        size_t m = n - at < RV_ROW_SUMS_MAX ? n - at : RV_ROW_SUMS_MAX;

        sums->dots(whitening->halves, n_directions, rows + at * dims, m, dims, parts);
        for (size_t k = 0; k < n_directions; k++) {
            for (size_t i = 0; i < m; i++)
                out[k * stride + at + i] = parts[k * m + i];
        }
    }
}

/*
 * Up to RV_ROW_SUMS_MAX rows, each multiplied along every direction by its size, or by the root of that. Along the
 * largest directions next to nothing shall be left: so they count with the lengths they have after rounding.
 */
static void resize_some(const struct rv_whitening *w, const float *rows, size_t n, bool is_root, float *out)
{
    const struct rv_row_sums_ops *sums = rv_row_sums_best();
    size_t dims = (size_t)w->n_dims, n_directions = (size_t)w->n_directions;
    float parts[RV_WHITENING_MAX_DIRECTIONS * RV_ROW_SUMS_MAX];
    float rest = is_root ? sqrtf(size_of_rest(w)) : size_of_rest(w);

    sums->dots(w->halves, n_directions, rows, n, dims, parts);
    for (size_t k = 0; k < n_directions; k++) {
        float size = size_of(w, (int32_t)k), more = ((is_root ? sqrtf(size) : size) - rest) / w->squares[k];

        for (size_t i = 0; i < n; i++)
            parts[k * n + i] *= more;
    }
    for (size_t i = 0; i < n * dims; i++)
        out[i] = rows[i] * rest;
    sums->adds(w->halves, n_directions, parts, out, n, dims);
}

static void resize(const struct rv_whitening *w, const float *rows, size_t n, bool is_root, float *out)
{
    size_t dims = (size_t)w->n_dims;

    for (size_t i = 0; i < n; i += RV_ROW_SUMS_MAX)
        resize_some(w, rows + i * dims, n - i < RV_ROW_SUMS_MAX ? n - i : RV_ROW_SUMS_MAX, is_root, out + i * dims);
}

void rv_whitening_apply(const struct rv_whitening *whitening, const float *rows, size_t n, float *out)
{
    resize(whitening, rows, n, false, out);
}

void rv_whitening_root(const struct rv_whitening *whitening, float *rows, size_t n)
{
    resize(whitening, rows, n, true, rows);
}

void rv_whitening_metric(const struct rv_whitening *whitening, const float *row, float *out)
{
    const struct rv_vec_ops *ops = rv_vec_best();
    const struct rv_whitening *w = whitening;
    size_t dims = (size_t)w->n_dims;

    memcpy(out, row, dims * sizeof(*out));
    rv_vec_scale(out, w->rest + w->ridge, dims);
    for (int32_t i = 0; i < w->n_directions; i++) {
        const float *direction = w->directions + (size_t)i * dims;

        ops->add(out, direction, (w->variances[i] - w->rest) * ops->dot(direction, row, dims), dims);
    }
}
