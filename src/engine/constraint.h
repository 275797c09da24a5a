/*
 * From what a request asks for ("grammar", "regex", "json_schema", "json_object") to a grammar for the model's
 * vocabulary. The last few are kept, so that the same schema is compiled once; the vocabulary's tree is made with
 * the first.
 *
 * Threads: any. Grammars themselves are used by the thread that chooses tokens (grammar.h).
 */
#ifndef RV_ENGINE_CONSTRAINT_H
#define RV_ENGINE_CONSTRAINT_H

#include "sample/grammar.h"

struct rv_constraint_shelf;

/* The vocabulary is borrowed. `tools`: how the model calls tools; NULL: it does not. */
RV_CHECKED ruvllm_status rv_constraint_shelf_new(struct rv_constraint_shelf **out, const struct rv_vocab *vocab,
                                                 const struct rv_tool_style *tools, struct ruvllm_error *err);
void rv_constraint_shelf_free(struct rv_constraint_shelf *shelf);
/*
 * The grammar that `params` ask for, with a reference for the caller; NULL when they ask for none. More than one at
 * once, and anything that cannot be compiled, is INVALID with the parameter's name.
 */
RV_CHECKED ruvllm_status rv_constraint_find(struct rv_constraint_shelf *shelf,
                                            const struct ruvllm_generate_params *params, struct rv_grammar **out,
                                            struct ruvllm_error *err);

#endif
