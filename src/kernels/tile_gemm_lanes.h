/*
 * The body of the vector variants of the tiles. The file that includes it is one variant: before, it defines the type
 * `lanes`, the lanes_ functions used here and GROUP, the rows of a tile whose sums, two registers each, fit the
 * machine's registers with some to spare.
 */
#ifndef RV_KERNELS_TILE_GEMM_LANES_H
#define RV_KERNELS_TILE_GEMM_LANES_H

#include "kernels/lane_math.h"
#include "kernels/tile_gemm.h"

#include <stdbool.h>

/* Inlined with constants, so that the sums live in registers; see attention_tiles.h. */
#ifndef TILE
#define TILE inline __attribute__((always_inline))
#endif

enum { STRIP = RV_TILE_GEMM_STRIP, PAIR = 2 * WIDTH, DOTS = 4 };

/* Two registers of columns of n rows. */
static TILE void sum_pair(int n, bool transposed, const float *a, size_t a_stride, const float *b, int32_t n_steps,
                          float *c, size_t c_stride)
{
    lanes sums[GROUP][2];

    for (int i = 0; i < n; i++) {
        sums[i][0] = lanes_load(c + (size_t)i * c_stride);
        sums[i][1] = lanes_load(c + (size_t)i * c_stride + WIDTH);
    }
    for (int32_t k = 0; k < n_steps; k++) {
        lanes b0 = lanes_load(b), b1 = lanes_load(b + WIDTH);

        for (int i = 0; i < n; i++) {
            lanes x = lanes_set(transposed ? a[i] : a[(size_t)i * a_stride]);

            sums[i][0] = lanes_fma(x, b0, sums[i][0]);
            sums[i][1] = lanes_fma(x, b1, sums[i][1]);
        }
        a += transposed ? a_stride : 1;
        b += STRIP;
    }
    for (int i = 0; i < n; i++) {
        lanes_store(c + (size_t)i * c_stride, sums[i][0]);
        lanes_store(c + (size_t)i * c_stride + WIDTH, sums[i][1]);
    }
}

static TILE void sum_strip(int n, bool transposed, const float *a, size_t a_stride, const float *b, int32_t n_steps,
                           float *c, size_t c_stride)
{
    for (int t = 0; t < STRIP; t += PAIR)
        sum_pair(n, transposed, a, a_stride, b + t, n_steps, c + t, c_stride);
}

static TILE void sum_rows(bool transposed, const float *a, size_t a_stride, int32_t n_rows, const float *b,
                          int32_t n_steps, float *c, size_t c_stride)
{
    int32_t i = 0;

    for (; i + GROUP <= n_rows; i += GROUP)
        sum_strip(GROUP, transposed, transposed ? a + i : a + (size_t)i * a_stride, a_stride, b, n_steps,
                  c + (size_t)i * c_stride, c_stride);
    for (; i < n_rows; i++)
        sum_strip(1, transposed, transposed ? a + i : a + (size_t)i * a_stride, a_stride, b, n_steps,
                  c + (size_t)i * c_stride, c_stride);
}

static void tile(const float *a, size_t a_stride, int32_t n_rows, const float *b, int32_t n_steps, float *c,
                 size_t c_stride)
{
    sum_rows(false, a, a_stride, n_rows, b, n_steps, c, c_stride);
}

static void tile_transposed(const float *a, size_t a_stride, int32_t n_rows, const float *b, int32_t n_steps, float *c,
                            size_t c_stride)
{
    sum_rows(true, a, a_stride, n_rows, b, n_steps, c, c_stride);
}

static TILE void dot_block(int n_a, int n_b, const float *a, const float *b, size_t stride, int32_t n, float scale,
                           float *c, size_t c_stride)
{
    lanes sums[DOTS][2];

    for (int i = 0; i < n_a; i++)
        for (int j = 0; j < n_b; j++)
            sums[i][j] = lanes_set(0.0f);
    for (int32_t t = 0; t < n; t += WIDTH) {
        lanes y[2];

        for (int j = 0; j < n_b; j++)
            y[j] = lanes_load(b + (size_t)j * stride + t);
        for (int i = 0; i < n_a; i++) {
            lanes x = lanes_load(a + (size_t)i * stride + t);

            for (int j = 0; j < n_b; j++)
                sums[i][j] = lanes_fma(x, y[j], sums[i][j]);
        }
    }
    for (int i = 0; i < n_a; i++)
        for (int j = 0; j < n_b; j++)
            c[(size_t)i * c_stride + (size_t)j] += scale * lanes_total(sums[i][j]);
}

static TILE void dot_rows(int n_b, const float *a, int32_t n_a, const float *b, size_t stride, int32_t n, float scale,
                          float *c, size_t c_stride)
{
    int32_t i = 0;

    for (; i + DOTS <= n_a; i += DOTS)
        dot_block(DOTS, n_b, a + (size_t)i * stride, b, stride, n, scale, c + (size_t)i * c_stride, c_stride);
    for (; i < n_a; i++)
        dot_block(1, n_b, a + (size_t)i * stride, b, stride, n, scale, c + (size_t)i * c_stride, c_stride);
}

static void dots(const float *a, int32_t n_a, const float *b, int32_t n_b, size_t stride, int32_t n, float scale,
                 float *c, size_t c_stride)
{
    int32_t j = 0;

    for (; j + 2 <= n_b; j += 2)
        dot_rows(2, a, n_a, b + (size_t)j * stride, stride, n, scale, c + j, c_stride);
    if (j < n_b)
        dot_rows(1, a, n_a, b + (size_t)j * stride, stride, n, scale, c + j, c_stride);
}

static void exp_below(float *x, const float *max, int32_t n)
{
    for (int32_t i = 0; i < n; i += WIDTH)
        lanes_store(x + i, exp_lanes(lanes_sub(lanes_load(x + i), lanes_load(max + i))));
}

static void tanh_scaled(const float *x, float scale, float *y, int32_t n)
{
    for (int32_t i = 0; i < n; i += WIDTH)
        lanes_store(y + i, tanh_lanes(lanes_mul(lanes_load(x + i), lanes_set(scale))));
}

#endif
