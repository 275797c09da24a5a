/*
 * A model's own chat template, written in Jinja, parsed once and rendered by our interpreter: no I/O, no
 * attributes beyond data, bounded in steps and output. A template that cannot be parsed or rendered is an
 * error that says where; nothing is ever put in its place.
 */
#ifndef RV_TEXT_CHAT_TEMPLATE_H
#define RV_TEXT_CHAT_TEMPLATE_H

#include "base/buf.h"
#include "base/str.h"

struct rv_chat_template;

/* Parses source[0..len), which is copied. */
RV_CHECKED ruvllm_status rv_chat_template_new(struct rv_chat_template **out, const char *source, size_t len,
                                              struct ruvllm_error *err);
void rv_chat_template_free(struct rv_chat_template *tmpl);
/* SHA-256 of the source as 64 hex digits; lives with the template. */
const char *rv_chat_template_sha256(const struct rv_chat_template *tmpl);

struct rv_chat_message {
    const char *role;
    const char *content;
};

struct rv_chat_render {
    const struct rv_chat_message *messages;
    size_t n_messages;
    bool add_generation_prompt;
    struct rv_str bos_token, eos_token; // their spelling, for templates that write them
    /*
     * More variables as a JSON object (tools, enable_thinking, date_string, ...), or NULL. When it has a
     * "messages" member, that one is used and `messages` must be empty.
     */
    const char *json;
    size_t json_len;
};

/*
 * Renders a conversation. `text` receives the bytes; `user_mask`, when not NULL, as many bytes: 1 where the
 * byte came from a message's content (through whatever filters and slices), 0 where it is the template's own.
 * Bounds: 1,000,000 steps, 1 MiB of output, 64 MiB of values, nesting of 64 in the source and 128 while running;
 * over any of them is INVALID, as is raise_exception().
 * Dates come from `strftime_now` with the current time; nothing else of the machine is visible.
 */
RV_CHECKED ruvllm_status rv_chat_template_render(const struct rv_chat_template *tmpl,
                                                 const struct rv_chat_render *render, struct rv_buf *text,
                                                 struct rv_buf *user_mask, struct ruvllm_error *err);

#endif
