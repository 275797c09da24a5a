/* Registers of 16 floats by name: AVX-512 with its byte and short-vector parts. For files compiled for it. */
#ifndef RV_KERNELS_LANES_AVX512_H
#define RV_KERNELS_LANES_AVX512_H

#include <immintrin.h>

typedef __m512 lanes;

enum { WIDTH = 16 };

static inline lanes lanes_set(float x)
{
    return _mm512_set1_ps(x);
}

static inline lanes lanes_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

static inline void lanes_store(float *p, lanes x)
{
    _mm512_storeu_ps(p, x);
}

static inline lanes lanes_add(lanes a, lanes b)
{
    return _mm512_add_ps(a, b);
}

static inline lanes lanes_sub(lanes a, lanes b)
{
    return _mm512_sub_ps(a, b);
}

static inline lanes lanes_mul(lanes a, lanes b)
{
    return _mm512_mul_ps(a, b);
}

static inline lanes lanes_div(lanes a, lanes b)
{
    return _mm512_div_ps(a, b);
}

static inline lanes lanes_fma(lanes a, lanes b, lanes c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline lanes lanes_max(lanes a, lanes b)
{
    return _mm512_max_ps(a, b);
}

static inline lanes lanes_at_most(lanes x, lanes limit)
{
    return _mm512_min_ps(x, limit); // of NaN and the limit it takes the second
}

static inline lanes lanes_round(lanes x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline lanes lanes_power_of_two(lanes n)
{
    return _mm512_scalef_ps(_mm512_set1_ps(1.0f), n);
}

static inline lanes lanes_zero_unless_at_least(lanes x, lanes y, lanes least)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y, least, _CMP_GE_OQ), x);
}

static inline lanes lanes_with_sign_of(lanes x, lanes y)
{
    const __m512 sign = _mm512_set1_ps(-0.0f);

    return _mm512_or_ps(_mm512_andnot_ps(sign, x), _mm512_and_ps(sign, y));
}

static inline float lanes_largest(lanes x)
{
    return _mm512_reduce_max_ps(x);
}

static inline float lanes_total(lanes x)
{
    return _mm512_reduce_add_ps(x);
}

#endif
