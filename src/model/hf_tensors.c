/* Names are those of the transformers library's model classes. Nothing is left out silently but what it recomputes. */
#include "model/hf_tensors.h"

#include "model/gguf_parse.h"

#include <stdio.h>
#include <string.h>

#define JOBS_MAX ((size_t)64 << 20)

enum role { MATRIX, VECTOR, NORM, QUERY, KEY, IGNORED };

struct rule {
    const char *name;
    const char *to;
    enum role role;
};

static const struct rule layer_rules[] = {
    {"self_attn.q_proj.weight", "attn_q.weight", QUERY},
    {"self_attn.q_proj.bias", "attn_q.bias", QUERY},
    {"self_attn.k_proj.weight", "attn_k.weight", KEY},
    {"self_attn.k_proj.bias", "attn_k.bias", KEY},
    {"self_attn.v_proj.weight", "attn_v.weight", MATRIX},
    {"self_attn.v_proj.bias", "attn_v.bias", VECTOR},
    {"self_attn.qkv_proj.weight", "attn_qkv.weight", MATRIX},
    {"self_attn.o_proj.weight", "attn_output.weight", MATRIX},
    {"self_attn.o_proj.bias", "attn_output.bias", VECTOR},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", NORM},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", NORM},
    {"mlp.gate_proj.weight", "ffn_gate.weight", MATRIX},
    {"mlp.gate_proj.bias", "ffn_gate.bias", VECTOR},
    {"mlp.up_proj.weight", "ffn_up.weight", MATRIX},
    {"mlp.up_proj.bias", "ffn_up.bias", VECTOR},
    {"mlp.gate_up_proj.weight", "ffn_up.weight", MATRIX},
    {"mlp.down_proj.weight", "ffn_down.weight", MATRIX},
    {"mlp.down_proj.bias", "ffn_down.bias", VECTOR},
    {"input_layernorm.weight", "attn_norm.weight", NORM},
    {"post_attention_layernorm.weight", "ffn_norm.weight", NORM},
    {"self_attn.rotary_emb.inv_freq", NULL, IGNORED}, // computed from the config
};

/* Where Gemma differs: the second norm follows attention, and the feed-forward network has two of its own. */
static const struct rule four_norm_rules[] = {
    {"post_attention_layernorm.weight", "post_attention_norm.weight", NORM},
    {"pre_feedforward_layernorm.weight", "ffn_norm.weight", NORM},
    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight", NORM},
};

static const struct rule root_rules[] = {
    {"model.embed_tokens.weight", "token_embd.weight", MATRIX},
    {"model.norm.weight", "output_norm.weight", NORM},
    {"lm_head.weight", "output.weight", MATRIX},
    {"lm_head.bias", "output.bias", VECTOR},
};

/* A tensor to be made from one of a file. */
struct job {
    const unsigned char *from;
    enum ggml_type type;
    int64_t n_rows, n_cols;
    int64_t n_heads; // whose rows are put in pairs; 0: left in order
    float plus;
    bool to_f32;
};

/* ---- making -------------------------------------------------------------------------------- */

/* Row i of the result is this row of the source: halves j and j + d/2 of each head become neighbours. */
static int64_t source_row(const struct job *job, int64_t i)
{
    int64_t dim, head, within;

    if (job->n_heads == 0)
        return i;
    dim = job->n_rows / job->n_heads;
    head = i / dim;
    within = i % dim;
    return head * dim + within / 2 + (within % 2) * (dim / 2);
}

/* The format promises no alignment, so elements are loaded byte by byte. */
static float load(enum ggml_type type, const unsigned char *bytes)
{
    uint16_t half;
    uint32_t bits;
    float value;

    if (type == GGML_TYPE_F32) {
        memcpy(&value, bytes, sizeof(value));
        return value;
    }
    memcpy(&half, bytes, sizeof(half));
    if (type == GGML_TYPE_F16)
        return ggml_fp16_to_fp32(half);
    bits = (uint32_t)half << 16;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static void fill(const void *user, void *to)
{
    const struct job *job = user;
    size_t size = ggml_type_size(job->type), row = (size_t)job->n_cols * size;

    for (int64_t i = 0; i < job->n_rows; i++) {
        const unsigned char *from = job->from + (size_t)source_row(job, i) * row;
        float *floats = (float *)to + i * job->n_cols;

        if (!job->to_f32)
            memcpy((unsigned char *)to + (size_t)i * row, from, row);
        for (int64_t j = 0; job->to_f32 && j < job->n_cols; j++)
            floats[j] = load(job->type, from + (size_t)j * size) + job->plus;
    }
}

static void fill_floats(const void *user, void *to)
{
    const struct rv_hf_config_factors *factors = user;

    memcpy(to, factors->values, factors->n * sizeof(float));
}

/* ---- adding -------------------------------------------------------------------------------- */

static const struct rule *find_rule(const struct rule *rules, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(rules[i].name, name) == 0)
            return &rules[i];
    }
    return NULL;
}

#define FIND_RULE(rules, name) find_rule(rules, sizeof(rules) / sizeof((rules)[0]), name)

/* "12.mlp.up_proj.weight": the number, and where the rest begins; NULL when it is no such thing. */
static const char *take_layer(const char *text, uint32_t *layer)
{
    uint32_t value = 0;
    int n_digits = 0;

    while (*text >= '0' && *text <= '9' && n_digits < 6) {
        value = value * 10 + (uint32_t)(*text++ - '0');
        n_digits++;
    }
    *layer = value;
    return n_digits && *text == '.' ? text + 1 : NULL;
}

/* The rule for a name, and its new name; NULL when nobody knows it. */
static const struct rule *rename_tensor(const struct rv_hf_tensors *tensors, const char *name, char out[GGML_MAX_NAME],
                                        uint32_t *layer)
{
    static const char prefix[] = "model.layers.";
    const struct rule *rule = FIND_RULE(root_rules, name);
    const char *rest;

    *layer = 0;
    if (rule) {
        snprintf(out, GGML_MAX_NAME, "%s", rule->to);
        return rule;
    }
    rest = strncmp(name, prefix, sizeof(prefix) - 1) == 0 ? take_layer(name + sizeof(prefix) - 1, layer) : NULL;
    if (!rest)
        return NULL;
    if (tensors->config->norm_plus_one)
        rule = FIND_RULE(four_norm_rules, rest);
    if (!rule)
        rule = FIND_RULE(layer_rules, rest);
    if (rule && rule->to)
        snprintf(out, GGML_MAX_NAME, "blk.%u.%s", (unsigned)*layer, rule->to);
    return rule;
}

/* Heads whose rows are to be put in pairs; the shape must be theirs. */
static ruvllm_status count_heads(const struct rv_hf_tensors *tensors, enum role role, const char *label, int64_t n_rows,
                                 int64_t *n_heads, struct ruvllm_error *err)
{
    const struct rv_hf_config *c = tensors->config;

    *n_heads = 0;
    if (!c->pairs_rows || (role != QUERY && role != KEY))
        return RUVLLM_OK;
    *n_heads = role == QUERY ? c->n_heads : c->n_kv_heads;
    if (n_rows != *n_heads * (int64_t)c->head_dim)
        return rv_fail(err, RUVLLM_FORMAT, "tensor '%s' has %lld rows for %lld heads of %u", label, (long long)n_rows,
                       (long long)*n_heads, (unsigned)c->head_dim);
    return RUVLLM_OK;
}

static ruvllm_status place(struct rv_hf_tensors *tensors, const struct rv_safetensors *file, int i_source,
                           const struct rv_safetensors_tensor *t, const struct job *job,
                           struct rv_gguf_image_tensor *out, struct ruvllm_error *err)
{
    const unsigned char *start = rv_safetensors_bytes(file), *at = t->data;
    struct job *copy;

    out->i_source = i_source;
    out->source_at = (uint64_t)(at - start);
    if (job->n_heads == 0 && job->plus == 0 && !(job->to_f32 && t->type != GGML_TYPE_F32) && // nothing to change
        rv_gguf_image_can_stay(out->source_at) && rv_safetensors_fd(file) >= 0)
        return rv_gguf_image_tensor(tensors->image, out, err);
    copy = rv_arena_alloc(&tensors->arena, sizeof(*copy));
    if (!copy)
        return rv_fail(err, tensors->arena.failed, "there are too many tensors to lay out anew");
    *copy = *job;
    out->i_source = -1;
    out->fill = fill;
    out->user = copy;
    return rv_gguf_image_tensor(tensors->image, out, err);
}

static ruvllm_status add(struct rv_hf_tensors *tensors, const struct rv_safetensors *file, int i_source,
                         const struct rv_safetensors_tensor *t, const struct rule *rule, const char *label,
                         struct rv_gguf_image_tensor *out, struct ruvllm_error *err)
{
    bool is_vector = t->n_dims == 1;
    struct job job = {.from = t->data, .type = t->type, .n_cols = is_vector ? 1 : t->shape[1], .n_rows = t->shape[0]};
    ruvllm_status rc;

    if (t->type != GGML_TYPE_F32 && t->type != GGML_TYPE_F16 && t->type != GGML_TYPE_BF16)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "tensor '%s' is %s; F32, F16 and BF16 are read", label,
                       ggml_type_name(t->type));
    if (t->n_dims != 1 && t->n_dims != 2)
        return rv_fail(err, RUVLLM_FORMAT, "tensor '%s' has %d dimensions", label, t->n_dims);
    job.to_f32 = is_vector;
    job.plus = rule->role == NORM && tensors->config->norm_plus_one ? 1.0f : 0.0f;
    rc = count_heads(tensors, rule->role, label, t->shape[0], &job.n_heads, err);
    if (rc)
        return rc;
    out->type = is_vector ? GGML_TYPE_F32 : t->type;
    out->n_dims = t->n_dims;
    out->ne[0] = is_vector ? t->shape[0] : t->shape[1];
    out->ne[1] = is_vector ? 1 : t->shape[0];
    out->ne[2] = out->ne[3] = 1;
    if (rule == &root_rules[0])
        tensors->n_vocab = out->ne[1];
    if (job.plus != 0 && !is_vector)
        return rv_fail(err, RUVLLM_FORMAT, "tensor '%s' is no vector", label);
    return place(tensors, file, i_source, t, &job, out, err);
}

static ruvllm_status add_known(struct rv_hf_tensors *tensors, const struct rv_safetensors *file, int i_source,
                               const struct rv_safetensors_tensor *t, struct ruvllm_error *err)
{
    char name[128], label[RV_GGUF_VALUE_LABEL];
    struct rv_gguf_image_tensor out = {0};
    const struct rule *rule;
    uint32_t layer;

    rv_gguf_value_label(t->name.data, t->name.len, label);
    snprintf(name, sizeof(name), "%.*s", t->name.len < sizeof(name) ? (int)t->name.len : 0, t->name.data);
    rule = rename_tensor(tensors, name, out.name, &layer);
    if (!rule)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "tensor '%s' is not part of a '%s' model as it is known here", label,
                       tensors->config->arch);
    if (layer >= tensors->config->n_layers)
        return rv_fail(err, RUVLLM_FORMAT, "tensor '%s' is beyond the model's %u layers", label,
                       (unsigned)tensors->config->n_layers);
    if (rule->role == IGNORED)
        return RUVLLM_OK;
    if (rule == &root_rules[2] && tensors->config->head == RV_HF_CONFIG_HEAD_TIED)
        return RUVLLM_OK; // a copy of the embedding, as the config says
    if (rule == &root_rules[2])
        tensors->has_head = true;
    return add(tensors, file, i_source, t, rule, label, &out, err);
}

void rv_hf_tensors_init(struct rv_hf_tensors *tensors, const struct rv_hf_config *config, struct rv_gguf_image *image)
{
    *tensors = (struct rv_hf_tensors){.config = config, .image = image};
    rv_arena_init(&tensors->arena, JOBS_MAX);
}

void rv_hf_tensors_release(struct rv_hf_tensors *tensors)
{
    rv_arena_release(&tensors->arena);
}

ruvllm_status rv_hf_tensors_add(struct rv_hf_tensors *tensors, const struct rv_safetensors *file, int i_source,
                                struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;

    for (size_t i = 0; i < rv_safetensors_n_tensors(file) && !rc; i++)
        rc = add_known(tensors, file, i_source, rv_safetensors_tensor_at(file, i), err);
    return rc;
}

static ruvllm_status add_factors(struct rv_hf_tensors *tensors, const char *name,
                                 const struct rv_hf_config_factors *factors, struct ruvllm_error *err)
{
    struct rv_gguf_image_tensor out = {.type = GGML_TYPE_F32,
                                       .n_dims = 1,
                                       .ne = {(int64_t)factors->n, 1, 1, 1},
                                       .i_source = -1,
                                       .fill = fill_floats,
                                       .user = factors};

    if (factors->n == 0)
        return RUVLLM_OK;
    snprintf(out.name, sizeof(out.name), "%s", name);
    return rv_gguf_image_tensor(tensors->image, &out, err);
}

ruvllm_status rv_hf_tensors_finish(struct rv_hf_tensors *tensors, struct ruvllm_error *err)
{
    const struct rv_hf_config *c = tensors->config;
    ruvllm_status rc;

    if (tensors->n_vocab == 0)
        return rv_fail(err, RUVLLM_FORMAT, "there is no tensor '%s'", root_rules[0].name);
    if (c->head == RV_HF_CONFIG_HEAD_APART && !tensors->has_head)
        return rv_fail(err, RUVLLM_FORMAT, "there is no tensor '%s', and the embedding is not to be used for it",
                       root_rules[2].name);
    rc = add_factors(tensors, "rope_freqs.weight", &c->freqs, err);
    if (!rc)
        rc = add_factors(tensors, "rope_factors_long.weight", &c->long_freqs, err);
    if (!rc)
        rc = add_factors(tensors, "rope_factors_short.weight", &c->short_freqs, err);
    return rc;
}
