/* The low-rank kernel in registers of 8 floats: AVX2 with FMA and F16C (Haswell, Zen and later). */
#include "kernels/lora_kernel.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>

typedef __m256 lanes;

enum { WIDTH = 8, RANKS = 4, ROWS = 2, OUT_ROWS = 4, SPAN = 2 };

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

static inline lanes lanes_load_halves(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

static inline lanes lanes_fma(lanes a, lanes b, lanes c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline float lanes_total(lanes x)
{
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 pair = _mm_add_ps(half, _mm_movehl_ps(half, half));

    return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}

#include "kernels/lora_lanes.h"

const struct rv_lora_kernel *rv_lora_kernel_avx2(void)
{
    static const struct rv_lora_kernel kernel = {.name = "avx2", .shrink = shrink, .expand = expand};

    /* clang has no name for F16C here; every processor with AVX2 has it. */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kernel : NULL;
}
#else
const struct rv_lora_kernel *rv_lora_kernel_avx2(void)
{
    return NULL;
}
#endif
