/*
 * Gradients by ggml's automatic differentiation: the model's graph in F32, its weights decoded, the pairs as
 * parameters. For families that ggml can differentiate: RMS norms, SiLU, no caps.
 */
#ifndef RV_TESTS_GOLDEN_AUTOGRAD_MODEL_H
#define RV_TESTS_GOLDEN_AUTOGRAD_MODEL_H

#include "golden/double_model.h"

/*
 * The mean of -log p over the tokens from 1 on; its gradients are written to `grads`, laid out as those of `trainable`.
 */
double autograd_model_run(const struct double_model *weights, const struct rv_hparams *hparams,
                          const struct rv_manifest *manifest, const struct rv_trainable *trainable,
                          const int32_t *tokens, int32_t n, float *grads);

struct autograd_effort {
    int32_t n_threads;
    size_t max_bytes; // for graph, activations and gradients
};

/* The same; *seconds, unless NULL, is how long forward and backward took, without building the graph. */
double autograd_model_run_with(const struct double_model *weights, const struct rv_hparams *hparams,
                               const struct rv_manifest *manifest, const struct rv_trainable *trainable,
                               const int32_t *tokens, int32_t n, const struct autograd_effort *effort, float *grads,
                               double *seconds);

#endif
