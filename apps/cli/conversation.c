/* The conversation and its file. */
#include "conversation.h"

#include "text_input.h"

#include "base/alloc.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yyjson.h>

void rv_conversation_init(struct rv_conversation *c)
{
    *c = (struct rv_conversation){0};
}

static void free_message(struct ruvllm_message *message)
{
    /* Owned here; const only in the public struct. */
    rv_free((void *)(uintptr_t)message->role);
    rv_free((void *)(uintptr_t)message->content);
}

void rv_conversation_release(struct rv_conversation *c)
{
    for (size_t i = 0; i < c->n; i++)
        free_message(&c->messages[i]);
    rv_free(c->messages);
    *c = (struct rv_conversation){0};
}

static ruvllm_status reserve(struct rv_conversation *c, struct ruvllm_error *err)
{
    size_t cap = c->cap ? c->cap * 2 : 16;
    struct ruvllm_message *grown;

    if (c->n < c->cap)
        return RUVLLM_OK;
    grown = rv_realloc_array(c->messages, cap, sizeof(*grown));
    if (!grown)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold another message");
    c->messages = grown;
    c->cap = cap;
    return RUVLLM_OK;
}

static ruvllm_status make_message(struct ruvllm_message *out, const char *role, const char *content,
                                  struct ruvllm_error *err)
{
    out->role = rv_strdup(role);
    out->content = rv_strdup(content);
    if (out->role && out->content)
        return RUVLLM_OK;
    free_message(out);
    return rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold another message");
}

ruvllm_status rv_conversation_push(struct rv_conversation *c, const char *role, const char *content,
                                   struct ruvllm_error *err)
{
    ruvllm_status rc = reserve(c, err);

    if (rc == RUVLLM_OK)
        rc = make_message(&c->messages[c->n], role, content, err);
    if (rc == RUVLLM_OK)
        c->n++;
    return rc;
}

void rv_conversation_pop(struct rv_conversation *c)
{
    if (c->n)
        free_message(&c->messages[--c->n]);
}

const char *rv_conversation_last_role(const struct rv_conversation *c)
{
    return c->n ? c->messages[c->n - 1].role : "";
}

static bool has_system(const struct rv_conversation *c)
{
    return c->n > 0 && strcmp(c->messages[0].role, "system") == 0;
}

const char *rv_conversation_system(const struct rv_conversation *c)
{
    return has_system(c) ? c->messages[0].content : NULL;
}

ruvllm_status rv_conversation_set_system(struct rv_conversation *c, const char *content, struct ruvllm_error *err)
{
    struct ruvllm_message message;
    ruvllm_status rc;

    if (!*content) {
        if (has_system(c)) {
            free_message(&c->messages[0]);
            memmove(c->messages, c->messages + 1, --c->n * sizeof(*c->messages));
        }
        return RUVLLM_OK;
    }
    rc = reserve(c, err);
    if (rc == RUVLLM_OK)
        rc = make_message(&message, "system", content, err);
    if (rc)
        return rc;
    if (has_system(c)) {
        free_message(&c->messages[0]);
    } else {
        memmove(c->messages + 1, c->messages, c->n * sizeof(*c->messages));
        c->n++;
    }
    c->messages[0] = message;
    return RUVLLM_OK;
}

void rv_conversation_clear(struct rv_conversation *c)
{
    size_t kept = has_system(c) ? 1 : 0;

    while (c->n > kept)
        rv_conversation_pop(c);
}

static ruvllm_status expand_home(const char *path, char out[PATH_MAX], struct ruvllm_error *err)
{
    const char *home = getenv("HOME");
    int len;

    if (path[0] == '~' && path[1] == '/' && home)
        len = snprintf(out, PATH_MAX, "%s%s", home, path + 1);
    else
        len = snprintf(out, PATH_MAX, "%s", path);
    return len > 0 && len < PATH_MAX - 8 ? RUVLLM_OK : rv_fail(err, RUVLLM_INVALID, "the path is empty or too long");
}

static ruvllm_status write_file(const char *path, const char *text, size_t len, struct ruvllm_error *err)
{
    char partial[PATH_MAX];
    FILE *file;
    bool failed;

    snprintf(partial, sizeof(partial), "%s.part", path);
    file = fopen(partial, "w");
    if (!file)
        return rv_fail_errno(err, errno, "cannot write '%s'", path);
    failed = fwrite(text, 1, len, file) != len;
    failed = fputc('\n', file) == EOF || failed;
    failed = fclose(file) != 0 || failed;
    if (failed || rename(partial, path) != 0) {
        int reason = errno;

        unlink(partial);
        return rv_fail_errno(err, reason, "cannot write '%s'", path);
    }
    return RUVLLM_OK;
}

ruvllm_status rv_conversation_save(const struct rv_conversation *c, const char *path, struct ruvllm_error *err)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, "messages");
    char expanded[PATH_MAX], *text;
    size_t len;
    ruvllm_status rc;

    yyjson_mut_doc_set_root(doc, root);
    for (size_t i = 0; i < c->n; i++) {
        yyjson_mut_val *message = yyjson_mut_arr_add_obj(doc, list);

        yyjson_mut_obj_add_str(doc, message, "role", c->messages[i].role);
        yyjson_mut_obj_add_str(doc, message, "content", c->messages[i].content);
    }
    /* Bytes that are not UTF-8 (a model can write them) are kept, so that loading gives the same conversation. */
    text = yyjson_mut_write(doc, YYJSON_WRITE_PRETTY_TWO_SPACES | YYJSON_WRITE_ALLOW_INVALID_UNICODE, &len);
    yyjson_mut_doc_free(doc);
    if (!text)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot write the conversation as JSON");
    rc = expand_home(path, expanded, err);
    if (rc == RUVLLM_OK)
        rc = write_file(expanded, text, len, err);
    free(text);
    return rc;
}

static ruvllm_status read_messages(struct rv_conversation *c, yyjson_val *root, struct ruvllm_error *err)
{
    yyjson_val *list = yyjson_is_obj(root) ? yyjson_obj_get(root, "messages") : root, *item;
    yyjson_arr_iter iter = yyjson_arr_iter_with(list);
    ruvllm_status rc = RUVLLM_OK;

    if (!yyjson_is_arr(list))
        return rv_fail(err, RUVLLM_FORMAT, "no list of messages in it");
    while (rc == RUVLLM_OK && (item = yyjson_arr_iter_next(&iter)) != NULL) {
        yyjson_val *role = yyjson_obj_get(item, "role"), *content = yyjson_obj_get(item, "content");

        if (!yyjson_is_str(role) || !yyjson_is_str(content))
            return rv_fail(err, RUVLLM_FORMAT, "message %zu has no role or no content", c->n + 1);
        if (strlen(yyjson_get_str(content)) != yyjson_get_len(content))
            return rv_fail(err, RUVLLM_FORMAT, "message %zu contains a NUL character", c->n + 1);
        rc = rv_conversation_push(c, yyjson_get_str(role), yyjson_get_str(content), err);
    }
    return rc;
}

ruvllm_status rv_conversation_load(struct rv_conversation *c, const char *path, struct ruvllm_error *err)
{
    struct rv_conversation loaded;
    char expanded[PATH_MAX], *text = NULL;
    yyjson_read_err json_err;
    yyjson_doc *doc;
    size_t len;
    ruvllm_status rc = expand_home(path, expanded, err);

    if (rc == RUVLLM_OK)
        rc = rv_text_input_file(expanded, &text, &len, err);
    if (rc)
        return rc;
    rv_conversation_init(&loaded);
    doc = yyjson_read_opts(text, len, YYJSON_READ_ALLOW_INVALID_UNICODE, NULL, &json_err);
    if (doc)
        rc = read_messages(&loaded, yyjson_doc_get_root(doc), err);
    else
        rc = rv_fail(err, RUVLLM_FORMAT, "not JSON: %s at byte %zu", json_err.msg, json_err.pos);
    yyjson_doc_free(doc);
    rv_free(text);
    if (rc) {
        rv_conversation_release(&loaded);
        return rv_fail_in(err, rc, "cannot load '%s'", path);
    }
    rv_conversation_release(c);
    *c = loaded;
    return RUVLLM_OK;
}
