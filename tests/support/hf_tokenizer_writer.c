/* tokenizer.json from the vocabulary of a GGUF file. A SentencePiece one gets the merges its scores stand for. */
#include "support/hf_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "base/alloc.h"
#include "support/test.h"

#define SPACE_MARK "\xE2\x96\x81"

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
        {"llama-bpe",
         "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
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
    yyjson_mut_val *root = hf_writer_root(&doc);
    struct rv_str text;
    bool flag;

    add_special(doc, root, file, v, "tokenizer.ggml.bos_token_id", "bos_token");
    add_special(doc, root, file, v, "tokenizer.ggml.eos_token_id", "eos_token");
    add_special(doc, root, file, v, "tokenizer.ggml.padding_token_id", "pad_token");
    if (rv_gguf_file_bool(file, "tokenizer.ggml.add_bos_token", &flag, NULL) == RUVLLM_OK)
        yyjson_mut_obj_add_bool(doc, root, "add_bos_token", flag);
    if (rv_gguf_file_str(file, "tokenizer.chat_template", &text, NULL) == RUVLLM_OK)
        yyjson_mut_obj_add_strncpy(doc, root, "chat_template", text.data, text.len);
    hf_writer_save(doc, folder, "tokenizer_config.json");
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
    yyjson_mut_val *root = hf_writer_root(&doc);
    struct vocab v;

    if (!options)
        options = &none;
    vocab_open(&v, file);
    if (v.is_pieces)
        add_pieces(doc, root, &v, options);
    else
        add_byte_level(doc, root, &v);
    add_model(doc, root, &v, options->merges_as_pairs);
    hf_writer_save(doc, folder, "tokenizer.json");
    write_tokenizer_config(file, &v, folder);
    rv_free(v.tokens);
    rv_free(v.merges);
    rv_free(v.scores);
    rv_free(v.types);
}
