/*
 * What is read, and what is refused. `fan_in_fan_out` is neither: it says how the base's weight lies, which PEFT itself
 * corrects for linear layers, and A and B are the same either way.
 */
#include "model/peft_config.h"

#include "model/adapter.h"
#include "model/gguf_value.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include <yyjson.h>

/* Wishes that pairs of matrices cannot express. */
static const struct {
    const char *key;
    const char *what;
} refused[] = {
    {"use_dora", "is a DoRA adapter (a magnitude for each column)"},
    {"modules_to_save", "replaces whole modules (modules_to_save)"},
    {"use_qalora", "is a QALoRA adapter"},
    {"lora_bias", "adds biases to its matrices (lora_bias)"},
    {"layer_replication", "repeats layers of the base (layer_replication)"},
    {"trainable_token_indices", "changes embeddings of tokens (trainable_token_indices)"},
    {"target_parameters", "changes bare parameters (target_parameters)"},
    {"alora_invocation_tokens", "works only after certain tokens (an activated LoRA)"},
    {"arrow_config", "routes between adapters (Arrow)"},
};

/* Ways to begin training that changed the base's own weights. */
static const char *const other_bases[] = {"pissa", "olora", "loftq", "corda"};

static bool is_set(yyjson_val *value)
{
    if (!value || yyjson_is_null(value) || yyjson_is_false(value))
        return false;
    if (yyjson_is_arr(value))
        return yyjson_arr_size(value) != 0;
    if (yyjson_is_obj(value))
        return yyjson_obj_size(value) != 0;
    return true;
}

static ruvllm_status refuse_unknown(yyjson_val *root, struct ruvllm_error *err)
{
    yyjson_val *bias = yyjson_obj_get(root, "bias"), *init = yyjson_obj_get(root, "init_lora_weights");

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        if (is_set(yyjson_obj_get(root, refused[i].key)))
            return rv_fail(err, RUVLLM_UNSUPPORTED, "it %s, which is not supported", refused[i].what);
    }
    if (is_set(bias) && !yyjson_equals_str(bias, "none"))
        return rv_fail(err, RUVLLM_UNSUPPORTED,
                       "it was trained with biases (bias is not 'none'), which is not "
                       "supported");
    for (size_t i = 0; yyjson_is_str(init) && i < sizeof(other_bases) / sizeof(other_bases[0]); i++) {
        if (strncmp(yyjson_get_str(init), other_bases[i], strlen(other_bases[i])) == 0)
            return rv_fail(err, RUVLLM_UNSUPPORTED,
                           "it began with '%s', which changes the base's weights too: convert it to a plain LoRA first",
                           other_bases[i]);
    }
    return RUVLLM_OK;
}

static ruvllm_status read_rank(yyjson_val *value, int32_t *out, struct ruvllm_error *err)
{
    if (!yyjson_is_uint(value) || yyjson_get_uint(value) < 1 || yyjson_get_uint(value) > RV_ADAPTER_MAX_RANK)
        return rv_fail(err, RUVLLM_FORMAT, "a rank in its configuration is no number from 1 to %d",
                       RV_ADAPTER_MAX_RANK);
    *out = (int32_t)yyjson_get_uint(value);
    return RUVLLM_OK;
}

static ruvllm_status read_alpha(yyjson_val *value, double *out, struct ruvllm_error *err)
{
    if (!yyjson_is_num(value) || !isfinite(yyjson_get_num(value)))
        return rv_fail(err, RUVLLM_FORMAT, "an alpha in its configuration is no finite number");
    *out = yyjson_get_num(value);
    return RUVLLM_OK;
}

static ruvllm_status read_pattern(yyjson_val *root, const char *key, yyjson_val **out, struct ruvllm_error *err)
{
    *out = yyjson_obj_get(root, key);
    if (*out && !yyjson_is_obj(*out) && !yyjson_is_null(*out))
        return rv_fail(err, RUVLLM_FORMAT, "'%s' in its configuration is no object", key);
    return RUVLLM_OK;
}

static ruvllm_status read_config(struct rv_peft_config *config, struct ruvllm_error *err)
{
    yyjson_val *root = config->json.root, *rslora = yyjson_obj_get(root, "use_rslora");
    ruvllm_status rc;

    if (!yyjson_equals_str(yyjson_obj_get(root, "peft_type"), "LORA"))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "its 'peft_type' is not LORA");
    rc = refuse_unknown(root, err);
    if (!rc)
        rc = read_rank(yyjson_obj_get(root, "r"), &config->rank, err);
    if (!rc)
        rc = read_alpha(yyjson_obj_get(root, "lora_alpha"), &config->alpha, err);
    if (!rc && rslora && !yyjson_is_bool(rslora) && !yyjson_is_null(rslora))
        rc = rv_fail(err, RUVLLM_FORMAT, "'use_rslora' in its configuration is neither true nor false");
    config->is_rslora = yyjson_is_true(rslora);
    if (!rc)
        rc = read_pattern(root, "rank_pattern", &config->rank_pattern, err);
    return rc ? rc : read_pattern(root, "alpha_pattern", &config->alpha_pattern, err);
}

ruvllm_status rv_peft_config_parse(struct rv_peft_config *out, struct rv_str text, struct ruvllm_error *err)
{
    ruvllm_status rc;

    *out = (struct rv_peft_config){0};
    rc = rv_json_file_parse(&out->json, text.data, text.len, "adapter_config.json", err);
    if (!rc)
        rc = read_config(out, err);
    if (rc)
        rv_peft_config_release(out);
    return rc;
}

void rv_peft_config_release(struct rv_peft_config *config)
{
    rv_json_file_release(&config->json);
    *config = (struct rv_peft_config){0};
}

/* ---- patterns ------------------------------------------------------------------------------ */

/* The name a pattern is, without what escapes its dots; false for anything that only a regular expression says. */
static bool plain_name(const char *pattern, size_t len, char *out, size_t cap, size_t *out_len)
{
    *out_len = 0;
    for (size_t i = 0; i < len; i++) {
        if (pattern[i] == '\\' && i + 1 < len && pattern[i + 1] == '.')
            continue;
        if ((!isalnum((unsigned char)pattern[i]) && pattern[i] != '_' && pattern[i] != '.') || *out_len == cap)
            return false;
        out[(*out_len)++] = pattern[i];
    }
    return *out_len > 0;
}

/* As PEFT matches: the whole name, or its end behind a dot; with a '^' only the whole. */
static ruvllm_status matches(yyjson_val *key, struct rv_str module, bool *out, struct ruvllm_error *err)
{
    const char *pattern = yyjson_get_str(key);
    size_t len = yyjson_get_len(key), name_len;
    bool is_whole = len > 0 && pattern[0] == '^';
    char label[RV_GGUF_VALUE_LABEL], name[512];

    if (!plain_name(pattern + is_whole, len - is_whole, name, sizeof(name), &name_len))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "the pattern '%s' in its configuration is no plain name",
                       rv_gguf_value_label(pattern, len, label));
    *out = module.len >= name_len && memcmp(module.data + module.len - name_len, name, name_len) == 0 &&
           (module.len == name_len || (!is_whole && module.data[module.len - name_len - 1] == '.'));
    return RUVLLM_OK;
}

/* The value of the first pattern that fits; NULL: none does. */
static ruvllm_status look_up(yyjson_val *patterns, struct rv_str module, yyjson_val **out, struct ruvllm_error *err)
{
    yyjson_obj_iter iter;
    yyjson_val *key;

    *out = NULL;
    if (!yyjson_obj_iter_init(patterns, &iter))
        return RUVLLM_OK;
    while (!*out && (key = yyjson_obj_iter_next(&iter))) {
        bool fits = false;
        ruvllm_status rc = matches(key, module, &fits, err);

        if (rc)
            return rc;
        if (fits)
            *out = yyjson_obj_iter_get_val(key);
    }
    return RUVLLM_OK;
}

ruvllm_status rv_peft_config_scale(const struct rv_peft_config *config, struct rv_str module, int32_t rank,
                                   float *scale, struct ruvllm_error *err)
{
    yyjson_val *own_rank = NULL, *own_alpha = NULL;
    int32_t wanted = config->rank;
    double alpha = config->alpha;
    ruvllm_status rc = look_up(config->rank_pattern, module, &own_rank, err);

    if (!rc && own_rank)
        rc = read_rank(own_rank, &wanted, err);
    if (!rc)
        rc = look_up(config->alpha_pattern, module, &own_alpha, err);
    if (!rc && own_alpha)
        rc = read_alpha(own_alpha, &alpha, err);
    if (!rc && rank != wanted)
        rc = rv_fail(err, RUVLLM_FORMAT, "its matrices have rank %d where the configuration says %d", rank, wanted);
    if (rc)
        return rc;
    *scale = (float)(alpha / (config->is_rslora ? sqrt((double)rank) : (double)rank));
    return RUVLLM_OK;
}
