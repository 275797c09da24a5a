/*
 * Jinja source to tokens. Whitespace control is settled here: `-` and `+` marks, and the two settings every
 * chat template is written for (a newline after a block tag is dropped; blanks before one at the start of a
 * line are dropped). One newline at the end of the source does not count. Comments vanish, raw blocks become
 * text, and so do the tags `generation` and `endgeneration`, which only mark what a model said.
 */
#ifndef RV_TEXT_JINJA_LEXER_H
#define RV_TEXT_JINJA_LEXER_H

#include "base/arena.h"
#include "base/str.h"

enum rv_jinja_token_kind {
    RV_JINJA_TOKEN_END,
    RV_JINJA_TOKEN_TEXT,
    RV_JINJA_TOKEN_OUTPUT_OPEN,  // {{
    RV_JINJA_TOKEN_OUTPUT_CLOSE, // }}
    RV_JINJA_TOKEN_BLOCK_OPEN,   // {%
    RV_JINJA_TOKEN_BLOCK_CLOSE,  // %}
    RV_JINJA_TOKEN_NAME,
    RV_JINJA_TOKEN_STRING, // `text` is the value, escapes resolved
    RV_JINJA_TOKEN_INTEGER,
    RV_JINJA_TOKEN_FLOAT,
    RV_JINJA_TOKEN_OPERATOR // `text` is one of the operators and brackets
};

struct rv_jinja_token {
    enum rv_jinja_token_kind kind;
    int line; // from 1
    struct rv_str text;
};

struct rv_jinja_tokens {
    struct rv_jinja_token *items; // the last one is END
    size_t len;
};

/*
 * Cuts source[0..len) into tokens. Their array lives in `arena`, strings that had escapes in `strings`; all
 * other texts point into `source`. A failure is INVALID with the line.
 */
RV_CHECKED ruvllm_status rv_jinja_lexer_run(const char *source, size_t len, struct rv_arena *arena,
                                            struct rv_arena *strings, struct rv_jinja_tokens *out,
                                            struct ruvllm_error *err);

#endif
