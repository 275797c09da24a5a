/*
 * With r = 1 / sqrt(mean (x - m)^2 + eps), z = (x - m) r and g = dy * weight:
 * dx = r (g - z mean(g z)), and less r mean(g) where m is the mean; m is 0 for RMS norms.
 */
#include "learn/train_norm.h"

#include "kernels/tile_gemm.h"

#include <math.h>

enum { STRIP = RV_TILE_GEMM_STRIP };

/* Mean and 1 / deviation of each column of a group. */
struct moments {
    float mean[STRIP];
    float scale[STRIP];
};

static void measure(const struct rv_train_norm *norm, const float *x, size_t stride, struct moments *out)
{
    double sums[STRIP] = {0};

    for (int32_t i = 0; i < norm->n && norm->kind == RV_ARCH_NORM_LAYER; i++)
        for (int t = 0; t < STRIP; t++)
            sums[t] += (double)x[(size_t)i * stride + (size_t)t];
    for (int t = 0; t < STRIP; t++) {
        out->mean[t] = (float)(sums[t] / norm->n);
        sums[t] = 0;
    }
    for (int32_t i = 0; i < norm->n; i++)
        for (int t = 0; t < STRIP; t++) {
            float d = x[(size_t)i * stride + (size_t)t] - out->mean[t];

            sums[t] += (double)(d * d);
        }
    for (int t = 0; t < STRIP; t++)
        out->scale[t] = (float)(1.0 / sqrt(sums[t] / norm->n + (double)norm->eps));
}

static const float *weight_of(const struct rv_train_norm *norm, int32_t group)
{
    return norm->weight + (norm->weight_by_group ? (size_t)group * (size_t)norm->n : 0);
}

void rv_train_norm_forward(const struct rv_train_norm *norm, const float *x, size_t stride, int32_t column, float *y)
{
    for (int32_t group = 0; group < norm->n_groups; group++) {
        size_t at = (size_t)group * (size_t)norm->n * stride + (size_t)column;
        const float *weight = weight_of(norm, group);
        struct moments m;

        measure(norm, x + at, stride, &m);
        for (int32_t i = 0; i < norm->n; i++) {
            const float *in = x + at + (size_t)i * stride;
            float *out = y + at + (size_t)i * stride;
            float w = weight[i], b = norm->bias ? norm->bias[i] : 0.0f;

            for (int t = 0; t < STRIP; t++)
                out[t] = (in[t] - m.mean[t]) * m.scale[t] * w + b;
        }
    }
}

/* Means over the rows of g, where it counts, and of g z. */
static void backward_means(const struct rv_train_norm *norm, const float *weight, const float *x, const float *dy,
                           size_t stride, const struct moments *m, float mean_g[STRIP], float mean_gz[STRIP])
{
    double g_sums[STRIP] = {0}, gz_sums[STRIP] = {0};

    for (int32_t i = 0; i < norm->n; i++)
        for (int t = 0; t < STRIP; t++) {
            float g = dy[(size_t)i * stride + (size_t)t] * weight[i];
            float z = (x[(size_t)i * stride + (size_t)t] - m->mean[t]) * m->scale[t];

            g_sums[t] += (double)g;
            gz_sums[t] += (double)(g * z);
        }
    for (int t = 0; t < STRIP; t++) {
        mean_g[t] = norm->kind == RV_ARCH_NORM_LAYER ? (float)(g_sums[t] / norm->n) : 0.0f;
        mean_gz[t] = (float)(gz_sums[t] / norm->n);
    }
}

void rv_train_norm_backward(const struct rv_train_norm *norm, const float *x, const float *dy, size_t stride,
                            int32_t column, bool adds, float *dx)
{
    float mean_g[STRIP], mean_gz[STRIP];
    struct moments m;

    for (int32_t group = 0; group < norm->n_groups; group++) {
        size_t at = (size_t)group * (size_t)norm->n * stride + (size_t)column;
        const float *weight = weight_of(norm, group);

        measure(norm, x + at, stride, &m);
        backward_means(norm, weight, x + at, dy + at, stride, &m, mean_g, mean_gz);
        for (int32_t i = 0; i < norm->n; i++) {
            size_t row = at + (size_t)i * stride;

            for (int t = 0; t < STRIP; t++) {
                float z = (x[row + (size_t)t] - m.mean[t]) * m.scale[t];
                float d = m.scale[t] * (dy[row + (size_t)t] * weight[i] - mean_g[t] - z * mean_gz[t]);

                dx[row + (size_t)t] = adds ? dx[row + (size_t)t] + d : d;
            }
        }
    }
}
