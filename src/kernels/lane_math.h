/*
 * exp and tanh in lanes, for files that define the type `lanes` and the lanes_ functions used here before they include
 * it (attention_kernel_avx512.c shows them all).
 */
#ifndef RV_KERNELS_LANE_MATH_H
#define RV_KERNELS_LANE_MATH_H

/*
 * exp(x) = 2^n (1 + rest) with x = n ln 2 + r and |r| <= ln 2 / 2; rest = r + r^2 p(r), p of degree 4 interpolated at
 * Chebyshev's points (error 1e-8). ln 2 is split in two so that n ln 2 is subtracted without error.
 */
static inline lanes exp_parts(lanes x, lanes *rest)
{
    lanes n = lanes_round(lanes_mul(x, lanes_set(1.44269504f)));
    lanes r = lanes_fma(n, lanes_set(-1.42860677e-6f), lanes_fma(n, lanes_set(-0.693145752f), x));
    lanes p = lanes_set(0.00139262504f);

    p = lanes_fma(p, r, lanes_set(0.00836323295f));
    p = lanes_fma(p, r, lanes_set(0.0416665524f));
    p = lanes_fma(p, r, lanes_set(0.166665763f));
    p = lanes_fma(p, r, lanes_set(0.5f));
    *rest = lanes_fma(lanes_mul(r, r), p, r);
    return lanes_power_of_two(n);
}

/* For x <= 0; 0 below EXP_LEAST, where floats would become subnormal. */
#define EXP_LEAST (-87.0f)

static inline lanes exp_lanes(lanes x)
{
    lanes rest;
    lanes power = exp_parts(lanes_max(x, lanes_set(EXP_LEAST)), &rest);

    return lanes_zero_unless_at_least(lanes_fma(power, rest, power), x, lanes_set(EXP_LEAST));
}

/* With e = exp(-2 |x|) - 1, computed so that it is exact near 0: tanh |x| = -e / (2 + e). */
static inline lanes tanh_lanes(lanes x)
{
    lanes size = lanes_max(x, lanes_sub(lanes_set(0.0f), x));
    lanes rest, e;
    lanes power = exp_parts(lanes_max(lanes_mul(size, lanes_set(-2.0f)), lanes_set(EXP_LEAST)), &rest);

    e = lanes_fma(power, rest, lanes_sub(power, lanes_set(1.0f)));
    e = lanes_div(e, lanes_add(e, lanes_set(2.0f)));
    return lanes_with_sign_of(e, x);
}

#endif
