/*
 * A quantised matrix times a vector of floats, in the byte layouts of ggml's Q8_0 and Q4_0: each run of 32 numbers of a
 * row is a scale in half precision (two bytes, little end first) and 32 signed bytes, or 16 bytes with number j in the
 * low half of byte j and number j + 16 in the high half, both 8 too large.
 */
#ifndef RV_KERNELS_GEMV_H
#define RV_KERNELS_GEMV_H

#include <stddef.h>

enum { RV_GEMV_RUN = 32, RV_GEMV_Q8_BYTES = 34, RV_GEMV_Q4_BYTES = 18 };

/* y[r] = row r times x; n_cols is a multiple of 32. `weights` may lie at any address. */
void rv_gemv_q8(const void *weights, size_t n_rows, size_t n_cols, const float *x, float *y);
void rv_gemv_q4(const void *weights, size_t n_rows, size_t n_cols, const float *x, float *y);

#endif
