/*
 * The gradient of a token's likelihood by the head's input, from what a step has computed anyway: the likeliest tokens'
 * rows of the head, weighted with their probabilities, less the row of the token itself. Rows are read from the model's
 * file, whatever their type; nothing of the size of the vocabulary is made.
 */
#ifndef RV_LEARN_HEAD_GRADIENT_H
#define RV_LEARN_HEAD_GRADIENT_H

#include "learn/trace.h"
#include "model/manifest.h"

enum { RV_HEAD_GRADIENT_TOP = RV_TRACE_TOP };

struct rv_head_gradient {
    const struct rv_gguf_tensor *head; // n_vocab rows of n_dims
    size_t n_vocab;
    size_t n_dims;
    float cap;   // of logits, cap tanh(x / cap); 0: none
    float *mean; // of all rows
    float *row;  // scratch, as the next
    float *gradient;
};

/* `manifest` outlives it. One thread at a time. */
RV_CHECKED ruvllm_status rv_head_gradient_init(struct rv_head_gradient *out, const struct rv_manifest *manifest,
                                               const struct rv_hparams *hparams, struct ruvllm_error *err);
void rv_head_gradient_release(struct rv_head_gradient *gradient);

/*
 * Adds a row to a trace, as long as it has room: the state, and the gradient of -log p(token) for p the softmax of
 * logits / temperature (0: of the logits). Allocates nothing.
 */
void rv_head_gradient_capture(struct rv_head_gradient *gradient, struct rv_trace *trace, const float *state,
                              const float *logits, float temperature, int32_t token);
/*
 * The same for a token that the model did not choose, at temperature 1. There much of p may lie outside the likeliest
 * tokens, and leaving that out would teach to raise all that is unlikely: so every token of some weight counts, and the
 * rest as if their rows were the mean of all. Costs a pass over the logits and as many rows as p is wide.
 */
void rv_head_gradient_read(struct rv_head_gradient *gradient, struct rv_trace *trace, const float *state,
                           const float *logits, int32_t token);
/* A row of the head, in 32 bits. */
void rv_head_gradient_row(const struct rv_head_gradient *gradient, int32_t token, float *out);

#endif
