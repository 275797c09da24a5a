/*
 * The weights of a model where the device wants them: read straight from the mapped file, or laid out anew in a
 * buffer of the device (repacked, AMX, GPU).
 */
#ifndef RV_MODEL_WEIGHTS_H
#define RV_MODEL_WEIGHTS_H

#include "model/device.h"
#include "model/manifest.h"

/* One layer. Shapes in ggml order; NULL where the model or the layout has none. */
struct rv_layer_weights {
    struct ggml_tensor *attn_norm;   /* [n_embd] */
    struct ggml_tensor *attn_norm_b; /* [n_embd] */
    struct ggml_tensor *q, *k, *v;   /* [n_embd, n_q], [n_embd, n_kv] twice */
    struct ggml_tensor *qkv;         /* [n_embd, n_q + 2 n_kv]: all in one, where the file has it so */
    struct ggml_tensor *q_b, *k_b, *v_b, *qkv_b;
    struct ggml_tensor *o, *o_b;         /* [n_q, n_embd], [n_embd] */
    struct ggml_tensor *q_norm, *k_norm; /* [head_dim] or [head_dim, heads] */
    struct ggml_tensor *attn_post_norm;
    struct ggml_tensor *ffn_norm, *ffn_norm_b;
    struct ggml_tensor *gate, *up; /* [n_embd, n_ff] */
    struct ggml_tensor *gate_up;   /* [n_embd, 2 n_ff] */
    struct ggml_tensor *down;      /* [n_ff, n_embd] */
    struct ggml_tensor *gate_b, *up_b, *gate_up_b, *down_b;
    struct ggml_tensor *ffn_post_norm;
};

struct rv_weights {
    struct ggml_tensor *embedding; /* [n_embd, n_vocab] */
    struct ggml_tensor *output;    /* [n_embd, n_vocab] */
    struct ggml_tensor *output_b;
    struct ggml_tensor *output_norm, *output_norm_b;
    struct ggml_tensor *rope_freqs, *rope_long, *rope_short; /* [n_rot / 2] */
    struct rv_layer_weights *layers;
    uint64_t mapped_bytes;
    uint64_t allocated_bytes;
    struct rv_weights_storage *storage; // contexts and buffers
};

struct rv_weights_options {
    bool use_mmap;
    bool repack;
    ruvllm_progress_fn on_progress; // may be NULL; called from the loading thread only
    void *progress_user;
};

/* `file` and `manifest` stay borrowed: mapped tensors point into the file, which must outlive the weights. */
RV_CHECKED ruvllm_status rv_weights_load(struct rv_weights *out, const struct rv_gguf_file *file,
                                         const struct rv_manifest *manifest, const struct rv_hparams *hparams,
                                         const struct rv_device *device, const struct rv_weights_options *options,
                                         struct ruvllm_error *err);
void rv_weights_release(struct rv_weights *weights);

#endif
