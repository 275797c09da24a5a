/*
 * 2^-depth as a polynomial on [-1/2, 1/2] and an exponent written into the float's bits: branch-free, so the
 * compiler turns the loops into vector code of whatever width the target has, and every width gives the same bits.
 */
#include "sample/weight.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES 8
#define BLOCK 512
#define INFINITY_BITS 0x7f800000

/* Integers in the order of the floats; +INFINITY and NaN become the least. */
static inline int32_t finite_key(float logit)
{
    int32_t key, too_large;

    memcpy(&key, &logit, sizeof(key));
    key ^= (key >> 31) & INT32_MAX;
    too_large = -(int32_t)(key >= INFINITY_BITS); // masks, because a conditional here keeps gcc from vector code
    return (key & ~too_large) | (INT32_MIN & too_large);
}

float rv_weight_max(const float *logits, size_t n)
{
    int32_t best = INT32_MIN; // an integer maximum, because compilers make vector code of that one
    float max;

    for (size_t i = 0; i < n; i++) {
        int32_t key = finite_key(logits[i]);

        best = key > best ? key : best;
    }
    if (best <= (INFINITY_BITS ^ -1))
        return -INFINITY;
    best ^= best < 0 ? INT32_MAX : 0;
    memcpy(&max, &best, sizeof(max));
    return max;
}

float rv_weight_scale(float temperature)
{
    double scale = 1.4426950408889634 / (double)temperature;

    return scale < 1e30 ? (float)scale : 1e30f;
}

/*
 * Below a non-negative float's bits lie those of every smaller one; negative ones (a logit of +INFINITY), NaN and
 * infinity all lie above. So one unsigned minimum does all the sorting out.
 */
static inline float depth_of(float logit, float max, float scale)
{
    float below = max - logit;
    float depth = below * scale;
    float limit = RV_WEIGHT_MAX_DEPTH;
    uint32_t bits, limit_bits;

    memcpy(&bits, &depth, sizeof(bits));
    memcpy(&limit_bits, &limit, sizeof(limit_bits));
    bits = bits < limit_bits ? bits : limit_bits;
    memcpy(&depth, &bits, sizeof(depth));
    return depth;
}

/*
 * Chebyshev interpolation of 2^-f on [-1/2, 1/2], relative error 2.6e-9 before rounding. The zero at the limit comes
 * from an integer mask: a conditional result would keep gcc from making the loops vector code.
 */
static inline float weight_of(float depth)
{
    float shifted = depth + 0.5f;
    int32_t whole = (int32_t)shifted;
    float f = depth - (float)whole;
    uint32_t mask = 0u - (uint32_t)(whole < (int32_t)RV_WEIGHT_MAX_DEPTH);
    uint32_t bits = ((uint32_t)(127 - whole) << 23) & mask;
    float p = 0.00015461444698922696f;
    float power;

    p = p * f;
    p = p - 0.0013400428177681087f;
    p = p * f;
    p = p + 0.009618056678527508f;
    p = p * f;
    p = p - 0.05550327226670095f;
    p = p * f;
    p = p + 0.24022650922288688f;
    p = p * f;
    p = p - 0.6931472067028328f;
    p = p * f;
    p = p + 1.0f;
    memcpy(&power, &bits, sizeof(power));
    return p * power;
}

float rv_weight_depth(float logit, float max, float scale)
{
    return depth_of(logit, max, scale);
}

float rv_weight_at(float logit, float max, float scale)
{
    return weight_of(depth_of(logit, max, scale));
}

/* Adds n weights to the lanes, weight i to lane i modulo LANES. */
static void add_lanes(double sums[LANES], const float *weights, size_t n)
{
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (size_t j = 0; j < LANES; j++)
            sums[j] += (double)weights[i + j];
    }
    for (size_t j = 0; i + j < n; j++)
        sums[j] += (double)weights[i + j];
}

static double total(const double sums[LANES])
{
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

double rv_weight_fill(float *weights, const float *logits, size_t n, float max, float scale)
{
    double sums[LANES] = {0};

    /* Block by block, so that the second loop reads what the first left in the nearest cache. */
    for (size_t start = 0; start < n; start += BLOCK) {
        size_t len = n - start < BLOCK ? n - start : BLOCK;

        for (size_t i = 0; i < len; i++)
            weights[start + i] = weight_of(depth_of(logits[start + i], max, scale));
        add_lanes(sums, weights + start, len);
    }
    return total(sums);
}

double rv_weight_sum(const float *logits, size_t n, float max, float scale)
{
    double sums[LANES] = {0};
    float weights[BLOCK];

    for (size_t start = 0; start < n; start += BLOCK) {
        size_t len = n - start < BLOCK ? n - start : BLOCK;

        for (size_t i = 0; i < len; i++)
            weights[i] = weight_of(depth_of(logits[start + i], max, scale));
        add_lanes(sums, weights, len);
    }
    return total(sums);
}
