/* A template gives itself away by the marks it writes; the list goes from the most particular to the least. */
#include "text/tool_style.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *marks[2]; // either will do
    struct rv_tool_style style;
} styles[] = {
    {{"<|tool_call|>", "<|tool|>"},
     {.name = "phi",
      .open = "<|tool_call|>",
      .gap = "",
      .close = "<|/tool_call|>",
      .separator = ", ",
      .arguments = "arguments",
      .is_list = true}},
    {{"[TOOL_CALLS]"},
     {.name = "mistral",
      .open = "[TOOL_CALLS]",
      .gap = "",
      .close = "",
      .separator = ", ",
      .arguments = "arguments",
      .is_list = true}},
    {{"<tool_call>"},
     {.name = "hermes",
      .open = "<tool_call>",
      .gap = "\n",
      .close = "</tool_call>",
      .separator = "\n",
      .arguments = "arguments"}},
    {{"\"parameters\": "},
     {.name = "llama3",
      .open = "",
      .gap = "",
      .close = "",
      .separator = "",
      .arguments = "parameters",
      .is_single = true}},
};

const struct rv_tool_style *rv_tool_style_of(const char *chat_template)
{
    if (!chat_template || !strstr(chat_template, "tools"))
        return NULL;
    for (size_t i = 0; i < sizeof(styles) / sizeof(styles[0]); i++)
        for (size_t k = 0; k < 2 && styles[i].marks[k]; k++)
            if (strstr(chat_template, styles[i].marks[k]))
                return &styles[i].style;
    return NULL;
}
