/* Functions of single numbers, and softmax over rows of them. The result may be the input. */
#ifndef RV_KERNELS_ACTIVATION_H
#define RV_KERNELS_ACTIVATION_H

#include <stddef.h>

/* x / (1 + exp(-x)) */
void rv_activation_silu(const float *x, float *y, size_t n);
/* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): Hendrycks' approximation (arXiv 1606.08415), which models mean. */
void rv_activation_gelu(const float *x, float *y, size_t n);
/* exp(x - max) / sum of it, over n numbers; -INFINITY becomes 0. A row of nothing else has no softmax: NaN. */
void rv_activation_softmax(const float *x, float *y, size_t n);

#endif
