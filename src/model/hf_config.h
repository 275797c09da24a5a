/*
 * config.json of a Hugging Face folder: which family, which numbers. What the model's GGUF would say in its metadata
 * goes into the image; what is needed to read the other files of the folder is in the struct.
 */
#ifndef RV_MODEL_HF_CONFIG_H
#define RV_MODEL_HF_CONFIG_H

#include "model/gguf_image.h"
#include "model/json_file.h"

enum { RV_HF_CONFIG_MAX_FACTORS = 512, RV_HF_CONFIG_MAX_ENDS = 16 };

enum rv_hf_config_head { RV_HF_CONFIG_HEAD_UNSAID, RV_HF_CONFIG_HEAD_TIED, RV_HF_CONFIG_HEAD_APART };

/* Divisors of RoPE frequencies, one for each pair of dimensions. */
struct rv_hf_config_factors {
    size_t n; // 0: none
    float values[RV_HF_CONFIG_MAX_FACTORS];
};

struct rv_hf_config {
    const char *arch;   // general.architecture
    bool pairs_rows;    // our RoPE of this family wants rows of q and k in pairs, the folder has them in halves
    bool norm_plus_one; // norms are stored less 1
    uint32_t n_layers;
    uint32_t n_embd;
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    uint32_t context;
    enum rv_hf_config_head head;
    int32_t bos;                         // -1: not said
    int32_t ends[RV_HF_CONFIG_MAX_ENDS]; // tokens that end an answer
    size_t n_ends;
    struct rv_hf_config_factors freqs;                   // Llama 3
    struct rv_hf_config_factors long_freqs, short_freqs; // Phi-3
};

/*
 * An architecture, activation or RoPE scaling that is not one of ours and quantised weights are UNSUPPORTED, naming
 * it; a number that is missing or none is FORMAT.
 */
RV_CHECKED ruvllm_status rv_hf_config_read(struct rv_hf_config *out, const struct rv_json_file *json,
                                           struct rv_gguf_image *image, struct ruvllm_error *err);
/* Token ids under `key` of config.json or generation_config.json, one or a list, added to those there are. */
RV_CHECKED ruvllm_status rv_hf_config_read_ends(struct rv_hf_config *config, const struct rv_json_file *json,
                                                struct ruvllm_error *err);

#endif
