/*
 * Conversations about tools, made fit for templates that cannot take them as they are:
 *
 * - Mistral's wants ids of calls to have nine letters and digits, and fails on any other; ids of the API are longer.
 * - Phi's looks for the tools in the system message, as a text.
 * - A template that never looks at a message's calls would leave them out: they are put into its content, written as
 *   the model writes them.
 * - Granite's first ones call a result "tool_response", and leave out what is called anything else.
 * - Gemma's knows nothing of tools, and takes turns of a user and of the model only, by turns: the tools stand before
 *   the first words of the user, calls are the model's text, and results are turns of the user, those that follow on
 *   each other (and what the user says next) being one.
 */
#ifndef RV_TEXT_TOOL_HISTORY_H
#define RV_TEXT_TOOL_HISTORY_H

#include "text/jinja_value.h"

/* Changes "messages" of the variables of a template with that source (NUL-terminated). `user` is jinja_json.h's. */
RV_CHECKED ruvllm_status rv_tool_history_fit(struct rv_jinja_run *run, const char *source, struct rv_jinja_dict *vars,
                                             const unsigned char *user);

#endif
