/*
 * Expressions, by recursive descent over a bounded depth. From loosest to tightest: ternary, or, and, not,
 * comparison and membership, sum and concatenation, product, power, test, filter, sign, postfix. As in Jinja
 * every binary operator groups to the left, power too.
 */
#include "text/jinja_parse_state.h"

#include "base/alloc.h"

#include <string.h>

struct op_name {
    const char *text;
    enum rv_jinja_op op;
};

enum { LEVEL_OR, LEVEL_AND, LEVEL_NOT, LEVEL_COMPARE, LEVEL_SUM, LEVEL_PRODUCT, LEVEL_POWER, LEVEL_TEST };

static ruvllm_status parse_level(struct rv_jinja_parse_state *ps, int level, struct rv_jinja_node **out);

/* ---- arguments ------------------------------------------------------------------------------ */

static ruvllm_status parse_argument(struct rv_jinja_parse_state *ps, struct rv_jinja_node **out)
{
    bool is_dict = rv_jinja_parse_is_op(ps, "**"), is_list = rv_jinja_parse_is_op(ps, "*");
    bool is_named = ps->token[0].kind == RV_JINJA_TOKEN_NAME && ps->token[1].kind == RV_JINJA_TOKEN_OPERATOR &&
                    ps->token[1].text.len == 1 && ps->token[1].text.data[0] == '=';
    ruvllm_status rc;

    if (!is_dict && !is_list && !is_named)
        return rv_jinja_parse_expression(ps, out);
    rc = rv_jinja_parse_node(ps, is_dict ? RV_JINJA_SPREAD_DICT : is_list ? RV_JINJA_SPREAD : RV_JINJA_KEYWORD, out);
    if (rc)
        return rc;
    if (is_named)
        (*out)->text = ps->token[0].text;
    ps->token += is_named ? 2 : 1;
    return rv_jinja_parse_expression(ps, &(*out)->a);
}

/* Everything between an opening parenthesis, which was passed, and its closing one. */
static ruvllm_status parse_arguments(struct rv_jinja_parse_state *ps, struct rv_jinja_node **first)
{
    struct rv_jinja_node **link = first;
    bool named = false;
    ruvllm_status rc;

    while (!rv_jinja_parse_take_op(ps, ")")) {
        rc = parse_argument(ps, link);
        if (rc)
            return rc;
        if ((*link)->kind == RV_JINJA_KEYWORD || (*link)->kind == RV_JINJA_SPREAD_DICT)
            named = true;
        else if (named)
            return rv_jinja_parse_fail(ps, "expected no positional argument after a named one");
        link = &(*link)->next;
        if (!rv_jinja_parse_take_op(ps, ",") && !rv_jinja_parse_is_op(ps, ")"))
            return rv_jinja_parse_fail(ps, "expected ',' or ')'");
    }
    return RUVLLM_OK;
}

/* ---- primaries ------------------------------------------------------------------------------ */

static ruvllm_status parse_list(struct rv_jinja_parse_state *ps, struct rv_jinja_node *list)
{
    struct rv_jinja_node **link = &list->a;

    while (!rv_jinja_parse_take_op(ps, "]")) {
        ruvllm_status rc = rv_jinja_parse_expression(ps, link);

        if (rc)
            return rc;
        link = &(*link)->next;
        if (!rv_jinja_parse_take_op(ps, ",") && !rv_jinja_parse_is_op(ps, "]"))
            return rv_jinja_parse_fail(ps, "expected ',' or ']'");
    }
    return RUVLLM_OK;
}

static ruvllm_status parse_dict(struct rv_jinja_parse_state *ps, struct rv_jinja_node *dict)
{
    struct rv_jinja_node **link = &dict->a;

    while (!rv_jinja_parse_take_op(ps, "}")) {
        ruvllm_status rc = rv_jinja_parse_node(ps, RV_JINJA_KEYWORD, link);

        if (rc == RUVLLM_OK)
            rc = rv_jinja_parse_expression(ps, &(*link)->b);
        if (rc == RUVLLM_OK)
            rc = rv_jinja_parse_expect_op(ps, ":");
        if (rc == RUVLLM_OK)
            rc = rv_jinja_parse_expression(ps, &(*link)->a);
        if (rc)
            return rc;
        link = &(*link)->next;
        if (!rv_jinja_parse_take_op(ps, ",") && !rv_jinja_parse_is_op(ps, "}"))
            return rv_jinja_parse_fail(ps, "expected ',' or '}'");
    }
    return RUVLLM_OK;
}

/* Strings written side by side are one string. */
static ruvllm_status parse_string(struct rv_jinja_parse_state *ps, struct rv_jinja_node *node)
{
    const struct rv_jinja_token *last = ps->token;
    size_t len = 0;
    char *joined;

    for (; last->kind == RV_JINJA_TOKEN_STRING; last++)
        len += last->text.len;
    node->text = ps->token->text;
    if (last - ps->token > 1) {
        joined = rv_arena_alloc(ps->arena, len);
        if (!joined)
            return rv_jinja_parse_fail(ps, "expected a smaller template");
        node->text = (struct rv_str){joined, len};
        for (const struct rv_jinja_token *t = ps->token; t < last; t++) {
            memcpy(joined, t->text.data, t->text.len);
            joined += t->text.len;
        }
    }
    ps->token = last;
    return RUVLLM_OK;
}

/* Digits are gathered as one integer and divided once, so that 0.1 is the double nearest to 0.1. */
static ruvllm_status parse_number(struct rv_jinja_parse_state *ps, struct rv_jinja_node *node)
{
    struct rv_str text = ps->token->text;
    double scale = 1;
    bool fraction = false;

    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] == '.') {
            fraction = true;
            continue;
        }
        if (__builtin_mul_overflow(node->integer, 10, &node->integer) ||
            __builtin_add_overflow(node->integer, text.data[i] - '0', &node->integer))
            return rv_jinja_parse_fail(ps, "expected a number with fewer digits");
        if (fraction)
            scale *= 10;
    }
    node->real = (double)node->integer / scale;
    ps->token++;
    return RUVLLM_OK;
}

static ruvllm_status parse_name(struct rv_jinja_parse_state *ps, struct rv_jinja_node *node)
{
    static const struct {
        const char *text;
        enum rv_jinja_kind kind;
        int value;
    } constants[] = {
        {"true", RV_JINJA_BOOLEAN, 1},  {"True", RV_JINJA_BOOLEAN, 1}, {"false", RV_JINJA_BOOLEAN, 0},
        {"False", RV_JINJA_BOOLEAN, 0}, {"none", RV_JINJA_NULL, 0},    {"None", RV_JINJA_NULL, 0},
    };

    node->text = ps->token->text;
    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++)
        if (rv_jinja_parse_is_name(ps, constants[i].text)) {
            node->kind = constants[i].kind;
            node->integer = constants[i].value;
        }
    ps->token++;
    return RUVLLM_OK;
}

static ruvllm_status parse_primary(struct rv_jinja_parse_state *ps, struct rv_jinja_node **out)
{
    static const enum rv_jinja_kind kinds[] = {[RV_JINJA_TOKEN_STRING] = RV_JINJA_STRING,
                                               [RV_JINJA_TOKEN_INTEGER] = RV_JINJA_INTEGER,
                                               [RV_JINJA_TOKEN_FLOAT] = RV_JINJA_FLOAT,
                                               [RV_JINJA_TOKEN_NAME] = RV_JINJA_NAME};
    enum rv_jinja_token_kind kind = ps->token->kind;
    ruvllm_status rc;

    if (rv_jinja_parse_take_op(ps, "(")) {
        if (rv_jinja_parse_take_op(ps, ")"))
            return rv_jinja_parse_node(ps, RV_JINJA_TUPLE, out);
        rc = rv_jinja_parse_sequence(ps, out);
        return rc ? rc : rv_jinja_parse_expect_op(ps, ")");
    }
    if (rv_jinja_parse_is_op(ps, "[") || rv_jinja_parse_is_op(ps, "{")) {
        bool is_list = rv_jinja_parse_is_op(ps, "[");

        rc = rv_jinja_parse_node(ps, is_list ? RV_JINJA_LIST : RV_JINJA_DICT, out);
        if (rc)
            return rc;
        ps->token++;
        return is_list ? parse_list(ps, *out) : parse_dict(ps, *out);
    }
    if (kind != RV_JINJA_TOKEN_STRING && kind != RV_JINJA_TOKEN_INTEGER && kind != RV_JINJA_TOKEN_FLOAT &&
        kind != RV_JINJA_TOKEN_NAME)
        return rv_jinja_parse_fail(ps, "expected an expression");
    rc = rv_jinja_parse_node(ps, kinds[kind], out);
    if (rc)
        return rc;
    if (kind == RV_JINJA_TOKEN_STRING)
        return parse_string(ps, *out);
    return kind == RV_JINJA_TOKEN_NAME ? parse_name(ps, *out) : parse_number(ps, *out);
}

/* ---- what follows a primary ----------------------------------------------------------------- */

/* a[b] or a[b:c:d]; the bracket was passed. */
static ruvllm_status parse_subscript(struct rv_jinja_parse_state *ps, struct rv_jinja_node *node)
{
    struct rv_jinja_node **parts[] = {&node->b, &node->c, &node->d};

    for (size_t i = 0; i < 3; i++) {
        if (!rv_jinja_parse_is_op(ps, ":") && !rv_jinja_parse_is_op(ps, "]")) {
            ruvllm_status rc = rv_jinja_parse_expression(ps, parts[i]);

            if (rc)
                return rc;
        }
        if (i == 2 || !rv_jinja_parse_take_op(ps, ":"))
            break;
        node->kind = RV_JINJA_SLICE;
    }
    if (node->kind == RV_JINJA_INDEX && !node->b)
        return rv_jinja_parse_fail(ps, "expected an index");
    return rv_jinja_parse_expect_op(ps, "]");
}

static ruvllm_status parse_dot(struct rv_jinja_parse_state *ps, struct rv_jinja_node *node)
{
    if (ps->token->kind == RV_JINJA_TOKEN_INTEGER) {
        node->kind = RV_JINJA_INDEX;
        return parse_primary(ps, &node->b);
    }
    if (ps->token->kind != RV_JINJA_TOKEN_NAME)
        return rv_jinja_parse_fail(ps, "expected a name after '.'");
    node->text = ps->token++->text;
    return RUVLLM_OK;
}

ruvllm_status rv_jinja_parse_postfix(struct rv_jinja_parse_state *ps, struct rv_jinja_node **out)
{
    ruvllm_status rc = parse_primary(ps, out);

    while (rc == RUVLLM_OK) {
        struct rv_jinja_node *node;
        enum rv_jinja_kind kind;

        if (rv_jinja_parse_is_op(ps, "."))
            kind = RV_JINJA_MEMBER;
        else if (rv_jinja_parse_is_op(ps, "["))
            kind = RV_JINJA_INDEX;
        else if (rv_jinja_parse_is_op(ps, "("))
            kind = RV_JINJA_CALL;
        else
            break;
        rc = rv_jinja_parse_node(ps, kind, &node);
        if (rc)
            break;
        ps->token++;
        rv_jinja_parse_wrap(node, *out);
        *out = node;
        if (kind == RV_JINJA_MEMBER)
            rc = parse_dot(ps, node);
        else if (kind == RV_JINJA_INDEX)
            rc = parse_subscript(ps, node);
        else
            rc = parse_arguments(ps, &node->b);
    }
    return rc;
}

ruvllm_status rv_jinja_parse_filters(struct rv_jinja_parse_state *ps, struct rv_jinja_node *operand, bool bare,
                                     struct rv_jinja_node **out)
{
    ruvllm_status rc = RUVLLM_OK;

    *out = operand;
    while (rc == RUVLLM_OK && (bare || rv_jinja_parse_take_op(ps, "|"))) {
        struct rv_jinja_node *node;

        bare = false;
        if (ps->token->kind != RV_JINJA_TOKEN_NAME)
            return rv_jinja_parse_fail(ps, "expected the name of a filter");
        rc = rv_jinja_parse_node(ps, RV_JINJA_FILTER, &node);
        if (rc)
            break;
        node->text = ps->token++->text;
        rv_jinja_parse_wrap(node, *out);
        *out = node;
        if (rv_jinja_parse_take_op(ps, "("))
            rc = parse_arguments(ps, &node->b);
    }
    return rc;
}

/* Does a test's single argument written without parentheses begin here, as in `x is divisibleby 3`? */
static bool begins_argument(const struct rv_jinja_parse_state *ps)
{
    static const char *const stops[] = {"and", "or", "not", "is", "in", "if", "else", "recursive"};

    for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++)
        if (rv_jinja_parse_is_name(ps, stops[i]))
            return false;
    return ps->token->kind == RV_JINJA_TOKEN_NAME || ps->token->kind == RV_JINJA_TOKEN_STRING ||
           ps->token->kind == RV_JINJA_TOKEN_INTEGER || ps->token->kind == RV_JINJA_TOKEN_FLOAT ||
           rv_jinja_parse_is_op(ps, "[") || rv_jinja_parse_is_op(ps, "{");
}

static ruvllm_status parse_signed(struct rv_jinja_parse_state *ps, struct rv_jinja_node **out)
{
    struct rv_jinja_node *sign = NULL;
    ruvllm_status rc;

    if (rv_jinja_parse_is_op(ps, "-") || rv_jinja_parse_is_op(ps, "+")) {
        rc = rv_jinja_parse_node(ps, RV_JINJA_UNARY, &sign);
        if (rc)
            return rc;
        sign->op = rv_jinja_parse_is_op(ps, "-") ? RV_JINJA_OP_SUB : RV_JINJA_OP_ADD;
        ps->token++;
        *out = sign;
        /* A sign before a sign is one level deeper; a sign before anything else is not. */
        if (rv_jinja_parse_is_op(ps, "-") || rv_jinja_parse_is_op(ps, "+")) {
            rc = rv_jinja_parse_enter(ps);
            if (rc)
                return rc;
            rc = parse_signed(ps, &sign->a);
            rv_jinja_parse_leave(ps);
            return rc;
        }
        return rv_jinja_parse_postfix(ps, &sign->a);
    }
    return rv_jinja_parse_postfix(ps, out);
}

static ruvllm_status parse_test(struct rv_jinja_parse_state *ps, struct rv_jinja_node **out)
{
    struct rv_jinja_node *node;
    ruvllm_status rc = parse_signed(ps, &node);

    if (rc == RUVLLM_OK)
        rc = rv_jinja_parse_filters(ps, node, false, out);
    while (rc == RUVLLM_OK && rv_jinja_parse_take_name(ps, "is")) {
        rc = rv_jinja_parse_node(ps, RV_JINJA_TEST, &node);
        if (rc)
            break;
        if (rv_jinja_parse_take_name(ps, "not"))
            node->op = RV_JINJA_OP_NOT;
        if (ps->token->kind != RV_JINJA_TOKEN_NAME)
            return rv_jinja_parse_fail(ps, "expected the name of a test");
        node->text = ps->token++->text;
        rv_jinja_parse_wrap(node, *out);
        *out = node;
        if (rv_jinja_parse_take_op(ps, "("))
            rc = parse_arguments(ps, &node->b);
        else if (begins_argument(ps))
            rc = rv_jinja_parse_postfix(ps, &node->b);
    }
    return rc;
}

/* ---- binary operators ----------------------------------------------------------------------- */

static enum rv_jinja_op take_binary(struct rv_jinja_parse_state *ps, int level)
{
    static const struct op_name compare[] = {{"==", RV_JINJA_OP_EQ},  {"!=", RV_JINJA_OP_NE}, {"<", RV_JINJA_OP_LT},
                                             {"<=", RV_JINJA_OP_LE},  {">", RV_JINJA_OP_GT},  {">=", RV_JINJA_OP_GE},
                                             {NULL, RV_JINJA_OP_NONE}};
    static const struct op_name sum[] = {
        {"+", RV_JINJA_OP_ADD}, {"-", RV_JINJA_OP_SUB}, {"~", RV_JINJA_OP_CONCAT}, {NULL, RV_JINJA_OP_NONE}};
    static const struct op_name product[] = {{"*", RV_JINJA_OP_MUL},
                                             {"/", RV_JINJA_OP_DIV},
                                             {"//", RV_JINJA_OP_FLOOR_DIV},
                                             {"%", RV_JINJA_OP_MOD},
                                             {NULL, RV_JINJA_OP_NONE}};
    static const struct op_name power[] = {{"**", RV_JINJA_OP_POW}, {NULL, RV_JINJA_OP_NONE}};
    const struct op_name *ops = level == LEVEL_COMPARE   ? compare
                                : level == LEVEL_SUM     ? sum
                                : level == LEVEL_PRODUCT ? product
                                                         : power;

    if (level == LEVEL_OR)
        return rv_jinja_parse_take_name(ps, "or") ? RV_JINJA_OP_OR : RV_JINJA_OP_NONE;
    if (level == LEVEL_AND)
        return rv_jinja_parse_take_name(ps, "and") ? RV_JINJA_OP_AND : RV_JINJA_OP_NONE;
    if (level == LEVEL_COMPARE && rv_jinja_parse_take_name(ps, "in"))
        return RV_JINJA_OP_IN;
    if (level == LEVEL_COMPARE && rv_jinja_parse_is_name(ps, "not") && ps->token[1].kind == RV_JINJA_TOKEN_NAME &&
        ps->token[1].text.len == 2 && memcmp(ps->token[1].text.data, "in", 2) == 0) {
        ps->token += 2;
        return RV_JINJA_OP_NOT_IN;
    }
    while (ops->text && !rv_jinja_parse_take_op(ps, ops->text))
        ops++;
    return ops->op;
}

static ruvllm_status parse_not(struct rv_jinja_parse_state *ps, struct rv_jinja_node **out)
{
    ruvllm_status rc;

    if (!rv_jinja_parse_is_name(ps, "not"))
        return parse_level(ps, LEVEL_COMPARE, out);
    rc = rv_jinja_parse_enter(ps);
    if (rc)
        return rc;
    rc = rv_jinja_parse_node(ps, RV_JINJA_UNARY, out);
    if (rc == RUVLLM_OK) {
        (*out)->op = RV_JINJA_OP_NOT;
        ps->token++;
        rc = parse_not(ps, &(*out)->a);
    }
    rv_jinja_parse_leave(ps);
    return rc;
}

static ruvllm_status parse_level(struct rv_jinja_parse_state *ps, int level, struct rv_jinja_node **out)
{
    ruvllm_status rc;

    if (level == LEVEL_NOT)
        return parse_not(ps, out);
    if (level == LEVEL_TEST)
        return parse_test(ps, out);
    rc = parse_level(ps, level + 1, out);
    while (rc == RUVLLM_OK) {
        int line = ps->token->line;
        enum rv_jinja_op op = take_binary(ps, level);
        struct rv_jinja_node *node;

        if (op == RV_JINJA_OP_NONE)
            break;
        rc = rv_jinja_parse_node(ps, RV_JINJA_BINARY, &node);
        if (rc)
            break;
        node->op = op;
        node->line = line;
        rv_jinja_parse_wrap(node, *out);
        *out = node;
        rc = parse_level(ps, level + 1, &node->b);
    }
    return rc;
}

ruvllm_status rv_jinja_parse_unconditional(struct rv_jinja_parse_state *ps, struct rv_jinja_node **out)
{
    ruvllm_status rc = rv_jinja_parse_enter(ps);

    if (rc)
        return rc;
    rc = parse_level(ps, LEVEL_OR, out);
    rv_jinja_parse_leave(ps);
    return rc;
}

/* value if condition else value if condition else ...: a chain to the right, built in a loop. */
ruvllm_status rv_jinja_parse_expression(struct rv_jinja_parse_state *ps, struct rv_jinja_node **out)
{
    ruvllm_status rc = rv_jinja_parse_unconditional(ps, out);

    while (rc == RUVLLM_OK && rv_jinja_parse_is_name(ps, "if")) {
        struct rv_jinja_node *node;

        rc = rv_jinja_parse_node(ps, RV_JINJA_TERNARY, &node);
        if (rc)
            break;
        ps->token++;
        node->a = *out;
        *out = node;
        rc = rv_jinja_parse_unconditional(ps, &node->b);
        if (rc || !rv_jinja_parse_take_name(ps, "else"))
            break;
        out = &node->c;
        rc = rv_jinja_parse_unconditional(ps, out);
    }
    return rc;
}

ruvllm_status rv_jinja_parse_sequence(struct rv_jinja_parse_state *ps, struct rv_jinja_node **out)
{
    struct rv_jinja_node *tuple, **link;
    ruvllm_status rc = rv_jinja_parse_expression(ps, out);

    if (rc || !rv_jinja_parse_is_op(ps, ","))
        return rc;
    rc = rv_jinja_parse_node(ps, RV_JINJA_TUPLE, &tuple);
    if (rc)
        return rc;
    tuple->a = *out;
    *out = tuple;
    link = &tuple->a->next;
    while (rv_jinja_parse_take_op(ps, ",")) {
        if (rv_jinja_parse_is_op(ps, ")") || rv_jinja_parse_is_op(ps, "=") ||
            ps->token->kind == RV_JINJA_TOKEN_BLOCK_CLOSE)
            break;
        rc = rv_jinja_parse_expression(ps, link);
        if (rc)
            return rc;
        link = &(*link)->next;
    }
    return RUVLLM_OK;
}
