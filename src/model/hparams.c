/*
 * Reads the shape of a model. Everything here came out of a file: each number has a range, and the
 * products that later code forms (heads times head size, groups) are checked where the numbers are read.
 */
#include "model/hparams.h"

#include "base/alloc.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Ranges generous for any model of the field and small enough that no product of two overflows. */
enum { MAX_WIDTH = 1 << 20, MAX_HEADS = 1 << 12, MAX_VOCAB = 1 << 24, MAX_CONTEXT = 1 << 28 };

struct reader {
    const struct rv_gguf_file *file;
    const char *arch;
    char key[128];
};

static const char *key_of(struct reader *r, const char *suffix)
{
    snprintf(r->key, sizeof(r->key), "%s.%s", r->arch, suffix);
    return r->key;
}

static ruvllm_status check_range(struct reader *r, uint32_t value, int32_t max, int32_t *out, struct ruvllm_error *err)
{
    if (value < 1 || value > (uint32_t)max)
        return rv_fail(err, RUVLLM_FORMAT, "'%s' is %u, which is not between 1 and %d", r->key, value, max);
    *out = (int32_t)value;
    return RUVLLM_OK;
}

/* A number that may also be an array of equal numbers, one a layer. */
static ruvllm_status read_count(struct reader *r, const char *suffix, int32_t max, int32_t *out,
                                struct ruvllm_error *err)
{
    const char *key = key_of(r, suffix);
    enum rv_gguf_type type;
    int32_t *values = NULL;
    uint32_t value;
    size_t n;
    ruvllm_status rc;

    if (rv_gguf_file_array(r->file, key, &type, &n, NULL) != RUVLLM_OK) {
        rc = rv_gguf_file_u32(r->file, key, &value, err);
        return rc ? rc : check_range(r, value, max, out, err);
    }
    rc = rv_gguf_file_array_i32(r->file, key, &values, &n, err);
    if (rc)
        return rc;
    rc = n == 0 ? rv_fail(err, RUVLLM_FORMAT, "'%s' is empty", key) : RUVLLM_OK;
    for (size_t i = 1; i < n && !rc; i++) {
        if (values[i] != values[0])
            rc = rv_fail(err, RUVLLM_UNSUPPORTED, "'%s' differs between layers, which this engine cannot run", key);
    }
    if (!rc)
        rc = check_range(r, (uint32_t)values[0], max, out, err);
    rv_free(values);
    return rc;
}

/* Leaves *out as it is when the key is missing; any other trouble is an error. */
static ruvllm_status read_optional_count(struct reader *r, const char *suffix, int32_t max, int32_t *out,
                                         struct ruvllm_error *err)
{
    return rv_gguf_file_has(r->file, key_of(r, suffix)) ? read_count(r, suffix, max, out, err) : RUVLLM_OK;
}

static ruvllm_status read_optional_float(struct reader *r, const char *suffix, float min, float max, float *out,
                                         struct ruvllm_error *err)
{
    const char *key = key_of(r, suffix);
    float value;
    ruvllm_status rc;

    if (!rv_gguf_file_has(r->file, key))
        return RUVLLM_OK;
    rc = rv_gguf_file_f32(r->file, key, &value, err);
    if (rc)
        return rc;
    if (!(value >= min && value <= max))
        return rv_fail(err, RUVLLM_FORMAT, "'%s' is %g, which is not between %g and %g", key, (double)value,
                       (double)min, (double)max);
    *out = value;
    return RUVLLM_OK;
}

static ruvllm_status read_vocab_size(struct reader *r, int32_t *out, struct ruvllm_error *err)
{
    const struct rv_gguf_tensor *embedding = rv_gguf_file_tensor_find(r->file, "token_embd.weight");

    /* The embedding decides: metadata may be missing or count without the padding rows. */
    if (!embedding)
        return rv_fail(err, RUVLLM_FORMAT, "the file has no tensor 'token_embd.weight'");
    if (embedding->ne[1] > MAX_VOCAB)
        return rv_fail(err, RUVLLM_FORMAT, "a vocabulary of %lld tokens is too large", (long long)embedding->ne[1]);
    *out = (int32_t)embedding->ne[1];
    return RUVLLM_OK;
}

static ruvllm_status read_shape(struct reader *r, struct rv_hparams *h, struct ruvllm_error *err)
{
    int32_t value_dim;
    ruvllm_status rc = read_vocab_size(r, &h->n_vocab, err);

    if (!rc)
        rc = read_count(r, "block_count", RV_HPARAMS_MAX_LAYERS, &h->n_layers, err);
    if (!rc)
        rc = read_count(r, "embedding_length", MAX_WIDTH, &h->n_embd, err);
    if (!rc)
        rc = read_count(r, "attention.head_count", MAX_HEADS, &h->n_heads, err);
    h->n_kv_heads = h->n_heads;
    if (!rc)
        rc = read_optional_count(r, "attention.head_count_kv", MAX_HEADS, &h->n_kv_heads, err);
    if (!rc)
        rc = read_count(r, "feed_forward_length", MAX_WIDTH, &h->n_ff, err);
    if (!rc)
        rc = read_count(r, "context_length", MAX_CONTEXT, &h->trained_context, err);
    if (rc)
        return rc;
    h->head_dim = h->n_embd / h->n_heads;
    rc = read_optional_count(r, "attention.key_length", 1024, &h->head_dim, err);
    value_dim = h->head_dim;
    if (!rc)
        rc = read_optional_count(r, "attention.value_length", 1024, &value_dim, err);
    if (rc)
        return rc;
    if (value_dim != h->head_dim)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "keys of %d and values of %d dimensions cannot be run", h->head_dim,
                       value_dim);
    if (h->head_dim < 1 || h->head_dim > 1024)
        return rv_fail(err, RUVLLM_FORMAT, "a head of %d dimensions is not possible", h->head_dim);
    if (h->n_heads % h->n_kv_heads)
        return rv_fail(err, RUVLLM_FORMAT, "%d query heads do not share %d key heads evenly", h->n_heads,
                       h->n_kv_heads);
    return RUVLLM_OK;
}

/* Fills layer_has_window from the file's pattern (a list, or a period) or the family's period. */
static ruvllm_status read_window_pattern(struct reader *r, struct rv_hparams *h, struct ruvllm_error *err)
{
    const char *key = key_of(r, "attention.sliding_window_pattern");
    uint32_t period = h->arch->window_period;
    enum rv_gguf_type type;
    int32_t *flags;
    size_t n;
    ruvllm_status rc;

    if (rv_gguf_file_array(r->file, key, &type, &n, NULL) == RUVLLM_OK) {
        rc = rv_gguf_file_array_i32(r->file, key, &flags, &n, err);
        if (rc)
            return rc;
        if (n < (size_t)h->n_layers)
            rc = rv_fail(err, RUVLLM_FORMAT, "'%s' has %zu entries for %d layers", key, n, h->n_layers);
        for (int32_t i = 0; i < h->n_layers && !rc; i++)
            h->layer_has_window[i] = flags[i] != 0;
        rv_free(flags);
        return rc;
    }
    if (rv_gguf_file_has(r->file, key)) {
        rc = rv_gguf_file_u32(r->file, key, &period, err);
        if (rc)
            return rc;
    }
    for (int32_t i = 0; i < h->n_layers; i++)
        h->layer_has_window[i] = period == 0 || (uint32_t)i % period < period - 1;
    return RUVLLM_OK;
}

static ruvllm_status read_attention(struct reader *r, struct rv_hparams *h, struct ruvllm_error *err)
{
    const struct rv_arch *arch = h->arch;
    bool is_rms = arch->norm == RV_ARCH_NORM_RMS;
    int32_t width_per_head = h->n_embd / h->n_heads;
    uint32_t window = arch->window;
    ruvllm_status rc;

    h->norm_eps = -1;
    rc = read_optional_float(r, is_rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", 0, 1,
                             &h->norm_eps, err);
    if (rc)
        return rc;
    if (h->norm_eps < 0)
        return rv_fail(err, RUVLLM_FORMAT, "the file does not say '%s'", r->key);
    h->attention_scale = 1.0f / sqrtf((float)h->head_dim);
    if (arch->width_scaled_layers && h->n_layers == arch->width_scaled_layers)
        h->attention_scale = 1.0f / sqrtf((float)width_per_head);
    h->attention_cap = arch->attention_cap;
    h->final_cap = arch->final_cap;
    if (arch->has_attention_cap)
        rc = read_optional_float(r, "attn_logit_softcapping", 0, 1e6f, &h->attention_cap, err);
    if (!rc && arch->has_final_cap)
        rc = read_optional_float(r, "final_logit_softcapping", 0, 1e6f, &h->final_cap, err);
    if (rc || !arch->has_window)
        return rc;
    if (rv_gguf_file_has(r->file, key_of(r, "attention.sliding_window"))) {
        rc = rv_gguf_file_u32(r->file, r->key, &window, err);
        if (rc)
            return rc;
    }
    if (window > MAX_CONTEXT)
        return rv_fail(err, RUVLLM_FORMAT, "a sliding window of %u tokens is too large", window);
    h->window = (int32_t)window;
    return window ? read_window_pattern(r, h, err) : RUVLLM_OK;
}

static ruvllm_status read_rope_kind(struct reader *r, enum rv_rope_kind *out, struct ruvllm_error *err)
{
    static const struct {
        const char *name;
        enum rv_rope_kind kind;
    } kinds[] = {
        {"none", RV_ROPE_NONE}, {"linear", RV_ROPE_LINEAR}, {"yarn", RV_ROPE_YARN}, {"longrope", RV_ROPE_LONGROPE}};
    const char *key = key_of(r, "rope.scaling.type");
    struct rv_str name;
    ruvllm_status rc;

    *out = RV_ROPE_LINEAR; // a file that names a factor but no kind means this one
    if (!rv_gguf_file_has(r->file, key))
        return RUVLLM_OK;
    rc = rv_gguf_file_str(r->file, key, &name, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strlen(kinds[i].name) == name.len && memcmp(kinds[i].name, name.data, name.len) == 0) {
            *out = kinds[i].kind;
            return RUVLLM_OK;
        }
    }
    return rv_fail(err, RUVLLM_UNSUPPORTED, "RoPE scaling '%.*s' is not one of none, linear, yarn, longrope",
                   (int)(name.len < 40 ? name.len : 40), name.data);
}

/* The user's word over the file's. */
static void override_rope(struct rv_rope *rope, float *scale, const struct rv_rope_override *o)
{
    if (o->scaling == RUVLLM_ROPE_NONE)
        rope->kind = RV_ROPE_NONE;
    else if (o->scaling == RUVLLM_ROPE_LINEAR)
        rope->kind = RV_ROPE_LINEAR;
    else if (o->scaling == RUVLLM_ROPE_YARN)
        rope->kind = RV_ROPE_YARN;
    if (o->scale > 0)
        *scale = o->scale;
    if (o->freq_base > 0)
        rope->freq_base = o->freq_base;
    if (o->original_context > 0)
        rope->original_context = o->original_context;
    if (o->attn_factor > 0)
        rope->attn_factor = o->attn_factor;
    if (o->beta_fast > 0)
        rope->beta_fast = o->beta_fast;
    if (o->beta_slow > 0)
        rope->beta_slow = o->beta_slow;
}

/* Turns a kind and a context multiplier into what ggml's rope computes with. */
static void settle_rope(struct rv_rope *rope, float scale, const struct rv_rope_override *o)
{
    if (o->scaling == RUVLLM_ROPE_NTK && scale > 1) {
        /* "NTK-aware" scaling: stretch the lowest frequency by `scale` and leave the highest alone. */
        float dims = (float)rope->n_dims;
        rope->freq_base *= powf(scale, dims / (dims - 2.0f));
        rope->kind = RV_ROPE_NONE;
    }
    rope->freq_scale = rope->kind == RV_ROPE_NONE ? 1.0f : 1.0f / scale;
    if (o->ext_factor >= 0)
        rope->ext_factor = o->ext_factor;
    else
        rope->ext_factor = rope->kind == RV_ROPE_YARN ? 1.0f : 0.0f;
    /*
     * YaRN wants attention magnitudes multiplied by 0.1 ln(s) + 1 (arXiv 2309.00071, eq. 22). ggml applies just that
     * whenever its extrapolation factor is not zero, so attn_factor stays what the file or the user says.
     */
}

static ruvllm_status read_rope(struct reader *r, struct rv_hparams *h, const struct rv_rope_override *o,
                               struct ruvllm_error *err)
{
    struct rv_rope *rope = &h->rope;
    float scale = 0;
    ruvllm_status rc;

    *rope = (struct rv_rope){.n_dims = h->head_dim,
                             .original_context = h->trained_context,
                             .freq_base = 10000.0f,
                             .attn_factor = 1.0f,
                             .beta_fast = 32.0f,
                             .beta_slow = 1.0f};
    rc = read_optional_count(r, "rope.dimension_count", h->head_dim, &rope->n_dims, err);
    if (!rc && rope->n_dims % 2)
        rc = rv_fail(err, RUVLLM_FORMAT, "'%s' is %d, which is odd", r->key, rope->n_dims);
    if (!rc)
        rc = read_optional_count(r, "rope.scaling.original_context_length", MAX_CONTEXT, &rope->original_context, err);
    if (!rc)
        rc = read_optional_float(r, "rope.freq_base", 1e-3f, 1e12f, &rope->freq_base, err);
    rope->freq_base_window = h->arch->window_rope_base > 0 ? h->arch->window_rope_base : rope->freq_base;
    if (!rc)
        rc = read_optional_float(r, "rope.freq_base_swa", 1e-3f, 1e12f, &rope->freq_base_window, err);
    if (!rc)
        rc = read_rope_kind(r, &rope->kind, err);
    if (!rc)
        rc = read_optional_float(r, "rope.scale_linear", 0, 1e6f, &scale, err);
    if (!rc)
        rc = read_optional_float(r, "rope.scaling.factor", 0, 1e6f, &scale, err);
    if (!rc)
        rc = read_optional_float(r, "rope.scaling.attn_factor", 0, 1e6f, &rope->attn_factor, err);
    if (!rc)
        rc = read_optional_float(r, "rope.scaling.yarn_beta_fast", 0, 1e6f, &rope->beta_fast, err);
    if (!rc)
        rc = read_optional_float(r, "rope.scaling.yarn_beta_slow", 0, 1e6f, &rope->beta_slow, err);
    if (rc)
        return rc;
    scale = scale > 0 ? scale : 1.0f;
    rope->freq_scale_window = h->arch->window_rope_base > 0 ? 1.0f : 1.0f / scale;
    override_rope(rope, &scale, o);
    settle_rope(rope, scale, o);
    return RUVLLM_OK;
}

bool rv_hparams_is_foreign(const struct rv_gguf_file *file)
{
    struct reader r = {.file = file};
    struct rv_str name;
    const struct rv_arch *arch;
    uint32_t n_experts = 0;

    if (rv_gguf_file_str(file, "general.architecture", &name, NULL) != RUVLLM_OK)
        return false;
    arch = rv_arch_find(name);
    if (!arch)
        return true;
    r.arch = arch->name;
    return rv_gguf_file_u32(file, key_of(&r, "expert_count"), &n_experts, NULL) == RUVLLM_OK && n_experts > 0;
}

static ruvllm_status check_experts(struct reader *r, struct ruvllm_error *err)
{
    const char *key = key_of(r, "expert_count");
    uint32_t n_experts = 0;
    ruvllm_status rc = rv_gguf_file_has(r->file, key) ? rv_gguf_file_u32(r->file, key, &n_experts, err) : RUVLLM_OK;

    if (!rc && n_experts > 0)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "a '%s' model that mixes %u experts is not one this engine runs",
                       r->arch, n_experts);
    return rc;
}

ruvllm_status rv_hparams_read(struct rv_hparams *out, const struct rv_gguf_file *file,
                              const struct rv_rope_override *rope, struct ruvllm_error *err)
{
    struct rv_str name;
    struct reader r = {.file = file};
    ruvllm_status rc = rv_gguf_file_str(file, "general.architecture", &name, err);

    memset(out, 0, sizeof(*out));
    if (rc)
        return rc;
    out->arch = rv_arch_find(name);
    if (!out->arch)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "architecture '%.*s' is not one this engine runs",
                       (int)(name.len < 40 ? name.len : 40), name.data);
    r.arch = out->arch->name;
    rc = check_experts(&r, err);
    if (!rc)
        rc = read_shape(&r, out, err);
    if (!rc)
        rc = read_attention(&r, out, err);
    if (!rc)
        rc = read_rope(&r, out, rope, err);
    if (!rc)
        out->kv_token_bytes = 4 * (uint64_t)out->n_layers * (uint64_t)rv_hparams_n_kv(out);
    return rc;
}

/* A number that may be missing (0), one for all layers, or one a layer, some of them 0. */
static ruvllm_status read_layered(struct reader *r, const char *suffix, const struct rv_hparams *h, int32_t *largest,
                                  uint64_t *sum, struct ruvllm_error *err)
{
    const char *key = key_of(r, suffix);
    enum rv_gguf_type type;
    int32_t *values = NULL;
    uint32_t value = 0;
    size_t n;
    ruvllm_status rc;

    *largest = 0;
    *sum = 0;
    if (!rv_gguf_file_has(r->file, key))
        return RUVLLM_OK;
    if (rv_gguf_file_array(r->file, key, &type, &n, NULL) != RUVLLM_OK) {
        rc = rv_gguf_file_u32(r->file, key, &value, err);
        if (!rc && value > MAX_HEADS)
            rc = rv_fail(err, RUVLLM_FORMAT, "'%s' is %u, which is more than %d", key, value, MAX_HEADS);
        *largest = rc ? 0 : (int32_t)value;
        *sum = (uint64_t)*largest * (uint64_t)h->n_layers;
        return rc;
    }
    rc = rv_gguf_file_array_i32(r->file, key, &values, &n, err);
    if (!rc && n < (size_t)h->n_layers)
        rc = rv_fail(err, RUVLLM_FORMAT, "'%s' has %zu entries for %d layers", key, n, h->n_layers);
    for (int32_t i = 0; i < h->n_layers && !rc; i++) {
        if (values[i] < 0 || values[i] > MAX_HEADS)
            rc = rv_fail(err, RUVLLM_FORMAT, "'%s' has %d, which is not between 0 and %d", key, values[i], MAX_HEADS);
        *largest = !rc && values[i] > *largest ? values[i] : *largest;
        *sum += rc ? 0 : (uint64_t)values[i];
    }
    rv_free(values);
    return rc;
}

static ruvllm_status read_common_heads(struct reader *r, struct rv_hparams *h, struct ruvllm_error *err)
{
    bool says_kv = rv_gguf_file_has(r->file, key_of(r, "attention.head_count_kv"));
    int32_t value_dim;
    uint64_t n_heads, n_kv_heads;
    ruvllm_status rc = read_layered(r, "attention.head_count", h, &h->n_heads, &n_heads, err);

    if (!rc)
        rc = read_layered(r, says_kv ? "attention.head_count_kv" : "attention.head_count", h, &h->n_kv_heads,
                          &n_kv_heads, err);
    if (rc || h->n_heads == 0)
        return rc;
    h->head_dim = h->n_embd / h->n_heads;
    rc = read_optional_count(r, "attention.key_length", MAX_WIDTH, &h->head_dim, err);
    value_dim = h->head_dim;
    if (!rc)
        rc = read_optional_count(r, "attention.value_length", MAX_WIDTH, &value_dim, err);
    h->kv_token_bytes = 2 * n_kv_heads * (uint64_t)(h->head_dim + value_dim);
    return rc;
}

ruvllm_status rv_hparams_read_common(struct rv_hparams *out, const struct rv_gguf_file *file, struct ruvllm_error *err)
{
    struct rv_str name;
    struct reader r = {.file = file};
    char arch[64];
    ruvllm_status rc = rv_gguf_file_str(file, "general.architecture", &name, err);

    memset(out, 0, sizeof(*out));
    if (rc)
        return rc;
    if (name.len == 0 || name.len >= sizeof(arch))
        return rv_fail(err, RUVLLM_FORMAT, "an architecture's name of %zu bytes is not possible", name.len);
    snprintf(arch, sizeof(arch), "%.*s", (int)name.len, name.data);
    r.arch = arch;
    rc = read_vocab_size(&r, &out->n_vocab, err);
    if (!rc)
        rc = read_count(&r, "block_count", RV_HPARAMS_MAX_LAYERS, &out->n_layers, err);
    if (!rc)
        rc = read_count(&r, "embedding_length", MAX_WIDTH, &out->n_embd, err);
    if (!rc)
        rc = read_count(&r, "context_length", MAX_CONTEXT, &out->trained_context, err);
    if (!rc)
        rc = read_common_heads(&r, out, err);
    return rc;
}

int32_t rv_hparams_n_q(const struct rv_hparams *hparams)
{
    return hparams->n_heads * hparams->head_dim;
}

int32_t rv_hparams_n_kv(const struct rv_hparams *hparams)
{
    return hparams->n_kv_heads * hparams->head_dim;
}
