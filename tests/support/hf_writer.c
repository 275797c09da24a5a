/* What the transformers library would have saved, as far as a GGUF file lets it be known. */
#include "support/hf_writer.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <yyjson.h>

#include "model/safetensors.h"
#include "support/test.h"

enum { MAX_FOLDERS = 64, MAX_TENSORS = 1024, MAX_MADE = 1024 };

/* ---- folders ------------------------------------------------------------------------------- */

static char folders[MAX_FOLDERS][64];
static int n_folders;

static void remove_folders(void)
{
    for (int i = 0; i < n_folders; i++) {
        DIR *dir = opendir(folders[i]);
        const struct dirent *entry;

        while (dir && (entry = readdir(dir))) {
            char path[512];

            snprintf(path, sizeof(path), "%s/%s", folders[i], entry->d_name);
            if (entry->d_name[0] != '.')
                unlink(path);
        }
        if (dir)
            closedir(dir);
        rmdir(folders[i]);
    }
}

const char *hf_writer_folder(void)
{
    char *path = folders[n_folders];

    assert_true(n_folders < MAX_FOLDERS);
    if (n_folders == 0)
        atexit(remove_folders);
    snprintf(path, sizeof(folders[0]), "/tmp/ruvllm-hf-XXXXXX");
    assert_non_null(mkdtemp(path));
    n_folders++;
    return path;
}

void hf_writer_save(yyjson_mut_doc *doc, const char *folder, const char *name)
{
    char path[512];
    size_t len;
    char *text = yyjson_mut_write(doc, YYJSON_WRITE_PRETTY, &len);

    assert_non_null(text);
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    test_write_file(path, text, len);
    free(text);
    yyjson_mut_doc_free(doc);
}

yyjson_mut_val *hf_writer_root(yyjson_mut_doc **doc)
{
    yyjson_mut_val *root;

    *doc = yyjson_mut_doc_new(NULL);
    root = yyjson_mut_obj(*doc);
    yyjson_mut_doc_set_root(*doc, root);
    return root;
}

/* ---- config.json --------------------------------------------------------------------------- */

struct source {
    const struct rv_gguf_file *file;
    char arch[32];
    const struct hf_writer_options *options;
    uint32_t n_heads, n_kv_heads, head_dim;
    char key[96];
};

static const char *key_of(struct source *s, const char *suffix)
{
    snprintf(s->key, sizeof(s->key), "%s.%s", s->arch, suffix);
    return s->key;
}

static uint32_t get_u32(struct source *s, const char *suffix, uint32_t otherwise)
{
    uint32_t value = otherwise;

    if (rv_gguf_file_has(s->file, key_of(s, suffix)))
        assert_ok(rv_gguf_file_u32(s->file, s->key, &value, err));
    return value;
}

static double get_f32(struct source *s, const char *suffix, float otherwise)
{
    float value = otherwise;

    if (rv_gguf_file_has(s->file, key_of(s, suffix)))
        assert_ok(rv_gguf_file_f32(s->file, s->key, &value, err));
    return (double)value;
}

static bool is_gemma(const struct source *s)
{
    return strncmp(s->arch, "gemma", 5) == 0;
}

static void add_floats(yyjson_mut_doc *doc, yyjson_mut_val *object, const char *name, const struct rv_gguf_tensor *t)
{
    yyjson_mut_val *list = yyjson_mut_arr(doc);
    const float *values = t->data;

    for (int64_t i = 0; i < t->ne[0]; i++)
        yyjson_mut_arr_add_real(doc, list, (double)values[i]);
    yyjson_mut_obj_add_val(doc, object, name, list);
}

/* The factor by which the last frequency of a Llama 3 model is stretched. */
static void add_llama3(struct source *s, yyjson_mut_doc *doc, yyjson_mut_val *scaling, const struct rv_gguf_tensor *t)
{
    const float *values = t->data;

    (void)s;
    yyjson_mut_obj_add_str(doc, scaling, "rope_type", "llama3");
    yyjson_mut_obj_add_real(doc, scaling, "factor", (double)values[t->ne[0] - 1]);
    yyjson_mut_obj_add_real(doc, scaling, "low_freq_factor", 1);
    yyjson_mut_obj_add_real(doc, scaling, "high_freq_factor", 4);
    yyjson_mut_obj_add_uint(doc, scaling, "original_max_position_embeddings", 128); // as the maker's models have it
}

static void add_scaling(struct source *s, yyjson_mut_doc *doc, yyjson_mut_val *root)
{
    const struct rv_gguf_tensor *freqs = rv_gguf_file_tensor_find(s->file, "rope_freqs.weight");
    const struct rv_gguf_tensor *far = rv_gguf_file_tensor_find(s->file, "rope_factors_long.weight");
    yyjson_mut_val *scaling = yyjson_mut_obj(doc);
    struct rv_str type = {0};

    if (rv_gguf_file_has(s->file, key_of(s, "rope.scaling.type")))
        assert_ok(rv_gguf_file_str(s->file, s->key, &type, err));
    if (freqs) {
        add_llama3(s, doc, scaling, freqs);
    } else if (far) {
        yyjson_mut_obj_add_str(doc, scaling, "type", "longrope");
        add_floats(doc, scaling, "long_factor", far);
        add_floats(doc, scaling, "short_factor", rv_gguf_file_tensor_find(s->file, "rope_factors_short.weight"));
        yyjson_mut_obj_add_uint(doc, root, "original_max_position_embeddings",
                                get_u32(s, "rope.scaling.original_context_length", 0));
    } else if (type.len) {
        yyjson_mut_obj_add_strncpy(doc, scaling, "type", type.data, type.len);
        yyjson_mut_obj_add_real(doc, scaling, "factor", get_f32(s, "rope.scaling.factor", 1));
        if (type.len == 4) // yarn
            yyjson_mut_obj_add_uint(doc, scaling, "original_max_position_embeddings",
                                    get_u32(s, "rope.scaling.original_context_length", 0));
        if (s->options->yarn_attention > 0)
            yyjson_mut_obj_add_real(doc, scaling, "attention_factor", s->options->yarn_attention);
    } else {
        return;
    }
    yyjson_mut_obj_add_val(doc, root, "rope_scaling", scaling);
}

static void add_class(const struct source *s, yyjson_mut_doc *doc, yyjson_mut_val *root)
{
    static const char *const classes[][2] = {{"llama", "LlamaForCausalLM"},   {"qwen2", "Qwen2ForCausalLM"},
                                             {"qwen3", "Qwen3ForCausalLM"},   {"phi3", "Phi3ForCausalLM"},
                                             {"gemma2", "Gemma2ForCausalLM"}, {"gemma3", "Gemma3ForCausalLM"}};
    yyjson_mut_val *list = yyjson_mut_arr(doc);

    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        if (strcmp(classes[i][0], s->arch) == 0)
            yyjson_mut_arr_add_str(doc, list, classes[i][1]);
    }
    yyjson_mut_obj_add_val(doc, root, "architectures", list);
    yyjson_mut_obj_add_str(doc, root, is_gemma(s) ? "hidden_activation" : "hidden_act",
                           is_gemma(s) ? "gelu_pytorch_tanh" : "silu");
}

static void write_config(struct source *s, const char *folder)
{
    yyjson_mut_doc *doc;
    yyjson_mut_val *root = hf_writer_root(&doc);
    uint32_t n_rot = get_u32(s, "rope.dimension_count", s->head_dim);

    add_class(s, doc, root);
    yyjson_mut_obj_add_uint(doc, root, "num_hidden_layers", get_u32(s, "block_count", 0));
    yyjson_mut_obj_add_uint(doc, root, "hidden_size", get_u32(s, "embedding_length", 0));
    yyjson_mut_obj_add_uint(doc, root, "intermediate_size", get_u32(s, "feed_forward_length", 0));
    yyjson_mut_obj_add_uint(doc, root, "num_attention_heads", s->n_heads);
    yyjson_mut_obj_add_uint(doc, root, "num_key_value_heads", s->n_kv_heads);
    yyjson_mut_obj_add_uint(doc, root, "head_dim", s->head_dim);
    yyjson_mut_obj_add_uint(doc, root, "max_position_embeddings", get_u32(s, "context_length", 0));
    yyjson_mut_obj_add_real(doc, root, "rms_norm_eps", get_f32(s, "attention.layer_norm_rms_epsilon", 0));
    yyjson_mut_obj_add_real(doc, root, "rope_theta", get_f32(s, "rope.freq_base", 10000));
    yyjson_mut_obj_add_bool(doc, root, "tie_word_embeddings", !rv_gguf_file_tensor_find(s->file, "output.weight"));
    if (n_rot != s->head_dim)
        yyjson_mut_obj_add_real(doc, root, "partial_rotary_factor", (double)n_rot / (double)s->head_dim);
    if (is_gemma(s)) {
        yyjson_mut_obj_add_uint(doc, root, "query_pre_attn_scalar", s->head_dim);
        yyjson_mut_obj_add_uint(doc, root, "sliding_window", get_u32(s, "attention.sliding_window", 4096));
        if (get_f32(s, "attn_logit_softcapping", 0) > 0)
            yyjson_mut_obj_add_real(doc, root, "attn_logit_softcapping", get_f32(s, "attn_logit_softcapping", 0));
        if (get_f32(s, "final_logit_softcapping", 0) > 0)
            yyjson_mut_obj_add_real(doc, root, "final_logit_softcapping", get_f32(s, "final_logit_softcapping", 0));
        if (get_f32(s, "rope.freq_base_swa", 0) > 0)
            yyjson_mut_obj_add_real(doc, root, "rope_local_base_freq", get_f32(s, "rope.freq_base_swa", 0));
    }
    add_scaling(s, doc, root);
    hf_writer_save(doc, folder, "config.json");
}

/* ---- tensors ------------------------------------------------------------------------------- */

struct made {
    struct rv_safetensors_tensor tensors[MAX_TENSORS];
    char names[MAX_TENSORS][128];
    void *memory[MAX_MADE];
    size_t n, n_memory;
};

static const char *const layer_names[][2] = {
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_q.bias", "self_attn.q_proj.bias"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_k.bias", "self_attn.k_proj.bias"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_v.bias", "self_attn.v_proj.bias"},
    {"attn_qkv.weight", "self_attn.qkv_proj.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"attn_q_norm.weight", "self_attn.q_norm.weight"},
    {"attn_k_norm.weight", "self_attn.k_norm.weight"},
    {"attn_norm.weight", "input_layernorm.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    {"post_attention_norm.weight", "post_attention_layernorm.weight"},
    {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"},
};

static void rename_layer(const struct source *s, int layer, const char *rest, char *out, size_t room)
{
    const char *to = NULL;

    for (size_t i = 0; i < sizeof(layer_names) / sizeof(layer_names[0]); i++) {
        if (strcmp(layer_names[i][0], rest) == 0)
            to = layer_names[i][1];
    }
    if (strcmp(rest, "ffn_up.weight") == 0)
        to = strcmp(s->arch, "phi3") == 0 ? "mlp.gate_up_proj.weight" : "mlp.up_proj.weight";
    if (strcmp(rest, "ffn_norm.weight") == 0)
        to = is_gemma(s) ? "pre_feedforward_layernorm.weight" : "post_attention_layernorm.weight";
    if (!to)
        fail_msg("no name for '%s'", rest);
    snprintf(out, room, "model.layers.%d.%s", layer, to);
}

/* False for what the config says instead. */
static bool rename_tensor(const struct source *s, const char *name, char *out, size_t room)
{
    int layer, used = 0;

    if (strncmp(name, "rope_", 5) == 0)
        return false;
    if (strcmp(name, "token_embd.weight") == 0)
        snprintf(out, room, "model.embed_tokens.weight");
    else if (strcmp(name, "output_norm.weight") == 0)
        snprintf(out, room, "model.norm.weight");
    else if (strcmp(name, "output.weight") == 0)
        snprintf(out, room, "lm_head.weight");
    else if (sscanf(name, "blk.%d.%n", &layer, &used) == 1 && used > 0)
        rename_layer(s, layer, name + used, out, room);
    else
        fail_msg("no name for '%s'", name);
    return true;
}

static void *take_memory(struct made *made, size_t len)
{
    void *memory = malloc(len);

    assert_non_null(memory);
    assert_true(made->n_memory < MAX_MADE);
    made->memory[made->n_memory++] = memory;
    return memory;
}

/* Neighbours j and j + 1 of each head become rows j/2 of its two halves. */
static const void *halve_rows(struct made *made, const struct rv_gguf_tensor *t, uint32_t n_heads)
{
    int64_t n_rows = t->n_dims == 1 ? t->ne[0] : t->ne[1], dim = n_rows / n_heads;
    size_t row = (size_t)(t->n_bytes / (uint64_t)n_rows);
    unsigned char *out = take_memory(made, (size_t)t->n_bytes);

    for (int64_t i = 0; i < n_rows; i++) {
        int64_t head = i / dim, within = i % dim, half = within % 2;

        memcpy(out + (size_t)(head * dim + half * dim / 2 + within / 2) * row,
               (const unsigned char *)t->data + (size_t)i * row, row);
    }
    return out;
}

static void change_norm(struct made *made, const struct source *s, struct rv_safetensors_tensor *t)
{
    size_t n = (size_t)t->shape[0];
    float *values = take_memory(made, n * sizeof(*values));
    uint16_t *halves = take_memory(made, n * sizeof(*halves));

    memcpy(values, t->data, n * sizeof(*values));
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;

        values[i] -= is_gemma(s) ? 1.0f : 0.0f;
        memcpy(&bits, &values[i], sizeof(bits));
        halves[i] = (uint16_t)(bits >> 16); // cut off, which is enough for a test
    }
    t->data = values;
    if (!s->options->norms_as_bf16)
        return;
    t->data = halves;
    t->type = GGML_TYPE_BF16;
    t->n_bytes = n * sizeof(*halves);
}

static void make_tensor(struct source *s, struct made *made, const struct rv_gguf_tensor *from)
{
    struct rv_safetensors_tensor *t = &made->tensors[made->n];
    char *name = made->names[made->n], old[GGML_MAX_NAME];

    assert_true(made->n < MAX_TENSORS);
    snprintf(old, sizeof(old), "%.*s", (int)from->name.len, from->name.data);
    if (!rename_tensor(s, old, name, sizeof(made->names[0])))
        return;
    *t = (struct rv_safetensors_tensor){.name = {.data = name, .len = strlen(name)},
                                        .type = from->type,
                                        .n_dims = from->n_dims,
                                        .shape = {from->ne[0], 1, 1, 1},
                                        .n_bytes = from->n_bytes,
                                        .data = from->data};
    if (from->n_dims == 2) {
        t->shape[0] = from->ne[1];
        t->shape[1] = from->ne[0];
    }
    if (strcmp(s->arch, "llama") == 0 && strstr(name, "q_proj"))
        t->data = halve_rows(made, from, s->n_heads);
    if (strcmp(s->arch, "llama") == 0 && strstr(name, "k_proj"))
        t->data = halve_rows(made, from, s->n_kv_heads);
    if (strstr(name, "norm"))
        change_norm(made, s, t);
    made->n++;
}

static void repeat_head(struct made *made)
{
    struct rv_safetensors_tensor *t = &made->tensors[made->n];

    for (size_t i = 0; i < made->n; i++) {
        if (strcmp(made->names[i], "model.embed_tokens.weight") == 0)
            *t = made->tensors[i];
    }
    snprintf(made->names[made->n], sizeof(made->names[0]), "lm_head.weight");
    t->name = (struct rv_str){made->names[made->n], strlen(made->names[made->n])};
    made->n++;
}

static void write_shards(const struct made *made, const char *folder, int n_shards)
{
    yyjson_mut_doc *doc;
    yyjson_mut_val *root = hf_writer_root(&doc), *map = yyjson_mut_obj(doc);
    size_t at = 0;

    for (int i = 0; i < n_shards; i++) {
        size_t end = i + 1 == n_shards ? made->n : at + made->n / (size_t)n_shards;
        char name[64], path[512];

        snprintf(name, sizeof(name), "model-%05d-of-%05d.safetensors", i + 1, n_shards);
        snprintf(path, sizeof(path), "%s/%s", folder, name);
        assert_ok(rv_safetensors_write(path, made->tensors + at, end - at, err));
        for (; at < end; at++)
            yyjson_mut_obj_add_val(doc, map, made->names[at], yyjson_mut_strcpy(doc, name));
    }
    yyjson_mut_obj_add_val(doc, root, "weight_map", map);
    hf_writer_save(doc, folder, "model.safetensors.index.json");
}

static void write_tensors(struct source *s, const char *folder)
{
    struct made *made = calloc(1, sizeof(*made));
    char path[512];

    assert_non_null(made);
    for (size_t i = 0; i < rv_gguf_file_n_tensors(s->file); i++)
        make_tensor(s, made, rv_gguf_file_tensor(s->file, i));
    if (s->options->repeats_head)
        repeat_head(made);
    snprintf(path, sizeof(path), "%s/model.safetensors", folder);
    if (s->options->n_shards > 1)
        write_shards(made, folder, s->options->n_shards);
    else
        assert_ok(rv_safetensors_write(path, made->tensors, made->n, err));
    for (size_t i = 0; i < made->n_memory; i++)
        free(made->memory[i]);
    free(made);
}

void hf_writer_model(const char *gguf_path, const char *folder, const struct hf_writer_options *options)
{
    static const struct hf_writer_options none;
    struct source s = {.options = options ? options : &none};
    struct rv_gguf_file *file;
    struct rv_str arch;

    assert_ok(rv_gguf_file_open(&file, gguf_path, err));
    s.file = file;
    assert_ok(rv_gguf_file_str(file, "general.architecture", &arch, err));
    snprintf(s.arch, sizeof(s.arch), "%.*s", (int)arch.len, arch.data);
    s.n_heads = get_u32(&s, "attention.head_count", 1);
    s.n_kv_heads = get_u32(&s, "attention.head_count_kv", s.n_heads);
    s.head_dim = get_u32(&s, "attention.key_length", get_u32(&s, "embedding_length", 0) / s.n_heads);
    write_config(&s, folder);
    write_tensors(&s, folder);
    hf_writer_tokenizer(file, folder, s.options);
    rv_gguf_file_close(file);
}
