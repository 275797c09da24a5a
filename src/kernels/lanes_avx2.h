/* Registers of 8 floats by name: AVX2 with FMA and F16C. For files compiled for it. */
#ifndef RV_KERNELS_LANES_AVX2_H
#define RV_KERNELS_LANES_AVX2_H

#include <immintrin.h>

typedef __m256 lanes;

enum { WIDTH = 8 };

static inline lanes lanes_set(float x)
{
    return _mm256_set1_ps(x);
}

static inline lanes lanes_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

static inline void lanes_store(float *p, lanes x)
{
    _mm256_storeu_ps(p, x);
}

static inline lanes lanes_add(lanes a, lanes b)
{
    return _mm256_add_ps(a, b);
}

static inline lanes lanes_sub(lanes a, lanes b)
{
    return _mm256_sub_ps(a, b);
}

static inline lanes lanes_mul(lanes a, lanes b)
{
    return _mm256_mul_ps(a, b);
}

static inline lanes lanes_div(lanes a, lanes b)
{
    return _mm256_div_ps(a, b);
}

static inline lanes lanes_fma(lanes a, lanes b, lanes c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline lanes lanes_max(lanes a, lanes b)
{
    return _mm256_max_ps(a, b);
}

static inline lanes lanes_at_most(lanes x, lanes limit)
{
    return _mm256_min_ps(x, limit); // of NaN and the limit it takes the second
}

static inline lanes lanes_round(lanes x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline lanes lanes_power_of_two(lanes n)
{
    __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));

    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}

static inline lanes lanes_zero_unless_at_least(lanes x, lanes y, lanes least)
{
    return _mm256_and_ps(x, _mm256_cmp_ps(y, least, _CMP_GE_OQ));
}

static inline lanes lanes_with_sign_of(lanes x, lanes y)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);

    return _mm256_or_ps(_mm256_andnot_ps(sign, x), _mm256_and_ps(sign, y));
}

static inline float lanes_largest(lanes x)
{
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 pair = _mm_max_ps(half, _mm_movehl_ps(half, half));

    return _mm_cvtss_f32(_mm_max_ss(pair, _mm_movehdup_ps(pair)));
}

static inline float lanes_total(lanes x)
{
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 pair = _mm_add_ps(half, _mm_movehl_ps(half, half));

    return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}

#endif
