/*
 * Specs: defaults of each architecture, options as text, and the names of the traits. Which tensors and keys
 * follow from a spec is decided in maker_tensors.c and maker_file.c.
 */
#include "support/maker_spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum option_kind { OPTION_INT, OPTION_SEED, OPTION_FLOAT, OPTION_FLAG, OPTION_TEXT, OPTION_SCALING, OPTION_WITHOUT };

struct option {
    const char *name;
    enum option_kind kind;
    size_t offset;
    size_t size; // text: room
    const char *help;
};

#define AT(field) offsetof(struct maker_spec, field)
#define TEXT(field) OPTION_TEXT, AT(field), sizeof(((struct maker_spec *)0)->field)

static const struct option options[] = {
    {"--name", TEXT(name), "general.name"},
    {"--type", TEXT(type), "f32 f16 bf16 q8_0 q4_0 q4_K q6_K, or the mix q4_K_M"},
    {"--vocab-from", TEXT(vocab_from), "GGUF whose tokenizer is copied, padded to --vocab"},
    {"--layers", OPTION_INT, AT(n_layers), 0, "layers"},
    {"--embd", OPTION_INT, AT(n_embd), 0, "width"},
    {"--heads", OPTION_INT, AT(n_heads), 0, "query heads"},
    {"--kv-heads", OPTION_INT, AT(n_kv_heads), 0, "key and value heads"},
    {"--head-dim", OPTION_INT, AT(head_dim), 0, "width of a head; rotated whole unless --rot follows"},
    {"--rot", OPTION_INT, AT(n_rot), 0, "rotated part of a head"},
    {"--ffn", OPTION_INT, AT(n_ffn), 0, "feed-forward width"},
    {"--experts", OPTION_INT, AT(n_experts), 0, "llama, qwen2moe: feed-forward networks to choose from"},
    {"--experts-used", OPTION_INT, AT(n_experts_used), 0, "how many of them each token takes"},
    {"--state", OPTION_INT, AT(n_state), 0, "mamba: numbers kept for each inner channel"},
    {"--vocab", OPTION_INT, AT(n_vocab), 0, "tokens"},
    {"--ctx", OPTION_INT, AT(n_ctx), 0, "context the model claims to be trained for"},
    {"--window", OPTION_INT, AT(window), 0, "sliding window"},
    {"--unique-rows", OPTION_INT, AT(unique_rows), 0,
     "matrices repeat after so many rows: quick to make, same to time"},
    {"--seed", OPTION_SEED, AT(seed), 0, "seed of all weights"},
    {"--rope-base", OPTION_FLOAT, AT(rope_base), 0, "frequency base"},
    {"--rope-base-local", OPTION_FLOAT, AT(rope_base_local), 0, "frequency base of windowed layers"},
    {"--rope-scaling", OPTION_SCALING, AT(rope_scaling), 0, "none linear yarn llama3 longrope"},
    {"--rope-factor", OPTION_FLOAT, AT(rope_factor), 0, "how much longer the context got"},
    {"--rope-original", OPTION_INT, AT(rope_original), 0, "context before that"},
    {"--attn-softcap", OPTION_FLOAT, AT(attn_softcap), 0, "bound of attention scores"},
    {"--final-softcap", OPTION_FLOAT, AT(final_softcap), 0, "bound of logits"},
    {"--logit-gain", OPTION_FLOAT, AT(logit_gain), 0, "spread of raw logits"},
    {"--attn-gain", OPTION_FLOAT, AT(attn_gain), 0, "spread of attention scores"},
    {"--mix-gain", OPTION_FLOAT, AT(mix_gain), 0, "what a layer adds"},
    {"--bias-gain", OPTION_FLOAT, AT(bias_gain), 0, "spread of biases"},
    {"--tied", OPTION_FLAG, AT(tied), 0, "the head is the embedding"},
    {"--qkv-bias", OPTION_FLAG, AT(qkv_bias), 0, "biases on query, key and value"},
    {"--parallel", OPTION_FLAG, AT(parallel), 0, "stablelm: feed-forward beside attention"},
    {"--head-norm", OPTION_FLAG, AT(head_norm), 0, "stablelm: a norm per query and key head"},
    {"--without", OPTION_WITHOUT, AT(without), 0, "a trait to neutralise: see maker_spec.h"},
};

static const struct {
    const char *name;
    uint32_t trait;
} traits[] = {
    {"window", MAKER_WINDOW},
    {"attn-softcap", MAKER_ATTN_SOFTCAP},
    {"final-softcap", MAKER_FINAL_SOFTCAP},
    {"rope-factors", MAKER_ROPE_FACTORS},
    {"rope-magnitude", MAKER_ROPE_MAGNITUDE},
    {"local-rope", MAKER_LOCAL_ROPE},
    {"partial-rotary", MAKER_PARTIAL_ROTARY},
    {"qk-norm", MAKER_QK_NORM},
    {"qkv-bias", MAKER_QKV_BIAS},
    {"norm-bias", MAKER_NORM_BIAS},
    {"post-norm", MAKER_POST_NORM},
    {"attn-scale", MAKER_ATTN_SCALE},
    {"embd-scale", MAKER_EMBD_SCALE},
    {"parallel", MAKER_PARALLEL},
};

static const char *const scaling_names[] = {"none", "linear", "yarn", "llama3", "longrope"};

uint32_t maker_trait_find(const char *name)
{
    for (size_t i = 0; i < sizeof(traits) / sizeof(traits[0]); i++)
        if (strcmp(traits[i].name, name) == 0)
            return traits[i].trait;
    return 0;
}

const char *maker_trait_name(uint32_t trait)
{
    for (size_t i = 0; i < sizeof(traits) / sizeof(traits[0]); i++)
        if (traits[i].trait == trait)
            return traits[i].name;
    return "?";
}

bool maker_spec_is_mamba(const struct maker_spec *spec)
{
    return strcmp(spec->arch, "mamba") == 0;
}

bool maker_spec_is_gemma(const struct maker_spec *spec)
{
    return strncmp(spec->arch, "gemma", 5) == 0;
}

const char *maker_spec_file_arch(const struct maker_spec *spec)
{
    return strcmp(spec->arch, "qwen3") == 0 && (spec->without & MAKER_QK_NORM) ? "qwen2" : spec->arch;
}

bool maker_spec_has_qk_norm(const struct maker_spec *spec)
{
    if (strcmp(spec->arch, "gemma3") == 0)
        return true;
    return (strcmp(spec->arch, "qwen3") == 0 || spec->head_norm) && !(spec->without & MAKER_QK_NORM);
}

ruvllm_status maker_spec_init(struct maker_spec *spec, const char *arch, struct ruvllm_error *err)
{
    static const char *const known[] = {"llama",  "qwen2",    "qwen3",    "phi3", "gemma2",
                                        "gemma3", "stablelm", "qwen2moe", "mamba"};
    size_t i = 0;

    *spec = (struct maker_spec){
        .type = "f16",
        .n_layers = 4,
        .n_embd = 256,
        .n_heads = 4,
        .n_kv_heads = 2,
        .head_dim = 64,
        .n_rot = 64,
        .n_ffn = 512,
        .n_state = 16,
        .n_vocab = 512,
        .n_ctx = 512,
        .seed = 1,
        .rope_base = 10000.0f,
        .rope_factor = 1.0f,
        .logit_gain = 3.4f,
        .attn_gain = 1.5f,
        .mix_gain = 0.5f,
        .bias_gain = 0.5f,
    };
    while (i < sizeof(known) / sizeof(known[0]) && strcmp(known[i], arch) != 0)
        i++;
    if (i == sizeof(known) / sizeof(known[0]))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "cannot make a model of architecture '%s'", arch);
    snprintf(spec->arch, sizeof(spec->arch), "%s", arch);
    snprintf(spec->name, sizeof(spec->name), "synthetic"); // libllama has rules for names such as "phi3"
    spec->tied = maker_spec_is_gemma(spec);
    spec->qkv_bias = strcmp(arch, "qwen2") == 0;
    if (strcmp(arch, "qwen2moe") == 0) {
        spec->n_experts = 4;
        spec->n_experts_used = 2;
    }
    return RUVLLM_OK;
}

static ruvllm_status set_number(char *at, const struct option *option, const char *text, struct ruvllm_error *err)
{
    char *end;

    errno = 0;
    if (option->kind == OPTION_FLOAT) {
        float value = strtof(text, &end);
        memcpy(at, &value, sizeof(value));
    } else if (option->kind == OPTION_SEED) {
        uint64_t value = strtoull(text, &end, 10);
        memcpy(at, &value, sizeof(value));
    } else {
        int32_t value = (int32_t)strtol(text, &end, 10);
        memcpy(at, &value, sizeof(value));
    }
    if (errno != 0 || end == text || *end)
        return rv_fail(err, RUVLLM_INVALID, "'%s' wants a number, not '%s'", option->name, text);
    return RUVLLM_OK;
}

static ruvllm_status set_scaling(struct maker_spec *spec, const char *text, struct ruvllm_error *err)
{
    for (size_t i = 0; i < sizeof(scaling_names) / sizeof(scaling_names[0]); i++) {
        if (strcmp(scaling_names[i], text) == 0) {
            spec->rope_scaling = (enum maker_rope_scaling)i;
            return RUVLLM_OK;
        }
    }
    return rv_fail(err, RUVLLM_INVALID, "unknown rope scaling '%s'", text);
}

static ruvllm_status set_option(struct maker_spec *spec, const struct option *option, const char *text,
                                struct ruvllm_error *err)
{
    char *at = (char *)spec + option->offset;

    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)at = true;
        return RUVLLM_OK;
    case OPTION_TEXT:
        if ((size_t)snprintf(at, option->size, "%s", text) >= option->size)
            return rv_fail(err, RUVLLM_TOO_LARGE, "'%s' takes at most %zu bytes", option->name, option->size - 1);
        return RUVLLM_OK;
    case OPTION_SCALING:
        return set_scaling(spec, text, err);
    case OPTION_WITHOUT:
        if (!maker_trait_find(text))
            return rv_fail(err, RUVLLM_INVALID, "unknown trait '%s'", text);
        spec->without |= maker_trait_find(text);
        return RUVLLM_OK;
    default:
        return set_number(at, option, text, err);
    }
}

static const struct option *find_option(const char *name)
{
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        if (strcmp(options[i].name, name) == 0)
            return &options[i];
    return NULL;
}

static ruvllm_status check_shape(const struct maker_spec *spec, struct ruvllm_error *err)
{
    if (spec->n_layers < 1 || spec->n_embd < 32 || spec->n_heads < 1 || spec->n_kv_heads < 1 || spec->head_dim < 2 ||
        spec->n_ffn < 32 || spec->n_ctx < 1 || spec->n_vocab < 0)
        return rv_fail(err, RUVLLM_INVALID, "the shape has a part that is too small");
    if (spec->n_heads % spec->n_kv_heads != 0)
        return rv_fail(err, RUVLLM_INVALID, "%d heads do not share %d key heads evenly", spec->n_heads,
                       spec->n_kv_heads);
    if (spec->n_rot < 2 || spec->n_rot > spec->head_dim || spec->n_rot % 2 != 0)
        return rv_fail(err, RUVLLM_INVALID, "cannot rotate %d of a head of %d", spec->n_rot, spec->head_dim);
    if (spec->n_experts < 0 || spec->n_experts_used < 0 || spec->n_experts_used > spec->n_experts ||
        (spec->n_experts > 0) != (spec->n_experts_used > 0) || spec->n_state < 1)
        return rv_fail(err, RUVLLM_INVALID, "cannot use %d of %d experts, with a state of %d", spec->n_experts_used,
                       spec->n_experts, spec->n_state);
    if (spec->rope_scaling == MAKER_ROPE_LONGROPE && spec->rope_original < 2)
        return rv_fail(err, RUVLLM_INVALID, "longrope wants --rope-original");
    return RUVLLM_OK;
}

ruvllm_status maker_spec_parse(struct maker_spec *spec, int argc, char *const *argv, struct ruvllm_error *err)
{
    ruvllm_status rc;

    if (argc < 2 || strcmp(argv[0], "--arch") != 0)
        return rv_fail(err, RUVLLM_INVALID, "--arch must come first");
    rc = maker_spec_init(spec, argv[1], err);
    for (int i = 2; rc == RUVLLM_OK && i < argc; i++) {
        const struct option *option = find_option(argv[i]);

        if (!option)
            return rv_fail(err, RUVLLM_INVALID, "unknown option '%s'", argv[i]);
        if (option->kind != OPTION_FLAG && i + 1 == argc)
            return rv_fail(err, RUVLLM_INVALID, "'%s' wants a value", argv[i]);
        rc = set_option(spec, option, option->kind == OPTION_FLAG ? "" : argv[++i], err);
        if (rc == RUVLLM_OK && strcmp(option->name, "--head-dim") == 0)
            spec->n_rot = spec->head_dim;
    }
    return rc == RUVLLM_OK ? check_shape(spec, err) : rc;
}

void maker_spec_help(void)
{
    printf("  %-18s %s\n", "--arch", "llama qwen2 qwen3 phi3 gemma2 gemma3 stablelm qwen2moe mamba; first of all");
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        printf("  %-18s %s\n", options[i].name, options[i].help);
}
