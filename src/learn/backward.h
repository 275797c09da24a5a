/*
 * Gradients of low-rank pairs beside the matrices of a frozen model: forward with the inputs of layers kept, the loss
 * at the head, and backward layer by layer. Weights are read where they lie in the file, in whatever type they have;
 * activations are floats throughout, so that the gradient is that of the function computed.
 *
 * Single owner: one thread at a time, which is one of the team.
 */
#ifndef RV_LEARN_BACKWARD_H
#define RV_LEARN_BACKWARD_H

#include "learn/preference.h"
#include "learn/team.h"
#include "learn/trainable.h"

struct rv_backward;

struct rv_backward_config {
    const struct rv_hparams *hparams;
    const struct rv_manifest *manifest; // both outlive the handle, with the file they came from
    struct rv_team *team;               // likewise
    int32_t max_columns;                // tokens of one call, each sequence rounded up to a multiple of 32
    int32_t context;                    // the engine's, which decides between long and short rope factors; 0: short
    uint64_t max_state_bytes;           // what may be kept of layers beyond their inputs; others are computed again
};

/*
 * One sequence and what is wanted of it. weights[i] is that of -log p(tokens[i] | those before), for i from 1 on; so is
 * kl_weights of the divergence from the reference at that place.
 */
struct rv_backward_sequence {
    const int32_t *tokens;
    int32_t n;
    const float *weights;
    const float *kl_weights; // NULL: none
    const float *old_logp;   // NULL: none; else each weight is multiplied by its clipped ratio (head_loss.h)
    const float *reference;  // with kl_weights: [n][n_embd] states of rv_backward_states()
    float *states;           // rv_backward_states() alone: room for [n][n_embd]
    float *nll;              // NULL, or n numbers: -log p of every token from 1 on is computed, whatever its weight
    float *kl;               // NULL, or n numbers: the divergence where it has a weight
    /*
     * NULL: the loss is the sum of weights * nll. Else it is that of the sequence as a whole, the sum being its -log p;
     * a chosen one is followed by the one rejected for it. KTO's point is the mean divergence a token over the call's
     * kl_weights, times the sequence's weights: what the model moves where it is not asked to.
     */
    const struct rv_preference *preference;
    bool has_draws; // labels are drawn from the model instead, by `seed`: gradients for a Fisher matrix
    uint64_t seed;
};

struct rv_backward_result {
    double loss;       // sum of weight * nll + kl_weight * kl, and of preferences
    double nll;        // sum of weight * nll
    double weight;     // sum of weights
    double kl;         // sum of kl_weight * kl
    double preference; // sum of their weights * losses
    double kl_weight;
};

/* UNSUPPORTED for weights of a type that cannot be decoded. */
RV_CHECKED ruvllm_status rv_backward_new(struct rv_backward **out, const struct rv_backward_config *config,
                                         struct ruvllm_error *err);
void rv_backward_free(struct rv_backward *backward);
uint64_t rv_backward_n_bytes(const struct rv_backward *backward);

/*
 * The loss of some sequences, and with has_gradients its gradients, added to those of `trainable` (NULL: the frozen
 * model, without gradients). TOO_LARGE when they do not fit max_columns together, INVALID for tokens outside the
 * vocabulary.
 */
RV_CHECKED ruvllm_status rv_backward_run(struct rv_backward *backward, const struct rv_trainable *trainable,
                                         const struct rv_backward_sequence *sequences, int32_t n_sequences,
                                         bool has_gradients, struct rv_backward_result *result,
                                         struct ruvllm_error *err);

/* The head's inputs for some sequences, into `states` of each, by the frozen model or with what was learned. */
RV_CHECKED ruvllm_status rv_backward_states(struct rv_backward *backward, const struct rv_trainable *trainable,
                                            const struct rv_backward_sequence *sequences, int32_t n_sequences,
                                            struct ruvllm_error *err);

#endif
