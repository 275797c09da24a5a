/* Normalising rows of n numbers. Sums run in 16 lanes, in the same order on every machine. */
#ifndef RV_KERNELS_NORM_H
#define RV_KERNELS_NORM_H

#include <stddef.h>

/* y = x / sqrt(mean(x^2) + eps) * weight; y may be x. A NULL weight is 1 everywhere. */
void rv_norm_rms(const float *x, const float *weight, float *y, size_t n, float eps);
/* y = (x - mean) / sqrt(variance + eps) * weight + bias; y may be x. NULL: 1 and 0 everywhere. */
void rv_norm_layer(const float *x, const float *weight, const float *bias, float *y, size_t n, float eps);

#endif
