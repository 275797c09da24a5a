/*
 * Sums over many rows kept as bfloat16, with a few vectors at once: a row is fetched and widened once for all of them.
 * Each number goes through the same operations in the same order however many rows or vectors come together, so the
 * results of one variant are the same bits every time.
 */
#ifndef RV_KERNELS_ROW_SUMS_H
#define RV_KERNELS_ROW_SUMS_H

#include <stddef.h>
#include <stdint.h>

enum { RV_ROW_SUMS_MAX = 4 }; // vectors at once

struct rv_row_sums_ops {
    /* out[t * n_x + i] = row t . vector i; rows and vectors of n numbers, 1 to RV_ROW_SUMS_MAX vectors. */
    void (*dots)(const uint16_t *rows, size_t n_rows, const float *x, size_t n_x, size_t n, float *out);
    /* vector i += the sum over t of c[t * n_y + i] row t; likewise. */
    void (*adds)(const uint16_t *rows, size_t n_rows, const float *c, float *y, size_t n_y, size_t n);
};

extern const struct rv_row_sums_ops rv_row_sums_scalar; // in double, one after the other: the reference
/* NULL where the processor, or this build, has no such registers. */
const struct rv_row_sums_ops *rv_row_sums_avx2(void);
const struct rv_row_sums_ops *rv_row_sums_avx512(void);
/* What this machine runs best. */
const struct rv_row_sums_ops *rv_row_sums_best(void);

#endif
