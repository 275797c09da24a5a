/*
 * A model that is on paper only: its numbers, its list of tensors with small random norms and a random head, and no
 * file. Enough to hold adapters against. Failures fail the running case, or end the program where there is none.
 */
#ifndef RV_TESTS_SUPPORT_PAPER_MODEL_H
#define RV_TESTS_SUPPORT_PAPER_MODEL_H

#include "model/adapter_file.h"

enum {
    PAPER_LAYERS = 2,
    PAPER_EMBD = 32,
    PAPER_HEADS = 4,
    PAPER_KV_HEADS = 2,
    PAPER_HEAD_DIM = 8,
    PAPER_FF = 48,
    PAPER_VOCAB = 40,
};

struct paper_model {
    struct rv_hparams hparams;
    struct rv_manifest manifest;
    struct rv_adapter_file_base base;
    struct rv_gguf_tensor (*tensors)[RV_N_PARTS];
    struct rv_gguf_tensor roots[RV_N_ROOTS];
    float norm[PAPER_EMBD];
    float head[PAPER_VOCAB * PAPER_EMBD];
};

/* "llama" has queries and keys apart, "phi3" all in one and gate and up in one. The seed is that of the norms. */
void paper_model_init(struct paper_model *model, const char *arch, uint64_t seed, bool tied);
void paper_model_release(struct paper_model *model);

/* Of each kind one, for a suite: made before its cases and released after them. The third's head is its embedding. */
extern struct paper_model paper_llama, paper_phi3, paper_qwen2;
int paper_model_setup(void **state);
int paper_model_teardown(void **state);

/* What a random adapter consists of. */
struct paper_adapter {
    uint64_t seed;
    int32_t rank;        // of the layers' pairs; 0: none
    int32_t head_rank;   // 0: none
    float scale;         // of the first pair
    float scale_step;    // more with each one after it
    bool differing;      // every third matrix stays, ranks go down with the layers
    enum ggml_type type; // F32, F16 or BF16
};

/* For rv_adapter_file_close. */
struct rv_adapter_file *paper_adapter_new(const struct paper_model *model, const struct paper_adapter *wanted);
/* The same of a file, or a folder of PEFT's. */
struct rv_adapter_file *paper_adapter_open(const struct paper_model *model, const char *path);
/* scale B A as a full matrix [n_out][n_in], for the caller to free(). */
double *paper_adapter_change(const struct rv_adapter_file_pair *pair);
/* The pair of a matrix, or NULL. */
const struct rv_adapter_file_pair *paper_adapter_pair(const struct rv_adapter_file *file, int32_t layer,
                                                      enum rv_part part);

#endif
