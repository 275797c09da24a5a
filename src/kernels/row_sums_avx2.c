/* Sums over rows in AVX2 registers. */
#include "kernels/row_sums.h"

#if defined(__AVX2__) && defined(__FMA__)
#include "kernels/lanes_avx2.h"

enum { DOT_ROWS = 4 };

static inline lanes lanes_widen(const uint16_t *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}

#include "kernels/row_sums_lanes.h"

const struct rv_row_sums_ops *rv_row_sums_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &lane_ops : NULL;
}

#else

const struct rv_row_sums_ops *rv_row_sums_avx2(void)
{
    return NULL;
}

#endif
