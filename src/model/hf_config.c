/*
 * Keys are those of the transformers library's config classes. Where a config leaves something unsaid, the value is the
 * one of the class; where it says something the graph of the family does not compute, it is refused.
 */
#include "model/hf_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <yyjson.h>

static const struct family {
    const char *name; // of the class
    const char *arch;
    const char *activation;
    bool pairs_rows;
    bool norm_plus_one;
    bool has_window; // the graph honours a sliding window
} families[] = {
    {.name = "LlamaForCausalLM", .arch = "llama", .activation = "silu", .pairs_rows = true},
    {.name = "MistralForCausalLM", .arch = "llama", .activation = "silu", .pairs_rows = true},
    {.name = "Qwen2ForCausalLM", .arch = "qwen2", .activation = "silu"},
    {.name = "Qwen3ForCausalLM", .arch = "qwen3", .activation = "silu"},
    {.name = "Phi3ForCausalLM", .arch = "phi3", .activation = "silu"},
    {.name = "Gemma2ForCausalLM",
     .arch = "gemma2",
     .activation = "gelu_pytorch_tanh",
     .norm_plus_one = true,
     .has_window = true},
    {.name = "Gemma3ForCausalLM",
     .arch = "gemma3",
     .activation = "gelu_pytorch_tanh",
     .norm_plus_one = true,
     .has_window = true},
};

/* What reading goes on with. */
struct reader {
    yyjson_val *root;
    yyjson_val *rope; // where RoPE is described
    const struct family *family;
    struct rv_hf_config *config;
    struct rv_gguf_image *image;
    char key[128];
};

static const char *key_of(struct reader *r, const char *suffix)
{
    snprintf(r->key, sizeof(r->key), "%s.%s", r->config->arch, suffix);
    return r->key;
}

/* NULL for what is not there and for null, which these files use for the same. */
static yyjson_val *member(yyjson_val *object, const char *name)
{
    yyjson_val *value = yyjson_obj_get(object, name);

    return yyjson_is_null(value) ? NULL : value;
}

static ruvllm_status take_u32(yyjson_val *object, const char *name, uint32_t *out, struct ruvllm_error *err)
{
    yyjson_val *value = member(object, name);

    if (!value)
        return rv_fail(err, RUVLLM_FORMAT, "'config.json' does not say '%s'", name);
    if (!yyjson_is_uint(value) || yyjson_get_uint(value) == 0 || yyjson_get_uint(value) > INT32_MAX)
        return rv_fail(err, RUVLLM_FORMAT, "'%s' of 'config.json' is no count", name);
    *out = (uint32_t)yyjson_get_uint(value);
    return RUVLLM_OK;
}

static ruvllm_status take_optional_u32(yyjson_val *object, const char *name, uint32_t *out, struct ruvllm_error *err)
{
    return member(object, name) ? take_u32(object, name, out, err) : RUVLLM_OK;
}

static ruvllm_status take_optional_f64(yyjson_val *object, const char *name, double *out, struct ruvllm_error *err)
{
    yyjson_val *value = member(object, name);

    if (!value)
        return RUVLLM_OK;
    if (!yyjson_is_num(value) || !(fabs(yyjson_get_num(value)) <= 1e30))
        return rv_fail(err, RUVLLM_FORMAT, "'%s' of 'config.json' is no number", name);
    *out = yyjson_get_num(value);
    return RUVLLM_OK;
}

/* ---- the family ---------------------------------------------------------------------------- */

static ruvllm_status find_family(struct reader *r, struct ruvllm_error *err)
{
    yyjson_val *name = yyjson_arr_get_first(member(r->root, "architectures"));
    char label[RV_GGUF_VALUE_LABEL];

    if (!yyjson_is_str(name))
        return rv_fail(err, RUVLLM_FORMAT, "'config.json' does not say 'architectures'");
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        if (yyjson_equals_str(name, families[i].name)) {
            r->family = &families[i];
            r->config->arch = families[i].arch;
            r->config->pairs_rows = families[i].pairs_rows;
            r->config->norm_plus_one = families[i].norm_plus_one;
            return RUVLLM_OK;
        }
    }
    return rv_fail(err, RUVLLM_UNSUPPORTED, "architecture '%s' is not one this engine reads from a folder",
                   rv_gguf_value_label(yyjson_get_str(name), yyjson_get_len(name), label));
}

static ruvllm_status check_activation(struct reader *r, struct ruvllm_error *err)
{
    yyjson_val *value = member(r->root, "hidden_activation");
    char label[RV_GGUF_VALUE_LABEL];

    if (!value)
        value = member(r->root, "hidden_act");
    if (!value || yyjson_equals_str(value, r->family->activation))
        return RUVLLM_OK;
    if (!yyjson_is_str(value))
        return rv_fail(err, RUVLLM_FORMAT, "the activation in 'config.json' is no name");
    return rv_fail(err, RUVLLM_UNSUPPORTED, "activation '%s' is not the one of '%s' models",
                   rv_gguf_value_label(yyjson_get_str(value), yyjson_get_len(value), label), r->config->arch);
}

static ruvllm_status check_weights(struct reader *r, struct ruvllm_error *err)
{
    yyjson_val *quantised = member(r->root, "quantization_config"), *tied = member(r->root, "tie_word_embeddings");
    yyjson_val *method = member(quantised, "quant_method");
    char label[RV_GGUF_VALUE_LABEL] = "?";

    if (yyjson_is_str(method))
        rv_gguf_value_label(yyjson_get_str(method), yyjson_get_len(method), label);
    if (quantised)
        return rv_fail(err, RUVLLM_UNSUPPORTED,
                       "the folder's weights are quantised ('%s'); use the folder they were made from", label);
    if (tied && !yyjson_is_bool(tied))
        return rv_fail(err, RUVLLM_FORMAT, "'tie_word_embeddings' of 'config.json' is neither true nor false");
    if (tied)
        r->config->head = yyjson_get_bool(tied) ? RV_HF_CONFIG_HEAD_TIED : RV_HF_CONFIG_HEAD_APART;
    return RUVLLM_OK;
}

/* ---- shape --------------------------------------------------------------------------------- */

static ruvllm_status read_shape(struct reader *r, struct ruvllm_error *err)
{
    struct rv_hf_config *c = r->config;
    uint32_t n_ff = 0;
    ruvllm_status rc = take_u32(r->root, "num_hidden_layers", &c->n_layers, err);

    if (!rc)
        rc = take_u32(r->root, "hidden_size", &c->n_embd, err);
    if (!rc)
        rc = take_u32(r->root, "intermediate_size", &n_ff, err);
    if (!rc)
        rc = take_u32(r->root, "num_attention_heads", &c->n_heads, err);
    if (!rc)
        rc = take_u32(r->root, "max_position_embeddings", &c->context, err);
    c->n_kv_heads = c->n_heads;
    if (!rc)
        rc = take_optional_u32(r->root, "num_key_value_heads", &c->n_kv_heads, err);
    if (rc)
        return rc;
    c->head_dim = c->n_embd / c->n_heads;
    rc = take_optional_u32(r->root, "head_dim", &c->head_dim, err);
    if (rc)
        return rc;
    if (c->head_dim == 0 || c->head_dim % 2 || c->head_dim / 2 > RV_HF_CONFIG_MAX_FACTORS)
        return rv_fail(err, RUVLLM_FORMAT, "heads of %u dimensions are not possible", (unsigned)c->head_dim);
    rv_gguf_image_u32(r->image, key_of(r, "block_count"), c->n_layers);
    rv_gguf_image_u32(r->image, key_of(r, "embedding_length"), c->n_embd);
    rv_gguf_image_u32(r->image, key_of(r, "feed_forward_length"), n_ff);
    rv_gguf_image_u32(r->image, key_of(r, "attention.head_count"), c->n_heads);
    rv_gguf_image_u32(r->image, key_of(r, "attention.head_count_kv"), c->n_kv_heads);
    rv_gguf_image_u32(r->image, key_of(r, "attention.key_length"), c->head_dim);
    rv_gguf_image_u32(r->image, key_of(r, "attention.value_length"), c->head_dim);
    rv_gguf_image_u32(r->image, key_of(r, "context_length"), c->context);
    return RUVLLM_OK;
}

/* ---- attention ----------------------------------------------------------------------------- */

static ruvllm_status add_optional_f32(struct reader *r, const char *name, const char *suffix, struct ruvllm_error *err)
{
    double value = 0;
    ruvllm_status rc;

    if (!member(r->root, name))
        return RUVLLM_OK;
    rc = take_optional_f64(r->root, name, &value, err);
    if (!rc)
        rv_gguf_image_f32(r->image, key_of(r, suffix), (float)value);
    return rc;
}

/* Which layers have a window, as a list of names. */
static ruvllm_status read_layer_types(struct reader *r, struct ruvllm_error *err)
{
    yyjson_val *types = member(r->root, "layer_types"), *type;
    yyjson_arr_iter iter;

    if (!types)
        return RUVLLM_OK;
    if (yyjson_arr_size(types) != r->config->n_layers)
        return rv_fail(err, RUVLLM_FORMAT, "'layer_types' of 'config.json' is no list of %u layers",
                       (unsigned)r->config->n_layers);
    if (r->family->has_window)
        rv_gguf_image_array(r->image, key_of(r, "attention.sliding_window_pattern"), RV_GGUF_I32, r->config->n_layers);
    yyjson_arr_iter_init(types, &iter);
    while ((type = yyjson_arr_iter_next(&iter))) {
        bool has_window = yyjson_equals_str(type, "sliding_attention");

        if (!has_window && !yyjson_equals_str(type, "full_attention"))
            return rv_fail(err, RUVLLM_UNSUPPORTED,
                           "'layer_types' of 'config.json' has a kind of layer not known here");
        if (has_window && !r->family->has_window)
            return rv_fail(err, RUVLLM_UNSUPPORTED, "a sliding window is not run in '%s' models", r->config->arch);
        if (r->family->has_window)
            rv_gguf_image_add_i32(r->image, has_window);
    }
    return RUVLLM_OK;
}

static ruvllm_status read_window(struct reader *r, struct ruvllm_error *err)
{
    uint32_t window = 0, period = 0;
    ruvllm_status rc;

    if (yyjson_is_true(member(r->root, "use_sliding_window")))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "a sliding window is not run in '%s' models", r->config->arch);
    rc = read_layer_types(r, err);
    if (rc || !r->family->has_window)
        return rc;
    rc = take_optional_u32(r->root, "sliding_window", &window, err);
    if (!rc && window)
        rv_gguf_image_u32(r->image, key_of(r, "attention.sliding_window"), window);
    if (!rc && !member(r->root, "layer_types"))
        rc = take_optional_u32(r->root, "sliding_window_pattern", &period, err);
    if (!rc && period)
        rv_gguf_image_u32(r->image, key_of(r, "attention.sliding_window_pattern"), period);
    return rc;
}

/* Queries are scaled by the head size, or in the largest Gemma 2 by width per head; the graph knows no third way. */
static ruvllm_status check_query_scale(struct reader *r, struct ruvllm_error *err)
{
    const struct rv_hf_config *c = r->config;
    double scale = c->head_dim;
    ruvllm_status rc = take_optional_f64(r->root, "query_pre_attn_scalar", &scale, err);
    bool by_width = strcmp(c->arch, "gemma2") == 0 && c->n_layers == 46;
    uint32_t expected = by_width ? c->n_embd / c->n_heads : c->head_dim;

    if (rc)
        return rc;
    if (member(r->root, "query_pre_attn_scalar") && fabs(scale - (double)expected) > 1e-6)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "'query_pre_attn_scalar' of 'config.json' is %g where %u is computed",
                       scale, (unsigned)expected);
    return RUVLLM_OK;
}

static ruvllm_status read_attention(struct reader *r, struct ruvllm_error *err)
{
    ruvllm_status rc;

    if (!member(r->root, "rms_norm_eps"))
        return rv_fail(err, RUVLLM_FORMAT, "'config.json' does not say 'rms_norm_eps'");
    rc = add_optional_f32(r, "rms_norm_eps", "attention.layer_norm_rms_epsilon", err);
    if (!rc)
        rc = read_window(r, err);
    if (!rc)
        rc = check_query_scale(r, err);
    if (rc || !r->family->has_window)
        return rc;
    rc = add_optional_f32(r, "attn_logit_softcapping", "attn_logit_softcapping", err);
    return rc ? rc : add_optional_f32(r, "final_logit_softcapping", "final_logit_softcapping", err);
}

/* ---- RoPE ---------------------------------------------------------------------------------- */

/*
 * Llama 3.1: wavelengths above `low` periods of the original context are stretched by the factor, those below `high`
 * are left, and between them it is interpolated.
 */
static ruvllm_status read_llama3(struct reader *r, uint32_t n_rot, double base, struct ruvllm_error *err)
{
    double factor = 8, low = 1, high = 4, original = 8192;
    struct rv_hf_config_factors *out = &r->config->freqs;
    ruvllm_status rc = take_optional_f64(r->rope, "factor", &factor, err);

    if (!rc)
        rc = take_optional_f64(r->rope, "low_freq_factor", &low, err);
    if (!rc)
        rc = take_optional_f64(r->rope, "high_freq_factor", &high, err);
    if (!rc)
        rc = take_optional_f64(r->rope, "original_max_position_embeddings", &original, err);
    if (rc)
        return rc;
    if (!(factor >= 1 && low > 0 && high > low && original >= 1))
        return rv_fail(err, RUVLLM_FORMAT, "the numbers of RoPE scaling 'llama3' are not possible");
    out->n = n_rot / 2;
    for (size_t i = 0; i < out->n; i++) {
        double wavelength = 2 * 3.14159265358979323846 * pow(base, 2.0 * (double)i / (double)n_rot);
        double smooth = (original / wavelength - low) / (high - low);

        if (wavelength < original / high)
            out->values[i] = 1.0f;
        else if (wavelength > original / low)
            out->values[i] = (float)factor;
        else
            out->values[i] = (float)(1.0 / ((1.0 - smooth) / factor + smooth));
    }
    return RUVLLM_OK;
}

static ruvllm_status read_linear(struct reader *r, struct ruvllm_error *err)
{
    double factor = 1;
    ruvllm_status rc = take_optional_f64(r->rope, "factor", &factor, err);

    if (rc)
        return rc;
    rv_gguf_image_str(r->image, key_of(r, "rope.scaling.type"), (struct rv_str){"linear", 6});
    rv_gguf_image_f32(r->image, key_of(r, "rope.scaling.factor"), (float)factor);
    return RUVLLM_OK;
}

static ruvllm_status read_yarn(struct reader *r, struct ruvllm_error *err)
{
    double factor = 1, fast = 32, slow = 1, attention = 0;
    uint32_t original = r->config->context;
    ruvllm_status rc = take_optional_f64(r->rope, "factor", &factor, err);

    if (!rc)
        rc = take_optional_f64(r->rope, "beta_fast", &fast, err);
    if (!rc)
        rc = take_optional_f64(r->rope, "beta_slow", &slow, err);
    if (!rc)
        rc = take_optional_f64(r->rope, "attention_factor", &attention, err);
    if (!rc)
        rc = take_optional_u32(r->rope, "original_max_position_embeddings", &original, err);
    if (rc)
        return rc;
    if (member(r->rope, "mscale") || member(r->rope, "mscale_all_dim") || yyjson_is_false(member(r->rope, "truncate")))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "RoPE scaling 'yarn' has settings that are not computed here");
    if (!(factor >= 1))
        return rv_fail(err, RUVLLM_FORMAT, "RoPE scaling 'yarn' by %g is not possible", factor);
    rv_gguf_image_str(r->image, key_of(r, "rope.scaling.type"), (struct rv_str){"yarn", 4});
    rv_gguf_image_f32(r->image, key_of(r, "rope.scaling.factor"), (float)factor);
    rv_gguf_image_u32(r->image, key_of(r, "rope.scaling.original_context_length"), original);
    rv_gguf_image_f32(r->image, key_of(r, "rope.scaling.yarn_beta_fast"), (float)fast);
    rv_gguf_image_f32(r->image, key_of(r, "rope.scaling.yarn_beta_slow"), (float)slow);
    /* The usual magnitude, 0.1 ln(s) + 1, is computed anyway: what is stated here is on top of it. */
    if (attention > 0)
        rv_gguf_image_f32(r->image, key_of(r, "rope.scaling.attn_factor"),
                          (float)(attention / (0.1 * log(factor) + 1.0)));
    return RUVLLM_OK;
}

static ruvllm_status read_factors(struct reader *r, const char *name, size_t n, struct rv_hf_config_factors *out,
                                  struct ruvllm_error *err)
{
    yyjson_val *list = member(r->rope, name), *value;
    yyjson_arr_iter iter;

    if (yyjson_arr_size(list) != n)
        return rv_fail(err, RUVLLM_FORMAT, "'%s' of 'config.json' is no list of %zu factors", name, n);
    out->n = 0;
    yyjson_arr_iter_init(list, &iter);
    while ((value = yyjson_arr_iter_next(&iter))) {
        double factor = yyjson_is_num(value) ? yyjson_get_num(value) : 0;

        if (!(factor > 0 && factor <= 1e6))
            return rv_fail(err, RUVLLM_FORMAT, "'%s' of 'config.json' has something that is no factor", name);
        out->values[out->n++] = (float)factor;
    }
    return RUVLLM_OK;
}

/* Phi-3: one list of factors within the original context, another beyond it (arXiv 2402.13753). */
static ruvllm_status read_longrope(struct reader *r, uint32_t n_rot, struct ruvllm_error *err)
{
    uint32_t original = 0;
    double scale, attention = 1;
    ruvllm_status rc = take_u32(member(r->rope, "original_max_position_embeddings") ? r->rope : r->root,
                                "original_max_position_embeddings", &original, err);

    if (!rc)
        rc = read_factors(r, "long_factor", n_rot / 2, &r->config->long_freqs, err);
    if (!rc)
        rc = read_factors(r, "short_factor", n_rot / 2, &r->config->short_freqs, err);
    if (rc)
        return rc;
    if (member(r->rope, "long_mscale") || member(r->rope, "short_mscale"))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "RoPE scaling 'longrope' has settings that are not computed here");
    scale = (double)r->config->context / (double)original;
    if (scale > 1 && original > 1)
        attention = sqrt(1.0 + log(scale) / log((double)original));
    rc = take_optional_f64(r->rope, "attention_factor", &attention, err);
    if (rc)
        return rc;
    rv_gguf_image_u32(r->image, key_of(r, "rope.scaling.original_context_length"), original);
    rv_gguf_image_f32(r->image, key_of(r, "rope.scaling.attn_factor"), (float)attention);
    return RUVLLM_OK;
}

static ruvllm_status read_scaling(struct reader *r, uint32_t n_rot, double base, struct ruvllm_error *err)
{
    yyjson_val *type = member(r->rope, "rope_type");
    char label[RV_GGUF_VALUE_LABEL];

    if (!type)
        type = member(r->rope, "type");
    if (!type || yyjson_equals_str(type, "default"))
        return RUVLLM_OK;
    if (!yyjson_is_str(type))
        return rv_fail(err, RUVLLM_FORMAT, "the kind of RoPE scaling in 'config.json' is no name");
    if (yyjson_equals_str(type, "llama3"))
        return read_llama3(r, n_rot, base, err);
    if (yyjson_equals_str(type, "linear"))
        return read_linear(r, err);
    if (yyjson_equals_str(type, "yarn"))
        return read_yarn(r, err);
    if (strcmp(r->config->arch, "phi3") == 0 && (yyjson_equals_str(type, "longrope") || yyjson_equals_str(type, "su")))
        return read_longrope(r, n_rot, err);
    return rv_fail(err, RUVLLM_UNSUPPORTED, "RoPE scaling '%s' is not computed for '%s' models",
                   rv_gguf_value_label(yyjson_get_str(type), yyjson_get_len(type), label), r->config->arch);
}

/* Newer configs have base and scaling in one object, and where layers differ one object for each kind of layer. */
static ruvllm_status find_rope(struct reader *r, double *base, double *window_base, struct ruvllm_error *err)
{
    yyjson_val *parameters = member(r->root, "rope_parameters"), *full = member(parameters, "full_attention");
    ruvllm_status rc = take_optional_f64(r->root, "rope_theta", base, err);

    if (!rc)
        rc = take_optional_f64(r->root, "rope_local_base_freq", window_base, err);
    r->rope = full ? full : parameters ? parameters : member(r->root, "rope_scaling");
    if (!rc && r->rope && !yyjson_is_obj(r->rope))
        rc = rv_fail(err, RUVLLM_FORMAT, "the RoPE scaling in 'config.json' is no object");
    if (!rc && r->rope)
        rc = take_optional_f64(r->rope, "rope_theta", base, err);
    if (!rc && full)
        rc = take_optional_f64(member(parameters, "sliding_attention"), "rope_theta", window_base, err);
    return rc;
}

static ruvllm_status read_rope(struct reader *r, struct ruvllm_error *err)
{
    double base = 10000, window_base = 0, share = 1;
    uint32_t n_rot;
    ruvllm_status rc = find_rope(r, &base, &window_base, err);

    if (!rc)
        rc = take_optional_f64(r->root, "partial_rotary_factor", &share, err);
    if (!rc && r->rope)
        rc = take_optional_f64(r->rope, "partial_rotary_factor", &share, err);
    if (rc)
        return rc;
    n_rot = share > 0 && share <= 1 ? (uint32_t)((double)r->config->head_dim * share) : 0;
    if (n_rot < 2 || n_rot % 2)
        return rv_fail(err, RUVLLM_FORMAT, "a share of %g of %u dimensions cannot be rotated", share,
                       (unsigned)r->config->head_dim);
    if (r->config->pairs_rows && n_rot != r->config->head_dim)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "'%s' models with partly rotated heads are not run", r->config->arch);
    rv_gguf_image_u32(r->image, key_of(r, "rope.dimension_count"), n_rot);
    rv_gguf_image_f32(r->image, key_of(r, "rope.freq_base"), (float)base);
    if (window_base > 0 && r->family->has_window)
        rv_gguf_image_f32(r->image, key_of(r, "rope.freq_base_swa"), (float)window_base);
    return read_scaling(r, n_rot, base, err);
}

/* ---- tokens -------------------------------------------------------------------------------- */

static ruvllm_status add_end(struct rv_hf_config *c, yyjson_val *value, struct ruvllm_error *err)
{
    int32_t id;

    if (!yyjson_is_uint(value) || yyjson_get_uint(value) > INT32_MAX)
        return rv_fail(err, RUVLLM_FORMAT, "'eos_token_id' has something that is no token");
    id = (int32_t)yyjson_get_uint(value);
    for (size_t i = 0; i < c->n_ends; i++) {
        if (c->ends[i] == id)
            return RUVLLM_OK;
    }
    if (c->n_ends == RV_HF_CONFIG_MAX_ENDS)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "more than %d tokens end an answer", RV_HF_CONFIG_MAX_ENDS);
    c->ends[c->n_ends++] = id;
    return RUVLLM_OK;
}

ruvllm_status rv_hf_config_read_ends(struct rv_hf_config *config, const struct rv_json_file *json,
                                     struct ruvllm_error *err)
{
    yyjson_val *value = member(json->root, "eos_token_id"), *each;
    yyjson_arr_iter iter;
    ruvllm_status rc = RUVLLM_OK;

    if (!value)
        return RUVLLM_OK;
    if (!yyjson_is_arr(value))
        return add_end(config, value, err);
    yyjson_arr_iter_init(value, &iter);
    while (!rc && (each = yyjson_arr_iter_next(&iter)))
        rc = add_end(config, each, err);
    return rc;
}

static ruvllm_status read_bos(struct reader *r, struct ruvllm_error *err)
{
    yyjson_val *value = member(r->root, "bos_token_id");

    if (!value)
        return RUVLLM_OK;
    if (!yyjson_is_uint(value) || yyjson_get_uint(value) > INT32_MAX)
        return rv_fail(err, RUVLLM_FORMAT, "'bos_token_id' of 'config.json' is no token");
    r->config->bos = (int32_t)yyjson_get_uint(value);
    return RUVLLM_OK;
}

ruvllm_status rv_hf_config_read(struct rv_hf_config *out, const struct rv_json_file *json, struct rv_gguf_image *image,
                                struct ruvllm_error *err)
{
    struct reader r = {.root = json->root, .config = out, .image = image};
    ruvllm_status rc;

    *out = (struct rv_hf_config){.bos = -1};
    rc = find_family(&r, err);
    if (rc)
        return rc;
    rv_gguf_image_str(image, "general.architecture", (struct rv_str){out->arch, strlen(out->arch)});
    rc = check_activation(&r, err);
    if (!rc)
        rc = check_weights(&r, err);
    if (!rc)
        rc = read_shape(&r, err);
    if (!rc)
        rc = read_attention(&r, err);
    if (!rc)
        rc = read_rope(&r, err);
    if (!rc)
        rc = read_bos(&r, err);
    return rc;
}
