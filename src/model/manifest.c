/* The list of tensors by role, with the rule for each: its name, its shape, when it must be there. */
#include "model/manifest.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

/* Dimensions by what they mean. */
enum dim { D_NONE, D_EMBD, D_VOCAB, D_Q, D_KV, D_QKV, D_FF, D_UP, D_HEAD, D_ROPE };

enum need { OPTIONAL, ALWAYS, UNLESS_FUSED_QKV, UNLESS_FUSED_UP, IF_PART };

struct rule {
    const char *name;
    enum dim dims[2];
    enum need need;
    uint32_t part; // for IF_PART: the flag of rv_arch_parts
};

static const struct rule layer_rules[RV_N_PARTS] = {
    [RV_PART_ATTN_NORM] = {"attn_norm.weight", {D_EMBD}, ALWAYS, 0},
    [RV_PART_ATTN_NORM_B] = {"attn_norm.bias", {D_EMBD}, IF_PART, RV_ARCH_NORM_BIAS},
    [RV_PART_Q] = {"attn_q.weight", {D_EMBD, D_Q}, UNLESS_FUSED_QKV, 0},
    [RV_PART_K] = {"attn_k.weight", {D_EMBD, D_KV}, UNLESS_FUSED_QKV, 0},
    [RV_PART_V] = {"attn_v.weight", {D_EMBD, D_KV}, UNLESS_FUSED_QKV, 0},
    [RV_PART_QKV] = {"attn_qkv.weight", {D_EMBD, D_QKV}, OPTIONAL, 0},
    [RV_PART_Q_B] = {"attn_q.bias", {D_Q}, OPTIONAL, 0},
    [RV_PART_K_B] = {"attn_k.bias", {D_KV}, OPTIONAL, 0},
    [RV_PART_V_B] = {"attn_v.bias", {D_KV}, OPTIONAL, 0},
    [RV_PART_QKV_B] = {"attn_qkv.bias", {D_QKV}, OPTIONAL, 0},
    [RV_PART_O] = {"attn_output.weight", {D_Q, D_EMBD}, ALWAYS, 0},
    [RV_PART_O_B] = {"attn_output.bias", {D_EMBD}, OPTIONAL, 0},
    [RV_PART_Q_NORM] = {"attn_q_norm.weight", {D_HEAD}, IF_PART, RV_ARCH_QK_NORM},
    [RV_PART_K_NORM] = {"attn_k_norm.weight", {D_HEAD}, IF_PART, RV_ARCH_QK_NORM},
    [RV_PART_ATTN_POST_NORM] = {"post_attention_norm.weight", {D_EMBD}, IF_PART, RV_ARCH_POST_NORMS},
    [RV_PART_FFN_NORM] = {"ffn_norm.weight", {D_EMBD}, IF_PART, RV_ARCH_FFN_NORM},
    [RV_PART_FFN_NORM_B] = {"ffn_norm.bias", {D_EMBD}, OPTIONAL, 0},
    [RV_PART_GATE] = {"ffn_gate.weight", {D_EMBD, D_FF}, UNLESS_FUSED_UP, 0},
    [RV_PART_UP] = {"ffn_up.weight", {D_EMBD, D_UP}, ALWAYS, 0},
    [RV_PART_DOWN] = {"ffn_down.weight", {D_FF, D_EMBD}, ALWAYS, 0},
    [RV_PART_GATE_B] = {"ffn_gate.bias", {D_FF}, OPTIONAL, 0},
    [RV_PART_UP_B] = {"ffn_up.bias", {D_UP}, OPTIONAL, 0},
    [RV_PART_DOWN_B] = {"ffn_down.bias", {D_EMBD}, OPTIONAL, 0},
    [RV_PART_FFN_POST_NORM] = {"post_ffw_norm.weight", {D_EMBD}, IF_PART, RV_ARCH_POST_NORMS},
};

static const struct rule root_rules[RV_N_ROOTS] = {
    [RV_ROOT_EMBEDDING] = {"token_embd.weight", {D_EMBD, D_VOCAB}, ALWAYS, 0},
    [RV_ROOT_OUTPUT_NORM] = {"output_norm.weight", {D_EMBD}, ALWAYS, 0},
    [RV_ROOT_OUTPUT_NORM_B] = {"output_norm.bias", {D_EMBD}, IF_PART, RV_ARCH_NORM_BIAS},
    [RV_ROOT_OUTPUT] = {"output.weight", {D_EMBD, D_VOCAB}, OPTIONAL, 0},
    [RV_ROOT_OUTPUT_B] = {"output.bias", {D_VOCAB}, OPTIONAL, 0},
    [RV_ROOT_ROPE_FREQS] = {"rope_freqs.weight", {D_ROPE}, OPTIONAL, 0},
    [RV_ROOT_ROPE_LONG] = {"rope_factors_long.weight", {D_ROPE}, OPTIONAL, 0},
    [RV_ROOT_ROPE_SHORT] = {"rope_factors_short.weight", {D_ROPE}, OPTIONAL, 0},
};

bool rv_manifest_part_is_matrix(enum rv_part part)
{
    return layer_rules[part].dims[1] != D_NONE;
}

static int64_t dim_size(enum dim dim, const struct rv_hparams *h)
{
    switch (dim) {
    case D_NONE:
        return 1;
    case D_EMBD:
        return h->n_embd;
    case D_VOCAB:
        return h->n_vocab;
    case D_Q:
        return rv_hparams_n_q(h);
    case D_KV:
        return rv_hparams_n_kv(h);
    case D_QKV:
        return rv_hparams_n_q(h) + 2 * (int64_t)rv_hparams_n_kv(h);
    case D_FF:
        return h->n_ff;
    case D_UP:
        return h->arch->fused_gate_up ? 2 * (int64_t)h->n_ff : h->n_ff;
    case D_HEAD:
        return h->head_dim;
    case D_ROPE:
        return h->rope.n_dims / 2;
    }
    return 1;
}

static bool is_needed(const struct rule *rule, const struct rv_hparams *h, bool fused_qkv)
{
    switch (rule->need) {
    case OPTIONAL:
        return false;
    case ALWAYS:
        return true;
    case UNLESS_FUSED_QKV:
        return !fused_qkv;
    case UNLESS_FUSED_UP:
        return !h->arch->fused_gate_up;
    case IF_PART:
        return (h->arch->required & rule->part) != 0;
    }
    return false;
}

/* Families without a part must not have its tensor: it would be silently ignored. */
static bool is_allowed(const struct rule *rule, const struct rv_hparams *h)
{
    return rule->need != IF_PART || ((h->arch->required | h->arch->optional) & rule->part) != 0;
}

static ruvllm_status check_shape(const struct rv_gguf_tensor *t, const struct rule *rule, const struct rv_hparams *h,
                                 const char *name, struct ruvllm_error *err)
{
    int64_t rows = dim_size(rule->dims[1], h);
    bool heads_apart = rule->dims[0] == D_HEAD && t->ne[1] > 1; // one norm a head, as in StableLM 2 12B

    if (heads_apart)
        rows = rule->name[5] == 'q' ? h->n_heads : h->n_kv_heads;
    if (t->ne[0] != dim_size(rule->dims[0], h) || t->ne[1] != rows || t->ne[2] != 1 || t->ne[3] != 1)
        return rv_fail(err, RUVLLM_FORMAT, "tensor '%s' is %lldx%lld where the model's numbers ask for %lldx%lld", name,
                       (long long)t->ne[0], (long long)t->ne[1], (long long)dim_size(rule->dims[0], h),
                       (long long)rows);
    if (rule->dims[1] == D_NONE && t->type != GGML_TYPE_F32)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "tensor '%s' is %s; norms and biases must be F32", name,
                       ggml_type_name(t->type));
    return RUVLLM_OK;
}

static ruvllm_status find(const struct rv_gguf_file *file, const struct rule *rule, const struct rv_hparams *h,
                          const char *name, bool fused_qkv, const struct rv_gguf_tensor **out, struct ruvllm_error *err)
{
    const struct rv_gguf_tensor *t = rv_gguf_file_tensor_find(file, name);

    *out = NULL;
    if (!t && is_needed(rule, h, fused_qkv))
        return rv_fail(err, RUVLLM_FORMAT, "the file has no tensor '%s', which '%s' models need", name, h->arch->name);
    if (!t)
        return RUVLLM_OK;
    if (!is_allowed(rule, h))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "tensor '%s' is not part of a '%s' model", name, h->arch->name);
    *out = t;
    return check_shape(t, rule, h, name, err);
}

static ruvllm_status find_layer(struct rv_manifest *m, const struct rv_gguf_file *file, const struct rv_hparams *h,
                                int32_t layer, struct ruvllm_error *err)
{
    char name[GGML_MAX_NAME];
    bool fused_qkv;

    snprintf(name, sizeof(name), "blk.%d.%s", layer, layer_rules[RV_PART_QKV].name);
    fused_qkv = rv_gguf_file_tensor_find(file, name) != NULL;
    for (int part = 0; part < RV_N_PARTS; part++) {
        ruvllm_status rc;
        snprintf(name, sizeof(name), "blk.%d.%s", layer, layer_rules[part].name);
        rc = find(file, &layer_rules[part], h, name, fused_qkv, &m->layers[layer][part], err);
        if (rc)
            return rc;
    }
    return RUVLLM_OK;
}

uint64_t rv_manifest_n_params(const struct rv_gguf_file *file)
{
    uint64_t n = 0;

    for (size_t i = 0; i < rv_gguf_file_n_tensors(file); i++) {
        const int64_t *ne = rv_gguf_file_tensor(file, i)->ne;

        n += (uint64_t)(ne[0] * ne[1] * ne[2] * ne[3]);
    }
    return n;
}

ruvllm_status rv_manifest_init(struct rv_manifest *out, const struct rv_gguf_file *file,
                               const struct rv_hparams *hparams, struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;

    *out = (struct rv_manifest){0};
    out->layers = rv_calloc((size_t)hparams->n_layers, sizeof(*out->layers));
    if (!out->layers)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the list of tensors");
    for (int root = 0; root < RV_N_ROOTS && !rc; root++)
        rc = find(file, &root_rules[root], hparams, root_rules[root].name, false, &out->roots[root], err);
    for (int32_t layer = 0; layer < hparams->n_layers && !rc; layer++)
        rc = find_layer(out, file, hparams, layer, err);
    if (rc) {
        rv_manifest_release(out);
        return rc;
    }
    if (!out->roots[RV_ROOT_OUTPUT] || hparams->arch->tied_always) {
        out->roots[RV_ROOT_OUTPUT] = out->roots[RV_ROOT_EMBEDDING];
        out->tied = true;
    }
    out->n_params = rv_manifest_n_params(file);
    return RUVLLM_OK;
}

void rv_manifest_release(struct rv_manifest *manifest)
{
    rv_free(manifest->layers);
    *manifest = (struct rv_manifest){0};
}
