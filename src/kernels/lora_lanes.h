/*
 * The body of the vector variants of the low-rank kernel. The file that includes it is one variant: before, it defines
 * the type `lanes` (WIDTH floats in a register), the lanes_ functions used here, and the shapes of tiles that fit the
 * machine's registers: RANKS rows of A times ROWS rows of x, and OUT_ROWS rows times SPAN registers of outputs.
 *
 * Shrinking: inputs lie in the lanes, so each register of A, once loaded and converted, serves all rows of the tile.
 * Expanding: outputs lie in the lanes. Each number goes through the same operations in the same order in every tile.
 */
#ifndef RV_KERNELS_LORA_LANES_H
#define RV_KERNELS_LORA_LANES_H

#include "kernels/half.h"

#include <math.h>

/* Inlined with constants for the shape: the loops over rows and registers must vanish. See attention_tiles.h. */
#ifndef TILE
#define TILE inline __attribute__((always_inline))
#endif

/*
 * Where only a row or two have an adapter, its numbers come from memory and are used once. Asking for them this far
 * ahead gave 16 GB/s a core instead of 14: rows are too short for the processor to guess where they go on, which is
 * simple: behind A lies B, and behind B the next A.
 */
enum { LINE = 32, AHEAD = 512 }; // halves

static inline void fetch(const uint16_t *address, size_t ahead)
{
    __builtin_prefetch((const void *)((uintptr_t)address + ahead * sizeof(*address)));
}

/* ---- inner = A x --------------------------------------------------------------------------- */

/* sums[k][s] += row k of A times row s of x, WIDTH numbers from i on. */
static TILE void add_products(int n_ranks, int n_rows, const uint16_t *a, size_t n_in, const float *const *x, size_t i,
                              lanes sums[RANKS][ROWS])
{
    lanes in[ROWS];

    for (int s = 0; s < n_rows; s++)
        in[s] = lanes_load(x[s] + i);
    for (int k = 0; k < n_ranks; k++) {
        lanes factor = lanes_load_halves(a + (size_t)k * n_in + i);

        for (int s = 0; s < n_rows; s++)
            sums[k][s] = lanes_fma(factor, in[s], sums[k][s]);
    }
}

/* n_ranks rows of A from j on, n_rows rows of x from r on. */
static TILE void shrink_tile(int n_ranks, int n_rows, const struct rv_lora_call *call, int32_t j, int32_t r)
{
    const uint16_t *a = call->a + (size_t)j * (size_t)call->n_in;
    const float *const *x = call->x + r;
    size_t n_in = (size_t)call->n_in, i = 0, ahead = r == 0 ? AHEAD : 0;
    lanes sums[RANKS][ROWS];

    for (int k = 0; k < n_ranks; k++)
        for (int s = 0; s < n_rows; s++)
            sums[k][s] = lanes_set(0.0f);
    for (; i + LINE <= n_in; i += LINE) {
        for (int k = 0; k < n_ranks; k++)
            fetch(a + (size_t)k * n_in + i, ahead);
        for (int w = 0; w < LINE; w += WIDTH)
            add_products(n_ranks, n_rows, a, n_in, x, i + (size_t)w, sums);
    }
    for (; i + WIDTH <= n_in; i += WIDTH)
        add_products(n_ranks, n_rows, a, n_in, x, i, sums);
    for (int s = 0; s < n_rows; s++) {
        float *inner = call->inner + (size_t)(r + s) * (size_t)call->rank + j;

        for (int k = 0; k < n_ranks; k++) {
            inner[k] = lanes_total(sums[k][s]);
            for (size_t rest = i; rest < n_in; rest++)
                inner[k] = fmaf(rv_half_to_float(a[(size_t)k * n_in + rest]), x[s][rest], inner[k]);
        }
    }
}

static TILE void shrink_ranks(int n_ranks, const struct rv_lora_call *call, int32_t j)
{
    int32_t r = 0;

    for (; r + ROWS <= call->n_rows; r += ROWS)
        shrink_tile(n_ranks, ROWS, call, j, r);
    for (; r < call->n_rows; r++)
        shrink_tile(n_ranks, 1, call, j, r);
}

static void shrink(const struct rv_lora_call *call)
{
    int32_t j = 0;

    for (; j + RANKS <= call->rank; j += RANKS)
        shrink_ranks(RANKS, call, j);
    for (; j + 2 <= call->rank; j += 2)
        shrink_ranks(2, call, j);
    if (j < call->rank)
        shrink_ranks(1, call, j);
}

/* ---- y += B inner -------------------------------------------------------------------------- */

/* `span` registers of outputs from o on, n_rows rows from r on. */
static TILE void expand_tile(int n_rows, int span, const struct rv_lora_call *call, int32_t o, int32_t r)
{
    const uint16_t *b = call->b + o;
    const float *inner = call->inner + (size_t)r * (size_t)call->rank;
    float *const *y = call->y + r;
    size_t ahead = r == 0 ? AHEAD : 0;
    lanes sums[OUT_ROWS][SPAN];

    for (int s = 0; s < n_rows; s++)
        for (int k = 0; k < span; k++)
            sums[s][k] = lanes_load(y[s] + o + k * WIDTH);
    for (int32_t j = 0; j < call->rank; j++, b += call->n_out) {
        lanes column[SPAN];

        for (int k = 0; k < span; k += LINE / WIDTH)
            fetch(b + k * WIDTH, ahead);
        for (int k = 0; k < span; k++)
            column[k] = lanes_load_halves(b + k * WIDTH);
        for (int s = 0; s < n_rows; s++) {
            lanes factor = lanes_set(inner[(size_t)s * (size_t)call->rank + (size_t)j]);

            for (int k = 0; k < span; k++)
                sums[s][k] = lanes_fma(factor, column[k], sums[s][k]);
        }
    }
    for (int s = 0; s < n_rows; s++)
        for (int k = 0; k < span; k++)
            lanes_store(y[s] + o + k * WIDTH, sums[s][k]);
}

/* One output that fills no register. */
static float expand_one(const struct rv_lora_call *call, int32_t o, int32_t r)
{
    const float *inner = call->inner + (size_t)r * (size_t)call->rank;
    float sum = call->y[r][o];

    for (int32_t j = 0; j < call->rank; j++)
        sum = fmaf(inner[j], rv_half_to_float(call->b[(size_t)j * (size_t)call->n_out + (size_t)o]), sum);
    return sum;
}

static TILE void expand_rows(int n_rows, const struct rv_lora_call *call, int32_t r)
{
    int32_t o = call->first;

    for (; o + SPAN * WIDTH <= call->end; o += SPAN * WIDTH)
        expand_tile(n_rows, SPAN, call, o, r);
    for (; o + WIDTH <= call->end; o += WIDTH)
        expand_tile(n_rows, 1, call, o, r);
    for (; o < call->end; o++)
        for (int s = 0; s < n_rows; s++)
            call->y[r + s][o] = expand_one(call, o, r + s);
}

/* Rows outside, outputs inside: the rows' memory is walked through once, in order. */
static void expand(const struct rv_lora_call *call)
{
    int32_t r = 0;

    for (; r + OUT_ROWS <= call->n_rows; r += OUT_ROWS)
        expand_rows(OUT_ROWS, call, r);
    for (; r + 2 <= call->n_rows; r += 2)
        expand_rows(2, call, r);
    for (; r < call->n_rows; r++)
        expand_rows(1, call, r);
}

#endif
