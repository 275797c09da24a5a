/*
 * Numbers of 16 bits (IEEE binary16) and 32, exact for every value: rounding to nearest even, subnormals, infinities,
 * NaN. Without branches, so that compilers make vector code of loops over them.
 */
#ifndef RV_KERNELS_HALF_H
#define RV_KERNELS_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t rv_half_float_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline float rv_half_bits_float(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline float rv_half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t size = half & 0x7fff;
    uint32_t beyond = size >= 0x7c00 ? 0x7f800000 : 0; // infinity or NaN keeps its fraction and gets all exponent bits
    float value = rv_half_bits_float(size << 13) * 0x1p112f; // the exponents' biases differ by 112

    return rv_half_bits_float(sign | beyond | rv_half_float_bits(value));
}

static inline uint16_t rv_half_from_float(float x)
{
    uint32_t bits = rv_half_float_bits(x);
    uint32_t size = bits & 0x7fffffff;
    uint32_t odd = size >> 13 & 1;
    uint32_t normal = (size - (112U << 23) + 0xfff + odd) >> 13;
    /* Beside 1/2, the last place of a float is that of a subnormal half: the addition rounds. */
    uint32_t small = rv_half_float_bits(rv_half_bits_float(size) + 0.5f) - rv_half_float_bits(0.5f);
    uint32_t nan = 0x7e00 | (size >> 13 & 0x3ff);
    uint32_t half = size < 0x38800000 ? small : normal;

    half = size >= 0x477ff000 ? 0x7c00 : half; // 65520 and above round to infinity
    half = size > 0x7f800000 ? nan : half;
    return (uint16_t)(bits >> 16 & 0x8000U) | (uint16_t)half;
}

#endif
