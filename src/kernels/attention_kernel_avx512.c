/* The attention kernel in registers of 16 floats: AVX-512 with its byte and short-vector parts (Skylake-X and later).
 */
#include "kernels/attention_kernel.h"
#include "kernels/kv_quant.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include "kernels/lanes_avx512.h"

enum { QUERIES = 8, SPAN = 2 };

static inline lanes lanes_load_halves(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

static inline lanes lanes_load_some_halves(const uint8_t *p, int32_t n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16((__mmask16)((1U << n) - 1), p));
}

static inline lanes lanes_load_bytes(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

/* A look-up of 16 floats by the low four bits of each lane: no masking, no converting. */
static inline lanes nibble_values(__m512i nibbles)
{
    static const float codes[] = {RV_KV_QUANT_CODES};

    return _mm512_permutexvar_ps(nibbles, _mm512_loadu_ps(codes));
}

static inline lanes lanes_load_low_nibbles(const uint8_t *p)
{
    return nibble_values(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

static inline lanes lanes_load_high_nibbles(const uint8_t *p)
{
    return nibble_values(_mm512_srli_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)), 4));
}

#include "kernels/attention_lanes.h"

rv_attention_kernel_fn rv_attention_kernel_avx512(void)
{
    bool can = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");

    return can ? attend : NULL;
}
#else
rv_attention_kernel_fn rv_attention_kernel_avx512(void)
{
    return NULL;
}
#endif
