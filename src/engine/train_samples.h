/* Examples as callers have them, made into token sequences with weights. */
#ifndef RV_ENGINE_TRAIN_SAMPLES_H
#define RV_ENGINE_TRAIN_SAMPLES_H

#include "engine/model.h"
#include "learn/deep.h"
#include "ruvllm_train.h"

struct rv_train_samples {
    struct rv_deep_sample *items; // tokens and weights of each are its own
    size_t n_items, cap;
    int64_t n_cut;
    int64_t n_tokens; // with a weight
};

/* Failures name the sample, from 1. On failure nothing is left to release. */
RV_CHECKED ruvllm_status rv_train_samples_init(struct rv_train_samples *out, const struct ruvllm_model *model,
                                               const struct ruvllm_train_sample *samples, size_t n, int32_t max_tokens,
                                               struct ruvllm_error *err);
void rv_train_samples_release(struct rv_train_samples *samples);

#endif
