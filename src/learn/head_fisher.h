/*
 * How much an adapter's numbers matter to what was learned with them: a running average of the squared gradients of
 * -log p of drawn tokens (EWC++, arXiv 1801.10112), one for each coefficient of the adapter in an orthonormal basis of
 * its right side (head_basis.h). It moves along when the adapter's basis turns.
 */
#ifndef RV_LEARN_HEAD_FISHER_H
#define RV_LEARN_HEAD_FISHER_H

#include "learn/head_basis.h"
#include "learn/head_fit.h"

struct rv_head_fisher {
    struct rv_head_basis basis; // whose directions it speaks of
    struct rv_head_basis other; // scratch, as the last
    float *values;              // basis.n rows of n_dims
    uint64_t n_seen;            // batches
    float *scratch;
};

RV_CHECKED ruvllm_status rv_head_fisher_init(struct rv_head_fisher *out, const struct rv_whitening *whitening,
                                             struct ruvllm_error *err);
void rv_head_fisher_release(struct rv_head_fisher *fisher);
/* Knows nothing again. */
void rv_head_fisher_clear(struct rv_head_fisher *fisher);
/* One batch more: of up to n of the rows that `fit` has loaded. A share of 0.1, or more while there are few. */
void rv_head_fisher_add(struct rv_head_fisher *fisher, struct rv_head_fit *fit, const struct rv_head_adapter *adapter,
                        size_t n);
/* In other directions: out, of n_dims for each. What it knows nothing of is 0. */
void rv_head_fisher_read(const struct rv_head_fisher *fisher, const struct rv_head_basis *basis, float *out);

#endif
