/* Small templates, rendered and compared. */
#include "support/jinja.h"

#include <stdio.h>
#include <string.h>

static ruvllm_status render(const char *source, const char *json, struct rv_buf *text, struct rv_buf *mask,
                            struct ruvllm_error *err)
{
    struct rv_chat_render options = {.json = json, .json_len = json ? strlen(json) : 0, .bos_token = {"<s>", 3}};
    struct rv_chat_template *tmpl;
    ruvllm_status rc;

    rv_buf_init(text, (size_t)4 << 20);
    rv_buf_init(mask, (size_t)4 << 20);
    rc = rv_chat_template_new(&tmpl, source, strlen(source), err);
    if (rc == RUVLLM_OK)
        rc = rv_chat_template_render(tmpl, &options, text, mask, err);
    rv_chat_template_free(tmpl);
    return rc;
}

void test_jinja_renders(const char *source, const char *json, const char *wanted)
{
    struct ruvllm_error err;
    struct rv_buf text, mask;

    if (render(source, json, &text, &mask, &err))
        fail_msg("%s\n  fails: %s", source, err.message);
    rv_buf_add(&text, "", 0);
    if (strcmp(text.data, wanted) != 0)
        fail_msg("%s\n  wanted: '%s'\n  got:    '%s'", source, wanted, text.data);
    rv_buf_release(&text);
    rv_buf_release(&mask);
}

void test_jinja_fails(const char *source, const char *json, const char *message)
{
    struct ruvllm_error err;
    struct rv_buf text, mask;
    ruvllm_status rc = render(source, json, &text, &mask, &err);

    if (rc != RUVLLM_INVALID)
        fail_msg("%.200s\n  wanted INVALID, got %s", source, ruvllm_status_name(rc));
    if (!strstr(err.message, message))
        fail_msg("%.200s\n  message '%s' lacks '%s'", source, err.message, message);
    assert_int_equal(text.len, 0);
    rv_buf_release(&text);
    rv_buf_release(&mask);
}

void test_jinja_marks(const char *source, const char *json, const char *wanted)
{
    struct ruvllm_error err;
    struct rv_buf text, mask, marked;
    char inside = 0;

    if (render(source, json, &text, &mask, &err))
        fail_msg("%s\n  fails: %s", source, err.message);
    assert_int_equal(text.len, mask.len);
    rv_buf_init(&marked, (size_t)1 << 20);
    rv_buf_add(&marked, "", 0);
    for (size_t i = 0; i < text.len; i++) {
        if (mask.data[i] != inside)
            rv_buf_add_char(&marked, inside ? '>' : '<');
        inside = mask.data[i];
        rv_buf_add_char(&marked, text.data[i]);
    }
    if (inside)
        rv_buf_add_char(&marked, '>');
    if (strcmp(marked.data, wanted) != 0)
        fail_msg("%s\n  wanted: '%s'\n  got:    '%s'", source, wanted, marked.data);
    rv_buf_release(&text);
    rv_buf_release(&mask);
    rv_buf_release(&marked);
}
