/*
 * Sums over long rows, plain and against rows kept as bfloat16. Variants differ by the registers they use; results
 * of one variant are the same bits every time.
 */
#ifndef RV_KERNELS_VEC_H
#define RV_KERNELS_VEC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct rv_vec_ops {
    float (*dot)(const float *x, const float *y, size_t n);
    void (*add)(float *y, const float *x, float c, size_t n); // y += c x
    float (*dot_bf16)(const float *x, const uint16_t *y, size_t n);
    void (*add_bf16)(float *y, const uint16_t *x, float c, size_t n);
    /* The first place from `from` on that is above `bound`; n when there is none. What is no number is not above. */
    size_t (*first_above)(const float *x, size_t from, size_t n, float bound);
};

extern const struct rv_vec_ops rv_vec_scalar; // in double, one after the other: the reference
/* NULL where the processor, or this build, has no such registers. */
const struct rv_vec_ops *rv_vec_avx2(void);
const struct rv_vec_ops *rv_vec_avx512(void);
/* What this machine runs best. */
const struct rv_vec_ops *rv_vec_best(void);

void rv_vec_scale(float *x, float c, size_t n);
double rv_vec_norm(const float *x, size_t n);

/* Rounds to nearest, ties to even; NaN stays NaN. */
static inline uint16_t rv_vec_to_bf16(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 64);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float rv_vec_from_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

#endif
