/* Line by line: yyjson parses, and the items point into its documents, which are kept. */
#include "jsonl_samples.h"

#include "base/alloc.h"

#include <yyjson.h>

#include <math.h>
#include <string.h>

enum { MAX_MESSAGES = 4096 };

/* One line's document and the messages made of it. */
struct document {
    yyjson_doc *doc;
    struct ruvllm_message *messages; // NULL: none
};

struct rv_jsonl_documents {
    struct document *items;
    size_t n_items, cap;
};

/* Room for one more of each; false when memory is out. */
static bool make_room(struct rv_jsonl_samples *s)
{
    struct rv_jsonl_documents *d = s->documents;

    if (!d) {
        d = s->documents = rv_calloc(1, sizeof(*d));
        if (!d)
            return false;
    }
    if (s->n_items == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 64;
        struct ruvllm_train_sample *items = rv_realloc_array(s->items, cap, sizeof(*items));

        if (!items)
            return false;
        s->items = items;
        s->cap = cap;
    }
    if (d->n_items == d->cap) {
        size_t cap = d->cap ? d->cap * 2 : 64;
        struct document *items = rv_realloc_array(d->items, cap, sizeof(*items));

        if (!items)
            return false;
        d->items = items;
        d->cap = cap;
    }
    return true;
}

/* The string of a field; NULL when it is not there, is none, or holds a zero byte, which C strings cannot. */
static const char *string_of(yyjson_val *object, const char *key)
{
    yyjson_val *value = yyjson_obj_get(object, key);
    const char *text = yyjson_get_str(value);

    return text && strlen(text) == yyjson_get_len(value) ? text : NULL;
}

static ruvllm_status read_messages(struct document *d, yyjson_val *list, struct ruvllm_train_sample *out,
                                   struct ruvllm_error *err)
{
    size_t n = yyjson_arr_size(list), i, max;
    yyjson_val *item;

    if (!yyjson_is_arr(list) || n < 2 || n > MAX_MESSAGES)
        return rv_fail(err, RUVLLM_INVALID, "'messages' must be a list of 2 to %d messages", MAX_MESSAGES);
    d->messages = rv_calloc(n, sizeof(*d->messages));
    if (!d->messages)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold %zu messages", n);
    yyjson_arr_foreach(list, i, max, item)
    {
        d->messages[i] =
            (struct ruvllm_message){.role = string_of(item, "role"), .content = string_of(item, "content")};
        if (!d->messages[i].role || !d->messages[i].content)
            return rv_fail(err, RUVLLM_INVALID, "message %zu needs 'role' and 'content', both text", i + 1);
    }
    out->messages = d->messages;
    out->n_messages = n;
    return RUVLLM_OK;
}

/* Prompt and response as two messages. */
static ruvllm_status make_messages(struct document *d, const char *prompt, const char *response,
                                   struct ruvllm_train_sample *out, struct ruvllm_error *err)
{
    d->messages = rv_calloc(2, sizeof(*d->messages));
    if (!d->messages)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold two messages");
    d->messages[0] = (struct ruvllm_message){.role = "user", .content = prompt};
    d->messages[1] = (struct ruvllm_message){.role = "assistant", .content = response};
    out->messages = d->messages;
    out->n_messages = 2;
    return RUVLLM_OK;
}

static ruvllm_status read_score(yyjson_val *root, float *out, struct ruvllm_error *err)
{
    yyjson_val *value = yyjson_obj_get(root, "score");
    double score = yyjson_get_num(value);

    if (!value || yyjson_is_null(value))
        return RUVLLM_OK;
    if (!yyjson_is_num(value) || !(score >= 0 && score <= 1))
        return rv_fail(err, RUVLLM_INVALID, "'score' must be a number from 0 to 1");
    *out = (float)score;
    return RUVLLM_OK;
}

static ruvllm_status read_sample(struct document *d, enum rv_jsonl_prompts prompts, struct ruvllm_train_sample *out,
                                 struct ruvllm_error *err)
{
    yyjson_val *root = yyjson_doc_get_root(d->doc);
    const char *prompt = string_of(root, "prompt"), *response = string_of(root, "response");
    const char *text = string_of(root, "text"), *chosen = string_of(root, "chosen");
    ruvllm_status rc;

    if (!yyjson_is_obj(root))
        return rv_fail(err, RUVLLM_INVALID, "it is no object");
    rc = read_score(root, &out->score, err);
    if (rc)
        return rc;
    out->rejected = string_of(root, "rejected");
    if (yyjson_obj_get(root, "rejected") && !out->rejected)
        return rv_fail(err, RUVLLM_INVALID, "'rejected' must be text");
    response = response ? response : chosen;
    if (yyjson_obj_get(root, "messages"))
        return read_messages(d, yyjson_obj_get(root, "messages"), out, err);
    if (text && !response) {
        out->response = text;
        return RUVLLM_OK;
    }
    if (!prompt || !response)
        return rv_fail(err, RUVLLM_INVALID,
                       "it needs 'prompt' and 'response' (or 'chosen' and 'rejected'), or 'messages', or 'text'");
    if (prompts == RV_JSONL_PROMPTS_CHAT)
        return make_messages(d, prompt, response, out, err);
    out->prompt = prompt;
    out->response = response;
    return RUVLLM_OK;
}

static ruvllm_status add_line(struct rv_jsonl_samples *s, const char *line, size_t len, enum rv_jsonl_prompts prompts,
                              bool is_anchor, struct ruvllm_error *err)
{
    struct ruvllm_train_sample sample = {.struct_size = sizeof(sample), .score = NAN, .is_anchor = is_anchor};
    yyjson_read_err why;
    struct document *d;
    ruvllm_status rc;

    if (!make_room(s))
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold another example");
    d = &s->documents->items[s->documents->n_items];
    *d = (struct document){0};
    /* The reader does not write to its input without the flag that lets it. */
    d->doc = yyjson_read_opts((char *)(uintptr_t)line, len, YYJSON_READ_NOFLAG, NULL, &why);
    if (!d->doc)
        return rv_fail(err, RUVLLM_FORMAT, "it is no JSON: %s at byte %zu", why.msg, why.pos);
    s->documents->n_items++;
    rc = read_sample(d, prompts, &sample, err);
    if (!rc)
        s->items[s->n_items++] = sample;
    return rc;
}

static bool is_blank(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!strchr(" \t\r", line[i]) || line[i] == '\0')
            return false;
    return true;
}

ruvllm_status rv_jsonl_samples_add(struct rv_jsonl_samples *samples, const char *text, size_t len,
                                   enum rv_jsonl_prompts prompts, bool are_anchors, struct ruvllm_error *err)
{
    size_t at = 0;
    int64_t number = 0;

    while (at < len) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - text) - at : len - at;
        ruvllm_status rc = RUVLLM_OK;

        number++;
        if (!is_blank(text + at, n))
            rc = add_line(samples, text + at, n, prompts, are_anchors, err);
        if (rc)
            return rv_fail_in(err, rc, "line %lld", (long long)number);
        at += n + 1;
    }
    return RUVLLM_OK;
}

void rv_jsonl_samples_release(struct rv_jsonl_samples *samples)
{
    for (size_t i = 0; samples->documents && i < samples->documents->n_items; i++) {
        yyjson_doc_free(samples->documents->items[i].doc);
        rv_free(samples->documents->items[i].messages);
    }
    if (samples->documents)
        rv_free(samples->documents->items);
    rv_free(samples->documents);
    rv_free(samples->items);
    *samples = (struct rv_jsonl_samples){0};
}
