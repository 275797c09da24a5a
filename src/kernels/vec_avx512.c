/* Sums in AVX-512 registers. */
#include "kernels/vec.h"

#ifdef __AVX512F__
#include <stdbool.h>

#define LANE_BYTES 64
#include "kernels/vec_lanes.h"

const struct rv_vec_ops *rv_vec_avx512(void)
{
    bool can = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");

    return can ? &lane_ops : NULL;
}

#else

const struct rv_vec_ops *rv_vec_avx512(void)
{
    return NULL;
}

#endif
