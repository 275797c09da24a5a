/* Sums in AVX2 registers. */
#include "kernels/vec.h"

#ifdef __AVX2__
#define LANE_BYTES 32
#include "kernels/vec_lanes.h"

const struct rv_vec_ops *rv_vec_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &lane_ops : NULL;
}

#else

const struct rv_vec_ops *rv_vec_avx2(void)
{
    return NULL;
}

#endif
