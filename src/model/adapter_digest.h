/*
 * What tells adapters apart, and how large their changes are. Of the numbers that are computed with, so two adapters
 * with the same digest give the same answers, whatever file they came from.
 */
#ifndef RV_MODEL_ADAPTER_DIGEST_H
#define RV_MODEL_ADAPTER_DIGEST_H

#include "base/sha256.h"
#include "model/adapter.h"

struct rv_adapter_digest {
    char hash[RV_SHA256_HEX_LEN + 1]; // of everything
    uint64_t layers;                  // of what is below the head: all that keys and values depend on; 0: nothing is
    int32_t n_pairs;                  // matrices of layers
    bool changes_head;
    double norm; // Frobenius norm of all changes together
};

RV_CHECKED ruvllm_status rv_adapter_digest(struct rv_adapter_digest *out, const struct rv_adapter *adapter,
                                           struct ruvllm_error *err);
/*
 * *out is the Frobenius norm of the difference between the changes of two adapters of one model. Exact to about 1e-7 of
 * the larger one's norm.
 */
RV_CHECKED ruvllm_status rv_adapter_digest_distance(double *out, const struct rv_adapter *a, const struct rv_adapter *b,
                                                    struct ruvllm_error *err);

#endif
