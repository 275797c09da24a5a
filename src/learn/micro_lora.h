/*
 * What is behind ruvllm_microlora: head adapters for modules of any shape, with what waits to be learned. Steps and
 * folding are head_adapter.c's, judgements are weighed as a tenant's votes are. A module with other outputs than inputs
 * is a square one whose last rows or columns are 0.
 */
#ifndef RV_LEARN_MICRO_LORA_H
#define RV_LEARN_MICRO_LORA_H

#include "base/error.h"
#include "ruvllm_sona.h"

/* As the public functions of the same names; arguments were checked for NULL and structs are the library's own. */
RV_CHECKED ruvllm_status rv_micro_lora_new(struct ruvllm_microlora **out, const struct ruvllm_microlora_config *config,
                                           struct ruvllm_error *err);
void rv_micro_lora_free(struct ruvllm_microlora *lora);
RV_CHECKED ruvllm_status rv_micro_lora_calibrate(struct ruvllm_microlora *lora, ruvllm_target_module module,
                                                 const float *inputs, size_t n, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_micro_lora_adapt(struct ruvllm_microlora *lora, const float *input,
                                             const struct ruvllm_microlora_feedback *feedback,
                                             struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_micro_lora_apply(struct ruvllm_microlora *lora, float learning_rate,
                                             struct ruvllm_error *err);
/* After an update; `fisher` has out_features numbers, finite and not negative. */
RV_CHECKED ruvllm_status rv_micro_lora_pull(struct ruvllm_microlora *lora, ruvllm_target_module module,
                                            const float *fisher, float lambda, struct ruvllm_error *err);
void rv_micro_lora_anchor(struct ruvllm_microlora *lora);
/* Adds to `out`. */
RV_CHECKED ruvllm_status rv_micro_lora_forward(const struct ruvllm_microlora *lora, ruvllm_target_module module,
                                               const float *input, float *out, struct ruvllm_error *err);
void rv_micro_lora_reset(struct ruvllm_microlora *lora);
void rv_micro_lora_stats(const struct ruvllm_microlora *lora, struct ruvllm_microlora_stats *out);
int32_t rv_micro_lora_n_out(const struct ruvllm_microlora *lora);
/* INVALID for a module that is not among the config's. */
RV_CHECKED ruvllm_status rv_micro_lora_check_module(const struct ruvllm_microlora *lora, ruvllm_target_module module,
                                                    struct ruvllm_error *err);

#endif
