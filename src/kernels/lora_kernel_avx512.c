/* The low-rank kernel in registers of 16 floats: AVX-512 with its byte and short-vector parts (Skylake-X and later). */
#include "kernels/lora_kernel.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include <immintrin.h>
#include <stdbool.h>

typedef __m512 lanes;

enum { WIDTH = 16, RANKS = 8, ROWS = 3, OUT_ROWS = 6, SPAN = 4 };

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

static inline lanes lanes_load_halves(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

static inline lanes lanes_fma(lanes a, lanes b, lanes c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline float lanes_total(lanes x)
{
    return _mm512_reduce_add_ps(x);
}

#include "kernels/lora_lanes.h"

const struct rv_lora_kernel *rv_lora_kernel_avx512(void)
{
    static const struct rv_lora_kernel kernel = {.name = "avx512", .shrink = shrink, .expand = expand};
    bool can = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");

    return can ? &kernel : NULL;
}
#else
const struct rv_lora_kernel *rv_lora_kernel_avx512(void)
{
    return NULL;
}
#endif
