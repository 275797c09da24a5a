/* Tiles of products in registers of 8 floats. */
#include "kernels/tile_gemm.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "kernels/lanes_avx2.h"

enum { GROUP = 4 };

#include "kernels/tile_gemm_lanes.h"

const struct rv_tile_gemm_ops *rv_tile_gemm_avx2(void)
{
    static const struct rv_tile_gemm_ops ops = {.name = "avx2",
                                                .tile = tile,
                                                .tile_transposed = tile_transposed,
                                                .dots = dots,
                                                .exp_below = exp_below,
                                                .tanh_scaled = tanh_scaled};
    bool can = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");

    return can ? &ops : NULL;
}
#else
const struct rv_tile_gemm_ops *rv_tile_gemm_avx2(void)
{
    return NULL;
}
#endif
