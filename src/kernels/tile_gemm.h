/*
 * Products of matrices for training, forward and backward through the same weights, which stay in the type they have in
 * the file: a panel of them is decoded once and then serves all tokens.
 *
 * Activations have a row for each number and a column for each token, so that a weight meets all tokens side by side,
 * whichever way a product goes. Columns come in strips of 32; what is beyond the last token is there and may be used.
 * Sums over the inputs run in an order that does not depend on who computes which rows.
 */
#ifndef RV_KERNELS_TILE_GEMM_H
#define RV_KERNELS_TILE_GEMM_H

#include <stddef.h>
#include <stdint.h>

enum {
    RV_TILE_GEMM_STRIP = 32,
    RV_TILE_GEMM_ROWS = 8,        // of a result that are computed together
    RV_TILE_GEMM_SCRATCH = 32768, // floats
};

/* Decodes n numbers of a row, whole blocks of them. */
typedef void (*rv_tile_gemm_decode_fn)(const void *row, float *out, int64_t n);

struct rv_tile_gemm_matrix {
    const void *data;
    size_t row_bytes; // from one row to the next
    int32_t n_rows;
    int32_t n_cols;
    int32_t block;                 // numbers of a row that are decoded together, at most 256; 1 for floats
    size_t block_bytes;            // and what they take
    rv_tile_gemm_decode_fn decode; // NULL: floats
};

/* What differs from machine to machine. Rows of activations are multiples of 32 numbers. */
struct rv_tile_gemm_ops {
    const char *name;
    /* c[i][32] += sum over k of a[i * a_stride + k] b[k][32]; 1 to 8 rows. */
    void (*tile)(const float *a, size_t a_stride, int32_t n_rows, const float *b, int32_t n_steps, float *c,
                 size_t c_stride);
    /* The same with a[k * a_stride + i]. */
    void (*tile_transposed)(const float *a, size_t a_stride, int32_t n_rows, const float *b, int32_t n_steps, float *c,
                            size_t c_stride);
    /* c[i][j] += scale * sum over t of a[i * stride + t] b[j * stride + t]; n a multiple of 32. */
    void (*dots)(const float *a, int32_t n_a, const float *b, int32_t n_b, size_t stride, int32_t n, float scale,
                 float *c, size_t c_stride);
    /* x = exp(x - max), for x <= max; -INFINITY becomes 0. */
    void (*exp_below)(float *x, const float *max, int32_t n);
    /* y = tanh(x * scale); y may be x. */
    void (*tanh_scaled)(const float *x, float scale, float *y, int32_t n);
};

/* The plain statement of what the others compute. */
const struct rv_tile_gemm_ops *rv_tile_gemm_scalar(void);
/* NULL where the build or the machine does not have the instructions. */
const struct rv_tile_gemm_ops *rv_tile_gemm_avx2(void);
const struct rv_tile_gemm_ops *rv_tile_gemm_avx512(void);
/* The best there is here. */
const struct rv_tile_gemm_ops *rv_tile_gemm_best(void);

/* Lays strips out one after the other: out[strip][n_rows][32]; n_columns is a multiple of 32. */
void rv_tile_gemm_pack(const float *x, size_t stride, int32_t n_rows, int32_t n_columns, float *out);

/* c[row] += W[row] x for rows first..end-1 of W; x is packed, n_cols rows of n_columns. */
void rv_tile_gemm_multiply(const struct rv_tile_gemm_ops *ops, const struct rv_tile_gemm_matrix *w, int32_t first,
                           int32_t end, const float *packed, int32_t n_columns, float *c, size_t c_stride,
                           float *scratch);
/*
 * c[col] += sum over rows of W[row][col] x[row], for columns first..end-1 of W; x is packed, n_rows rows of n_columns.
 * `first` is a multiple of the block.
 */
void rv_tile_gemm_multiply_transposed(const struct rv_tile_gemm_ops *ops, const struct rv_tile_gemm_matrix *w,
                                      int32_t first, int32_t end, const float *packed, int32_t n_columns, float *c,
                                      size_t c_stride, float *scratch);

#endif
