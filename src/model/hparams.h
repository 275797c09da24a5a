/* The numbers of a model: shape, norms, attention, RoPE. Read once from the file, checked against each other. */
#ifndef RV_MODEL_HPARAMS_H
#define RV_MODEL_HPARAMS_H

#include "model/arch.h"
#include "model/gguf_file.h"

#define RV_HPARAMS_MAX_LAYERS 512

enum rv_rope_kind { RV_ROPE_NONE, RV_ROPE_LINEAR, RV_ROPE_YARN, RV_ROPE_LONGROPE };

/* What ggml's rope takes, after the file and the user's overrides have been weighed. */
struct rv_rope {
    enum rv_rope_kind kind;
    int32_t n_dims; // rotated dimensions of each head
    int32_t original_context;
    float freq_base;
    float freq_scale; // 1 / context multiplier
    float ext_factor;
    float attn_factor;
    float beta_fast;
    float beta_slow;
    float freq_base_window; // layers with a sliding window
    float freq_scale_window;
};

struct rv_hparams {
    const struct rv_arch *arch; // NULL: outside the table
    int32_t n_vocab;
    int32_t n_layers;
    int32_t n_embd;
    int32_t n_heads;
    int32_t n_kv_heads;
    int32_t head_dim; // of queries, keys and values alike
    int32_t n_ff;
    int32_t trained_context;
    float norm_eps;
    float attention_scale;
    float attention_cap; // 0: none
    float final_cap;     // 0: none
    int32_t window;      // 0: none
    bool layer_has_window[RV_HPARAMS_MAX_LAYERS];
    uint64_t kv_token_bytes; // keys and values of a token in all layers, at 16 bits; 0: it keeps none
    struct rv_rope rope;
};

/* The user's wishes about RoPE; zero or negative as ruvllm_model_params says. */
struct rv_rope_override {
    ruvllm_rope_scaling scaling;
    float scale;
    float freq_base;
    int32_t original_context;
    float ext_factor;
    float attn_factor;
    float beta_fast;
    float beta_slow;
};

/*
 * An architecture outside the table, a mixture of experts and layers of different shapes are UNSUPPORTED, naming them;
 * impossible numbers are FORMAT, naming the key.
 */
RV_CHECKED ruvllm_status rv_hparams_read(struct rv_hparams *out, const struct rv_gguf_file *file,
                                         const struct rv_rope_override *rope, struct ruvllm_error *err);
/* True for an architecture outside the table and for a mixture of experts: valid, but for somebody else's code. */
bool rv_hparams_is_foreign(const struct rv_gguf_file *file);
/*
 * The numbers that models of all architectures have in common, for one that somebody else's code is to run: vocabulary,
 * layers, width, context, and heads, the largest where layers differ, 0 where there are none. The rest stays zero.
 */
RV_CHECKED ruvllm_status rv_hparams_read_common(struct rv_hparams *out, const struct rv_gguf_file *file,
                                                struct ruvllm_error *err);
int32_t rv_hparams_n_q(const struct rv_hparams *hparams);  // n_heads * head_dim
int32_t rv_hparams_n_kv(const struct rv_hparams *hparams); // n_kv_heads * head_dim

#endif
