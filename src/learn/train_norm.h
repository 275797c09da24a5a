/*
 * Norms over the rows of each column, forward and backward, strip by strip. Nothing is kept between the two: what the
 * backward way needs it computes from the input again.
 */
#ifndef RV_LEARN_TRAIN_NORM_H
#define RV_LEARN_TRAIN_NORM_H

#include "model/arch.h"

#include <stddef.h>

struct rv_train_norm {
    enum rv_arch_norm kind;
    float eps;
    int32_t n;           // rows that are normalised together
    int32_t n_groups;    // such groups of rows, one after the other: 1, or the heads
    const float *weight; // [n], or [n_groups][n] where each group has its own
    const float *bias;   // [n]; NULL: none
    bool weight_by_group;
};

/* y = norm(x) * weight + bias, for 32 columns from `column` on; y may be x. */
void rv_train_norm_forward(const struct rv_train_norm *norm, const float *x, size_t stride, int32_t column, float *y);
/* dx = J' dy for the norm at x, added to what dx holds if `adds`; without that dx may be dy. */
void rv_train_norm_backward(const struct rv_train_norm *norm, const float *x, const float *dy, size_t stride,
                            int32_t column, bool adds, float *dx);

#endif
