/*
 * Two kinds are read. Byte-level BPE is written as it is. Pieces with U+2581 for the space were once a SentencePiece
 * vocabulary, whose tokens have scores: there, any two neighbours that together are a token may merge, the token with
 * the best score first. A list of merges says the same if it has every way to split each token, token after token;
 * then scores are read off it. Another list is refused: it would give other tokens.
 */
#include "model/hf_tokenizer.h"

#include "base/alloc.h"
#include "model/hf_splitter.h"

#include <stdio.h>
#include <string.h>

#include <yyjson.h>

#define FILE_MAX ((size_t)256 << 20)

enum { MAX_TOKEN = 4096, MAX_MERGES = 1 << 24 };

/* As GGUF numbers them. */
enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };

struct merge {
    struct rv_str left;
    struct rv_str right;
};

struct reader {
    struct rv_hf_tokenizer *out;
    yyjson_val *root;
    yyjson_val *model;
    struct rv_gguf_image *image;
    int64_t max_tokens;
    struct rv_hf_splitter splitter;
    struct merge *merges;
    size_t n_merges;
};

static yyjson_val *member(yyjson_val *object, const char *name)
{
    yyjson_val *value = yyjson_obj_get(object, name);

    return yyjson_is_null(value) ? NULL : value;
}

static struct rv_str str_of(yyjson_val *value)
{
    return (struct rv_str){.data = yyjson_get_str(value), .len = yyjson_get_len(value)};
}

/* ---- the kind ------------------------------------------------------------------------------ */

static bool is_empty_text(yyjson_val *value)
{
    return !value || (yyjson_is_str(value) && yyjson_get_len(value) == 0);
}

static ruvllm_status check_model(const struct reader *r, struct ruvllm_error *err)
{
    yyjson_val *type = member(r->model, "type");
    char label[RV_GGUF_VALUE_LABEL];

    if (!yyjson_is_obj(r->model) || !yyjson_is_obj(member(r->model, "vocab")))
        return rv_fail(err, RUVLLM_FORMAT, "'tokenizer.json' has no model with a vocabulary");
    if (type && !yyjson_equals_str(type, "BPE"))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "a tokenizer of type '%s' is not run; BPE is",
                       yyjson_is_str(type) ? rv_gguf_value_label(yyjson_get_str(type), yyjson_get_len(type), label)
                                           : "?");
    if (!yyjson_is_arr(member(r->model, "merges")))
        return rv_fail(err, RUVLLM_FORMAT, "'tokenizer.json' has no list of merges");
    if (!is_empty_text(member(r->model, "continuing_subword_prefix")) ||
        !is_empty_text(member(r->model, "end_of_word_suffix")))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "a tokenizer that marks the parts of words is not run");
    if (member(r->model, "dropout") && yyjson_get_num(member(r->model, "dropout")) > 0)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "a tokenizer that drops merges at random is not run");
    return RUVLLM_OK;
}

/* ---- tokens -------------------------------------------------------------------------------- */

static ruvllm_status read_id(const struct reader *r, yyjson_val *value, size_t *id, struct ruvllm_error *err)
{
    if (!yyjson_is_uint(value))
        return rv_fail(err, RUVLLM_FORMAT, "'tokenizer.json' has a token without a number");
    if (yyjson_get_uint(value) >= (uint64_t)r->max_tokens)
        return rv_fail(err, RUVLLM_FORMAT, "'tokenizer.json' has token %llu, but the embedding has %lld rows",
                       (unsigned long long)yyjson_get_uint(value), (long long)r->max_tokens);
    *id = (size_t)yyjson_get_uint(value);
    return RUVLLM_OK;
}

static ruvllm_status check_text(struct rv_str text, size_t id, struct ruvllm_error *err)
{
    if (!text.data || text.len > MAX_TOKEN)
        return rv_fail(err, RUVLLM_FORMAT, "token %zu has no text, or one of more than %d bytes", id, MAX_TOKEN);
    return RUVLLM_OK;
}

static int32_t type_of(const struct reader *r, struct rv_str text)
{
    static const char digits[] = "0123456789ABCDEF";
    bool is_byte = text.len == 6 && memcmp(text.data, "<0x", 3) == 0 && text.data[5] == '>' && text.data[3] &&
                   text.data[4] && strchr(digits, text.data[3]) && strchr(digits, text.data[4]);
    yyjson_val *unknown = member(r->model, "unk_token");

    if (is_byte && !r->splitter.is_byte_level)
        return BYTE;
    if (yyjson_is_str(unknown) && yyjson_equals_strn(unknown, text.data, text.len))
        return UNKNOWN;
    return NORMAL;
}

static ruvllm_status add_token(struct reader *r, struct rv_str text, size_t id, int32_t type, struct ruvllm_error *err)
{
    struct rv_hf_tokenizer *t = r->out;
    ruvllm_status rc = check_text(text, id, err);

    if (rc)
        return rc;
    if (t->tokens[id].data && (t->tokens[id].len != text.len || memcmp(t->tokens[id].data, text.data, text.len) != 0))
        return rv_fail(err, RUVLLM_FORMAT, "'tokenizer.json' has two tokens of the number %zu", id);
    t->tokens[id] = text;
    t->types[id] = type;
    if (id >= t->n_tokens)
        t->n_tokens = id + 1;
    return RUVLLM_OK;
}

static ruvllm_status read_vocab(struct reader *r, struct ruvllm_error *err)
{
    yyjson_obj_iter iter;
    yyjson_val *key;
    size_t id = 0;
    ruvllm_status rc = RUVLLM_OK;

    yyjson_obj_iter_init(member(r->model, "vocab"), &iter);
    while (!rc && (key = yyjson_obj_iter_next(&iter))) {
        rc = read_id(r, yyjson_obj_iter_get_val(key), &id, err);
        if (!rc && r->out->tokens[id].data)
            rc = rv_fail(err, RUVLLM_FORMAT, "'tokenizer.json' has two tokens of the number %zu", id);
        if (!rc)
            rc = add_token(r, str_of(key), id, type_of(r, str_of(key)), err);
    }
    return rc;
}

static ruvllm_status read_added(struct reader *r, struct ruvllm_error *err)
{
    yyjson_val *list = member(r->root, "added_tokens"), *token;
    yyjson_arr_iter iter;
    size_t id = 0;
    ruvllm_status rc = RUVLLM_OK;

    if (list && !yyjson_is_arr(list))
        return rv_fail(err, RUVLLM_FORMAT, "'added_tokens' of 'tokenizer.json' is no list");
    yyjson_arr_iter_init(list, &iter);
    while (!rc && (token = yyjson_arr_iter_next(&iter))) {
        struct rv_str text = str_of(member(token, "content"));
        bool is_special = yyjson_is_true(member(token, "special"));
        bool is_unknown;

        rc = read_id(r, member(token, "id"), &id, err);
        if (!rc)
            rc = check_text(text, id, err);
        if (!rc && text.len == 0)
            rc = rv_fail(err, RUVLLM_FORMAT, "added token %zu is empty", id);
        if (!rc && yyjson_is_true(member(token, "single_word")))
            rc = rv_fail(err, RUVLLM_UNSUPPORTED, "added token %zu is to be found as a whole word only", id);
        if (rc)
            break;
        is_unknown = !r->splitter.is_byte_level && type_of(r, text) == UNKNOWN;
        if (is_special && yyjson_is_true(member(token, "rstrip")))
            r->out->swallows_space = true;
        rc = add_token(r, text, id, is_unknown ? UNKNOWN : is_special ? CONTROL : USER_DEFINED, err);
    }
    return rc;
}

static ruvllm_status index_tokens(struct reader *r, struct ruvllm_error *err)
{
    struct rv_hf_tokenizer *t = r->out;
    ruvllm_status rc = rv_str_map_init(&t->ids, t->n_tokens, err);

    for (size_t i = 0; i < t->n_tokens && !rc; i++) {
        if (t->tokens[i].data) // of two that are spelled alike the first counts
            rv_str_map_add(&t->ids, t->tokens[i].data, t->tokens[i].len, (int32_t)i);
    }
    return rc;
}

static ruvllm_status read_tokens(struct reader *r, struct ruvllm_error *err)
{
    struct rv_hf_tokenizer *t = r->out;
    ruvllm_status rc;

    t->tokens = rv_calloc((size_t)r->max_tokens, sizeof(*t->tokens));
    t->types = rv_calloc((size_t)r->max_tokens, sizeof(*t->types));
    if (!t->tokens || !t->types)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %lld tokens", (long long)r->max_tokens);
    rc = read_vocab(r, err);
    if (!rc)
        rc = read_added(r, err);
    if (!rc && t->n_tokens == 0)
        rc = rv_fail(err, RUVLLM_FORMAT, "'tokenizer.json' has no tokens");
    return rc ? rc : index_tokens(r, err);
}

/* ---- merges -------------------------------------------------------------------------------- */

/* "a b" or ["a", "b"]. */
static bool split_merge(yyjson_val *value, struct merge *out)
{
    struct rv_str text = str_of(value);
    const char *space;

    if (yyjson_is_arr(value)) {
        if (yyjson_arr_size(value) != 2)
            return false;
        *out = (struct merge){str_of(yyjson_arr_get(value, 0)), str_of(yyjson_arr_get(value, 1))};
        return out->left.data && out->right.data && out->left.len && out->right.len;
    }
    space = text.data ? memchr(text.data, ' ', text.len) : NULL;
    if (!space)
        return false;
    out->left = (struct rv_str){.data = text.data, .len = (size_t)(space - text.data)};
    out->right = (struct rv_str){.data = space + 1, .len = text.len - out->left.len - 1};
    return out->left.len && out->right.len;
}

static ruvllm_status read_merges(struct reader *r, struct ruvllm_error *err)
{
    yyjson_val *list = member(r->model, "merges"), *value;
    size_t n = yyjson_arr_size(list);
    yyjson_arr_iter iter;

    if (n >= MAX_MERGES)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "a tokenizer of %zu merges is not run", n);
    r->merges = rv_calloc(n + 1, sizeof(*r->merges));
    if (!r->merges)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu merges", n);
    yyjson_arr_iter_init(list, &iter);
    while ((value = yyjson_arr_iter_next(&iter))) {
        struct merge *m = &r->merges[r->n_merges];

        if (!split_merge(value, m) || m->left.len > MAX_TOKEN || m->right.len > MAX_TOKEN)
            return rv_fail(err, RUVLLM_FORMAT, "merge %zu of 'tokenizer.json' is not two parts of a token",
                           r->n_merges);
        /* Written as "left right", which a space inside would make ambiguous. */
        if (memchr(m->left.data, ' ', m->left.len) || memchr(m->right.data, ' ', m->right.len))
            return rv_fail(err, RUVLLM_UNSUPPORTED, "merge %zu of 'tokenizer.json' has a space in it", r->n_merges);
        r->n_merges++;
    }
    return RUVLLM_OK;
}

static int32_t find_joined(const struct rv_hf_tokenizer *t, const struct merge *m)
{
    char joined[2 * MAX_TOKEN];

    memcpy(joined, m->left.data, m->left.len);
    memcpy(joined + m->left.len, m->right.data, m->right.len);
    return rv_str_map_find(&t->ids, joined, m->left.len + m->right.len);
}

/* ---- scores -------------------------------------------------------------------------------- */

static bool is_normal(const struct rv_hf_tokenizer *t, const char *text, size_t len)
{
    int32_t id = rv_str_map_find(&t->ids, text, len);

    return id >= 0 && t->types[id] == NORMAL;
}

/* In how many ways a token falls into two others. */
static uint32_t count_splits(const struct rv_hf_tokenizer *t, struct rv_str token)
{
    uint32_t n = 0;

    for (size_t cut = 1; cut < token.len; cut++) {
        if (((unsigned char)token.data[cut] & 0xC0) == 0x80) // within a character
            continue;
        n += is_normal(t, token.data, cut) && is_normal(t, token.data + cut, token.len - cut);
    }
    return n;
}

/* What the merges tell of a token. */
struct token_merges {
    uint32_t n;    // between ordinary tokens
    uint32_t last; // place of the last of all
    bool is_scored;
};

/* One character again and again: "\n\n\n". */
static bool is_run(struct rv_str token)
{
    size_t len = 1;

    while (len < token.len && ((unsigned char)token.data[len] & 0xC0) == 0x80)
        len++;
    return token.len % len == 0 && memcmp(token.data, token.data + len, token.len - len) == 0;
}

static bool count_merges(const struct reader *r, struct token_merges *found)
{
    const struct rv_hf_tokenizer *t = r->out;

    for (size_t i = 0; i < r->n_merges; i++) {
        const struct merge *m = &r->merges[i];
        int32_t id = find_joined(t, m);

        if (id < 0)
            return false;
        found[id].n += is_normal(t, m->left.data, m->left.len) && is_normal(t, m->right.data, m->right.len);
        found[id].last = (uint32_t)i;
    }
    return true;
}

/*
 * The score of a token is the place where its merges begin. Those of one token stand together, but for runs of a
 * character: SentencePiece gives all of these one score, and merges of equal score are written in any order. False when
 * others are mixed too.
 */
static bool score_merges(const struct reader *r, float *scores, struct token_merges *found)
{
    const struct rv_hf_tokenizer *t = r->out;
    size_t start = 0, end = 0; // of the merges that are mixed
    int32_t first = -1;        // the token with which they begin

    for (size_t i = 0; i < r->n_merges; i++) {
        int32_t id = find_joined(t, &r->merges[i]);

        if (i == 0 || i > end) {
            start = i;
            end = i;
            first = id;
        }
        if (found[id].is_scored)
            continue;
        if (id != first && (!is_run(t->tokens[id]) || !is_run(t->tokens[first])))
            return false;
        end = found[id].last > end ? found[id].last : end;
        scores[id] = -(float)start;
        found[id].is_scored = true;
    }
    return true;
}

/* *is_scored: the merges are those of a SentencePiece vocabulary, and *scores, the caller's, has its order. */
static ruvllm_status find_scores(const struct reader *r, float **scores, bool *is_scored, struct ruvllm_error *err)
{
    const struct rv_hf_tokenizer *t = r->out;
    struct token_merges *found = rv_calloc(t->n_tokens, sizeof(*found));

    *scores = rv_calloc(t->n_tokens, sizeof(**scores));
    if (!found || !*scores) {
        rv_free(found);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu scores", t->n_tokens);
    }
    *is_scored = count_merges(r, found) && score_merges(r, *scores, found);
    for (size_t i = 0; i < t->n_tokens && *is_scored; i++) {
        if (t->tokens[i].data && t->types[i] == NORMAL && count_splits(t, t->tokens[i]) != found[i].n)
            *is_scored = false;
    }
    rv_free(found);
    return RUVLLM_OK;
}

/* ---- writing ------------------------------------------------------------------------------- */

static void write_tokens(struct reader *r)
{
    const struct rv_hf_tokenizer *t = r->out;
    char name[32];

    rv_gguf_image_array(r->image, "tokenizer.ggml.tokens", RV_GGUF_STRING, t->n_tokens);
    for (size_t i = 0; i < t->n_tokens; i++) {
        struct rv_str text = t->tokens[i];

        if (!text.data) {
            text.len = (size_t)snprintf(name, sizeof(name), "[PAD%zu]", i);
            text.data = name;
        }
        rv_gguf_image_add_str(r->image, text);
    }
    rv_gguf_image_array(r->image, "tokenizer.ggml.token_type", RV_GGUF_I32, t->n_tokens);
    for (size_t i = 0; i < t->n_tokens; i++)
        rv_gguf_image_add_i32(r->image, t->tokens[i].data ? t->types[i] : UNUSED);
}

static void write_merges(struct reader *r)
{
    char joined[2 * MAX_TOKEN + 1];

    rv_gguf_image_array(r->image, "tokenizer.ggml.merges", RV_GGUF_STRING, r->n_merges);
    for (size_t i = 0; i < r->n_merges; i++) {
        const struct merge *m = &r->merges[i];

        memcpy(joined, m->left.data, m->left.len);
        joined[m->left.len] = ' ';
        memcpy(joined + m->left.len + 1, m->right.data, m->right.len);
        rv_gguf_image_add_str(r->image, (struct rv_str){joined, m->left.len + 1 + m->right.len});
    }
}

static void write_model(struct reader *r, const char *model, const char *pre)
{
    rv_gguf_image_str(r->image, "tokenizer.ggml.model", (struct rv_str){model, strlen(model)});
    rv_gguf_image_str(r->image, "tokenizer.ggml.pre", (struct rv_str){pre, strlen(pre)});
}

static ruvllm_status write_pieces(struct reader *r, struct ruvllm_error *err)
{
    const struct rv_hf_tokenizer *t = r->out;
    float *scores = NULL;
    bool is_scored = false;
    ruvllm_status rc;

    if (yyjson_is_true(member(r->model, "ignore_merges")))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "pieces that are looked up whole before merging are not run");
    rc = find_scores(r, &scores, &is_scored, err);
    if (!rc && is_scored) {
        write_model(r, "llama", "default");
        rv_gguf_image_array(r->image, "tokenizer.ggml.scores", RV_GGUF_F32, t->n_tokens);
        for (size_t i = 0; i < t->n_tokens; i++)
            rv_gguf_image_add_f32(r->image, scores[i]);
        rv_gguf_image_bool(r->image, "tokenizer.ggml.add_space_prefix", r->splitter.adds_space);
    } else if (!rc) {
        rc = rv_fail(err, RUVLLM_UNSUPPORTED, "the merges of 'tokenizer.json' are not those of a SentencePiece model");
    }
    rv_free(scores);
    return rc;
}

static ruvllm_status read_all(struct reader *r, struct ruvllm_error *err)
{
    ruvllm_status rc = check_model(r, err);

    if (!rc)
        rc = rv_hf_splitter_read(&r->splitter, r->root, err);
    if (!rc)
        rc = read_tokens(r, err);
    if (!rc)
        rc = read_merges(r, err);
    if (rc)
        return rc;
    write_tokens(r);
    if (!r->splitter.is_byte_level)
        return write_pieces(r, err);
    write_model(r, "gpt2", r->splitter.pre);
    write_merges(r);
    return RUVLLM_OK;
}

static ruvllm_status read_tree(struct rv_hf_tokenizer *out, int64_t max_tokens, struct rv_gguf_image *image,
                               struct ruvllm_error *err)
{
    struct reader r = {.out = out, .image = image, .max_tokens = max_tokens, .root = out->json.root};
    ruvllm_status rc;

    r.model = member(r.root, "model");
    rc = read_all(&r, err);
    rv_free(r.merges);
    return rc;
}

ruvllm_status rv_hf_tokenizer_read(struct rv_hf_tokenizer *out, int folder, int64_t max_tokens,
                                   struct rv_gguf_image *image, struct ruvllm_error *err)
{
    ruvllm_status rc;

    *out = (struct rv_hf_tokenizer){0};
    rc = rv_json_file_read(&out->json, folder, "tokenizer.json", FILE_MAX, err);
    return rc ? rc : read_tree(out, max_tokens, image, err);
}

ruvllm_status rv_hf_tokenizer_parse(struct rv_hf_tokenizer *out, const char *text, size_t len, int64_t max_tokens,
                                    struct rv_gguf_image *image, struct ruvllm_error *err)
{
    ruvllm_status rc;

    *out = (struct rv_hf_tokenizer){0};
    rc = rv_json_file_parse(&out->json, text, len, "'tokenizer.json'", err);
    return rc ? rc : read_tree(out, max_tokens, image, err);
}

void rv_hf_tokenizer_release(struct rv_hf_tokenizer *tokenizer)
{
    rv_str_map_release(&tokenizer->ids);
    rv_free(tokenizer->tokens);
    rv_free(tokenizer->types);
    rv_json_file_release(&tokenizer->json);
    *tokenizer = (struct rv_hf_tokenizer){0};
}

int32_t rv_hf_tokenizer_find(const struct rv_hf_tokenizer *tokenizer, const char *text, size_t len)
{
    return tokenizer->ids.slots ? rv_str_map_find(&tokenizer->ids, text, len) : -1;
}
