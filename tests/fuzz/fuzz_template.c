/*
 * Templates and what users write, both hostile. Input: a template, a zero byte, then message contents separated
 * by zero bytes. Limits are low, so that no input is slow. Whatever happens, output and mask go together.
 */
#include "base/alloc.h"
#include "text/jinja_eval.h"
#include "text/jinja_json.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_MESSAGES 8

static ruvllm_status add_message(struct rv_jinja_run *run, struct rv_jinja_list *messages, const char *content,
                                 size_t len)
{
    static const char *const roles[] = {"system", "user", "assistant"};
    const char *role = roles[messages->len % 3];
    struct rv_jinja_value message;
    const unsigned char *user;
    ruvllm_status rc = rv_jinja_json_user_mask(run, len, &user);

    if (rc == RUVLLM_OK)
        rc = rv_jinja_dict_new(run, &message);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_dict_set(run, message.as.dict, rv_jinja_literal("role", 4),
                               rv_jinja_text(rv_jinja_literal(role, strlen(role))));
    if (rc == RUVLLM_OK)
        rc = rv_jinja_dict_set(run, message.as.dict, rv_jinja_literal("content", 7),
                               rv_jinja_text((struct rv_jinja_string){content, user, len}));
    return rc ? rc : rv_jinja_list_push(run, messages, message);
}

static ruvllm_status add_messages(struct rv_jinja_run *run, struct rv_jinja_scope *globals, const char *text,
                                  size_t len)
{
    struct rv_jinja_value messages;
    ruvllm_status rc = rv_jinja_list_new(run, MAX_MESSAGES, &messages);

    for (size_t start = 0; rc == RUVLLM_OK && start < len && messages.as.list->len < MAX_MESSAGES;) {
        const char *end = memchr(text + start, 0, len - start);
        size_t content = end ? (size_t)(end - text) - start : len - start;

        rc = add_message(run, messages.as.list, text + start, content);
        start += content + 1;
    }
    if (rc == RUVLLM_OK)
        rc = rv_jinja_scope_set(run, globals, "add_generation_prompt", rv_jinja_boolean(true));
    return rc ? rc : rv_jinja_scope_set(run, globals, "messages", messages);
}

static void render(const struct rv_jinja_node *root, const char *contents, size_t len)
{
    static const struct rv_jinja_limits limits = {.steps = 20000, .output_bytes = 16384, .memory_bytes = 1 << 20};
    struct rv_jinja_scope globals = {.parent = NULL};
    struct rv_jinja_run run;
    struct ruvllm_error err;
    ruvllm_status rc;

    rv_jinja_run_init(&run, &limits, &err);
    rc = add_messages(&run, &globals, contents, len);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_render(&run, root, &globals);
    RV_ASSERT(rc == RUVLLM_OK || rc == RUVLLM_INVALID);
    RV_ASSERT(rc != RUVLLM_INVALID || strlen(err.message) > 0);
    RV_ASSERT(run.text.len == run.mask.len && run.text.len <= limits.output_bytes);
    RV_ASSERT(rc != RUVLLM_OK || run.depth == 0);
    for (size_t i = 0; i < run.mask.len; i++)
        RV_ASSERT(run.mask.data[i] == 0 || run.mask.data[i] == 1);
    rv_jinja_run_release(&run);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *end = size ? memchr(text, 0, size) : NULL;
    size_t source_len = end ? (size_t)(end - text) : size;
    char *source = rv_strndup(text ? text : "", source_len);
    struct rv_jinja_node *root;
    struct rv_arena arena;
    struct ruvllm_error err;

    if (!source)
        return 0;
    rv_arena_init(&arena, (size_t)8 << 20);
    if (rv_jinja_parse(source, source_len, &arena, &root, &err) == RUVLLM_OK)
        render(root, end ? end + 1 : "", end ? size - source_len - 1 : 0);
    rv_arena_release(&arena);
    rv_free(source);
    return 0;
}
