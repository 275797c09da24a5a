/* The attention kernel in registers of 8 floats: AVX2 with FMA and F16C (Haswell, Zen and later). */
#include "kernels/attention_kernel.h"
#include "kernels/kv_quant.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>

typedef __m256 lanes;

enum { WIDTH = 8, QUERIES = 4, SPAN = 2 };

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

static inline lanes lanes_load_halves(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

/* Rows are multiples of 8. */
static inline lanes lanes_load_some_halves(const uint8_t *p, int32_t n)
{
    (void)n;
    return lanes_load_halves(p);
}

static inline lanes lanes_load_bytes(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

/* The codes of eight places, one a byte. */
static inline lanes nibble_values(__m128i places)
{
    static const int8_t codes[] = {RV_KV_QUANT_CODES};
    __m128i values = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)codes), places);

    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(values));
}

static inline lanes lanes_load_low_nibbles(const uint8_t *p)
{
    return nibble_values(_mm_and_si128(_mm_loadl_epi64((const __m128i *)p), _mm_set1_epi8(15)));
}

static inline lanes lanes_load_high_nibbles(const uint8_t *p)
{
    __m128i both = _mm_loadl_epi64((const __m128i *)p);

    return nibble_values(_mm_and_si128(_mm_srli_epi16(both, 4), _mm_set1_epi8(15)));
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

#include "kernels/attention_lanes.h"

rv_attention_kernel_fn rv_attention_kernel_avx2(void)
{
    /* clang has no name for F16C here; every processor with AVX2 has it. */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? attend : NULL;
}
#else
rv_attention_kernel_fn rv_attention_kernel_avx2(void)
{
    return NULL;
}
#endif
