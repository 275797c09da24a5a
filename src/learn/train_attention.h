/*
 * Causal attention of one sequence and one KV head with its query heads, forward and backward. Weights are never kept:
 * a strip of 32 queries is scored against the keys it may see, used, and forgotten; the backward way scores it again.
 */
#ifndef RV_LEARN_TRAIN_ATTENTION_H
#define RV_LEARN_TRAIN_ATTENTION_H

#include "kernels/tile_gemm.h"
#include "model/hparams.h"

struct rv_train_attention {
    const struct rv_tile_gemm_ops *ops;
    const struct rv_hparams *hparams;
    size_t stride; // columns of all sequences
    int32_t first; // this sequence's first column, and how many it has: multiples of 32
    int32_t n_columns;
    int32_t window;     // 0: none
    const float *q;     // [n_q][stride], positions turned in
    const float *k, *v; // [n_kv][stride]
    float *scratch;     // rv_train_attention_scratch() floats
    float *panels;      // RV_TILE_GEMM_SCRATCH floats
};

size_t rv_train_attention_scratch(const struct rv_hparams *hparams, int32_t n_columns);

/* out [n_q][stride]: the rows of kv_head's query heads, in the columns of the sequence. */
void rv_train_attention_forward(const struct rv_train_attention *a, int32_t kv_head, float *out);
/* From dout the gradients dq, dk and dv, written where out, k and v have their rows. */
void rv_train_attention_backward(const struct rv_train_attention *a, int32_t kv_head, const float *dout, float *dq,
                                 float *dk, float *dv);

#endif
