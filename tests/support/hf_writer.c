/* What the transformers library would have saved, as far as a GGUF file lets it be known. */
#include "support/hf_writer.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <yyjson.h>

#include "base/alloc.h"
#include "model/safetensors.h"
#include "support/test.h"

enum { MAX_FOLDERS = 64, MAX_TENSORS = 1024, MAX_MADE = 1024 };

#define SPACE_MARK "\xE2\x96\x81"

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

static void save(yyjson_mut_doc *doc, const char *folder, const char *name)
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

static yyjson_mut_val *doc_root(yyjson_mut_doc **doc)
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
    yyjson_mut_val *root = doc_root(&doc);
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
    save(doc, folder, "config.json");
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
    yyjson_mut_val *root = doc_root(&doc), *map = yyjson_mut_obj(doc);
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
    save(doc, folder, "model.safetensors.index.json");
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

/* ---- tokenizer.json ------------------------------------------------------------------------ */

struct vocab {
    struct rv_str *tokens, *merges;
    float *scores;
    int32_t *types;
    size_t n, n_merges;
    bool is_pieces, has_merges; // SentencePiece's kind; its own list of merges
    char pre[32];
};

static yyjson_mut_val *add_object(yyjson_mut_doc *doc, yyjson_mut_val *parent, const char *name, const char *type)
{
    yyjson_mut_val *object = yyjson_mut_obj(doc);

    yyjson_mut_obj_add_str(doc, object, "type", type);
    if (name)
        yyjson_mut_obj_add_val(doc, parent, name, object);
    else
        yyjson_mut_arr_append(parent, object);
    return object;
}

static const char *regex_of(const char *pre)
{
    static const char *const known[][2] = {
        {"llama-bpe", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
                      "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
        {"qwen2", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
                  "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(known[i][0], pre) == 0)
            return known[i][1];
    }
    return NULL;
}

static void add_byte_level(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct vocab *v)
{
    const char *regex = regex_of(v->pre);
    yyjson_mut_val *sequence, *list, *split, *pattern, *level;

    if (!regex) {
        level = add_object(doc, root, "pre_tokenizer", "ByteLevel");
        yyjson_mut_obj_add_bool(doc, level, "add_prefix_space", false);
        return;
    }
    sequence = add_object(doc, root, "pre_tokenizer", "Sequence");
    list = yyjson_mut_arr(doc);
    yyjson_mut_obj_add_val(doc, sequence, "pretokenizers", list);
    split = add_object(doc, list, NULL, "Split");
    pattern = yyjson_mut_obj(doc);
    yyjson_mut_obj_add_str(doc, pattern, "Regex", regex);
    yyjson_mut_obj_add_val(doc, split, "pattern", pattern);
    yyjson_mut_obj_add_str(doc, split, "behavior", "Isolated");
    yyjson_mut_obj_add_bool(doc, split, "invert", false);
    level = add_object(doc, list, NULL, "ByteLevel");
    yyjson_mut_obj_add_bool(doc, level, "use_regex", false);
}

static void add_replace(yyjson_mut_doc *doc, yyjson_mut_val *object)
{
    yyjson_mut_val *pattern = yyjson_mut_obj(doc);

    yyjson_mut_obj_add_str(doc, pattern, "String", " ");
    yyjson_mut_obj_add_val(doc, object, "pattern", pattern);
    yyjson_mut_obj_add_str(doc, object, "content", SPACE_MARK);
}

static void add_pieces(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct vocab *v,
                       const struct hf_writer_options *options)
{
    yyjson_mut_val *normalizer, *list, *pre, *pattern;

    if (v->has_merges) { // Gemma's way
        add_replace(doc, add_object(doc, root, "normalizer", "Replace"));
        pre = add_object(doc, root, "pre_tokenizer", "Split");
        pattern = yyjson_mut_obj(doc);
        yyjson_mut_obj_add_str(doc, pattern, "String", " ");
        yyjson_mut_obj_add_val(doc, pre, "pattern", pattern);
        yyjson_mut_obj_add_str(doc, pre, "behavior", "MergedWithPrevious");
        return;
    }
    if (options->metaspace) {
        pre = add_object(doc, root, "pre_tokenizer", "Metaspace");
        yyjson_mut_obj_add_str(doc, pre, "replacement", SPACE_MARK);
        yyjson_mut_obj_add_str(doc, pre, "prepend_scheme", "first");
        yyjson_mut_obj_add_bool(doc, pre, "split", false);
        return;
    }
    normalizer = add_object(doc, root, "normalizer", "Sequence");
    list = yyjson_mut_arr(doc);
    yyjson_mut_obj_add_val(doc, normalizer, "normalizers", list);
    yyjson_mut_obj_add_str(doc, add_object(doc, list, NULL, "Prepend"), "prepend", SPACE_MARK);
    add_replace(doc, add_object(doc, list, NULL, "Replace"));
}

/* A way to split a token in two, with what the token is worth. */
struct way {
    struct rv_str token;
    size_t cut;
    float score;
    int32_t id;
};

static int compare_ways(const void *left, const void *right)
{
    const struct way *a = left, *b = right;

    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    return (a->cut > b->cut) - (a->cut < b->cut);
}

static const struct vocab *sorted_vocab;

static int compare_tokens(const void *left, const void *right)
{
    struct rv_str a = sorted_vocab->tokens[*(const int32_t *)left], b = sorted_vocab->tokens[*(const int32_t *)right];
    int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);

    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* Whether text is an ordinary token. */
static bool is_token(const struct vocab *v, const int32_t *sorted, const char *text, size_t len)
{
    size_t low = 0, high = v->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct rv_str t = v->tokens[sorted[middle]];
        int order = memcmp(text, t.data, len < t.len ? len : t.len);

        if (!order)
            order = (len > t.len) - (len < t.len);
        if (order == 0)
            return v->types[sorted[middle]] == 1;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}

/* Every way to split every ordinary token, the best first: how merges are drawn from a SentencePiece vocabulary. */
static struct way *find_ways(const struct vocab *v, size_t *n_ways)
{
    int32_t *sorted = calloc(v->n, sizeof(*sorted));
    struct way *ways = NULL;
    size_t n = 0, cap = 0;

    for (size_t i = 0; i < v->n; i++)
        sorted[i] = (int32_t)i;
    sorted_vocab = v;
    qsort(sorted, v->n, sizeof(*sorted), compare_tokens);
    for (size_t i = 0; i < v->n; i++) {
        struct rv_str t = v->tokens[i];

        for (size_t cut = 1; v->types[i] == 1 && cut < t.len; cut++) {
            if (((unsigned char)t.data[cut] & 0xC0) == 0x80 || !is_token(v, sorted, t.data, cut) ||
                !is_token(v, sorted, t.data + cut, t.len - cut))
                continue;
            if (n == cap) {
                cap = cap ? 2 * cap : 4096;
                ways = realloc(ways, cap * sizeof(*ways));
                assert_non_null(ways);
            }
            ways[n++] = (struct way){.token = t, .cut = cut, .score = v->scores[i], .id = (int32_t)i};
        }
    }
    free(sorted);
    if (n)
        qsort(ways, n, sizeof(*ways), compare_ways);
    *n_ways = n;
    return ways;
}

static void add_merge(yyjson_mut_doc *doc, yyjson_mut_val *list, struct rv_str left, struct rv_str right, bool as_pair)
{
    char joined[4096];

    if (as_pair) {
        yyjson_mut_val *pair = yyjson_mut_arr(doc);

        yyjson_mut_arr_add_strncpy(doc, pair, left.data, left.len);
        yyjson_mut_arr_add_strncpy(doc, pair, right.data, right.len);
        yyjson_mut_arr_append(list, pair);
        return;
    }
    assert_true(left.len + right.len + 1 < sizeof(joined));
    memcpy(joined, left.data, left.len);
    joined[left.len] = ' ';
    memcpy(joined + left.len + 1, right.data, right.len);
    yyjson_mut_arr_add_strncpy(doc, list, joined, left.len + 1 + right.len);
}

static yyjson_mut_val *make_merges(yyjson_mut_doc *doc, const struct vocab *v, bool as_pairs)
{
    yyjson_mut_val *list = yyjson_mut_arr(doc);
    struct way *ways;
    size_t n_ways = 0;

    for (size_t i = 0; i < v->n_merges; i++) {
        struct rv_str m = v->merges[i];
        const char *space = memchr(m.data + 1, ' ', m.len - 1);
        size_t len;

        assert_non_null(space);
        len = (size_t)(space - m.data);
        add_merge(doc, list, (struct rv_str){m.data, len}, (struct rv_str){space + 1, m.len - len - 1}, as_pairs);
    }
    if (v->n_merges)
        return list;
    ways = find_ways(v, &n_ways);
    for (size_t i = 0; i < n_ways; i++) {
        struct rv_str t = ways[i].token;

        add_merge(doc, list, (struct rv_str){t.data, ways[i].cut},
                  (struct rv_str){t.data + ways[i].cut, t.len - ways[i].cut}, as_pairs);
    }
    free(ways);
    return list;
}

static void add_model(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct vocab *v, bool merges_as_pairs)
{
    yyjson_mut_val *model = add_object(doc, root, "model", "BPE"), *vocab = yyjson_mut_obj(doc);
    yyjson_mut_val *added = yyjson_mut_arr(doc);

    for (size_t i = 0; i < v->n; i++) {
        bool is_added = v->types[i] == 2 || v->types[i] == 3 || v->types[i] == 4;

        if (v->types[i] == 5)
            continue; // a hole
        if (!is_added || v->is_pieces)
            yyjson_mut_obj_add(vocab, yyjson_mut_strncpy(doc, v->tokens[i].data, v->tokens[i].len),
                               yyjson_mut_uint(doc, i));
        if (is_added) {
            yyjson_mut_val *token = yyjson_mut_obj(doc);

            yyjson_mut_obj_add_uint(doc, token, "id", i);
            yyjson_mut_obj_add_strncpy(doc, token, "content", v->tokens[i].data, v->tokens[i].len);
            yyjson_mut_obj_add_bool(doc, token, "special", v->types[i] != 4);
            yyjson_mut_arr_append(added, token);
        }
    }
    yyjson_mut_obj_add_val(doc, model, "vocab", vocab);
    yyjson_mut_obj_add_val(doc, model, "merges", make_merges(doc, v, merges_as_pairs));
    yyjson_mut_obj_add_bool(doc, model, "byte_fallback", v->is_pieces);
    yyjson_mut_obj_add_bool(doc, model, "ignore_merges", strcmp(v->pre, "llama-bpe") == 0);
    if (v->is_pieces)
        yyjson_mut_obj_add_str(doc, model, "unk_token", "<unk>");
    yyjson_mut_obj_add_val(doc, root, "added_tokens", added);
}

static void add_special(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct rv_gguf_file *file,
                        const struct vocab *v, const char *key, const char *name)
{
    uint32_t id;

    if (rv_gguf_file_u32(file, key, &id, NULL) == RUVLLM_OK && id < v->n)
        yyjson_mut_obj_add_strncpy(doc, root, name, v->tokens[id].data, v->tokens[id].len);
}

static void write_tokenizer_config(const struct rv_gguf_file *file, const struct vocab *v, const char *folder)
{
    yyjson_mut_doc *doc;
    yyjson_mut_val *root = doc_root(&doc);
    struct rv_str text;
    bool flag;

    add_special(doc, root, file, v, "tokenizer.ggml.bos_token_id", "bos_token");
    add_special(doc, root, file, v, "tokenizer.ggml.eos_token_id", "eos_token");
    add_special(doc, root, file, v, "tokenizer.ggml.padding_token_id", "pad_token");
    if (rv_gguf_file_bool(file, "tokenizer.ggml.add_bos_token", &flag, NULL) == RUVLLM_OK)
        yyjson_mut_obj_add_bool(doc, root, "add_bos_token", flag);
    if (rv_gguf_file_str(file, "tokenizer.chat_template", &text, NULL) == RUVLLM_OK)
        yyjson_mut_obj_add_strncpy(doc, root, "chat_template", text.data, text.len);
    save(doc, folder, "tokenizer_config.json");
}

static void vocab_open(struct vocab *v, const struct rv_gguf_file *file)
{
    struct rv_str model, pre = {.data = "", .len = 0};
    size_t n;

    *v = (struct vocab){0};
    assert_ok(rv_gguf_file_str(file, "tokenizer.ggml.model", &model, err));
    if (rv_gguf_file_has(file, "tokenizer.ggml.pre"))
        assert_ok(rv_gguf_file_str(file, "tokenizer.ggml.pre", &pre, err));
    snprintf(v->pre, sizeof(v->pre), "%.*s", (int)pre.len, pre.data);
    v->is_pieces = !(model.len == 4 && memcmp(model.data, "gpt2", 4) == 0);
    assert_ok(rv_gguf_file_array_str(file, "tokenizer.ggml.tokens", &v->tokens, &v->n, err));
    assert_ok(rv_gguf_file_array_i32(file, "tokenizer.ggml.token_type", &v->types, &n, err));
    if (rv_gguf_file_has(file, "tokenizer.ggml.scores"))
        assert_ok(rv_gguf_file_array_f32(file, "tokenizer.ggml.scores", &v->scores, &n, err));
    if (rv_gguf_file_has(file, "tokenizer.ggml.merges"))
        assert_ok(rv_gguf_file_array_str(file, "tokenizer.ggml.merges", &v->merges, &v->n_merges, err));
    v->has_merges = v->n_merges > 0;
}

void hf_writer_tokenizer(const struct rv_gguf_file *file, const char *folder, const struct hf_writer_options *options)
{
    static const struct hf_writer_options none;
    yyjson_mut_doc *doc;
    yyjson_mut_val *root = doc_root(&doc);
    struct vocab v;

    if (!options)
        options = &none;
    vocab_open(&v, file);
    if (v.is_pieces)
        add_pieces(doc, root, &v, options);
    else
        add_byte_level(doc, root, &v);
    add_model(doc, root, &v, options->merges_as_pairs);
    save(doc, folder, "tokenizer.json");
    write_tokenizer_config(file, &v, folder);
    rv_free(v.tokens);
    rv_free(v.merges);
    rv_free(v.scores);
    rv_free(v.types);
}
