/* What the two halves of the parser share: a cursor over the tokens. Included by jinja_parser.c and jinja_expr.c only.
 */
#ifndef RV_TEXT_JINJA_PARSE_STATE_H
#define RV_TEXT_JINJA_PARSE_STATE_H

#include "text/jinja_lexer.h"
#include "text/jinja_parser.h"

struct rv_jinja_parse_state {
    const struct rv_jinja_token *token; // the next one; the last is END and is never passed
    struct rv_arena *arena;
    int depth;
    int loop_depth; // how many for loops we are in, macros starting anew
    struct ruvllm_error *err;
};

/* Fails with the line of the next token and what it is. */
ruvllm_status rv_jinja_parse_fail(struct rv_jinja_parse_state *ps, const char *what);
/* One level deeper; every successful call is paired with rv_jinja_parse_leave. */
RV_CHECKED ruvllm_status rv_jinja_parse_enter(struct rv_jinja_parse_state *ps);
void rv_jinja_parse_leave(struct rv_jinja_parse_state *ps);
RV_CHECKED ruvllm_status rv_jinja_parse_node(struct rv_jinja_parse_state *ps, enum rv_jinja_kind kind,
                                             struct rv_jinja_node **out);
/* Makes `operand` the left operand of `node`. */
void rv_jinja_parse_wrap(struct rv_jinja_node *node, struct rv_jinja_node *operand);
bool rv_jinja_parse_is_op(const struct rv_jinja_parse_state *ps, const char *op);
bool rv_jinja_parse_is_name(const struct rv_jinja_parse_state *ps, const char *name);
/* Passes the token when it is the operator (the name); tells whether it was. */
bool rv_jinja_parse_take_op(struct rv_jinja_parse_state *ps, const char *op);
bool rv_jinja_parse_take_name(struct rv_jinja_parse_state *ps, const char *name);
RV_CHECKED ruvllm_status rv_jinja_parse_expect_op(struct rv_jinja_parse_state *ps, const char *op);

/* One expression. */
RV_CHECKED ruvllm_status rv_jinja_parse_expression(struct rv_jinja_parse_state *ps, struct rv_jinja_node **out);
/* The same without a trailing `x if y`, as after `for .. in`. */
RV_CHECKED ruvllm_status rv_jinja_parse_unconditional(struct rv_jinja_parse_state *ps, struct rv_jinja_node **out);
/* One expression, or several separated by commas as a TUPLE. */
RV_CHECKED ruvllm_status rv_jinja_parse_sequence(struct rv_jinja_parse_state *ps, struct rv_jinja_node **out);
/* A name with members, calls and indices behind it, without filters. */
RV_CHECKED ruvllm_status rv_jinja_parse_postfix(struct rv_jinja_parse_state *ps, struct rv_jinja_node **out);
/* Filters behind `operand`: |f|g(x). With `bare` the first one has no bar, as in {% filter f|g %}. */
RV_CHECKED ruvllm_status rv_jinja_parse_filters(struct rv_jinja_parse_state *ps, struct rv_jinja_node *operand,
                                                bool bare, struct rv_jinja_node **out);

#endif
