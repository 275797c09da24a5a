/*
 * Walks over panels of weights, and the scalar statement of the tiles.
 *
 * A panel is at most RV_TILE_GEMM_SCRATCH numbers, so it stays in the second-level cache while every strip of tokens
 * passes; floats are used where they lie.
 */
#include "kernels/tile_gemm.h"

#include "base/error.h"

#include <math.h>
#include <string.h>

enum {
    STRIP = RV_TILE_GEMM_STRIP,
    ROWS = RV_TILE_GEMM_ROWS,
    PANEL_ROWS = 64,
    PANEL_STEPS = 512,
    TRANSPOSED_COLS = 256,
    TRANSPOSED_STEPS = 128,
};

/* ---- scalar ---------------------------------------------------------------------------------- */

static void tile_scalar(const float *a, size_t a_stride, int32_t n_rows, const float *b, int32_t n_steps, float *c,
                        size_t c_stride)
{
    for (int32_t i = 0; i < n_rows; i++)
        for (int32_t t = 0; t < STRIP; t++) {
            double sum = 0;

            for (int32_t k = 0; k < n_steps; k++)
                sum += (double)a[(size_t)i * a_stride + (size_t)k] * (double)b[k * STRIP + t];
            c[(size_t)i * c_stride + (size_t)t] += (float)sum;
        }
}

static void tile_transposed_scalar(const float *a, size_t a_stride, int32_t n_rows, const float *b, int32_t n_steps,
                                   float *c, size_t c_stride)
{
    for (int32_t i = 0; i < n_rows; i++)
        for (int32_t t = 0; t < STRIP; t++) {
            double sum = 0;

            for (int32_t k = 0; k < n_steps; k++)
                sum += (double)a[(size_t)k * a_stride + (size_t)i] * (double)b[k * STRIP + t];
            c[(size_t)i * c_stride + (size_t)t] += (float)sum;
        }
}

static void dots_scalar(const float *a, int32_t n_a, const float *b, int32_t n_b, size_t stride, int32_t n, float scale,
                        float *c, size_t c_stride)
{
    for (int32_t i = 0; i < n_a; i++)
        for (int32_t j = 0; j < n_b; j++) {
            const float *x = a + (size_t)i * stride, *y = b + (size_t)j * stride;
            double sum = 0;

            for (int32_t t = 0; t < n; t++)
                sum += (double)x[t] * (double)y[t];
            c[(size_t)i * c_stride + (size_t)j] += scale * (float)sum;
        }
}

static void exp_below_scalar(float *x, const float *max, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        x[i] = expf(x[i] - max[i]);
}

static void tanh_scaled_scalar(const float *x, float scale, float *y, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        y[i] = tanhf(x[i] * scale);
}

const struct rv_tile_gemm_ops *rv_tile_gemm_scalar(void)
{
    static const struct rv_tile_gemm_ops ops = {.name = "scalar",
                                                .tile = tile_scalar,
                                                .tile_transposed = tile_transposed_scalar,
                                                .dots = dots_scalar,
                                                .exp_below = exp_below_scalar,
                                                .tanh_scaled = tanh_scaled_scalar};

    return &ops;
}

const struct rv_tile_gemm_ops *rv_tile_gemm_best(void)
{
    const struct rv_tile_gemm_ops *ops = rv_tile_gemm_avx512();

    if (!ops)
        ops = rv_tile_gemm_avx2();
    return ops ? ops : rv_tile_gemm_scalar();
}

/* ---- panels ---------------------------------------------------------------------------------- */

void rv_tile_gemm_pack(const float *x, size_t stride, int32_t n_rows, int32_t n_columns, float *out)
{
    for (int32_t t = 0; t < n_columns; t += STRIP)
        for (int32_t k = 0; k < n_rows; k++, out += STRIP)
            memcpy(out, x + (size_t)k * stride + (size_t)t, STRIP * sizeof(*out));
}

/* Numbers of some rows and columns, and how far it is from one row of them to the next. */
struct panel {
    const float *data;
    size_t stride;
};

static struct panel decode(const struct rv_tile_gemm_matrix *w, int32_t row, int32_t n_rows, int32_t col,
                           int32_t n_cols, float *scratch)
{
    const char *at = (const char *)w->data + (size_t)row * w->row_bytes + (size_t)(col / w->block) * w->block_bytes;

    if (!w->decode)
        return (struct panel){(const float *)(const void *)at, w->row_bytes / sizeof(float)};
    RV_ASSERT(n_rows * n_cols <= RV_TILE_GEMM_SCRATCH && col % w->block == 0);
    for (int32_t i = 0; i < n_rows; i++)
        w->decode(at + (size_t)i * w->row_bytes, scratch + (size_t)i * (size_t)n_cols, n_cols);
    return (struct panel){scratch, (size_t)n_cols};
}

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

void rv_tile_gemm_multiply(const struct rv_tile_gemm_ops *ops, const struct rv_tile_gemm_matrix *w, int32_t first,
                           int32_t end, const float *packed, int32_t n_columns, float *c, size_t c_stride,
                           float *scratch)
{
    for (int32_t k = 0; k < w->n_cols; k += PANEL_STEPS) {
        int32_t n_steps = least(PANEL_STEPS, w->n_cols - k);

        for (int32_t row = first; row < end; row += PANEL_ROWS) {
            int32_t n_rows = least(PANEL_ROWS, end - row);
            struct panel p = decode(w, row, n_rows, k, n_steps, scratch);

            for (int32_t t = 0; t < n_columns; t += STRIP) {
                const float *b = packed + (size_t)t * (size_t)w->n_cols + (size_t)k * STRIP;

                for (int32_t i = 0; i < n_rows; i += ROWS)
                    ops->tile(p.data + (size_t)i * p.stride, p.stride, least(ROWS, n_rows - i), b, n_steps,
                              c + (size_t)(row + i) * c_stride + (size_t)t, c_stride);
            }
        }
    }
}

void rv_tile_gemm_multiply_transposed(const struct rv_tile_gemm_ops *ops, const struct rv_tile_gemm_matrix *w,
                                      int32_t first, int32_t end, const float *packed, int32_t n_columns, float *c,
                                      size_t c_stride, float *scratch)
{
    for (int32_t col = first; col < end; col += TRANSPOSED_COLS) {
        int32_t n_cols = least(TRANSPOSED_COLS, end - col);

        for (int32_t k = 0; k < w->n_rows; k += TRANSPOSED_STEPS) {
            int32_t n_steps = least(TRANSPOSED_STEPS, w->n_rows - k);
            struct panel p = decode(w, k, n_steps, col, n_cols, scratch);

            for (int32_t t = 0; t < n_columns; t += STRIP) {
                const float *b = packed + (size_t)t * (size_t)w->n_rows + (size_t)k * STRIP;

                for (int32_t i = 0; i < n_cols; i += ROWS)
                    ops->tile_transposed(p.data + i, p.stride, least(ROWS, n_cols - i), b, n_steps,
                                         c + (size_t)(col + i) * c_stride + (size_t)t, c_stride);
            }
        }
    }
}
