/*
 * Statements. Reading is recursive over a bounded depth, but an if with any number of elifs is one level. What
 * is not listed in `statements` (include, import, extends, block, ...) is refused by name.
 */
#include "text/jinja_parse_state.h"

#include "base/alloc.h"

#include <string.h>

#define MAX_TOKEN_BYTES ((size_t)32 << 20)

static ruvllm_status parse_body(struct rv_jinja_parse_state *ps, const char *const *ends, struct rv_jinja_node **first);

/* ---- the cursor ----------------------------------------------------------------------------- */

ruvllm_status rv_jinja_parse_fail(struct rv_jinja_parse_state *ps, const char *what)
{
    const struct rv_jinja_token *token = ps->token;
    int shown = (int)(token->text.len < 40 ? token->text.len : 40);

    if (ps->arena->failed)
        return rv_fail_kind(ps->err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG, "line %d: the template is too large",
                            token->line);
    if (token->kind == RV_JINJA_TOKEN_END)
        return rv_fail_kind(ps->err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG, "line %d: %s, got the end of the template",
                            token->line, what);
    return rv_fail_kind(ps->err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG, "line %d: %s, got '%.*s'", token->line, what,
                        shown, token->text.data);
}

ruvllm_status rv_jinja_parse_enter(struct rv_jinja_parse_state *ps)
{
    if (ps->depth >= RV_JINJA_MAX_DEPTH)
        return rv_fail_kind(ps->err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG, "line %d: nested deeper than %d",
                            ps->token->line, RV_JINJA_MAX_DEPTH);
    ps->depth++;
    return RUVLLM_OK;
}

void rv_jinja_parse_leave(struct rv_jinja_parse_state *ps)
{
    ps->depth--;
}

ruvllm_status rv_jinja_parse_node(struct rv_jinja_parse_state *ps, enum rv_jinja_kind kind, struct rv_jinja_node **out)
{
    struct rv_jinja_node *node = rv_arena_calloc(ps->arena, 1, sizeof(*node));

    *out = node;
    if (!node)
        return rv_jinja_parse_fail(ps, "out of memory");
    node->kind = kind;
    node->line = ps->token->line;
    return RUVLLM_OK;
}

void rv_jinja_parse_wrap(struct rv_jinja_node *node, struct rv_jinja_node *operand)
{
    node->a = operand;
    operand->up = node;
}

static bool is_token(const struct rv_jinja_token *token, enum rv_jinja_token_kind kind, const char *text)
{
    return token->kind == kind && token->text.len == strlen(text) &&
           memcmp(token->text.data, text, token->text.len) == 0;
}

bool rv_jinja_parse_is_op(const struct rv_jinja_parse_state *ps, const char *op)
{
    return is_token(ps->token, RV_JINJA_TOKEN_OPERATOR, op);
}

bool rv_jinja_parse_is_name(const struct rv_jinja_parse_state *ps, const char *name)
{
    return is_token(ps->token, RV_JINJA_TOKEN_NAME, name);
}

bool rv_jinja_parse_take_op(struct rv_jinja_parse_state *ps, const char *op)
{
    bool found = rv_jinja_parse_is_op(ps, op);

    ps->token += found;
    return found;
}

bool rv_jinja_parse_take_name(struct rv_jinja_parse_state *ps, const char *name)
{
    bool found = rv_jinja_parse_is_name(ps, name);

    ps->token += found;
    return found;
}

ruvllm_status rv_jinja_parse_expect_op(struct rv_jinja_parse_state *ps, const char *op)
{
    char what[] = "expected '  '";

    if (rv_jinja_parse_take_op(ps, op))
        return RUVLLM_OK;
    memcpy(what + strlen("expected '"), op, strlen(op));
    if (strlen(op) == 1)
        memcpy(what + strlen("expected '") + 1, "'", 2);
    return rv_jinja_parse_fail(ps, what);
}

static ruvllm_status expect_close(struct rv_jinja_parse_state *ps)
{
    if (ps->token->kind != RV_JINJA_TOKEN_BLOCK_CLOSE)
        return rv_jinja_parse_fail(ps, "expected '%}'");
    ps->token++;
    return RUVLLM_OK;
}

/* Closes the tag we are in, reads statements, and passes `{% end %}`. */
static ruvllm_status parse_block_until(struct rv_jinja_parse_state *ps, const char *end, struct rv_jinja_node **body)
{
    const char *const ends[] = {end, NULL};
    ruvllm_status rc = expect_close(ps);

    if (rc == RUVLLM_OK)
        rc = parse_body(ps, ends, body);
    if (rc)
        return rc;
    ps->token += 2;
    return expect_close(ps);
}

/* A body that break and continue cannot leave. */
static ruvllm_status parse_function_body(struct rv_jinja_parse_state *ps, const char *end, struct rv_jinja_node **body)
{
    int loop_depth = ps->loop_depth;
    ruvllm_status rc;

    ps->loop_depth = 0;
    rc = parse_block_until(ps, end, body);
    ps->loop_depth = loop_depth;
    return rc;
}

/* ---- statements ----------------------------------------------------------------------------- */

static ruvllm_status parse_if(struct rv_jinja_parse_state *ps, struct rv_jinja_node *node)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    ruvllm_status rc;

    for (;;) {
        rc = rv_jinja_parse_expression(ps, &node->a);
        if (rc == RUVLLM_OK)
            rc = expect_close(ps);
        if (rc == RUVLLM_OK)
            rc = parse_body(ps, ends, &node->body);
        if (rc)
            return rc;
        ps->token++;
        if (rv_jinja_parse_take_name(ps, "endif"))
            return expect_close(ps);
        if (rv_jinja_parse_take_name(ps, "else"))
            return parse_block_until(ps, "endif", &node->otherwise);
        rc = rv_jinja_parse_node(ps, RV_JINJA_IF, &node->otherwise);
        if (rc)
            return rc;
        ps->token++;
        node = node->otherwise;
    }
}

/* Names separated by commas, with or without parentheses around them. */
static ruvllm_status parse_targets(struct rv_jinja_parse_state *ps, struct rv_jinja_node **out)
{
    bool parens = rv_jinja_parse_take_op(ps, "(");
    struct rv_jinja_node *first = NULL, **link = &first;
    ruvllm_status rc;

    do {
        if (ps->token->kind != RV_JINJA_TOKEN_NAME || rv_jinja_parse_is_name(ps, "in"))
            return rv_jinja_parse_fail(ps, "expected the name of a variable");
        rc = rv_jinja_parse_node(ps, RV_JINJA_NAME, link);
        if (rc)
            return rc;
        (*link)->text = ps->token++->text;
        link = &(*link)->next;
    } while (rv_jinja_parse_take_op(ps, ","));
    if (parens) {
        rc = rv_jinja_parse_expect_op(ps, ")");
        if (rc)
            return rc;
    }
    *out = first;
    if (!first->next)
        return RUVLLM_OK;
    rc = rv_jinja_parse_node(ps, RV_JINJA_TUPLE, out);
    if (rc == RUVLLM_OK)
        (*out)->a = first;
    return rc;
}

/* `x`, `x if condition`, or the ternary `x if condition else y`. */
static ruvllm_status parse_iterable(struct rv_jinja_parse_state *ps, struct rv_jinja_node *node)
{
    struct rv_jinja_node *ternary;
    ruvllm_status rc = rv_jinja_parse_unconditional(ps, &node->b);

    if (rc || !rv_jinja_parse_take_name(ps, "if"))
        return rc;
    rc = rv_jinja_parse_unconditional(ps, &node->c);
    if (rc || !rv_jinja_parse_take_name(ps, "else"))
        return rc;
    rc = rv_jinja_parse_node(ps, RV_JINJA_TERNARY, &ternary);
    if (rc)
        return rc;
    ternary->a = node->b;
    ternary->b = node->c;
    node->b = ternary;
    node->c = NULL;
    return rv_jinja_parse_expression(ps, &ternary->c);
}

static ruvllm_status parse_for(struct rv_jinja_parse_state *ps, struct rv_jinja_node *node)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    ruvllm_status rc = parse_targets(ps, &node->a);

    if (rc)
        return rc;
    if (!rv_jinja_parse_take_name(ps, "in"))
        return rv_jinja_parse_fail(ps, "expected 'in'");
    rc = parse_iterable(ps, node);
    if (rc == RUVLLM_OK)
        rc = expect_close(ps);
    if (rc)
        return rc;
    ps->loop_depth++;
    rc = parse_body(ps, ends, &node->body);
    ps->loop_depth--;
    if (rc)
        return rc;
    ps->token++;
    if (rv_jinja_parse_take_name(ps, "else"))
        return parse_block_until(ps, "endfor", &node->otherwise);
    ps->token++;
    return expect_close(ps);
}

static bool is_target(const struct rv_jinja_node *node)
{
    if (node->kind == RV_JINJA_TUPLE) {
        for (node = node->a; node; node = node->next)
            if (node->kind != RV_JINJA_NAME)
                return false;
        return true;
    }
    return node->kind == RV_JINJA_NAME || node->kind == RV_JINJA_MEMBER;
}

static ruvllm_status parse_set(struct rv_jinja_parse_state *ps, struct rv_jinja_node *node)
{
    struct rv_jinja_node *target, *capture;
    ruvllm_status rc = rv_jinja_parse_sequence(ps, &target);

    if (rc)
        return rc;
    if (is_target(target) && rv_jinja_parse_take_op(ps, "=")) {
        node->a = target;
        rc = rv_jinja_parse_sequence(ps, &node->b);
        return rc ? rc : expect_close(ps);
    }
    rc = rv_jinja_parse_node(ps, RV_JINJA_CAPTURE, &capture);
    if (rc)
        return rc;
    /* {% set x|f|g %} names the filters first: what stands innermost is the target, its place the text takes. */
    node->b = capture;
    node->a = target;
    if (target->kind == RV_JINJA_FILTER) {
        struct rv_jinja_node *inner = target;

        while (inner->a->kind == RV_JINJA_FILTER)
            inner = inner->a;
        node->a = inner->a;
        rv_jinja_parse_wrap(inner, capture);
        node->b = target;
    }
    if (!is_target(node->a) || node->a->kind == RV_JINJA_TUPLE)
        return rv_jinja_parse_fail(ps, "expected a variable or an attribute to set");
    return parse_function_body(ps, "endset", &capture->body);
}

/* Parameters of a macro; the parenthesis was passed. */
static ruvllm_status parse_parameters(struct rv_jinja_parse_state *ps, struct rv_jinja_node **first)
{
    struct rv_jinja_node **link = first;
    bool has_default = false;
    ruvllm_status rc;

    while (!rv_jinja_parse_take_op(ps, ")")) {
        if (ps->token->kind != RV_JINJA_TOKEN_NAME)
            return rv_jinja_parse_fail(ps, "expected the name of a parameter");
        rc = rv_jinja_parse_node(ps, RV_JINJA_NAME, link);
        if (rc)
            return rc;
        (*link)->text = ps->token++->text;
        if (rv_jinja_parse_take_op(ps, "=")) {
            has_default = true;
            rc = rv_jinja_parse_expression(ps, &(*link)->b);
            if (rc)
                return rc;
        } else if (has_default) {
            return rv_jinja_parse_fail(ps, "expected a default after a parameter with one");
        }
        link = &(*link)->next;
        if (!rv_jinja_parse_take_op(ps, ",") && !rv_jinja_parse_is_op(ps, ")"))
            return rv_jinja_parse_fail(ps, "expected ',' or ')'");
    }
    return RUVLLM_OK;
}

static ruvllm_status parse_macro(struct rv_jinja_parse_state *ps, struct rv_jinja_node *node)
{
    ruvllm_status rc;

    if (ps->token->kind != RV_JINJA_TOKEN_NAME)
        return rv_jinja_parse_fail(ps, "expected the name of the macro");
    node->text = ps->token++->text;
    rc = rv_jinja_parse_expect_op(ps, "(");
    if (rc == RUVLLM_OK)
        rc = parse_parameters(ps, &node->a);
    return rc ? rc : parse_function_body(ps, "endmacro", &node->body);
}

static ruvllm_status parse_call(struct rv_jinja_parse_state *ps, struct rv_jinja_node *node)
{
    ruvllm_status rc = RUVLLM_OK;

    if (rv_jinja_parse_take_op(ps, "("))
        rc = parse_parameters(ps, &node->b);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_parse_postfix(ps, &node->a);
    if (rc)
        return rc;
    if (node->a->kind != RV_JINJA_CALL)
        return rv_jinja_parse_fail(ps, "expected a call");
    return parse_function_body(ps, "endcall", &node->body);
}

/* {% filter f %}body{% endfilter %} is {{ body|f }}. */
static ruvllm_status parse_filter(struct rv_jinja_parse_state *ps, struct rv_jinja_node *node)
{
    struct rv_jinja_node *capture;
    ruvllm_status rc = rv_jinja_parse_node(ps, RV_JINJA_CAPTURE, &capture);

    if (rc == RUVLLM_OK)
        rc = rv_jinja_parse_filters(ps, capture, true, &node->a);
    return rc ? rc : parse_function_body(ps, "endfilter", &capture->body);
}

static ruvllm_status parse_jump(struct rv_jinja_parse_state *ps, struct rv_jinja_node *node)
{
    (void)node;
    if (ps->loop_depth == 0)
        return rv_jinja_parse_fail(ps, "expected break and continue only inside a for loop");
    return expect_close(ps);
}

static const struct {
    const char *name;
    enum rv_jinja_kind kind;
    ruvllm_status (*parse)(struct rv_jinja_parse_state *ps, struct rv_jinja_node *node);
} statements[] = {
    {"if", RV_JINJA_IF, parse_if},
    {"for", RV_JINJA_FOR, parse_for},
    {"set", RV_JINJA_SET, parse_set},
    {"macro", RV_JINJA_MACRO, parse_macro},
    {"call", RV_JINJA_CALL_BLOCK, parse_call},
    {"filter", RV_JINJA_OUTPUT, parse_filter},
    {"break", RV_JINJA_BREAK, parse_jump},
    {"continue", RV_JINJA_CONTINUE, parse_jump},
};

static ruvllm_status parse_statement(struct rv_jinja_parse_state *ps, struct rv_jinja_node **out)
{
    ruvllm_status rc;

    for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
        if (!rv_jinja_parse_is_name(ps, statements[i].name))
            continue;
        rc = rv_jinja_parse_enter(ps);
        if (rc)
            return rc;
        rc = rv_jinja_parse_node(ps, statements[i].kind, out);
        ps->token++;
        if (rc == RUVLLM_OK)
            rc = statements[i].parse(ps, *out);
        rv_jinja_parse_leave(ps);
        return rc;
    }
    return rv_jinja_parse_fail(ps, "expected a statement");
}

static ruvllm_status parse_output(struct rv_jinja_parse_state *ps, struct rv_jinja_node **out)
{
    ruvllm_status rc = rv_jinja_parse_node(ps, RV_JINJA_OUTPUT, out);

    ps->token++;
    if (rc == RUVLLM_OK)
        rc = rv_jinja_parse_sequence(ps, &(*out)->a);
    if (rc == RUVLLM_OK && ps->token->kind != RV_JINJA_TOKEN_OUTPUT_CLOSE)
        rc = rv_jinja_parse_fail(ps, "expected '}}'");
    ps->token++;
    return rc;
}

/* Statements up to a tag named in `ends`, whose opening is left as the next token; `ends` NULL: to the end. */
static ruvllm_status parse_body(struct rv_jinja_parse_state *ps, const char *const *ends, struct rv_jinja_node **first)
{
    struct rv_jinja_node **link = first;
    ruvllm_status rc = RUVLLM_OK;

    for (; rc == RUVLLM_OK; link = *link ? &(*link)->next : link) {
        enum rv_jinja_token_kind kind = ps->token->kind;

        if (kind == RV_JINJA_TOKEN_END) {
            if (ends)
                return rv_jinja_parse_fail(ps, "a block is never closed");
            return RUVLLM_OK;
        }
        if (kind == RV_JINJA_TOKEN_TEXT) {
            rc = rv_jinja_parse_node(ps, RV_JINJA_TEXT, link);
            if (rc == RUVLLM_OK)
                (*link)->text = ps->token->text;
            ps->token++;
        } else if (kind == RV_JINJA_TOKEN_OUTPUT_OPEN) {
            rc = parse_output(ps, link);
        } else {
            for (size_t i = 0; ends && ends[i]; i++)
                if (is_token(ps->token + 1, RV_JINJA_TOKEN_NAME, ends[i]))
                    return RUVLLM_OK;
            ps->token++;
            rc = parse_statement(ps, link);
        }
    }
    return rc;
}

ruvllm_status rv_jinja_parse(const char *source, size_t len, struct rv_arena *arena, struct rv_jinja_node **root,
                             struct ruvllm_error *err)
{
    struct rv_jinja_parse_state ps = {.arena = arena, .err = err};
    struct rv_jinja_tokens tokens;
    struct rv_arena token_arena;
    ruvllm_status rc;

    *root = NULL;
    rv_arena_init(&token_arena, MAX_TOKEN_BYTES);
    rc = rv_jinja_lexer_run(source, len, &token_arena, arena, &tokens, err);
    if (rc == RUVLLM_OK) {
        ps.token = tokens.items;
        rc = parse_body(&ps, NULL, root);
    }
    rv_arena_release(&token_arena);
    return rc;
}
