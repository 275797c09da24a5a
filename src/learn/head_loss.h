/*
 * The head of a model and its loss in one pass over the vocabulary: weighted cross-entropy of tokens, and the
 * divergence KL(reference || model) from the distribution that the same head gives for other states. Logits exist for a
 * few hundred words at a time and never for all.
 */
#ifndef RV_LEARN_HEAD_LOSS_H
#define RV_LEARN_HEAD_LOSS_H

#include "learn/product.h"

struct rv_head_loss;

/* What is wanted of one column. */
struct rv_head_loss_target {
    int32_t column;
    int32_t label;          // the token that follows
    float weight;           // of its cross-entropy; may be below 0
    float kl_weight;        // 0: no divergence is computed
    float old_logp;         // with `has_old`: the weight is multiplied by the ratio to this probability,
    bool has_old;           // between 0.8 and 1.2, which is taken as a constant
    bool is_drawn;          // the label is drawn from the model's own distribution instead, by `seed`
    uint64_t seed;          // the same label for the same seed and state
    const float *reference; // with a kl_weight: n_embd numbers, the head's input of the reference
};

struct rv_head_loss_value {
    double nll; // -log p(label)
    double kl;
    int32_t label; // the target's, or what was drawn
};

RV_CHECKED ruvllm_status rv_head_loss_new(struct rv_head_loss **out, struct rv_product *product,
                                          const struct rv_hparams *hparams, const struct rv_manifest *manifest,
                                          int32_t max_columns, struct ruvllm_error *err);
void rv_head_loss_free(struct rv_head_loss *loss);
uint64_t rv_head_loss_n_bytes(const struct rv_head_loss *loss);

/*
 * hidden is [n_embd][n_columns], after the final norm. values gets one entry a target; those with a kl_weight had
 * better come first, as the reference is computed for all up to the last of them. With `has_grad` the gradient can be
 * asked for until the next run.
 */
void rv_head_loss_run(struct rv_head_loss *loss, const float *hidden, int32_t n_columns,
                      const struct rv_head_loss_target *targets, int32_t n_targets, bool has_grad,
                      struct rv_head_loss_value *values);
/*
 * After a run: grad becomes the gradient [n_embd][n_columns] of sum(weight nll + kl_weight kl) with respect to hidden,
 * 0 in columns without a target. Weights, and they alone, may be others than in the run: a loss of all values together
 * is known by its slopes only now.
 */
void rv_head_loss_gradient(struct rv_head_loss *loss, const struct rv_head_loss_target *targets, int32_t n_targets,
                           const struct rv_head_loss_value *values, int32_t n_columns, float *grad);

#endif
