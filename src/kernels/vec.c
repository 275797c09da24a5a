/* The scalar statement of the sums, and the choice among the variants. */
#include "kernels/vec.h"

#include <math.h>

static float dot(const float *x, const float *y, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    return (float)sum;
}

static float dot_bf16(const float *x, const uint16_t *y, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)rv_vec_from_bf16(y[i]);
    return (float)sum;
}

static void add(float *y, const float *x, float c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = (float)((double)y[i] + (double)x[i] * (double)c);
}

static void add_bf16(float *y, const uint16_t *x, float c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = (float)((double)y[i] + (double)rv_vec_from_bf16(x[i]) * (double)c);
}

static size_t first_above(const float *x, size_t from, size_t n, float bound)
{
    while (from < n && !(x[from] > bound))
        from++;
    return from;
}

const struct rv_vec_ops rv_vec_scalar = {
    .dot = dot, .add = add, .dot_bf16 = dot_bf16, .add_bf16 = add_bf16, .first_above = first_above};

const struct rv_vec_ops *rv_vec_best(void)
{
    const struct rv_vec_ops *ops = rv_vec_avx512();

    if (!ops)
        ops = rv_vec_avx2();
    return ops ? ops : &rv_vec_scalar;
}

void rv_vec_scale(float *x, float c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] *= c;
}

double rv_vec_norm(const float *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}
