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

/*
 * A few vectors of some thousand numbers fill the nearest cache: so they are gone through in spans, with a group of
 * rows each, and a span is fetched once for the group.
 */
enum { ADD_ROWS = 8, GROUP = 16, SPAN = 512 };

/* Rows are too short for the processor to guess where they go on: behind a tile of rows lies the next. */
static inline void fetch(const uint16_t *address, size_t ahead)
{
    __builtin_prefetch((const void *)((uintptr_t)address + ahead * sizeof(*address)));
}

static inline size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- out = rows x --------------------------------------------------------------------------- */

/* sums[t][k] += row t . vector k, from `i` to `end`. */
static TILE void dot_tile(size_t n_rows, size_t n_x, const uint16_t *rows, const float *x, size_t n, size_t i,
                          size_t end, lanes (*sums)[RV_ROW_SUMS_MAX])
{
    lanes parts[DOT_ROWS][RV_ROW_SUMS_MAX];

    for (size_t t = 0; t < n_rows; t++) {
        for (size_t k = 0; k < n_x; k++)
            parts[t][k] = sums[t][k];
    }
    for (; i < end; i += WIDTH) {
        lanes in[RV_ROW_SUMS_MAX];

        for (size_t k = 0; k < n_x; k++)
            in[k] = lanes_load(x + k * n + i);
        for (size_t t = 0; t < n_rows; t++) {
            lanes row = lanes_widen(rows + t * n + i);

            if (n_rows > 1)
                fetch(rows + t * n + i, n_rows * n);
            for (size_t k = 0; k < n_x; k++)
                parts[t][k] = lanes_fma(row, in[k], parts[t][k]);
        }
    }
    for (size_t t = 0; t < n_rows; t++) {
        for (size_t k = 0; k < n_x; k++)
            sums[t][k] = parts[t][k];
    }
}

static TILE void dot_group(size_t n_at_once, size_t n_x, const uint16_t *rows, size_t n_rows, const float *x, size_t n,
                           float *out)
{
    lanes sums[GROUP][RV_ROW_SUMS_MAX];
    size_t whole = n / WIDTH * WIDTH;

    for (size_t t = 0; t < n_rows; t++) {
        for (size_t k = 0; k < n_x; k++)
            sums[t][k] = lanes_set(0);
    }
    for (size_t i = 0; i < whole; i += SPAN) {
        size_t end = least(i + SPAN, whole), t = 0;

        for (; t + n_at_once <= n_rows; t += n_at_once)
            dot_tile(n_at_once, n_x, rows + t * n, x, n, i, end, sums + t);
        for (; t < n_rows; t++)
            dot_tile(1, n_x, rows + t * n, x, n, i, end, sums + t);
    }
    for (size_t t = 0; t < n_rows; t++) {
        for (size_t k = 0; k < n_x; k++) {
            float sum = lanes_total(sums[t][k]);

            for (size_t j = whole; j < n; j++)
                sum = fmaf(rv_vec_from_bf16(rows[t * n + j]), x[k * n + j], sum);
            out[t * n_x + k] = sum;
        }
    }
}

/* With more vectors there are registers for fewer rows. */
static void dots(const uint16_t *rows, size_t n_rows, const float *x, size_t n_x, size_t n, float *out)
{
    for (size_t t = 0; t < n_rows; t += GROUP) {
        size_t m = least(n_rows - t, GROUP);

        if (n_x == 1)
            dot_group(DOT_ROWS, 1, rows + t * n, m, x, n, out + t);
        else if (n_x == 2)
            dot_group(DOT_ROWS, 2, rows + t * n, m, x, n, out + t * 2);
        else if (n_x == 3)
            dot_group(DOT_ROWS / 2, 3, rows + t * n, m, x, n, out + t * 3);
        else
            dot_group(DOT_ROWS / 2, 4, rows + t * n, m, x, n, out + t * 4);
    }
}

/* ---- y += c rows ---------------------------------------------------------------------------- */

static TILE void add_tile(size_t n_rows, size_t n_y, const uint16_t *rows, const float *c, float *y, size_t n, size_t i,
                          size_t end)
{
    lanes factors[ADD_ROWS][RV_ROW_SUMS_MAX];

    for (size_t t = 0; t < n_rows; t++) {
        for (size_t k = 0; k < n_y; k++)
            factors[t][k] = lanes_set(c[t * n_y + k]);
    }
    for (; i < end; i += WIDTH) {
        lanes sums[RV_ROW_SUMS_MAX];

        for (size_t k = 0; k < n_y; k++)
            sums[k] = lanes_load(y + k * n + i);
        for (size_t t = 0; t < n_rows; t++) {
            lanes row = lanes_widen(rows + t * n + i);

            if (n_rows > 1)
                fetch(rows + t * n + i, n_rows * n);
            for (size_t k = 0; k < n_y; k++)
                sums[k] = lanes_fma(row, factors[t][k], sums[k]);
        }
        for (size_t k = 0; k < n_y; k++)
            lanes_store(y + k * n + i, sums[k]);
    }
}

static TILE void add_group(size_t n_at_once, size_t n_y, const uint16_t *rows, size_t n_rows, const float *c, float *y,
                           size_t n)
{
    size_t whole = n / WIDTH * WIDTH;

    for (size_t i = 0; i < whole; i += SPAN) {
        size_t end = least(i + SPAN, whole), t = 0;

        for (; t + n_at_once <= n_rows; t += n_at_once)
            add_tile(n_at_once, n_y, rows + t * n, c + t * n_y, y, n, i, end);
        for (; t < n_rows; t++)
            add_tile(1, n_y, rows + t * n, c + t * n_y, y, n, i, end);
    }
    for (size_t k = 0; k < n_y; k++) {
        for (size_t j = whole; j < n; j++) {
            for (size_t t = 0; t < n_rows; t++)
                y[k * n + j] = fmaf(rv_vec_from_bf16(rows[t * n + j]), c[t * n_y + k], y[k * n + j]);
        }
    }
}

static void adds(const uint16_t *rows, size_t n_rows, const float *c, float *y, size_t n_y, size_t n)
{
    for (size_t t = 0; t < n_rows; t += GROUP) {
        size_t m = least(n_rows - t, GROUP);

        if (n_y == 1)
            add_group(ADD_ROWS, 1, rows + t * n, m, c + t, y, n);
        else if (n_y == 2)
            add_group(ADD_ROWS, 2, rows + t * n, m, c + t * 2, y, n);
        else if (n_y == 3)
            add_group(ADD_ROWS / 2, 3, rows + t * n, m, c + t * 3, y, n);
        else
            add_group(ADD_ROWS / 2, 4, rows + t * n, m, c + t * 4, y, n);
    }
}

static const struct rv_row_sums_ops lane_ops = {.dots = dots, .adds = adds};

#endif
