/*
 * Tensors of safetensors files under the names, shapes and types the rest of the engine expects: matrices stay where
 * they are, norms and biases become F32, rows of q and k are reordered for the families whose RoPE turns neighbours.
 */
#ifndef RV_MODEL_HF_TENSORS_H
#define RV_MODEL_HF_TENSORS_H

#include "base/arena.h"
#include "model/hf_config.h"
#include "model/safetensors.h"

struct rv_hf_tensors {
    const struct rv_hf_config *config;
    struct rv_gguf_image *image;
    struct rv_arena arena; // what is to be made, until the image is mapped
    bool has_head;
    int64_t n_vocab; // rows of the embedding; 0: not seen yet
};

/* All three stay borrowed. */
void rv_hf_tensors_init(struct rv_hf_tensors *tensors, const struct rv_hf_config *config, struct rv_gguf_image *image);
void rv_hf_tensors_release(struct rv_hf_tensors *tensors);
/*
 * Adds those of one file, which becomes source `i_source` of the image and must stay open until that is mapped. A
 * tensor of an unknown name or type is UNSUPPORTED, one that contradicts the config FORMAT.
 */
RV_CHECKED ruvllm_status rv_hf_tensors_add(struct rv_hf_tensors *tensors, const struct rv_safetensors *file,
                                           int i_source, struct ruvllm_error *err);
/* After the last file: what the config stands for instead of a tensor, and whether embedding and head are there. */
RV_CHECKED ruvllm_status rv_hf_tensors_finish(struct rv_hf_tensors *tensors, struct ruvllm_error *err);

#endif
