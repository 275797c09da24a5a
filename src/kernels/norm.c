/*
 * A float sum must not be reordered by the compiler, so one running sum would never become vector code; sixteen sums
 * side by side do, and lose less to rounding.
 */
#include "kernels/norm.h"

#include <math.h>

enum { LANES = 16 };

static double total(const float lanes[LANES])
{
    double t = 0;

    for (int j = 0; j < LANES; j++)
        t += (double)lanes[j];
    return t;
}

static double mean_of(const float *x, size_t n)
{
    float lanes[LANES] = {0};
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++)
            lanes[j] += x[i + j];
    for (size_t j = 0; i + j < n; j++)
        lanes[j] += x[i + j];
    return total(lanes) / (double)n;
}

/* Mean of (x - center)^2. */
static double spread_of(const float *x, size_t n, float center)
{
    float lanes[LANES] = {0};
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++)
            lanes[j] += (x[i + j] - center) * (x[i + j] - center);
    for (size_t j = 0; i + j < n; j++)
        lanes[j] += (x[i + j] - center) * (x[i + j] - center);
    return total(lanes) / (double)n;
}

void rv_norm_rms(const float *x, const float *weight, float *y, size_t n, float eps)
{
    float factor = (float)(1.0 / sqrt(spread_of(x, n, 0.0f) + (double)eps));

    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * factor * (weight ? weight[i] : 1.0f);
}

void rv_norm_layer(const float *x, const float *weight, const float *bias, float *y, size_t n, float eps)
{
    float mean = (float)mean_of(x, n);
    float factor = (float)(1.0 / sqrt(spread_of(x, n, mean) + (double)eps));

    for (size_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) * factor * (weight ? weight[i] : 1.0f) + (bias ? bias[i] : 0.0f);
}
