/* The attention kernel in registers of 4 floats: NEON as every 64-bit ARM has it. */
#include "kernels/attention_kernel.h"
#include "kernels/kv_quant.h"

#if defined(__aarch64__) && defined(__ARM_NEON)
#include <arm_neon.h>
#include <string.h>

typedef float32x4_t lanes;

enum { WIDTH = 4, QUERIES = 4, SPAN = 4 };

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

static inline lanes lanes_load_halves(const uint8_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

/* Rows are multiples of 8. */
static inline lanes lanes_load_some_halves(const uint8_t *p, int32_t n)
{
    (void)n;
    return lanes_load_halves(p);
}

/* Four bytes in the low half. */
static inline uint8x8_t load_four(const uint8_t *p)
{
    uint32_t bits;

    memcpy(&bits, p, sizeof(bits));
    return vreinterpret_u8_u32(vdup_n_u32(bits));
}

static inline lanes widen(int8x8_t x)
{
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(x))));
}

static inline lanes lanes_load_bytes(const uint8_t *p)
{
    return widen(vreinterpret_s8_u8(load_four(p)));
}

static inline lanes nibble_values(uint8x8_t places)
{
    static const int8_t codes[] = {RV_KV_QUANT_CODES};

    return widen(vqtbl1_s8(vld1q_s8(codes), places));
}

static inline lanes lanes_load_low_nibbles(const uint8_t *p)
{
    return nibble_values(vand_u8(load_four(p), vdup_n_u8(15)));
}

static inline lanes lanes_load_high_nibbles(const uint8_t *p)
{
    return nibble_values(vshr_n_u8(load_four(p), 4));
}

static inline lanes lanes_add(lanes a, lanes b)
{
    return vaddq_f32(a, b);
}

static inline lanes lanes_sub(lanes a, lanes b)
{
    return vsubq_f32(a, b);
}

static inline lanes lanes_mul(lanes a, lanes b)
{
    return vmulq_f32(a, b);
}

static inline lanes lanes_div(lanes a, lanes b)
{
    return vdivq_f32(a, b);
}

static inline lanes lanes_fma(lanes a, lanes b, lanes c)
{
    return vfmaq_f32(c, a, b);
}

static inline lanes lanes_max(lanes a, lanes b)
{
    return vmaxq_f32(a, b);
}

static inline lanes lanes_at_most(lanes x, lanes limit)
{
    return vminnmq_f32(x, limit); // of NaN and the limit it takes the limit
}

static inline lanes lanes_round(lanes x)
{
    return vrndnq_f32(x);
}

static inline lanes lanes_power_of_two(lanes n)
{
    int32x4_t exponent = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));

    return vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23));
}

static inline lanes lanes_zero_unless_at_least(lanes x, lanes y, lanes least)
{
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), vcgeq_f32(y, least)));
}

static inline lanes lanes_with_sign_of(lanes x, lanes y)
{
    return vbslq_f32(vdupq_n_u32(0x80000000), y, x);
}

static inline float lanes_largest(lanes x)
{
    return vmaxvq_f32(x);
}

static inline float lanes_total(lanes x)
{
    return vaddvq_f32(x);
}

#include "kernels/attention_lanes.h"

rv_attention_kernel_fn rv_attention_kernel_neon(void)
{
    return attend;
}
#else
rv_attention_kernel_fn rv_attention_kernel_neon(void)
{
    return NULL;
}
#endif
