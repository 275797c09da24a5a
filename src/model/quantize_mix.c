/* The table of names, and the rules. Nothing here looks at weights. */
#include "model/quantize_mix.h"

#include <string.h>
#include <strings.h>

#define PLAIN(type, number)                                                                                            \
    {                                                                                                                  \
#type, GGML_TYPE_##type, GGML_TYPE_##type, GGML_TYPE_##type, RV_QUANTIZE_RAISE_NONE, number                    \
    }
/* A type of few bits for the layers, six bits and a half for the embedding and the output. */
#define LAYERS(type, number)                                                                                           \
    {                                                                                                                  \
#type, GGML_TYPE_##type, GGML_TYPE_##type, GGML_TYPE_Q6_K, RV_QUANTIZE_RAISE_NONE, number                      \
    }
#define MIX(name, base, raised, where, number)                                                                         \
    {                                                                                                                  \
#name, GGML_TYPE_##base, GGML_TYPE_##raised, GGML_TYPE_Q6_K, RV_QUANTIZE_RAISE_##where, number                 \
    }

/* The numbers are those every reader of GGUF knows; the file format has no others. */
static const struct rv_quantize_mix mixes[] = {
    PLAIN(F32, 0),
    PLAIN(F16, 1),
    PLAIN(BF16, 32),
    PLAIN(Q8_0, 7),
    PLAIN(Q6_K, 18),
    MIX(Q5_K_M, Q5_K, Q6_K, OUTER, 17),
    MIX(Q5_K_S, Q5_K, Q5_K, NONE, 16),
    LAYERS(Q5_1, 9),
    LAYERS(Q5_0, 8),
    MIX(Q4_K_M, Q4_K, Q6_K, OUTER, 15),
    MIX(Q4_K_S, Q4_K, Q4_K, NONE, 14),
    LAYERS(IQ4_NL, 25),
    LAYERS(IQ4_XS, 30),
    LAYERS(Q4_1, 3),
    LAYERS(Q4_0, 2),
    LAYERS(MXFP4, 38),
    LAYERS(NVFP4, 39),
    MIX(Q3_K_L, Q3_K, Q5_K, ALL, 13),
    MIX(Q3_K_M, Q3_K, Q5_K, OUTER, 12),
    MIX(Q3_K_S, Q3_K, Q3_K, NONE, 11),
    LAYERS(IQ3_S, 26),
    LAYERS(IQ3_XXS, 23),
    MIX(Q2_K, Q2_K, Q3_K, ALL, 10),
    MIX(Q2_K_S, Q2_K, Q2_K, NONE, 21),
    LAYERS(IQ2_S, 28),
    LAYERS(IQ1_M, 31),
    LAYERS(TQ2_0, 37),
    LAYERS(TQ1_0, 36),
    LAYERS(Q2_0, 41),
    LAYERS(Q1_0, 40),
};

/* Known, and refused: without knowing which inputs matter they lose the model. */
static const char *const need_importance[] = {"IQ2_XXS", "IQ2_XS", "IQ1_S"};

enum { N_MIXES = sizeof(mixes) / sizeof(mixes[0]) };

const struct rv_quantize_mix *rv_quantize_mix_at(size_t index)
{
    return index < N_MIXES ? &mixes[index] : NULL;
}

ruvllm_status rv_quantize_mix_find(const char *name, const struct rv_quantize_mix **out, struct ruvllm_error *err)
{
    *out = NULL;
    for (size_t i = 0; i < N_MIXES; i++) {
        if (strcasecmp(mixes[i].name, name) == 0) {
            *out = &mixes[i];
            return RUVLLM_OK;
        }
    }
    for (size_t i = 0; i < sizeof(need_importance) / sizeof(need_importance[0]); i++) {
        if (strcasecmp(need_importance[i], name) == 0)
            return rv_fail(err, RUVLLM_UNSUPPORTED,
                           "type '%s' needs an importance matrix, which is not supported; take Q2_K or IQ3_XXS",
                           need_importance[i]);
    }
    return rv_fail(err, RUVLLM_INVALID,
                   "there is no quantisation '%.32s'; take Q8_0, Q6_K, Q5_K_M, Q4_K_M, Q4_0, Q3_K_M or F16", name);
}

/* ---- rules --------------------------------------------------------------------------------- */

static bool ends_with(struct rv_str text, const char *end)
{
    size_t len = strlen(end);

    return text.len >= len && memcmp(text.data + text.len - len, end, len) == 0;
}

static bool equals(struct rv_str text, const char *other)
{
    return text.len == strlen(other) && memcmp(text.data, other, text.len) == 0;
}

int rv_quantize_mix_layer(struct rv_str tensor)
{
    int layer = 0;
    size_t i = 4;

    if (tensor.len < 6 || memcmp(tensor.data, "blk.", 4) != 0)
        return -1;
    for (; i < tensor.len && i < 10 && tensor.data[i] >= '0' && tensor.data[i] <= '9'; i++)
        layer = layer * 10 + (tensor.data[i] - '0');
    return i > 4 && i < tensor.len && tensor.data[i] == '.' ? layer : -1;
}

bool rv_quantize_mix_applies(struct rv_str tensor, int n_dims)
{
    return n_dims >= 2 && ends_with(tensor, ".weight") && !ends_with(tensor, "_norm.weight") &&
           !ends_with(tensor, "ffn_gate_inp.weight") && !equals(tensor, "position_embd.weight") &&
           !equals(tensor, "token_types.weight");
}

/* The projections errors hurt most in: what attention hands on, and what returns from the inner width. */
static bool is_sensitive(struct rv_str tensor)
{
    return ends_with(tensor, ".attn_v.weight") || ends_with(tensor, ".attn_qkv.weight") ||
           ends_with(tensor, ".ffn_down.weight") || ends_with(tensor, ".ffn_down_exps.weight");
}

static bool is_outer(int layer, int n_layers)
{
    int quarter = (n_layers + 3) / 4;

    return layer >= 0 && (layer < quarter || layer >= n_layers - quarter);
}

enum ggml_type rv_quantize_mix_type(const struct rv_quantize_mix *mix, struct rv_str tensor, int n_layers, bool is_pure)
{
    if (is_pure)
        return mix->base;
    if (equals(tensor, "output.weight") || equals(tensor, "token_embd.weight"))
        return mix->head;
    if (!is_sensitive(tensor))
        return mix->base;
    if (mix->where == RV_QUANTIZE_RAISE_ALL ||
        (mix->where == RV_QUANTIZE_RAISE_OUTER && is_outer(rv_quantize_mix_layer(tensor), n_layers)))
        return mix->raised;
    return mix->base;
}

/* Bits of a row of 256 elements. */
static size_t bits(enum ggml_type type)
{
    return ggml_type_size(type) * 8 * 256 / (size_t)ggml_blck_size(type);
}

enum ggml_type rv_quantize_mix_fit(enum ggml_type type, int64_t row_len)
{
    /* By rising bits: the first that has more of them than `type` and small enough blocks. */
    static const enum ggml_type small[] = {GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1,
                                           GGML_TYPE_Q8_0};

    if (row_len % ggml_blck_size(type) == 0)
        return type;
    for (size_t i = 0; i < sizeof(small) / sizeof(small[0]); i++) {
        if (bits(small[i]) > bits(type) && row_len % ggml_blck_size(small[i]) == 0)
            return small[i];
    }
    return GGML_TYPE_F16;
}
