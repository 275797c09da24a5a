/*
 * Which tensors a model of a given shape consists of, and where they are in the file. Every shape is checked here
 * against the numbers of the model, so that nothing later can hand ggml tensors it would abort on.
 */
#ifndef RV_MODEL_MANIFEST_H
#define RV_MODEL_MANIFEST_H

#include "model/hparams.h"

/* Tensors of one layer. */
enum rv_part {
    RV_PART_ATTN_NORM,
    RV_PART_ATTN_NORM_B,
    RV_PART_Q,
    RV_PART_K,
    RV_PART_V,
    RV_PART_QKV,
    RV_PART_Q_B,
    RV_PART_K_B,
    RV_PART_V_B,
    RV_PART_QKV_B,
    RV_PART_O,
    RV_PART_O_B,
    RV_PART_Q_NORM,
    RV_PART_K_NORM,
    RV_PART_ATTN_POST_NORM,
    RV_PART_FFN_NORM,
    RV_PART_FFN_NORM_B,
    RV_PART_GATE,
    RV_PART_UP,
    RV_PART_DOWN,
    RV_PART_GATE_B,
    RV_PART_UP_B,
    RV_PART_DOWN_B,
    RV_PART_FFN_POST_NORM,
    RV_N_PARTS
};

/* Tensors there is one of. */
enum rv_root {
    RV_ROOT_EMBEDDING,
    RV_ROOT_OUTPUT_NORM,
    RV_ROOT_OUTPUT_NORM_B,
    RV_ROOT_OUTPUT,
    RV_ROOT_OUTPUT_B,
    RV_ROOT_ROPE_FREQS,
    RV_ROOT_ROPE_LONG,
    RV_ROOT_ROPE_SHORT,
    RV_N_ROOTS
};

struct rv_manifest {
    const struct rv_gguf_tensor *roots[RV_N_ROOTS];     // NULL where the model has none
    const struct rv_gguf_tensor *(*layers)[RV_N_PARTS]; // n_layers of them
    bool tied;                                          // the head is the embedding
    uint64_t n_params;                                  // of the whole file
};

/* Entries point into `file`, which must outlive the manifest. A missing or misshapen tensor is FORMAT, by name. */
RV_CHECKED ruvllm_status rv_manifest_init(struct rv_manifest *out, const struct rv_gguf_file *file,
                                          const struct rv_hparams *hparams, struct ruvllm_error *err);
/* Numbers in all tensors of a file. */
uint64_t rv_manifest_n_params(const struct rv_gguf_file *file);
void rv_manifest_release(struct rv_manifest *manifest);
/* True for the parts that are multiplied with, as opposed to added or scaled by. */
bool rv_manifest_part_is_matrix(enum rv_part part);

#endif
