/* Sums over rows in AVX-512 registers. */
#include "kernels/row_sums.h"

#ifdef __AVX512F__
#include "kernels/lanes_avx512.h"

#include <stdbool.h>

enum { DOT_ROWS = 8 };

static inline lanes lanes_widen(const uint16_t *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}

#include "kernels/row_sums_lanes.h"

const struct rv_row_sums_ops *rv_row_sums_avx512(void)
{
    bool can = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");

    return can ? &lane_ops : NULL;
}

#else

const struct rv_row_sums_ops *rv_row_sums_avx512(void)
{
    return NULL;
}

#endif
