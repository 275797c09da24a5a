/*
 * Several adapters of a base made into one, as changes of the matrices: sums of scale B A, never of A and B apart.
 *
 * Sums, averages and arcs are sums with weights, and those are made of the factors: [B1 B2] [A1; A2] is exact, and a
 * smaller rank comes from its singular values without forming the matrix. TIES and DARE look at single elements: one
 * matrix at a time is formed, merged and cut to the rank.
 */
#ifndef RV_MODEL_ADAPTER_MERGE_H
#define RV_MODEL_ADAPTER_MERGE_H

#include "model/adapter_file.h"

enum {
    RV_ADAPTER_MERGE_MAX_FILES = 64,
    RV_ADAPTER_MERGE_MAX_RANKS = 1024, // of one matrix's inputs together
};

/*
 * *out is sealed and holds 32-bit numbers. *error is the Frobenius norm of what the final rank lost, over that of the
 * whole merge. INVALID for parameters that make no sense, TOO_LARGE for ranks that come to more than the limit.
 */
RV_CHECKED ruvllm_status rv_adapter_merge(struct rv_adapter_file **out, const struct rv_adapter_file *const *files,
                                          size_t n_files, const struct rv_adapter_file_base *base,
                                          const struct ruvllm_merge_params *params, double *error,
                                          struct ruvllm_error *err);

#endif
