/* The attention kernel in registers of 8 floats: AVX2 with FMA and F16C (Haswell, Zen and later). */
#include "kernels/attention_kernel.h"
#include "kernels/kv_quant.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "kernels/lanes_avx2.h"

enum { QUERIES = 4, SPAN = 2 };

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
