/*
 * What synthetic model is wanted: its shape, its traits and how strong each trait speaks. The maker turns a
 * spec into a GGUF file (maker_file.h); equal specs give equal bytes on every machine.
 *
 * Every tensor's numbers depend on the seed and on the tensor's name alone, so two specs that differ in one
 * trait differ in that trait and nowhere else. That is what the mutation suite stands on.
 */
#ifndef RV_TESTS_SUPPORT_MAKER_SPEC_H
#define RV_TESTS_SUPPORT_MAKER_SPEC_H

#include "base/error.h"

/* Traits that can be neutralised in the file while everything else stays as it is. */
enum maker_trait {
    MAKER_WINDOW = 1 << 0,         // window wider than any context
    MAKER_ATTN_SOFTCAP = 1 << 1,   // cap too high to bend anything
    MAKER_FINAL_SOFTCAP = 1 << 2,  // the same at the head
    MAKER_ROPE_FACTORS = 1 << 3,   // factor tensors all one, linear and YaRN scaling off
    MAKER_ROPE_MAGNITUDE = 1 << 4, // long-rope attention factor 1
    MAKER_LOCAL_ROPE = 1 << 5,     // windowed layers rotate with the global base
    MAKER_PARTIAL_ROTARY = 1 << 6, // the whole head rotates
    MAKER_QK_NORM = 1 << 7,        // no such norm; gemma3, which cannot be without: weights all one
    MAKER_QKV_BIAS = 1 << 8,       // zero
    MAKER_NORM_BIAS = 1 << 9,      // zero
    MAKER_POST_NORM = 1 << 10,     // norm weights all one
    MAKER_ATTN_SCALE = 1 << 11,    // queries grown by what the scale divides by
    MAKER_EMBD_SCALE = 1 << 12,    // embeddings shrunk by what the scale multiplies with; the head keeps its logits
    MAKER_PARALLEL = 1 << 13       // feed-forward after attention instead of beside it
};

enum maker_rope_scaling {
    MAKER_ROPE_NONE,
    MAKER_ROPE_LINEAR,
    MAKER_ROPE_YARN,
    MAKER_ROPE_LLAMA3,  // one tensor of frequency factors
    MAKER_ROPE_LONGROPE // two, chosen by context length
};

struct maker_spec {
    char arch[16]; // general.architecture
    char name[32];
    char type[16];        // f32 f16 bf16 q8_0 q4_0 q4_K q6_K, or the mix q4_K_M
    char vocab_from[512]; // GGUF whose tokenizer is copied; "": a small SentencePiece one is made up
    int32_t n_layers;
    int32_t n_embd;
    int32_t n_heads;
    int32_t n_kv_heads;
    int32_t head_dim;
    int32_t n_rot;          // rotated part of the head
    int32_t n_ffn;          // of each expert, where there are several
    int32_t n_experts;      // 0: a dense model
    int32_t n_experts_used; // for each token
    int32_t n_state;        // mamba: numbers kept for each inner channel
    int32_t n_vocab;
    int32_t n_ctx;
    int32_t window; // 0: the key is left out
    int32_t rope_original;
    int32_t unique_rows; // matrices repeat after this many rows, for big models to time; 0: never
    uint64_t seed;
    enum maker_rope_scaling rope_scaling;
    float rope_base;
    float rope_base_local; // 0: the key is left out
    float rope_factor;
    float attn_softcap; // 0: the key is left out
    float final_softcap;
    float logit_gain; // spread of the raw logits, standard deviations
    float attn_gain;  // spread of the attention scores
    float mix_gain;   // what a layer adds, against what it was given
    float bias_gain;  // spread of biases
    bool tied;
    bool qkv_bias;
    bool parallel;    // stablelm: feed-forward beside attention
    bool head_norm;   // stablelm: a norm per query and key head
    uint32_t without; // enum maker_trait
};

/* The architecture's own habits, in a shape of a few MB. Unknown architectures are UNSUPPORTED. */
RV_CHECKED ruvllm_status maker_spec_init(struct maker_spec *spec, const char *arch, struct ruvllm_error *err);
/*
 * Reads options as `make_model --help` lists them: "--arch" first, "--without" as often as wanted.
 */
RV_CHECKED ruvllm_status maker_spec_parse(struct maker_spec *spec, int argc, char *const *argv,
                                          struct ruvllm_error *err);
/* The options, one a line, for people. */
void maker_spec_help(void);

/* A trait by the name --without takes; 0 when there is none. */
uint32_t maker_trait_find(const char *name);
/* "window", "qk-norm", ... of one bit. */
const char *maker_trait_name(uint32_t trait);

/* What the architecture is made of, for the parts that write tensors and metadata. */
/* The name in the file. qwen3 without its query and key norms is what qwen2 is without biases, so it goes by that. */
const char *maker_spec_file_arch(const struct maker_spec *spec);
bool maker_spec_is_mamba(const struct maker_spec *spec);
bool maker_spec_is_gemma(const struct maker_spec *spec);
/* Whether there are norms of query and key heads, MAKER_QK_NORM considered. */
bool maker_spec_has_qk_norm(const struct maker_spec *spec);

#endif
