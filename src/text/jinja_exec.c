/* Statements: blocks, branches, loops, assignments, macros. What they write goes to the run's output. */
#include "text/jinja_eval.h"

#include "text/jinja_container.h"

#include <string.h>

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };

static ruvllm_status exec_block(struct rv_jinja_run *run, struct rv_jinja_scope *scope,
                                const struct rv_jinja_node *first, enum flow *flow);

ruvllm_status rv_jinja_capture(struct rv_jinja_run *run, struct rv_jinja_scope *scope, const struct rv_jinja_node *body,
                               struct rv_jinja_string *out)
{
    size_t mark = rv_jinja_mark(run);
    enum flow flow = FLOW_ON;
    ruvllm_status rc = exec_block(run, scope, body, &flow);

    return rc ? rc : rv_jinja_cut(run, mark, out);
}

static ruvllm_status exec_output(struct rv_jinja_run *run, struct rv_jinja_scope *scope,
                                 const struct rv_jinja_node *node)
{
    struct rv_jinja_value value;
    ruvllm_status rc = rv_jinja_eval(run, scope, node->a, &value);

    return rc ? rc : rv_jinja_emit_value(run, value);
}

/* Walks down the elifs in a loop, so that a long chain of them is one level. */
static ruvllm_status exec_if(struct rv_jinja_run *run, struct rv_jinja_scope *scope, const struct rv_jinja_node *node,
                             enum flow *flow)
{
    for (;;) {
        struct rv_jinja_value condition;
        ruvllm_status rc = rv_jinja_eval(run, scope, node->a, &condition);

        if (rc)
            return rc;
        if (rv_jinja_truth(condition))
            return exec_block(run, scope, node->body, flow);
        if (!node->otherwise || node->otherwise->kind != RV_JINJA_IF || node->otherwise->next)
            return exec_block(run, scope, node->otherwise, flow);
        node = node->otherwise;
    }
}

/* Sets a NAME, or each NAME of a TUPLE to its part of a list. */
static ruvllm_status assign(struct rv_jinja_run *run, struct rv_jinja_scope *scope, const struct rv_jinja_node *target,
                            struct rv_jinja_value value)
{
    size_t n = 0;
    ruvllm_status rc = RUVLLM_OK;

    if (target->kind == RV_JINJA_NAME)
        return rv_jinja_dict_set(run, &scope->vars, rv_jinja_literal(target->text.data, target->text.len), value);
    for (const struct rv_jinja_node *name = target->a; name; name = name->next)
        n++;
    if (value.type != RV_JINJA_T_LIST || value.as.list->len != n)
        return rv_jinja_fail(run, "cannot unpack %s into %zu variables", rv_jinja_type_name(value), n);
    n = 0;
    for (const struct rv_jinja_node *name = target->a; rc == RUVLLM_OK && name; name = name->next)
        rc = assign(run, scope, name, value.as.list->items[n++]);
    return rc;
}

static ruvllm_status exec_set(struct rv_jinja_run *run, struct rv_jinja_scope *scope, const struct rv_jinja_node *node)
{
    struct rv_jinja_value value, object;
    ruvllm_status rc = rv_jinja_eval(run, scope, node->b, &value);

    if (rc)
        return rc;
    if (node->a->kind != RV_JINJA_MEMBER)
        return assign(run, scope, node->a, value);
    rc = rv_jinja_eval(run, scope, node->a->a, &object);
    if (rc)
        return rc;
    run->line = node->line;
    if (object.type != RV_JINJA_T_NAMESPACE)
        return rv_jinja_fail(run, "cannot set an attribute of %s, only of a namespace", rv_jinja_type_name(object));
    return rv_jinja_dict_set(run, object.as.dict, rv_jinja_literal(node->a->text.data, node->a->text.len), value);
}

/* ---- loops ---------------------------------------------------------------------------------- */

static void clear_scope(struct rv_jinja_scope *scope)
{
    if (scope->vars.slots)
        memset(scope->vars.slots, 0, scope->vars.n_slots * sizeof(*scope->vars.slots));
    scope->vars.len = 0;
}

/* The items for which the condition of `for x in y if condition` holds. */
static ruvllm_status filter_items(struct rv_jinja_run *run, struct rv_jinja_scope *scope,
                                  const struct rv_jinja_node *node, const struct rv_jinja_list *from,
                                  struct rv_jinja_value *out)
{
    ruvllm_status rc = rv_jinja_list_new(run, 0, out);
    size_t len = from->len;

    for (size_t i = 0; rc == RUVLLM_OK && i < len && i < from->len; i++) {
        struct rv_jinja_value item = from->items[i], keep;

        clear_scope(scope);
        rc = assign(run, scope, node->a, item);
        if (rc == RUVLLM_OK)
            rc = rv_jinja_eval(run, scope, node->c, &keep);
        if (rc == RUVLLM_OK && rv_jinja_truth(keep))
            rc = rv_jinja_list_push(run, out->as.list, item);
    }
    return rc;
}

/* The items to loop over, copied: the body may change the list. */
static ruvllm_status loop_items(struct rv_jinja_run *run, struct rv_jinja_scope *scope,
                                const struct rv_jinja_node *node, struct rv_jinja_loop *loop)
{
    struct rv_jinja_value iterable, items;
    struct rv_jinja_value *copy;
    ruvllm_status rc = rv_jinja_eval(run, scope, node->b, &iterable);

    if (rc)
        return rc;
    run->line = node->line;
    if (iterable.type != RV_JINJA_T_LIST && iterable.type != RV_JINJA_T_DICT)
        return rv_jinja_fail(run, "cannot loop over %s", rv_jinja_type_name(iterable));
    rc = rv_jinja_iterate(run, iterable, &items);
    if (rc == RUVLLM_OK && node->c)
        rc = filter_items(run, scope, node, items.as.list, &items);
    if (rc)
        return rc;
    copy = rv_jinja_alloc(run, items.as.list->len, sizeof(*copy));
    if (!copy)
        return rv_jinja_no_memory(run);
    if (items.as.list->len)
        memcpy(copy, items.as.list->items, items.as.list->len * sizeof(*copy));
    loop->items = copy;
    loop->len = items.as.list->len;
    return RUVLLM_OK;
}

static ruvllm_status exec_for(struct rv_jinja_run *run, struct rv_jinja_scope *outer, const struct rv_jinja_node *node,
                              enum flow *flow)
{
    struct rv_jinja_scope *scope = rv_jinja_alloc(run, 1, sizeof(*scope));
    struct rv_jinja_loop *loop = rv_jinja_alloc(run, 1, sizeof(*loop));
    enum flow inner = FLOW_ON;
    ruvllm_status rc;

    if (!scope || !loop)
        return rv_jinja_no_memory(run);
    scope->parent = outer;
    rc = loop_items(run, scope, node, loop);
    if (rc)
        return rc;
    if (loop->len == 0) {
        clear_scope(scope);
        return exec_block(run, scope, node->otherwise, flow);
    }
    for (; rc == RUVLLM_OK && inner != FLOW_BREAK && loop->index < loop->len; loop->index++) {
        inner = FLOW_ON;
        clear_scope(scope);
        rc = rv_jinja_charge(run, 1);
        if (rc == RUVLLM_OK)
            rc = rv_jinja_scope_set(run, scope, "loop",
                                    (struct rv_jinja_value){.type = RV_JINJA_T_LOOP, .as.loop = loop});
        if (rc == RUVLLM_OK)
            rc = assign(run, scope, node->a, loop->items[loop->index]);
        if (rc == RUVLLM_OK)
            rc = exec_block(run, scope, node->body, &inner);
    }
    return rc;
}

/* ---- macros --------------------------------------------------------------------------------- */

static ruvllm_status make_macro(struct rv_jinja_run *run, const struct rv_jinja_scope *scope,
                                const struct rv_jinja_node *node, const struct rv_jinja_node *params,
                                struct rv_jinja_callable **out)
{
    struct rv_jinja_callable *macro = rv_jinja_alloc(run, 1, sizeof(*macro));

    *out = macro;
    if (!macro)
        return rv_jinja_no_memory(run);
    macro->name = node->text;
    macro->params = params;
    macro->body = node->body;
    macro->scope = scope;
    return RUVLLM_OK;
}

static ruvllm_status exec_macro(struct rv_jinja_run *run, struct rv_jinja_scope *scope,
                                const struct rv_jinja_node *node)
{
    struct rv_jinja_callable *macro;
    ruvllm_status rc = make_macro(run, scope, node, node->a, &macro);

    if (rc)
        return rc;
    return rv_jinja_dict_set(run, &scope->vars, rv_jinja_literal(node->text.data, node->text.len),
                             (struct rv_jinja_value){.type = RV_JINJA_T_FUNCTION, .as.function = macro});
}

static ruvllm_status exec_call_block(struct rv_jinja_run *run, struct rv_jinja_scope *scope,
                                     const struct rv_jinja_node *node)
{
    struct rv_jinja_callable *caller;
    struct rv_jinja_value callee, value;
    ruvllm_status rc = make_macro(run, scope, node, node->b, &caller);

    if (rc == RUVLLM_OK)
        rc = rv_jinja_eval(run, scope, node->a->a, &callee);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_eval_call(run, scope, node->a, callee, caller, &value);
    return rc ? rc : rv_jinja_emit_value(run, value);
}

/* ---- blocks --------------------------------------------------------------------------------- */

static ruvllm_status exec(struct rv_jinja_run *run, struct rv_jinja_scope *scope, const struct rv_jinja_node *node,
                          enum flow *flow)
{
    ruvllm_status rc = rv_jinja_charge(run, 1);

    if (rc)
        return rc;
    run->line = node->line;
    switch (node->kind) {
    case RV_JINJA_TEXT:
        return rv_jinja_emit_bytes(run, node->text.data, node->text.len);
    case RV_JINJA_OUTPUT:
        return exec_output(run, scope, node);
    case RV_JINJA_IF:
        return exec_if(run, scope, node, flow);
    case RV_JINJA_FOR:
        return exec_for(run, scope, node, flow);
    case RV_JINJA_SET:
        return exec_set(run, scope, node);
    case RV_JINJA_MACRO:
        return exec_macro(run, scope, node);
    case RV_JINJA_CALL_BLOCK:
        return exec_call_block(run, scope, node);
    case RV_JINJA_BREAK:
        *flow = FLOW_BREAK;
        return RUVLLM_OK;
    default:
        RV_ASSERT(node->kind == RV_JINJA_CONTINUE);
        *flow = FLOW_CONTINUE;
        return RUVLLM_OK;
    }
}

static ruvllm_status exec_block(struct rv_jinja_run *run, struct rv_jinja_scope *scope,
                                const struct rv_jinja_node *first, enum flow *flow)
{
    ruvllm_status rc = rv_jinja_enter(run);

    if (rc)
        return rc;
    for (; rc == RUVLLM_OK && *flow == FLOW_ON && first; first = first->next)
        rc = exec(run, scope, first, flow);
    rv_jinja_leave(run);
    return rc;
}

ruvllm_status rv_jinja_render(struct rv_jinja_run *run, const struct rv_jinja_node *root,
                              struct rv_jinja_scope *globals)
{
    enum flow flow = FLOW_ON;

    return exec_block(run, globals, root, &flow);
}
