/*
 * The numbers that are learned: a low-rank pair beside each chosen matrix of a frozen model, W x + scale B' (A x), with
 * room for their gradients. All values are one array and all gradients another, so that who steps them need not know
 * what they are.
 */
#ifndef RV_LEARN_TRAINABLE_H
#define RV_LEARN_TRAINABLE_H

#include "model/manifest.h"

enum { RV_TRAINABLE_MAX_RANK = 256 };

struct rv_trainable_pair {
    int32_t rank; // 0: the matrix stays as it is
    int32_t n_in;
    int32_t n_out;
    float scale;
    float *a; // [rank][n_in]
    float *b; // [rank][n_out]
    float *grad_a;
    float *grad_b;
};

struct rv_trainable {
    int32_t n_layers;
    struct rv_trainable_pair (*layers)[RV_N_PARTS];
    size_t n; // numbers in all: pair by pair in the order of layers and parts, A before B
    float *values;
    float *grads;
};

struct rv_trainable_shape {
    const struct rv_hparams *hparams;
    const struct rv_manifest *manifest;
    uint32_t parts; // bits 1 << enum rv_part; those that the model has not are passed over
    int32_t rank;
    float alpha;   // scale is alpha / rank
    uint64_t seed; // of A; B begins as 0, so that nothing is changed yet
};

/* All seven projections, together or apart as the file has them. */
uint32_t rv_trainable_all_parts(void);
/* How many numbers such pairs have. */
size_t rv_trainable_count(const struct rv_trainable_shape *shape);
/* INVALID for a rank that is not 1 to RV_TRAINABLE_MAX_RANK or when no part is left. */
RV_CHECKED ruvllm_status rv_trainable_init(struct rv_trainable *out, const struct rv_trainable_shape *shape,
                                           struct ruvllm_error *err);
void rv_trainable_release(struct rv_trainable *trainable);
void rv_trainable_clear_grads(struct rv_trainable *trainable);

#endif
