/*
 * How much each learned number matters for what a model says: the diagonal of the Fisher matrix, the mean over tokens
 * of squared gradients of log p, with labels drawn from the model itself and not from the text (arXiv 2502.11756 tells
 * why). For EWC: with it, `ewc` of a run says how many tokens of these texts one training token is worth.
 */
#ifndef RV_LEARN_FISHER_H
#define RV_LEARN_FISHER_H

#include "learn/backward.h"

struct rv_fisher_text {
    const int32_t *tokens;
    int32_t n;
};

struct rv_fisher_config {
    const struct rv_hparams *hparams;
    const struct rv_manifest *manifest;
    struct rv_team *team;
    int32_t context; // as rv_backward_config has it
    uint64_t max_state_bytes;
    uint64_t seed; // of the draws
    float keep;    // how much of what is in `fisher` already counts: 0 begins anew, 0.9 is EWC++'s running mean
};

/*
 * fisher[i] = keep * fisher[i] + (1 - keep) * F_i, at the trainable's values; its gradients are overwritten. The labels
 * of a text's tokens are independent draws, so the square of its summed gradient is, in the mean, the sum of squares:
 * one pass a text is enough. INVALID without a token to predict.
 */
RV_CHECKED ruvllm_status rv_fisher_measure(const struct rv_fisher_config *config, struct rv_trainable *trainable,
                                           const struct rv_fisher_text *texts, size_t n_texts, float *fisher,
                                           struct ruvllm_error *err);

#endif
