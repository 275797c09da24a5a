/*
 * One layer of a frozen model with what is learned beside it, forward and backward, for every family of the traits
 * table. A layer's input is what the backward way starts from; what else it needs is in a state, which the forward way
 * fills and which may be filled again from the input when memory is short.
 */
#ifndef RV_LEARN_TRAIN_LAYER_H
#define RV_LEARN_TRAIN_LAYER_H

#include "learn/product.h"
#include "learn/train_rope.h"

/* Columns of one sequence: multiples of 32, so that strips belong to one sequence. */
struct rv_train_span {
    int32_t first;
    int32_t n_columns;
};

/* What the layers of a batch share. */
struct rv_train_layer_context {
    const struct rv_hparams *hparams;
    const struct rv_manifest *manifest;
    const struct rv_trainable *trainable; // NULL: the frozen model alone
    struct rv_product *product;
    struct rv_train_rope rope;
    const float *rope_table[2]; // layers without a window, and with one
    const struct rv_train_span *spans;
    int32_t n_spans;
    int32_t n_columns;        // of all sequences
    float *normed;            // [n_embd]; like all of these for n_columns
    float *wide;              // [n_ff]
    float *grad_wide;         // [n_ff]
    float *grad_pair;         // [max(2 n_ff, n_q + 2 n_kv)]
    float *grad_narrow[2];    // [max(n_embd, n_q)]
    float *attention_scratch; // for each thread
    size_t attention_scratch_each;
};

/* What the backward way needs besides the input; sizes in rows of n_columns. */
struct rv_train_layer_state {
    float *qkv;      // [n_q + 2 n_kv], as attention reads them
    float *qk_raw;   // [n_q + n_kv] before their norms; NULL where there are none
    float *attended; // [n_q]
    float *attn_out; // [n_embd] before its norm; NULL where there is none
    float *middle;   // [n_embd]: after attention
    float *gate_up;  // [2 n_ff]
    float *ffn_out;  // [n_embd] before its norm; NULL where there is none
};

/* Rows of a state; with `out` non-NULL its pieces are cut from `memory`. */
size_t rv_train_layer_state_rows(const struct rv_hparams *hparams, const struct rv_manifest *manifest, float *memory,
                                 int32_t n_columns, struct rv_train_layer_state *out);

/* out [n_embd] is the layer's output for x; the state is filled. */
void rv_train_layer_forward(const struct rv_train_layer_context *c, int32_t layer, const float *x,
                            const struct rv_train_layer_state *state, float *out);
/*
 * `grad` comes in as the gradient of the output and goes out as that of x; gradients of the pairs grow. With is_first
 * it stays undefined: nobody asks for the embedding's.
 */
void rv_train_layer_backward(const struct rv_train_layer_context *c, int32_t layer, const float *x,
                             const struct rv_train_layer_state *state, bool is_first, float *grad);

/* Norm of a file's tensors over n rows. */
void rv_train_layer_norm(const struct rv_train_layer_context *c, const struct rv_gguf_tensor *weight,
                         const struct rv_gguf_tensor *bias, const float *x, float *y);
void rv_train_layer_norm_backward(const struct rv_train_layer_context *c, const struct rv_gguf_tensor *weight,
                                  const float *x, const float *dy, bool adds, float *dx);

#endif
