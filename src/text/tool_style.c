/*
 * A template gives itself away by what it writes. Marks alone would not do: there are families that put XML where
 * Hermes has JSON, or names and arguments side by side where Mistral has a list. Better no style than a wrong one.
 */
#include "text/tool_style.h"

#include <stddef.h>
#include <string.h>

enum { MAX_SIGNS = 3 };

static const struct {
    const char *all[MAX_SIGNS];  // are in it
    const char *any[MAX_SIGNS];  // one of them is, where there are any
    const char *none[MAX_SIGNS]; // are not in it
    struct rv_tool_style style;
} styles[] = {
    {.all = {"tools", "<|tool_call|>", "<|start_of_role|>"},
     .style = {.name = "granite",
               .open = "<|tool_call|>",
               .gap = "",
               .close = "",
               .separator = ", ",
               .arguments = "arguments",
               .is_list = true}},
    {.all = {"tools", "<|tool|>", "<|/tool|>"},
     .style = {.name = "phi",
               .open = "<|tool_call|>",
               .gap = "",
               .close = "<|/tool_call|>",
               .separator = ", ",
               .arguments = "arguments",
               .is_list = true}},
    {.all = {"tools", "[TOOL_CALLS]"},
     .none = {"[ARGS]"},
     .style = {.name = "mistral",
               .open = "[TOOL_CALLS]",
               .gap = "",
               .close = "",
               .separator = ", ",
               .arguments = "arguments",
               .is_list = true}},
    {.all = {"tools", "<tool_call>"},
     .any = {"\"arguments\":", "\\\"arguments\\\":"}, // within quotes it may be escaped
     .none = {"<tool_calls>"},
     .style = {.name = "hermes",
               .open = "<tool_call>",
               .gap = "\n",
               .close = "</tool_call>",
               .separator = "\n",
               .arguments = "arguments"}},
    {.all = {"tools", "\"parameters\": ", "<|start_header_id|>"},
     .style = {.name = "llama3",
               .open = "",
               .gap = "",
               .close = "",
               .separator = "",
               .arguments = "parameters",
               .is_single = true}},
    {.all = {"<start_of_turn>"},
     .none = {"tools"},
     .style = {.name = "gemma",
               .open = "",
               .gap = "",
               .close = "",
               .separator = "\n",
               .arguments = "parameters",
               .is_single = true,
               .is_told = true}},
};

static bool has(const char *chat_template, const char *sign)
{
    return strstr(chat_template, sign) != NULL;
}

static bool is_of(const char *chat_template, size_t style)
{
    bool has_any = !styles[style].any[0];

    for (size_t i = 0; i < MAX_SIGNS; i++) {
        const char *needed = styles[style].all[i], *one = styles[style].any[i], *foreign = styles[style].none[i];

        if ((needed && !has(chat_template, needed)) || (foreign && has(chat_template, foreign)))
            return false;
        has_any = has_any || (one && has(chat_template, one));
    }
    return has_any;
}

const struct rv_tool_style *rv_tool_style_of(const char *chat_template)
{
    for (size_t i = 0; chat_template && i < sizeof(styles) / sizeof(styles[0]); i++)
        if (is_of(chat_template, i))
            return &styles[i].style;
    return NULL;
}
