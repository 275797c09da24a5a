/* Reads the tokenizer.* keys into a vocabulary spec; what the values mean is for the vocabulary to judge. */
#include "engine/vocab_loader.h"

#include "base/alloc.h"
#include "model/gguf_file.h"
#include "text/vocab.h"

/* The arrays read from the file, ours until the vocabulary is made. */
struct arrays {
    struct rv_str *tokens;
    struct rv_str *merges;
    float *scores;
    int32_t *types;
};

static ruvllm_status read_str(const struct rv_gguf_file *file, const char *key, struct rv_str *out,
                              struct ruvllm_error *err)
{
    return rv_gguf_file_has(file, key) ? rv_gguf_file_str(file, key, out, err) : RUVLLM_OK;
}

/* Absent keys leave -1, and so does the all-ones value some converters write for "none". */
static ruvllm_status read_id(const struct rv_gguf_file *file, const char *key, int32_t *out, struct ruvllm_error *err)
{
    uint32_t value = UINT32_MAX;
    ruvllm_status rc = RUVLLM_OK;

    *out = -1;
    if (rv_gguf_file_has(file, key))
        rc = rv_gguf_file_u32(file, key, &value, err);
    if (rc || value == UINT32_MAX)
        return rc;
    if (value > INT32_MAX)
        return rv_fail(err, RUVLLM_FORMAT, "'%s' is %u, which is no token", key, (unsigned)value);
    *out = (int32_t)value;
    return RUVLLM_OK;
}

static ruvllm_status read_flag(const struct rv_gguf_file *file, const char *key, enum rv_tristate *out,
                               struct ruvllm_error *err)
{
    bool value = false;
    ruvllm_status rc;

    *out = RV_UNSET;
    if (!rv_gguf_file_has(file, key))
        return RUVLLM_OK;
    rc = rv_gguf_file_bool(file, key, &value, err);
    if (!rc)
        *out = value ? RV_YES : RV_NO;
    return rc;
}

static ruvllm_status read_names(const struct rv_gguf_file *file, struct rv_vocab_spec *spec, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_gguf_file_str(file, "tokenizer.ggml.model", &spec->model, err);

    if (!rc)
        rc = read_str(file, "tokenizer.ggml.pre", &spec->pre, err);
    if (!rc)
        rc = read_str(file, "general.architecture", &spec->architecture, err);
    if (!rc)
        rc = read_str(file, "general.name", &spec->name, err);
    return rc;
}

static ruvllm_status read_settings(const struct rv_gguf_file *file, struct rv_vocab_spec *spec,
                                   struct ruvllm_error *err)
{
    const struct {
        const char *key;
        int32_t *id;
    } ids[] = {
        {"tokenizer.ggml.bos_token_id", &spec->bos},       {"tokenizer.ggml.eos_token_id", &spec->eos},
        {"tokenizer.ggml.eot_token_id", &spec->eot},       {"tokenizer.ggml.eom_token_id", &spec->eom},
        {"tokenizer.ggml.unknown_token_id", &spec->unk},   {"tokenizer.ggml.padding_token_id", &spec->pad},
        {"tokenizer.ggml.seperator_token_id", &spec->sep}, // the key is spelled so
    };
    ruvllm_status rc = RUVLLM_OK;

    for (size_t i = 0; !rc && i < sizeof(ids) / sizeof(ids[0]); i++)
        rc = read_id(file, ids[i].key, ids[i].id, err);
    if (!rc)
        rc = read_flag(file, "tokenizer.ggml.add_bos_token", &spec->add_bos, err);
    if (!rc)
        rc = read_flag(file, "tokenizer.ggml.add_eos_token", &spec->add_eos, err);
    if (!rc)
        rc = read_flag(file, "tokenizer.ggml.add_space_prefix", &spec->add_space_prefix, err);
    return rc;
}

static ruvllm_status check_count(const char *key, size_t n, size_t n_tokens, struct ruvllm_error *err)
{
    if (n < n_tokens)
        return rv_fail(err, RUVLLM_FORMAT, "'%s' has %zu values for %zu tokens", key, n, n_tokens);
    return RUVLLM_OK;
}

static ruvllm_status read_arrays(const struct rv_gguf_file *file, struct rv_vocab_spec *spec, struct arrays *arrays,
                                 struct ruvllm_error *err)
{
    static const char scores[] = "tokenizer.ggml.scores", types[] = "tokenizer.ggml.token_type";
    static const char merges[] = "tokenizer.ggml.merges";
    size_t n_scores = SIZE_MAX, n_types = SIZE_MAX;
    ruvllm_status rc = rv_gguf_file_array_str(file, "tokenizer.ggml.tokens", &arrays->tokens, &spec->n_tokens, err);

    if (!rc && rv_gguf_file_has(file, scores))
        rc = rv_gguf_file_array_f32(file, scores, &arrays->scores, &n_scores, err);
    if (!rc && rv_gguf_file_has(file, types))
        rc = rv_gguf_file_array_i32(file, types, &arrays->types, &n_types, err);
    if (!rc && rv_gguf_file_has(file, merges))
        rc = rv_gguf_file_array_str(file, merges, &arrays->merges, &spec->n_merges, err);
    if (!rc)
        rc = check_count(scores, n_scores, spec->n_tokens, err);
    if (!rc)
        rc = check_count(types, n_types, spec->n_tokens, err);
    spec->tokens = arrays->tokens;
    spec->scores = arrays->scores;
    spec->types = arrays->types;
    spec->merges = arrays->merges;
    return rc;
}

ruvllm_status rv_vocab_loader_open(const struct rv_gguf_file *file, struct rv_vocab **out, struct ruvllm_error *err)
{
    struct rv_vocab_spec spec = {0};
    struct arrays arrays = {0};
    ruvllm_status rc;

    *out = NULL;
    rc = read_names(file, &spec, err);
    if (!rc)
        rc = read_settings(file, &spec, err);
    if (!rc)
        rc = read_arrays(file, &spec, &arrays, err);
    if (!rc)
        rc = rv_vocab_new(out, &spec, err);
    rv_free(arrays.tokens);
    rv_free(arrays.merges);
    rv_free(arrays.scores);
    rv_free(arrays.types);
    return rc;
}
