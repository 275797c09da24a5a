/* One number at a time: the library's expf and tanhf are the cost, and nothing here is on the engine's own path. */
#include "kernels/activation.h"

#include <math.h>

void rv_activation_silu(const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] / (1.0f + expf(-x[i]));
}

void rv_activation_gelu(const float *x, float *y, size_t n)
{
    const float root = 0.797884561f; // sqrt(2 / pi)

    for (size_t i = 0; i < n; i++)
        y[i] = 0.5f * x[i] * (1.0f + tanhf(root * x[i] * (1.0f + 0.044715f * x[i] * x[i])));
}

void rv_activation_softmax(const float *x, float *y, size_t n)
{
    float max = -INFINITY;
    double total = 0;

    for (size_t i = 0; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (size_t i = 0; i < n; i++) {
        y[i] = expf(x[i] - max);
        total += (double)y[i];
    }
    for (size_t i = 0; i < n; i++)
        y[i] = (float)((double)y[i] / total);
}
