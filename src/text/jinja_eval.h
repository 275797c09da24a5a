/*
 * Runs a parsed template. Names resolve through scopes: a for loop's body and a macro's body have one of their
 * own, an if has none; a macro sees the scope it was written in. A loop starts each round with a fresh scope,
 * so what `set` does there is gone in the next; namespace() is the way to carry something over.
 */
#ifndef RV_TEXT_JINJA_EVAL_H
#define RV_TEXT_JINJA_EVAL_H

#include "text/jinja_builtin.h"
#include "text/jinja_parser.h"

struct rv_jinja_scope {
    struct rv_jinja_dict vars;
    const struct rv_jinja_scope *parent;
};

/* What a function value holds: a builtin with its subject, or a macro with its scope. */
struct rv_jinja_callable {
    const struct rv_jinja_builtin *builtin;
    struct rv_jinja_value self;
    struct rv_str name;
    const struct rv_jinja_node *params; // NAMEs with b: default
    const struct rv_jinja_node *body;
    const struct rv_jinja_scope *scope;
};

/* The variable `loop`. */
struct rv_jinja_loop {
    const struct rv_jinja_value *items;
    size_t len;
    size_t index;
};

/* Renders the statements from `root` on into the run's output. `globals` holds the variables. */
RV_CHECKED ruvllm_status rv_jinja_render(struct rv_jinja_run *run, const struct rv_jinja_node *root,
                                         struct rv_jinja_scope *globals);
RV_CHECKED ruvllm_status rv_jinja_scope_set(struct rv_jinja_run *run, struct rv_jinja_scope *scope, const char *name,
                                            struct rv_jinja_value value);

/* Between the two halves of the evaluator. */
RV_CHECKED ruvllm_status rv_jinja_eval(struct rv_jinja_run *run, struct rv_jinja_scope *scope,
                                       const struct rv_jinja_node *node, struct rv_jinja_value *out);
/* Renders a body into a string. */
RV_CHECKED ruvllm_status rv_jinja_capture(struct rv_jinja_run *run, struct rv_jinja_scope *scope,
                                          const struct rv_jinja_node *body, struct rv_jinja_string *out);
/* Evaluates the CALL `node`, whose callee is `callee`, handing `caller` on. */
RV_CHECKED ruvllm_status rv_jinja_eval_call(struct rv_jinja_run *run, struct rv_jinja_scope *scope,
                                            const struct rv_jinja_node *node, struct rv_jinja_value callee,
                                            const struct rv_jinja_callable *caller, struct rv_jinja_value *out);

#endif
