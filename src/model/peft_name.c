/* One table of modules, read in both directions; the rest takes names apart or says why they are refused. */
#include "model/peft_name.h"

#include "model/gguf_value.h"

#include <string.h>

/* ---- names --------------------------------------------------------------------------------- */

static const struct module {
    const char *name;
    enum rv_part part;
    bool is_fused_up; // holds gate and up
} modules[] = {
    {"self_attn.q_proj", RV_PART_Q, false}, {"self_attn.k_proj", RV_PART_K, false},
    {"self_attn.v_proj", RV_PART_V, false}, {"self_attn.qkv_proj", RV_PART_QKV, false},
    {"self_attn.o_proj", RV_PART_O, false}, {"mlp.gate_proj", RV_PART_GATE, false},
    {"mlp.up_proj", RV_PART_UP, false},     {"mlp.gate_up_proj", RV_PART_UP, true},
    {"mlp.down_proj", RV_PART_DOWN, false},
};

static bool cut_start(struct rv_str *text, const char *start)
{
    size_t len = strlen(start);

    if (text->len < len || memcmp(text->data, start, len) != 0)
        return false;
    text->data += len;
    text->len -= len;
    return true;
}

static bool cut_end(struct rv_str *text, const char *end)
{
    size_t len = strlen(end);

    if (text->len < len || memcmp(text->data + text->len - len, end, len) != 0)
        return false;
    text->len -= len;
    return true;
}

static bool contains(struct rv_str text, const char *word)
{
    size_t len = strlen(word);

    for (size_t i = 0; i + len <= text.len; i++) {
        if (memcmp(text.data + i, word, len) == 0)
            return true;
    }
    return false;
}

/* Digits and the dot behind them. */
static bool cut_number(struct rv_str *text, int32_t *out)
{
    size_t n = 0;

    *out = 0;
    while (n < text->len && n < 6 && text->data[n] >= '0' && text->data[n] <= '9')
        *out = *out * 10 + (text->data[n++] - '0');
    if (n == 0 || n == text->len || text->data[n] != '.')
        return false;
    text->data += n + 1;
    text->len -= n + 1;
    return true;
}

static ruvllm_status refuse(struct rv_str name, struct ruvllm_error *err)
{
    char label[RV_GGUF_VALUE_LABEL];

    rv_gguf_value_label(name.data, name.len, label);
    if (contains(name, "lora_magnitude_vector"))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "it is a DoRA adapter (tensor '%s'), which is not supported", label);
    if (contains(name, "lora_embedding_") || contains(name, "embed_tokens"))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "it changes the embedding (tensor '%s'), which is not supported",
                       label);
    if (contains(name, "lm_head"))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "it changes the head (tensor '%s'), which is not supported", label);
    if (contains(name, "modules_to_save") || contains(name, ".bias"))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "it replaces a module or a bias (tensor '%s'), which is not supported",
                       label);
    return rv_fail(err, RUVLLM_FORMAT, "the model has no matrix for tensor '%s': it was made for another base model",
                   label);
}

static const struct module *find_module(struct rv_str name)
{
    for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
        if (name.len == strlen(modules[i].name) && memcmp(name.data, modules[i].name, name.len) == 0)
            return &modules[i];
    }
    return NULL;
}

/* Heads whose rows of B are in another order in GGUF; 0: as they are. */
static int32_t n_turned_heads(const struct rv_adapter_file_base *base, enum rv_part part,
                              enum rv_adapter_file_side side)
{
    if (base->hparams->arch->rope_neox || side == RV_ADAPTER_FILE_A)
        return 0;
    return part == RV_PART_Q ? base->hparams->n_heads : part == RV_PART_K ? base->hparams->n_kv_heads : 0;
}

static ruvllm_status check_fused(const struct module *module, const struct rv_adapter_file_base *base, int32_t layer,
                                 struct ruvllm_error *err)
{
    const struct rv_gguf_tensor *const *parts = base->manifest->layers[layer];
    bool is_fused_up = base->hparams->arch->fused_gate_up;

    if (module->part == RV_PART_UP && module->is_fused_up != is_fused_up)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "it changes '%s', but this base has gate and up %s", module->name,
                       is_fused_up ? "in one matrix" : "in two matrices");
    if (!parts[module->part])
        return rv_fail(err, RUVLLM_UNSUPPORTED,
                       "it changes '%s', a matrix this base does not have by itself: queries, keys and values, or gate "
                       "and up, lie %s here",
                       module->name, parts[RV_PART_QKV] ? "in one" : "apart");
    if (module->part == RV_PART_QKV && !base->hparams->arch->rope_neox)
        return rv_fail(err, RUVLLM_UNSUPPORTED,
                       "it changes '%s' of a family whose files have queries and keys in another order", module->name);
    if (base->hparams->head_dim % 2 && n_turned_heads(base, module->part, RV_ADAPTER_FILE_B))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "it changes '%s' of heads with an odd width", module->name);
    return RUVLLM_OK;
}

ruvllm_status rv_peft_name_parse(struct rv_str name, const struct rv_adapter_file_base *base, struct rv_peft_name *out,
                                 struct ruvllm_error *err)
{
    struct rv_str rest = name;
    const struct module *module;

    if (!cut_start(&rest, "base_model.model."))
        return refuse(name, err);
    out->module = rest;
    if (cut_end(&rest, ".lora_A.weight"))
        out->side = RV_ADAPTER_FILE_A;
    else if (cut_end(&rest, ".lora_B.weight"))
        out->side = RV_ADAPTER_FILE_B;
    else
        return refuse(name, err);
    out->module.len = rest.len;
    (void)cut_start(&rest, "model."); // what only the model with a head has around it
    if (!cut_start(&rest, "layers.") || !cut_number(&rest, &out->layer))
        return refuse(name, err);
    module = find_module(rest);
    if (!module || out->layer >= base->hparams->n_layers)
        return refuse(name, err);
    out->part = module->part;
    return check_fused(module, base, out->layer, err);
}

const char *rv_peft_name_module(const struct rv_adapter_file_base *base, enum rv_part part)
{
    if (part == RV_PART_QKV && !base->hparams->arch->rope_neox)
        return NULL; // its queries and keys are in an order PEFT does not have
    for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
        if (modules[i].part == part &&
            (part != RV_PART_UP || modules[i].is_fused_up == base->hparams->arch->fused_gate_up))
            return modules[i].name;
    }
    return NULL;
}

/* ---- the order of rows --------------------------------------------------------------------- */

static void turn_rows(unsigned char *to, const unsigned char *from, size_t row_bytes, int32_t n_heads, int32_t head_dim,
                      bool into_gguf)
{
    size_t half = (size_t)head_dim / 2;

    for (size_t head = 0; head < (size_t)n_heads; head++) {
        for (size_t i = 0; i < half; i++) {
            for (size_t j = 0; j < 2; j++) {
                size_t apart = head * (size_t)head_dim + j * half + i, beside = head * (size_t)head_dim + 2 * i + j;

                memcpy(to + (into_gguf ? beside : apart) * row_bytes, from + (into_gguf ? apart : beside) * row_bytes,
                       row_bytes);
            }
        }
    }
}

void rv_peft_name_copy_rows(const struct rv_adapter_file_base *base, enum rv_part part, enum rv_adapter_file_side side,
                            void *to, const void *from, size_t row_bytes, int64_t n_rows, bool into_gguf)
{
    int32_t n_heads = n_turned_heads(base, part, side);

    if (n_heads)
        turn_rows(to, from, row_bytes, n_heads, base->hparams->head_dim, into_gguf);
    else
        memcpy(to, from, row_bytes * (size_t)n_rows);
}
