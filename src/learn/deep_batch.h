/*
 * The loss of some samples together, and its gradients. It is the mean over training weights, plus the mean over what
 * is judged as a whole (pairs, and votes by KTO), plus kl_weight times the mean over anchor tokens; so that none of
 * them depends on how many of the others there are.
 */
#ifndef RV_LEARN_DEEP_BATCH_H
#define RV_LEARN_DEEP_BATCH_H

#include "learn/deep.h"

/* What is known of a sample by the frozen model. */
struct rv_deep_known {
    float *numbers; // an anchor's states, or log-probabilities of a vote's tokens; NULL: not known yet
    bool has_sums;
    double sums[2]; // log p of an answer that is judged as a whole, and of the one rejected for it
};

struct rv_deep_batch {
    const struct rv_deep_config *config;
    const struct rv_deep_sample *samples;
    size_t n_samples;
    struct rv_backward *backward;
    struct rv_deep_known *known; // one a sample
    int32_t max_columns;         // of one call
    float *weights;              // max_columns: of the sequences of a call, scaled
    float *kl_weights;
};

struct rv_deep_batch_sums {
    double nll;        // mean over the training weights
    double preference; // mean over what is judged, times its weight
    double kl;         // mean over anchor tokens, times kl_weight
};

/* Of `batch` config, samples and n_samples are read; the rest is filled in. */
RV_CHECKED ruvllm_status rv_deep_batch_init(struct rv_deep_batch *batch, struct ruvllm_error *err);
void rv_deep_batch_release(struct rv_deep_batch *batch);

/* Samples `list[0..n)`; gradients, if wanted, are added to those of `trainable` (NULL: the frozen model). */
RV_CHECKED ruvllm_status rv_deep_batch_run(struct rv_deep_batch *batch, const struct rv_trainable *trainable,
                                           const size_t *list, size_t n, bool has_gradients,
                                           struct rv_deep_batch_sums *sums, struct ruvllm_error *err);

#endif
