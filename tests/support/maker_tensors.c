/*
 * Which tensors an architecture has and what is in them. Types follow the wish of the spec where the row length
 * allows it; vectors are always F32, as every converter writes them.
 */
#include "support/maker_tensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/str_map.h"

static enum ggml_type type_by_name(const char *name)
{
    static const enum ggml_type types[] = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16, GGML_TYPE_Q8_0,
                                           GGML_TYPE_Q4_0, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(ggml_type_name(types[i]), name) == 0)
            return types[i];
    return GGML_TYPE_COUNT;
}

/* The layers that llama-quantize's medium mixes give more bits: the first and last eighth, every third between. */
static bool has_more_bits(int32_t layer, int32_t n_layers)
{
    int32_t eighth = n_layers / 8;

    return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}

static enum ggml_type matrix_type(const struct maker_spec *spec, const struct maker_tensor *tensor, int32_t layer)
{
    enum ggml_type type = type_by_name(spec->type);

    if (strcmp(spec->type, "q4_K_M") == 0) {
        bool is_head =
            spec->tied ? strncmp(tensor->name, "token_embd", 10) == 0 : strncmp(tensor->name, "output.", 7) == 0;
        bool is_sensitive = strstr(tensor->name, "attn_v") || strstr(tensor->name, "ffn_down");

        type = is_head || (is_sensitive && has_more_bits(layer, spec->n_layers)) ? GGML_TYPE_Q6_K : GGML_TYPE_Q4_K;
    }
    if (tensor->ne[0] % ggml_blck_size(type) != 0)
        type = tensor->ne[0] % ggml_blck_size(GGML_TYPE_Q8_0) == 0 ? GGML_TYPE_Q8_0 : GGML_TYPE_F16;
    return type;
}

/* Grows the list by one; NULL when memory is out, which the caller notices at the end. */
static struct maker_tensor *push(struct maker_tensors *list)
{
    if (list->n_items == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 64;
        struct maker_tensor *items = realloc(list->items, cap * sizeof(*items));

        if (!items) {
            list->failed = true;
            return NULL;
        }
        list->items = items;
        list->cap = cap;
    }
    list->items[list->n_items] = (struct maker_tensor){.ne = {1, 1}, .n_dims = 1, .type = GGML_TYPE_F32};
    return &list->items[list->n_items++];
}

static void set_name(struct maker_tensor *tensor, int32_t layer, const char *name)
{
    if (layer < 0)
        snprintf(tensor->name, sizeof(tensor->name), "%s", name);
    else
        snprintf(tensor->name, sizeof(tensor->name), "blk.%d.%s", layer, name);
}

static struct maker_tensor *add_vector(struct maker_tensors *list, int32_t layer, const char *name, int64_t n,
                                       enum maker_fill fill, float scale)
{
    struct maker_tensor *tensor = push(list);

    if (!tensor)
        return NULL;
    set_name(tensor, layer, name);
    tensor->ne[0] = n;
    tensor->fill = fill;
    tensor->scale = scale;
    return tensor;
}

/* Matrix of `rows` by `columns` whose outputs spread by `gain` for unit input. */
static struct maker_tensor *add_matrix(struct maker_tensors *list, const struct maker_spec *spec, int32_t layer,
                                       const char *name, int64_t columns, int64_t rows, float gain)
{
    struct maker_tensor *tensor = push(list);

    if (!tensor)
        return NULL;
    set_name(tensor, layer, name);
    tensor->ne[0] = columns;
    tensor->ne[1] = rows;
    tensor->n_dims = 2;
    tensor->scale = gain / sqrtf((float)columns);
    tensor->type = matrix_type(spec, tensor, layer);
    return tensor;
}

static float off(const struct maker_spec *spec, enum maker_trait trait, float value, float neutral)
{
    return spec->without & (uint32_t)trait ? neutral : value;
}

/* A norm: weight, and for LayerNorm a bias. */
static void add_norm(struct maker_tensors *list, const struct maker_spec *spec, int32_t layer, const char *name,
                     enum maker_fill fill, float scale)
{
    char full[48];

    snprintf(full, sizeof(full), "%s.weight", name);
    add_vector(list, layer, full, spec->n_embd, fill, scale);
    if (strcmp(spec->arch, "stablelm") == 0) {
        snprintf(full, sizeof(full), "%s.bias", name);
        add_vector(list, layer, full, spec->n_embd, MAKER_FILL_NORMAL,
                   off(spec, MAKER_NORM_BIAS, spec->bias_gain, 0.0f));
    }
}

static void add_head_norms(struct maker_tensors *list, const struct maker_spec *spec, int32_t layer, float q_gain,
                           float k_gain)
{
    bool neutral = spec->without & MAKER_QK_NORM;
    const char *const names[] = {"attn_q_norm.weight", "attn_k_norm.weight"};
    const float gains[] = {q_gain, k_gain};

    for (int i = 0; i < 2; i++) {
        struct maker_tensor *tensor =
            add_vector(list, layer, names[i], spec->head_dim, neutral ? MAKER_FILL_CONST : MAKER_FILL_NORM,
                       neutral ? 1.0f : gains[i]);

        if (tensor && spec->head_norm) { // one weight vector a head
            tensor->n_dims = 2;
            tensor->ne[1] = i == 0 ? spec->n_heads : spec->n_kv_heads;
        }
    }
}

static void add_fused_qkv(struct maker_tensors *list, const struct maker_spec *spec, int32_t layer, float q_gain,
                          float k_gain)
{
    int64_t q_rows = (int64_t)spec->n_heads * spec->head_dim;
    int64_t kv_rows = (int64_t)spec->n_kv_heads * spec->head_dim;
    struct maker_tensor *tensor =
        add_matrix(list, spec, layer, "attn_qkv.weight", spec->n_embd, q_rows + 2 * kv_rows, q_gain);
    float unit = 1.0f / sqrtf((float)spec->n_embd);

    if (!tensor)
        return;
    tensor->part_start[0] = q_rows;
    tensor->part_start[1] = q_rows + kv_rows;
    tensor->part_scale[0] = k_gain * unit;
    tensor->part_scale[1] = unit;
}

static void add_qkv(struct maker_tensors *list, const struct maker_spec *spec, int32_t layer)
{
    int64_t q_rows = (int64_t)spec->n_heads * spec->head_dim;
    int64_t kv_rows = (int64_t)spec->n_kv_heads * spec->head_dim;
    float k_gain = sqrtf(spec->attn_gain);
    float q_gain = k_gain * off(spec, MAKER_ATTN_SCALE, 1.0f, sqrtf((float)spec->head_dim));
    float bias = off(spec, MAKER_QKV_BIAS, spec->bias_gain, 0.0f);

    if (maker_spec_has_qk_norm(spec))
        add_head_norms(list, spec, layer, q_gain, k_gain);
    if (strcmp(spec->arch, "qwen3") == 0 || strcmp(spec->arch, "gemma3") == 0 || spec->head_norm) {
        /* The norm sets the size; what comes in is far from it, so that leaving the norm out cannot go unseen. */
        q_gain = 0.25f;
        k_gain = 3.0f;
    }
    if (strcmp(spec->arch, "phi3") == 0) {
        add_fused_qkv(list, spec, layer, q_gain, k_gain);
        return;
    }
    add_matrix(list, spec, layer, "attn_q.weight", spec->n_embd, q_rows, q_gain);
    add_matrix(list, spec, layer, "attn_k.weight", spec->n_embd, kv_rows, k_gain);
    add_matrix(list, spec, layer, "attn_v.weight", spec->n_embd, kv_rows, 1.0f);
    if (spec->qkv_bias) {
        add_vector(list, layer, "attn_q.bias", q_rows, MAKER_FILL_NORMAL, bias * q_gain);
        add_vector(list, layer, "attn_k.bias", kv_rows, MAKER_FILL_NORMAL, bias * k_gain);
        add_vector(list, layer, "attn_v.bias", kv_rows, MAKER_FILL_NORMAL, bias);
    }
}

/* All experts' matrices in one tensor. */
static void add_experts(struct maker_tensors *list, const struct maker_spec *spec, int32_t layer, const char *name,
                        int64_t columns, int64_t rows, float gain)
{
    struct maker_tensor *tensor = add_matrix(list, spec, layer, name, columns, rows * spec->n_experts, gain);

    if (tensor)
        tensor->n_stacked = spec->n_experts;
}

/* A router and experts; qwen2moe adds one that every token takes. */
static void add_mixture(struct maker_tensors *list, const struct maker_spec *spec, int32_t layer)
{
    add_matrix(list, spec, layer, "ffn_gate_inp.weight", spec->n_embd, spec->n_experts, 2.0f);
    add_experts(list, spec, layer, "ffn_gate_exps.weight", spec->n_embd, spec->n_ffn, 1.5f);
    add_experts(list, spec, layer, "ffn_up_exps.weight", spec->n_embd, spec->n_ffn, 1.5f);
    add_experts(list, spec, layer, "ffn_down_exps.weight", spec->n_ffn, spec->n_embd, 0.5f * spec->mix_gain);
    if (strcmp(spec->arch, "qwen2moe") != 0)
        return;
    add_vector(list, layer, "ffn_gate_inp_shexp.weight", spec->n_embd, MAKER_FILL_NORMAL, 0.1f);
    add_matrix(list, spec, layer, "ffn_gate_shexp.weight", spec->n_embd, spec->n_ffn, 1.5f);
    add_matrix(list, spec, layer, "ffn_up_shexp.weight", spec->n_embd, spec->n_ffn, 1.5f);
    add_matrix(list, spec, layer, "ffn_down_shexp.weight", spec->n_ffn, spec->n_embd, 0.5f * spec->mix_gain);
}

/* Mamba's layer: in, convolution, selective scan, out. What it scans with is F32, as converters write it. */
static void add_scan(struct maker_tensors *list, const struct maker_spec *spec, int32_t layer)
{
    int64_t inner = 2 * (int64_t)spec->n_embd, rank = spec->n_embd / 16, n_state = spec->n_state;
    struct maker_tensor *tensor;

    add_norm(list, spec, layer, "attn_norm", MAKER_FILL_NORM, 1.0f);
    add_matrix(list, spec, layer, "ssm_in.weight", spec->n_embd, 2 * inner, 1.0f);
    tensor = add_vector(list, layer, "ssm_conv1d.weight", MAKER_CONV_LENGTH, MAKER_FILL_NORMAL, 0.7f);
    if (tensor) {
        tensor->n_dims = 2;
        tensor->ne[1] = inner;
    }
    add_vector(list, layer, "ssm_conv1d.bias", inner, MAKER_FILL_NORMAL, 0.2f);
    add_matrix(list, spec, layer, "ssm_x.weight", inner, rank + 2 * n_state, 1.5f);
    add_matrix(list, spec, layer, "ssm_dt.weight", rank, inner, 1.0f);
    add_vector(list, layer, "ssm_dt.bias", inner, MAKER_FILL_NORMAL, 0.5f);
    tensor = add_vector(list, layer, "ssm_a", n_state, MAKER_FILL_NORM, -0.5f); // below zero: states fade
    if (tensor) {
        tensor->n_dims = 2;
        tensor->ne[1] = inner;
    }
    add_vector(list, layer, "ssm_d", inner, MAKER_FILL_NORM, 1.0f);
    add_matrix(list, spec, layer, "ssm_out.weight", inner, spec->n_embd, spec->mix_gain);
}

static void add_ffn(struct maker_tensors *list, const struct maker_spec *spec, int32_t layer)
{
    if (strcmp(spec->arch, "phi3") == 0) {
        add_matrix(list, spec, layer, "ffn_up.weight", spec->n_embd, 2 * (int64_t)spec->n_ffn, 1.5f);
    } else {
        add_matrix(list, spec, layer, "ffn_gate.weight", spec->n_embd, spec->n_ffn, 1.5f);
        add_matrix(list, spec, layer, "ffn_up.weight", spec->n_embd, spec->n_ffn, 1.5f);
    }
    add_matrix(list, spec, layer, "ffn_down.weight", spec->n_ffn, spec->n_embd, 0.5f * spec->mix_gain);
}

/* A parallel layer made sequential keeps the one norm it had: the last two tensors take the first norm's numbers. */
static void share_attn_norm(struct maker_tensors *list, int32_t layer)
{
    static const char *const names[] = {"attn_norm.weight", "attn_norm.bias"};

    for (size_t i = 0; i < 2 && !list->failed; i++) {
        struct maker_tensor *tensor = &list->items[list->n_items - 2 + i];

        snprintf(tensor->seed_name, sizeof(tensor->seed_name), "blk.%d.%s", layer, names[i]);
    }
}

static void add_layer(struct maker_tensors *list, const struct maker_spec *spec, int32_t layer)
{
    bool has_post_norm = maker_spec_is_gemma(spec);
    bool is_sequential = !spec->parallel || (spec->without & MAKER_PARALLEL);
    enum maker_fill post = spec->without & MAKER_POST_NORM ? MAKER_FILL_CONST : MAKER_FILL_NORM;
    float post_scale = off(spec, MAKER_POST_NORM, 0.6f * spec->mix_gain, 1.0f);

    add_norm(list, spec, layer, "attn_norm", MAKER_FILL_NORM, 1.0f);
    add_qkv(list, spec, layer);
    add_matrix(list, spec, layer, "attn_output.weight", (int64_t)spec->n_heads * spec->head_dim, spec->n_embd,
               spec->mix_gain);
    if (has_post_norm)
        add_norm(list, spec, layer, "post_attention_norm", post, post_scale);
    if (is_sequential)
        add_norm(list, spec, layer, "ffn_norm", MAKER_FILL_NORM, 1.0f);
    if (is_sequential && spec->parallel)
        share_attn_norm(list, layer);
    if (spec->n_experts > 0)
        add_mixture(list, spec, layer);
    else
        add_ffn(list, spec, layer);
    if (has_post_norm)
        add_norm(list, spec, layer, "post_ffw_norm", post, post_scale);
}

static void add_rope_factors(struct maker_tensors *list, const struct maker_spec *spec)
{
    bool neutral = spec->without & MAKER_ROPE_FACTORS;
    int64_t n = spec->n_rot / 2;

    if (spec->rope_scaling == MAKER_ROPE_LLAMA3)
        add_vector(list, -1, "rope_freqs.weight", n, neutral ? MAKER_FILL_CONST : MAKER_FILL_LLAMA3, 1.0f);
    if (spec->rope_scaling == MAKER_ROPE_LONGROPE) {
        add_vector(list, -1, "rope_factors_long.weight", n, neutral ? MAKER_FILL_CONST : MAKER_FILL_LONG, 1.0f);
        add_vector(list, -1, "rope_factors_short.weight", n, neutral ? MAKER_FILL_CONST : MAKER_FILL_SHORT, 1.0f);
    }
}

/* Embedding, last norm and head. Gemma multiplies embeddings by sqrt(width), so there they are that much smaller. */
static void add_ends(struct maker_tensors *list, const struct maker_spec *spec)
{
    float width = sqrtf((float)spec->n_embd);
    float embd = maker_spec_is_gemma(spec) ? 1.0f : width; // as outputs of a tied head see it
    float unscaled = off(spec, MAKER_EMBD_SCALE, 1.0f, width);
    float gain = spec->tied ? spec->logit_gain * unscaled / embd : 1.0f;

    add_matrix(list, spec, -1, "token_embd.weight", spec->n_embd, spec->n_vocab, embd / unscaled);
    add_rope_factors(list, spec);
    add_norm(list, spec, -1, "output_norm", spec->tied ? MAKER_FILL_SIGNED : MAKER_FILL_NORM, gain);
    if (!spec->tied)
        add_matrix(list, spec, -1, "output.weight", spec->n_embd, spec->n_vocab, spec->logit_gain);
}

ruvllm_status maker_tensors_list(struct maker_tensors *list, const struct maker_spec *spec, struct ruvllm_error *err)
{
    *list = (struct maker_tensors){0};
    if (strcmp(spec->type, "q4_K_M") != 0 && type_by_name(spec->type) == GGML_TYPE_COUNT)
        return rv_fail(err, RUVLLM_INVALID, "unknown weight type '%s'", spec->type);
    add_ends(list, spec);
    for (int32_t i = 0; i < spec->n_layers; i++) {
        if (maker_spec_is_mamba(spec))
            add_scan(list, spec, i);
        else
            add_layer(list, spec, i);
    }
    if (list->failed)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot list the tensors");
    return RUVLLM_OK;
}

void maker_tensors_release(struct maker_tensors *list)
{
    free(list->items);
    *list = (struct maker_tensors){0};
}

void maker_tensor_seed(const struct maker_tensor *tensor, const struct maker_spec *spec, struct rv_rng *rng)
{
    const char *name = tensor->seed_name[0] ? tensor->seed_name : tensor->name;

    rv_rng_init(rng, rv_str_map_hash(spec->seed, name, strlen(name)));
}

/* Nearly normal, unit spread, never beyond 3.5: four 16-bit uniforms of one draw added up. Fast enough for gigabytes.
 */
static float draw(struct rv_rng *rng)
{
    uint64_t bits = rv_rng_next(rng);
    int32_t sum = (int32_t)(bits & 0xffff) + (int32_t)(bits >> 16 & 0xffff) + (int32_t)(bits >> 32 & 0xffff) +
                  (int32_t)(bits >> 48);

    return (float)(sum - 131070) * (1.0f / 37837.0f);
}

/*
 * Llama 3's rule: wavelengths beyond the old context are stretched by the whole factor, those well inside it
 * not at all, with a ramp between (low and high frequency factors 1 and 4).
 */
static float llama3_factor(const struct maker_spec *spec, int64_t i)
{
    float wavelength = 6.2831853f * powf(spec->rope_base, 2.0f * (float)i / (float)spec->n_rot);
    float turns = (float)spec->rope_original / wavelength;
    float smooth = (turns - 1.0f) / 3.0f;

    if (turns <= 1.0f)
        return spec->rope_factor;
    if (turns >= 4.0f)
        return 1.0f;
    return 1.0f / ((1.0f - smooth) / spec->rope_factor + smooth);
}

static float factor(const struct maker_tensor *tensor, const struct maker_spec *spec, int64_t i)
{
    float x = (float)i / (float)(spec->n_rot / 2); // 0 at the fastest pair

    if (tensor->fill == MAKER_FILL_LLAMA3)
        return llama3_factor(spec, i);
    if (tensor->fill == MAKER_FILL_LONG)
        return 1.05f + 6.0f * x + 40.0f * x * x;
    return 1.0f + 0.8f * x;
}

void maker_tensor_row(const struct maker_tensor *tensor, const struct maker_spec *spec, int64_t row, struct rv_rng *rng,
                      float *out)
{
    int64_t n = tensor->ne[0];
    float scale = tensor->scale;

    for (int part = 0; part < 2; part++)
        if (tensor->part_start[part] && row >= tensor->part_start[part])
            scale = tensor->part_scale[part];
    for (int64_t i = 0; i < n; i++) {
        switch (tensor->fill) {
        case MAKER_FILL_NORMAL:
            out[i] = scale * draw(rng);
            break;
        case MAKER_FILL_NORM:
            out[i] = scale * (1.0f + 0.25f * draw(rng));
            break;
        case MAKER_FILL_SIGNED:
            out[i] = scale * (rv_rng_next(rng) & 1 ? 1.0f : -1.0f) * (1.0f + 0.25f * draw(rng));
            break;
        case MAKER_FILL_CONST:
            out[i] = scale;
            break;
        default:
            out[i] = factor(tensor, spec, i);
        }
    }
}
