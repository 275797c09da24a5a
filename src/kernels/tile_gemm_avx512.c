/* Tiles of products in registers of 16 floats. */
#include "kernels/tile_gemm.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include "kernels/lanes_avx512.h"

enum { GROUP = 8 };

#include "kernels/tile_gemm_lanes.h"

const struct rv_tile_gemm_ops *rv_tile_gemm_avx512(void)
{
    static const struct rv_tile_gemm_ops ops = {.name = "avx512",
                                                .tile = tile,
                                                .tile_transposed = tile_transposed,
                                                .dots = dots,
                                                .exp_below = exp_below,
                                                .tanh_scaled = tanh_scaled};
    bool can = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");

    return can ? &ops : NULL;
}
#else
const struct rv_tile_gemm_ops *rv_tile_gemm_avx512(void)
{
    return NULL;
}
#endif
