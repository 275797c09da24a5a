/*
 * The body of the vector variants. The file that includes it is one variant: before, it includes the registers it has
 * (`lanes` of WIDTH floats) and defines DOT_ROWS, the rows that times two vectors fill the registers, and lanes_widen,
 * which makes WIDTH floats of as many bfloat16.
 */
#ifndef RV_KERNELS_ROW_SUMS_LANES_H
#define RV_KERNELS_ROW_SUMS_LANES_H

#include "kernels/row_sums.h"
#include "kernels/vec.h"

#include <math.h>

/* Inlined with constants for the shape: the loops over rows and vectors must vanish. See attention_tiles.h. */
#ifndef TILE
#define TILE inline __attribute__((always_inline))
#endif

enum { ADD_ROWS = 8 }; // that a sum is loaded and stored once for

/* Rows are too short for the processor to guess where they go on: behind a block of rows lies the next. */
static inline void fetch(const uint16_t *address, size_t ahead)
{
    __builtin_prefetch((const void *)((uintptr_t)address + ahead * sizeof(*address)));
}

/* ---- out = rows x --------------------------------------------------------------------------- */

static TILE void dot_tile(size_t n_rows, size_t n_x, const uint16_t *rows, const float *x, size_t n, float *out)
{
    lanes sums[DOT_ROWS][RV_ROW_SUMS_MAX];
    size_t i = 0;

    for (size_t t = 0; t < n_rows; t++) {
        for (size_t k = 0; k < n_x; k++)
            sums[t][k] = lanes_set(0);
    }
    for (; i + WIDTH <= n; i += WIDTH) {
        lanes in[RV_ROW_SUMS_MAX];

        for (size_t k = 0; k < n_x; k++)
            in[k] = lanes_load(x + k * n + i);
        for (size_t t = 0; t < n_rows; t++) {
            lanes row = lanes_widen(rows + t * n + i);

            if (n_rows > 1)
                fetch(rows + t * n + i, n_rows * n);
            for (size_t k = 0; k < n_x; k++)
                sums[t][k] = lanes_fma(row, in[k], sums[t][k]);
        }
    }
    for (size_t t = 0; t < n_rows; t++) {
        for (size_t k = 0; k < n_x; k++) {
            float sum = lanes_total(sums[t][k]);

            for (size_t j = i; j < n; j++)
                sum = fmaf(rv_vec_from_bf16(rows[t * n + j]), x[k * n + j], sum);
            out[t * n_x + k] = sum;
        }
    }
}

static TILE void dot_all(size_t n_at_once, size_t n_x, const uint16_t *rows, size_t n_rows, const float *x, size_t n,
                         float *out)
{
    size_t t = 0;

    for (; t + n_at_once <= n_rows; t += n_at_once)
        dot_tile(n_at_once, n_x, rows + t * n, x, n, out + t * n_x);
    for (; t < n_rows; t++)
        dot_tile(1, n_x, rows + t * n, x, n, out + t * n_x);
}

/* With more vectors there are registers for fewer rows. */
static void dots(const uint16_t *rows, size_t n_rows, const float *x, size_t n_x, size_t n, float *out)
{
    if (n_x == 1)
        dot_all(DOT_ROWS, 1, rows, n_rows, x, n, out);
    else if (n_x == 2)
        dot_all(DOT_ROWS, 2, rows, n_rows, x, n, out);
    else if (n_x == 3)
        dot_all(DOT_ROWS / 2, 3, rows, n_rows, x, n, out);
    else
        dot_all(DOT_ROWS / 2, 4, rows, n_rows, x, n, out);
}

/* ---- y += c rows ---------------------------------------------------------------------------- */

static TILE void add_tile(size_t n_rows, size_t n_y, const uint16_t *rows, const float *c, float *y, size_t n)
{
    size_t i = 0;

    for (; i + WIDTH <= n; i += WIDTH) {
        lanes sums[RV_ROW_SUMS_MAX];

        for (size_t k = 0; k < n_y; k++)
            sums[k] = lanes_load(y + k * n + i);
        for (size_t t = 0; t < n_rows; t++) {
            lanes row = lanes_widen(rows + t * n + i);

            if (n_rows > 1)
                fetch(rows + t * n + i, n_rows * n);
            for (size_t k = 0; k < n_y; k++)
                sums[k] = lanes_fma(row, lanes_set(c[t * n_y + k]), sums[k]);
        }
        for (size_t k = 0; k < n_y; k++)
            lanes_store(y + k * n + i, sums[k]);
    }
    for (; i < n; i++) {
        for (size_t k = 0; k < n_y; k++) {
            for (size_t t = 0; t < n_rows; t++)
                y[k * n + i] = fmaf(rv_vec_from_bf16(rows[t * n + i]), c[t * n_y + k], y[k * n + i]);
        }
    }
}

static TILE void add_all(size_t n_y, const uint16_t *rows, size_t n_rows, const float *c, float *y, size_t n)
{
    size_t t = 0;

    for (; t + ADD_ROWS <= n_rows; t += ADD_ROWS)
        add_tile(ADD_ROWS, n_y, rows + t * n, c + t * n_y, y, n);
    for (; t < n_rows; t++)
        add_tile(1, n_y, rows + t * n, c + t * n_y, y, n);
}

static void adds(const uint16_t *rows, size_t n_rows, const float *c, float *y, size_t n_y, size_t n)
{
    if (n_y == 1)
        add_all(1, rows, n_rows, c, y, n);
    else if (n_y == 2)
        add_all(2, rows, n_rows, c, y, n);
    else if (n_y == 3)
        add_all(3, rows, n_rows, c, y, n);
    else
        add_all(4, rows, n_rows, c, y, n);
}

static const struct rv_row_sums_ops lane_ops = {.dots = dots, .adds = adds};

#endif
