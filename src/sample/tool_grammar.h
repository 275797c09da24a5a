/*
 * Calls of tools as rules: in the model's own style, with arguments that satisfy the tool's schema. Where calling is
 * left to the model, any text may come first, up to the mark that begins a call.
 */
#ifndef RV_SAMPLE_TOOL_GRAMMAR_H
#define RV_SAMPLE_TOOL_GRAMMAR_H

#include "sample/syntax.h"
#include "text/tool_style.h"
#include "text/vocab.h"

struct rv_tool_grammar_wish {
    const struct rv_tool_style *style;
    bool must_call;   // else a text without a call will do
    bool is_single;   // one call at most
    const char *only; // name of the one tool that may be called; NULL: any of them
};

/*
 * `tools` is a JSON array of {"type": "function", "function": {"name", "description", "parameters"}}. *rule is what an
 * answer is. `vocab`, for marks that are control tokens, may be NULL. INVALID names the tool and what is wrong with it.
 */
RV_CHECKED ruvllm_status rv_tool_grammar_write(struct rv_syntax *syntax, const char *tools, size_t len,
                                               const struct rv_tool_grammar_wish *wish, const struct rv_vocab *vocab,
                                               int32_t *rule, struct ruvllm_error *err);

#endif
