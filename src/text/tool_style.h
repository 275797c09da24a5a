/*
 * How a family of models writes calls of tools, told by its chat template: what stands around a call and what its keys
 * are. Every family's call is a JSON object with a name and arguments.
 */
#ifndef RV_TEXT_TOOL_STYLE_H
#define RV_TEXT_TOOL_STYLE_H

#include <stdbool.h>

struct rv_tool_style {
    const char *name;      // "hermes", "mistral", "phi", "granite", "llama3", "gemma"
    const char *open;      // begins the calls; may be the name of a control token; "": nothing does
    const char *gap;       // white space inside `open` and `close`
    const char *close;     // ends them; "": nothing does
    const char *separator; // between two calls
    const char *arguments; // key of the arguments
    bool is_list;          // the calls stand in one array, within one `open` and `close`
    bool is_single;        // it knows one call at a time
    bool is_told;          // the template has no place for tools: they and their results stand in turns of the user
};

/*
 * The style of a template (NUL-terminated; may be NULL), or NULL for one that has no place for tools and is not one of
 * those that are told (is_told), or writes calls in none of these ways.
 */
const struct rv_tool_style *rv_tool_style_of(const char *chat_template);

#endif
