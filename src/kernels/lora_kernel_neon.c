/* The low-rank kernel in registers of 4 floats: NEON as every 64-bit ARM has it. */
#include "kernels/lora_kernel.h"

#if defined(__aarch64__) && defined(__ARM_NEON)
#include <arm_neon.h>

typedef float32x4_t lanes;

enum { WIDTH = 4, RANKS = 8, ROWS = 2, OUT_ROWS = 4, SPAN = 4 };

static inline lanes lanes_set(float x)
{
    return vdupq_n_f32(x);
}

static inline lanes lanes_load(const float *p)
{
    return vld1q_f32(p);
}

static inline void lanes_store(float *p, lanes x)
{
    vst1q_f32(p, x);
}

static inline lanes lanes_load_halves(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

static inline lanes lanes_fma(lanes a, lanes b, lanes c)
{
    return vfmaq_f32(c, a, b);
}

static inline float lanes_total(lanes x)
{
    return vaddvq_f32(x);
}

#include "kernels/lora_lanes.h"

const struct rv_lora_kernel *rv_lora_kernel_neon(void)
{
    static const struct rv_lora_kernel kernel = {.name = "neon", .shrink = shrink, .expand = expand};

    return &kernel;
}
#else
const struct rv_lora_kernel *rv_lora_kernel_neon(void)
{
    return NULL;
}
#endif
