/*
 * Expressions and calls. Chains to the left (a.b.c|f ~ d) are walked by following `up` from their innermost
 * operand, so they cost no stack; everything else recurses one counted level at a time.
 */
#include "text/jinja_eval.h"

#include "text/jinja_operator.h"

#include <string.h>

static struct rv_jinja_string node_text(const struct rv_jinja_node *node)
{
    return rv_jinja_literal(node->text.data, node->text.len);
}

static int shown_len(struct rv_str text)
{
    return (int)(text.len < 60 ? text.len : 60);
}

ruvllm_status rv_jinja_scope_set(struct rv_jinja_run *run, struct rv_jinja_scope *scope, const char *name,
                                 struct rv_jinja_value value)
{
    return rv_jinja_dict_set(run, &scope->vars, rv_jinja_literal(name, strlen(name)), value);
}

/* ---- names and attributes ------------------------------------------------------------------- */

static ruvllm_status bind_builtin(struct rv_jinja_run *run, const struct rv_jinja_builtin *builtin,
                                  struct rv_jinja_value self, struct rv_jinja_value *out)
{
    struct rv_jinja_callable *callable = rv_jinja_alloc(run, 1, sizeof(*callable));

    if (!callable)
        return rv_jinja_no_memory(run);
    callable->builtin = builtin;
    callable->self = self;
    *out = (struct rv_jinja_value){.type = RV_JINJA_T_FUNCTION, .as.function = callable};
    return RUVLLM_OK;
}

static ruvllm_status eval_name(struct rv_jinja_run *run, const struct rv_jinja_scope *scope,
                               const struct rv_jinja_node *node, struct rv_jinja_value *out)
{
    const struct rv_jinja_builtin *builtin;

    for (; scope; scope = scope->parent) {
        const struct rv_jinja_value *found = rv_jinja_dict_find(run, &scope->vars, node->text.data, node->text.len);

        if (found) {
            *out = *found;
            return RUVLLM_OK;
        }
    }
    builtin = rv_jinja_builtin_find(RV_JINJA_GLOBALS, node->text.data, node->text.len);
    if (builtin)
        return bind_builtin(run, builtin, rv_jinja_undefined(), out);
    *out = rv_jinja_undefined();
    return RUVLLM_OK;
}

static struct rv_jinja_value loop_attribute(const struct rv_jinja_loop *loop, struct rv_jinja_string name)
{
    int64_t index = (int64_t)loop->index, len = (int64_t)loop->len;

    if (rv_jinja_string_is(name, "index"))
        return rv_jinja_integer(index + 1);
    if (rv_jinja_string_is(name, "index0"))
        return rv_jinja_integer(index);
    if (rv_jinja_string_is(name, "revindex"))
        return rv_jinja_integer(len - index);
    if (rv_jinja_string_is(name, "revindex0"))
        return rv_jinja_integer(len - index - 1);
    if (rv_jinja_string_is(name, "first"))
        return rv_jinja_boolean(index == 0);
    if (rv_jinja_string_is(name, "last"))
        return rv_jinja_boolean(index + 1 == len);
    if (rv_jinja_string_is(name, "length"))
        return rv_jinja_integer(len);
    if (rv_jinja_string_is(name, "previtem") && index > 0)
        return loop->items[index - 1];
    if (rv_jinja_string_is(name, "nextitem") && index + 1 < len)
        return loop->items[index + 1];
    return rv_jinja_undefined();
}

/*
 * value.name. A member of a dict comes before a method of the same name, unless it is called right away: a
 * schema may well have a property called "items".
 */
static ruvllm_status eval_member(struct rv_jinja_run *run, const struct rv_jinja_node *node,
                                 struct rv_jinja_value value, struct rv_jinja_value *out)
{
    const struct rv_jinja_builtin *method = rv_jinja_method_find(value.type, node->text.data, node->text.len);
    bool is_called = node->up && node->up->kind == RV_JINJA_CALL;

    *out = rv_jinja_undefined();
    if (value.type == RV_JINJA_T_LOOP) {
        *out = loop_attribute(value.as.loop, node_text(node));
        return RUVLLM_OK;
    }
    if (method && is_called)
        return bind_builtin(run, method, value, out);
    if (value.type == RV_JINJA_T_DICT || value.type == RV_JINJA_T_NAMESPACE) {
        const struct rv_jinja_value *found = rv_jinja_dict_find(run, value.as.dict, node->text.data, node->text.len);

        if (found) {
            *out = *found;
            return RUVLLM_OK;
        }
    }
    return method ? bind_builtin(run, method, value, out) : RUVLLM_OK;
}

/* ---- calls ---------------------------------------------------------------------------------- */

struct gathered {
    struct rv_jinja_value values, names; // lists
};

static ruvllm_status push_named(struct rv_jinja_run *run, struct gathered *args, struct rv_jinja_string name,
                                struct rv_jinja_value value)
{
    ruvllm_status rc = rv_jinja_list_push(run, args->values.as.list, value);

    for (size_t i = 0; rc == RUVLLM_OK && i < args->names.as.list->len; i++) {
        struct rv_jinja_string other = args->names.as.list->items[i].as.string;

        if (other.len == name.len && memcmp(other.data, name.data, name.len) == 0)
            return rv_jinja_fail(run, "argument '%.*s' is given twice", (int)(name.len < 60 ? name.len : 60),
                                 name.data);
        rc = rv_jinja_charge(run, 1);
    }
    return rc ? rc : rv_jinja_list_push(run, args->names.as.list, rv_jinja_text(name));
}

static ruvllm_status gather_argument(struct rv_jinja_run *run, struct rv_jinja_scope *scope,
                                     const struct rv_jinja_node *node, struct gathered *args)
{
    bool is_plain =
        node->kind != RV_JINJA_KEYWORD && node->kind != RV_JINJA_SPREAD && node->kind != RV_JINJA_SPREAD_DICT;
    struct rv_jinja_value value;
    ruvllm_status rc = rv_jinja_eval(run, scope, is_plain ? node : node->a, &value);

    if (rc)
        return rc;
    if (is_plain)
        return rv_jinja_list_push(run, args->values.as.list, value);
    if (node->kind == RV_JINJA_KEYWORD)
        return push_named(run, args, node_text(node), value);
    rc = rv_jinja_want(run, value, node->kind == RV_JINJA_SPREAD ? RV_JINJA_T_LIST : RV_JINJA_T_DICT);
    if (rc)
        return rc;
    if (node->kind == RV_JINJA_SPREAD) {
        for (size_t i = 0; rc == RUVLLM_OK && i < value.as.list->len; i++)
            rc = rv_jinja_list_push(run, args->values.as.list, value.as.list->items[i]);
        return rc;
    }
    for (size_t i = 0; rc == RUVLLM_OK && i < value.as.dict->len; i++)
        rc = push_named(run, args, value.as.dict->pairs[i].key, value.as.dict->pairs[i].value);
    return rc;
}

static ruvllm_status eval_arguments(struct rv_jinja_run *run, struct rv_jinja_scope *scope,
                                    const struct rv_jinja_node *first, struct rv_jinja_args *out)
{
    struct rv_jinja_string *names = NULL;
    struct gathered args;
    size_t n_names;
    ruvllm_status rc;

    *out = (struct rv_jinja_args){0};
    if (!first)
        return RUVLLM_OK;
    rc = rv_jinja_list_new(run, 0, &args.values);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_list_new(run, 0, &args.names);
    for (; rc == RUVLLM_OK && first; first = first->next)
        rc = gather_argument(run, scope, first, &args);
    if (rc)
        return rc;
    n_names = args.names.as.list->len;
    if (n_names) {
        names = rv_jinja_alloc(run, n_names, sizeof(*names));
        if (!names)
            return rv_jinja_no_memory(run);
        for (size_t i = 0; i < n_names; i++)
            names[i] = args.names.as.list->items[i].as.string;
    }
    out->values = args.values.as.list->items;
    out->n = args.values.as.list->len;
    out->n_positional = out->n - n_names;
    out->names = names;
    return RUVLLM_OK;
}

/* Parameters get their argument, else their default, which may use the parameters before it. */
static ruvllm_status bind_parameters(struct rv_jinja_run *run, const struct rv_jinja_callable *macro,
                                     const struct rv_jinja_args *args, struct rv_jinja_scope *scope)
{
    size_t index = 0, n_named = 0;
    ruvllm_status rc = RUVLLM_OK;

    for (const struct rv_jinja_node *p = macro->params; rc == RUVLLM_OK && p; p = p->next, index++) {
        struct rv_jinja_value value = rv_jinja_undefined();
        bool given = index < args->n_positional;

        if (given)
            value = args->values[index];
        for (size_t i = args->n_positional; !given && i < args->n; i++) {
            struct rv_jinja_string name = args->names[i - args->n_positional];

            given = name.len == p->text.len && memcmp(name.data, p->text.data, name.len) == 0;
            if (given) {
                value = args->values[i];
                n_named++;
            }
        }
        if (!given && p->b)
            rc = rv_jinja_eval(run, scope, p->b, &value);
        if (rc == RUVLLM_OK)
            rc = rv_jinja_dict_set(run, &scope->vars, node_text(p), value);
    }
    if (rc == RUVLLM_OK && (args->n_positional > index || n_named < args->n - args->n_positional))
        return rv_jinja_fail(run, "macro '%.*s' has no place for some of its arguments", shown_len(macro->name),
                             macro->name.data);
    return rc;
}

static ruvllm_status call_macro(struct rv_jinja_run *run, const struct rv_jinja_callable *macro,
                                const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    struct rv_jinja_scope *scope = rv_jinja_alloc(run, 1, sizeof(*scope));
    struct rv_jinja_string string;
    int line = run->line;
    ruvllm_status rc;

    if (!scope)
        return rv_jinja_no_memory(run);
    scope->parent = macro->scope;
    rc = bind_parameters(run, macro, args, scope);
    if (rc == RUVLLM_OK && args->caller)
        rc = rv_jinja_scope_set(run, scope, "caller",
                                (struct rv_jinja_value){.type = RV_JINJA_T_FUNCTION, .as.function = args->caller});
    if (rc == RUVLLM_OK)
        rc = rv_jinja_capture(run, scope, macro->body, &string);
    if (rc)
        return rc;
    run->line = line;
    *out = rv_jinja_text(string);
    return RUVLLM_OK;
}

ruvllm_status rv_jinja_eval_call(struct rv_jinja_run *run, struct rv_jinja_scope *scope,
                                 const struct rv_jinja_node *node, struct rv_jinja_value callee,
                                 const struct rv_jinja_callable *caller, struct rv_jinja_value *out)
{
    const struct rv_jinja_callable *callable = callee.as.function;
    struct rv_jinja_args args;
    ruvllm_status rc;

    if (callee.type != RV_JINJA_T_FUNCTION) {
        const char *type = rv_jinja_type_name(callee);

        if (node->a->kind == RV_JINJA_NAME || node->a->kind == RV_JINJA_MEMBER)
            return rv_jinja_fail(run, "cannot call '%.*s', which is %s", shown_len(node->a->text), node->a->text.data,
                                 type);
        return rv_jinja_fail(run, "cannot call a value that is %s", type);
    }
    rc = eval_arguments(run, scope, node->b, &args);
    if (rc)
        return rc;
    args.caller = caller;
    run->line = node->line;
    *out = rv_jinja_undefined();
    if (callable->builtin)
        return callable->builtin->fn(run, callable->self, &args, out);
    return call_macro(run, callable, &args, out);
}

/* A filter or a test, by name. */
static ruvllm_status eval_named(struct rv_jinja_run *run, struct rv_jinja_scope *scope,
                                const struct rv_jinja_node *node, struct rv_jinja_value self,
                                struct rv_jinja_value *out)
{
    bool is_filter = node->kind == RV_JINJA_FILTER;
    const struct rv_jinja_builtin *builtin =
        rv_jinja_builtin_find(is_filter ? RV_JINJA_FILTERS : RV_JINJA_TESTS, node->text.data, node->text.len);
    struct rv_jinja_args args;
    ruvllm_status rc;

    if (!builtin)
        return rv_jinja_fail(run, "there is no %s '%.*s'", is_filter ? "filter" : "test", shown_len(node->text),
                             node->text.data);
    rc = eval_arguments(run, scope, node->b, &args);
    if (rc)
        return rc;
    run->line = node->line;
    *out = rv_jinja_undefined();
    run->builtin = builtin->name;
    rc = builtin->fn(run, self, &args, out);
    run->builtin = NULL;
    if (rc == RUVLLM_OK && node->op == RV_JINJA_OP_NOT)
        out->as.boolean = !out->as.boolean;
    return rc;
}

/* ---- expressions ---------------------------------------------------------------------------- */

static ruvllm_status eval_list(struct rv_jinja_run *run, struct rv_jinja_scope *scope, const struct rv_jinja_node *node,
                               struct rv_jinja_value *out)
{
    ruvllm_status rc = rv_jinja_list_new(run, 0, out);

    for (node = node->a; rc == RUVLLM_OK && node; node = node->next) {
        struct rv_jinja_value item;

        rc = rv_jinja_eval(run, scope, node, &item);
        if (rc == RUVLLM_OK)
            rc = rv_jinja_list_push(run, out->as.list, item);
    }
    return rc;
}

static ruvllm_status eval_dict(struct rv_jinja_run *run, struct rv_jinja_scope *scope, const struct rv_jinja_node *node,
                               struct rv_jinja_value *out)
{
    ruvllm_status rc = rv_jinja_dict_new(run, out);

    for (node = node->a; rc == RUVLLM_OK && node; node = node->next) {
        struct rv_jinja_value key, value;

        rc = rv_jinja_eval(run, scope, node->b, &key);
        if (rc == RUVLLM_OK)
            rc = rv_jinja_eval(run, scope, node->a, &value);
        if (rc == RUVLLM_OK && key.type != RV_JINJA_T_STRING)
            return rv_jinja_fail(run, "the keys of a dict must be strings, not %s", rv_jinja_type_name(key));
        if (rc == RUVLLM_OK)
            rc = rv_jinja_dict_set(run, out->as.dict, key.as.string, value);
    }
    return rc;
}

static ruvllm_status eval_ternary(struct rv_jinja_run *run, struct rv_jinja_scope *scope,
                                  const struct rv_jinja_node *node, struct rv_jinja_value *out)
{
    *out = rv_jinja_undefined();
    while (node && node->kind == RV_JINJA_TERNARY) {
        struct rv_jinja_value condition;
        ruvllm_status rc = rv_jinja_eval(run, scope, node->b, &condition);

        if (rc)
            return rc;
        node = rv_jinja_truth(condition) ? node->a : node->c;
    }
    return node ? rv_jinja_eval(run, scope, node, out) : RUVLLM_OK;
}

static ruvllm_status eval_leaf(struct rv_jinja_run *run, struct rv_jinja_scope *scope, const struct rv_jinja_node *node,
                               struct rv_jinja_value *out)
{
    struct rv_jinja_value operand;
    struct rv_jinja_string string;
    ruvllm_status rc;

    switch (node->kind) {
    case RV_JINJA_STRING:
        *out = rv_jinja_text(node_text(node));
        return RUVLLM_OK;
    case RV_JINJA_INTEGER:
        *out = rv_jinja_integer(node->integer);
        return RUVLLM_OK;
    case RV_JINJA_FLOAT:
        *out = rv_jinja_float(node->real);
        return RUVLLM_OK;
    case RV_JINJA_BOOLEAN:
        *out = rv_jinja_boolean(node->integer != 0);
        return RUVLLM_OK;
    case RV_JINJA_NULL:
        *out = rv_jinja_none();
        return RUVLLM_OK;
    case RV_JINJA_NAME:
        return eval_name(run, scope, node, out);
    case RV_JINJA_LIST:
    case RV_JINJA_TUPLE:
        return eval_list(run, scope, node, out);
    case RV_JINJA_DICT:
        return eval_dict(run, scope, node, out);
    case RV_JINJA_TERNARY:
        return eval_ternary(run, scope, node, out);
    case RV_JINJA_CAPTURE:
        rc = rv_jinja_capture(run, scope, node->body, &string);
        if (rc == RUVLLM_OK)
            *out = rv_jinja_text(string);
        return rc;
    case RV_JINJA_UNARY:
        rc = rv_jinja_eval(run, scope, node->a, &operand);
        return rc ? rc : rv_jinja_unary(run, node->op, operand, out);
    default:
        RV_ASSERT(false); /* the parser makes no other leaf */
        return RUVLLM_INTERNAL;
    }
}

static ruvllm_status apply_binary(struct rv_jinja_run *run, struct rv_jinja_scope *scope,
                                  const struct rv_jinja_node *node, struct rv_jinja_value left,
                                  struct rv_jinja_value *out)
{
    struct rv_jinja_value right;
    ruvllm_status rc;

    if ((node->op == RV_JINJA_OP_AND && !rv_jinja_truth(left)) ||
        (node->op == RV_JINJA_OP_OR && rv_jinja_truth(left))) {
        *out = left;
        return RUVLLM_OK;
    }
    rc = rv_jinja_eval(run, scope, node->b, &right);
    if (rc)
        return rc;
    run->line = node->line;
    if (node->op != RV_JINJA_OP_AND && node->op != RV_JINJA_OP_OR)
        return rv_jinja_binary(run, node->op, left, right, out);
    *out = right;
    return RUVLLM_OK;
}

static ruvllm_status apply_slice(struct rv_jinja_run *run, struct rv_jinja_scope *scope,
                                 const struct rv_jinja_node *node, struct rv_jinja_value left,
                                 struct rv_jinja_value *out)
{
    const struct rv_jinja_node *nodes[3] = {node->b, node->c, node->d};
    struct rv_jinja_value parts[3];

    for (int i = 0; i < 3; i++) {
        ruvllm_status rc = RUVLLM_OK;

        parts[i] = rv_jinja_undefined();
        if (nodes[i])
            rc = rv_jinja_eval(run, scope, nodes[i], &parts[i]);
        if (rc)
            return rc;
    }
    run->line = node->line;
    return rv_jinja_slice(run, left, parts, out);
}

/* One link of a chain: what `node` makes of its left operand. */
static ruvllm_status apply(struct rv_jinja_run *run, struct rv_jinja_scope *scope, const struct rv_jinja_node *node,
                           struct rv_jinja_value left, struct rv_jinja_value *out)
{
    struct rv_jinja_value index;
    ruvllm_status rc = rv_jinja_charge(run, 1);

    if (rc)
        return rc;
    run->line = node->line;
    switch (node->kind) {
    case RV_JINJA_BINARY:
        return apply_binary(run, scope, node, left, out);
    case RV_JINJA_MEMBER:
        return eval_member(run, node, left, out);
    case RV_JINJA_INDEX:
        rc = rv_jinja_eval(run, scope, node->b, &index);
        return rc ? rc : rv_jinja_index(run, left, index, out);
    case RV_JINJA_SLICE:
        return apply_slice(run, scope, node, left, out);
    case RV_JINJA_CALL:
        return rv_jinja_eval_call(run, scope, node, left, NULL, out);
    default:
        return eval_named(run, scope, node, left, out);
    }
}

static bool is_chained(enum rv_jinja_kind kind)
{
    return kind == RV_JINJA_BINARY || kind == RV_JINJA_MEMBER || kind == RV_JINJA_INDEX || kind == RV_JINJA_SLICE ||
           kind == RV_JINJA_CALL || kind == RV_JINJA_FILTER || kind == RV_JINJA_TEST;
}

ruvllm_status rv_jinja_eval(struct rv_jinja_run *run, struct rv_jinja_scope *scope, const struct rv_jinja_node *node,
                            struct rv_jinja_value *out)
{
    const struct rv_jinja_node *link = node;
    struct rv_jinja_value left;
    ruvllm_status rc = rv_jinja_charge(run, 1);

    if (rc == RUVLLM_OK)
        rc = rv_jinja_enter(run);
    if (rc)
        return rc;
    while (is_chained(link->kind))
        link = link->a;
    run->line = link->line;
    rc = eval_leaf(run, scope, link, out);
    while (rc == RUVLLM_OK && link != node) {
        link = link->up;
        left = *out;
        rc = apply(run, scope, link, left, out);
    }
    rv_jinja_leave(run);
    return rc;
}
