/*
 * An answer's text, as it comes, taken apart: what was thought, what was said, and which tools are called with which
 * arguments. The text is one that the engine's grammar let through, so calls have the form the style says; of one that
 * was cut off its beginning is handed out. Every byte is looked at once.
 */
#ifndef RV_SERVER_ANSWER_PARTS_H
#define RV_SERVER_ANSWER_PARTS_H

#include "base/buf.h"

enum { RV_ANSWER_PARTS_NAME = 64 }; // bytes of a tool's name

enum rv_answer_parts_state {
    RV_ANSWER_BEGIN,   // nothing came yet but white space, or a beginning of "<think>"
    RV_ANSWER_THOUGHT, // up to "</think>"
    RV_ANSWER_GAP,     // white space behind it
    RV_ANSWER_TEXT,    // up to the mark of a call
    RV_ANSWER_HEAD,    // up to a call's name
    RV_ANSWER_NAME,
    RV_ANSWER_KEY, // between name and arguments
    RV_ANSWER_ARGUMENTS,
};

/* Whom the parts are given to. */
struct rv_answer_parts_sink {
    void (*thought)(void *user, const char *text, size_t len);
    void (*said)(void *user, const char *text, size_t len);
    void (*called)(void *user, int32_t index, const char *name);
    void (*arguments)(void *user, int32_t index, const char *text, size_t len);
    void *user;
};

struct rv_answer_parts {
    enum rv_answer_parts_state state;
    bool has_tools;
    struct ruvllm_tool_style style;
    char held[64]; // a beginning of the mark looked for
    size_t n_held;
    char name[RV_ANSWER_PARTS_NAME + 1];
    size_t n_name;
    size_t n_key; // bytes of the key still to come
    int32_t depth;
    bool in_string, is_escaped;
    int32_t n_calls;
};

/* `style` NULL: there are no tools. With `is_thinking` the text begins inside a thought. */
void rv_answer_parts_init(struct rv_answer_parts *parts, const struct ruvllm_tool_style *style, bool may_think,
                          bool is_thinking);
void rv_answer_parts_add(struct rv_answer_parts *parts, const char *text, size_t len,
                         const struct rv_answer_parts_sink *sink);
/* The text is over: what was held back is handed out. */
void rv_answer_parts_end(struct rv_answer_parts *parts, const struct rv_answer_parts_sink *sink);

#endif
