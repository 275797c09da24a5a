/*
 * Several head adapters in one basis, so that they can be compared number by number. An adapter's two factors say
 * nothing alone: any rotation between them gives the same change. In a common basis of their right sides, orthonormal
 * for ordinary states, each is one matrix of coefficients, a row of n_dims for each direction.
 */
#ifndef RV_LEARN_HEAD_BASIS_H
#define RV_LEARN_HEAD_BASIS_H

#include "learn/head_adapter.h"

enum { RV_HEAD_BASIS_MAX = 32 };

struct rv_head_basis {
    const struct rv_whitening *whitening;
    int32_t max;
    int32_t n;    // directions
    float *rows;  // n of n_dims: inner products with ordinary states have variance 1 and do not go together
    float *duals; // rows times the covariance: row . x = coefficient of x along the row
};

/* Room for `max` directions, at most RV_HEAD_BASIS_MAX. */
RV_CHECKED ruvllm_status rv_head_basis_init(struct rv_head_basis *out, const struct rv_whitening *whitening,
                                            int32_t max, struct ruvllm_error *err);
void rv_head_basis_release(struct rv_head_basis *basis);
/* Adds what is new in n rows, as long as there is room. */
void rv_head_basis_add(struct rv_head_basis *basis, const float *rows, int32_t n);
/* out, n directions of n_dims, becomes the adapter's coefficients. */
void rv_head_basis_read(const struct rv_head_basis *basis, const struct rv_head_adapter *adapter, float *out);
/* The adapter, of at most its rank, that is nearest to the coefficients on ordinary states. */
void rv_head_basis_write(const struct rv_head_basis *basis, const float *coefficients, struct rv_head_adapter *out);
/* adapter += to - from, brought back to its rank. Leaves it as it was when memory is out. */
RV_CHECKED ruvllm_status rv_head_basis_shift(struct rv_head_adapter *adapter, const struct rv_head_adapter *to,
                                             const struct rv_head_adapter *from, const struct rv_whitening *whitening,
                                             struct ruvllm_error *err);

#endif
