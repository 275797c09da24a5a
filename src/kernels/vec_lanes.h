/* The four sums in registers, for the files that are compiled for them. LANE_BYTES is the size of one. Included by
 * vec_*.c only, once each. */
#ifndef RV_KERNELS_VEC_LANES_H
#define RV_KERNELS_VEC_LANES_H

#include "kernels/vec.h"

#include <stdbool.h>

enum { WIDTH = LANE_BYTES / 4, SPAN = 4 };

typedef float lanes __attribute__((vector_size(LANE_BYTES)));
typedef uint16_t halves __attribute__((vector_size(LANE_BYTES / 2)));
typedef uint32_t words __attribute__((vector_size(LANE_BYTES)));

static inline lanes load(const float *p)
{
    lanes x;

    memcpy(&x, p, sizeof(x));
    return x;
}

static inline lanes load_bf16(const uint16_t *p)
{
    halves x;

    memcpy(&x, p, sizeof(x));
    return (lanes)(__builtin_convertvector(x, words) << 16);
}

static inline float sum(const lanes parts[SPAN])
{
    lanes all = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    float total = 0;

    for (int i = 0; i < WIDTH; i++)
        total += all[i];
    return total;
}

static float dot(const float *x, const float *y, size_t n)
{
    lanes parts[SPAN] = {0};
    size_t i = 0;
    float rest = 0;

    for (; i + WIDTH * SPAN <= n; i += WIDTH * SPAN) {
        for (size_t j = 0; j < SPAN; j++)
            parts[j] += load(x + i + j * WIDTH) * load(y + i + j * WIDTH);
    }
    for (; i < n; i++)
        rest += x[i] * y[i];
    return sum(parts) + rest;
}

static float dot_bf16(const float *x, const uint16_t *y, size_t n)
{
    lanes parts[SPAN] = {0};
    size_t i = 0;
    float rest = 0;

    for (; i + WIDTH * SPAN <= n; i += WIDTH * SPAN) {
        for (size_t j = 0; j < SPAN; j++)
            parts[j] += load(x + i + j * WIDTH) * load_bf16(y + i + j * WIDTH);
    }
    for (; i < n; i++)
        rest += x[i] * rv_vec_from_bf16(y[i]);
    return sum(parts) + rest;
}

static void add(float *y, const float *x, float c, size_t n)
{
    size_t i = 0;

    for (; i + WIDTH <= n; i += WIDTH) {
        lanes z = load(y + i) + load(x + i) * c;

        memcpy(y + i, &z, sizeof(z));
    }
    for (; i < n; i++)
        y[i] += x[i] * c;
}

static void add_bf16(float *y, const uint16_t *x, float c, size_t n)
{
    size_t i = 0;

    for (; i + WIDTH <= n; i += WIDTH) {
        lanes z = load(y + i) + load_bf16(x + i) * c;

        memcpy(y + i, &z, sizeof(z));
    }
    for (; i < n; i++)
        y[i] += rv_vec_from_bf16(x[i]) * c;
}

static inline bool has_any(words mask)
{
    uint64_t parts[LANE_BYTES / 8], all = 0;

    memcpy(parts, &mask, sizeof(parts));
    for (size_t i = 0; i < LANE_BYTES / 8; i++)
        all |= parts[i];
    return all != 0;
}

static size_t first_above(const float *x, size_t from, size_t n, float bound)
{
    for (; from + WIDTH * SPAN <= n; from += WIDTH * SPAN) {
        words above = {0};

        for (size_t j = 0; j < SPAN; j++)
            above |= (words)(load(x + from + j * WIDTH) > bound);
        if (has_any(above))
            break;
    }
    while (from < n && !(x[from] > bound))
        from++;
    return from;
}

static const struct rv_vec_ops lane_ops = {
    .dot = dot, .add = add, .dot_bf16 = dot_bf16, .add_bf16 = add_bf16, .first_above = first_above};

#endif
