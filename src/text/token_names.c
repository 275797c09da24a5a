/* The spellings, by what they are for. */
#include "text/token_names.h"

#include <string.h>

struct name_role {
    const char *name;
    uint32_t role;
};

#define END (RV_TOKEN_ROLE_CONTROL | RV_TOKEN_ROLE_END)
#define CONTROL RV_TOKEN_ROLE_CONTROL

static const struct name_role names[] = {
    /* end of turn, of message, of text */
    {"<|eot_id|>", END},
    {"<|im_end|>", END},
    {"<|end|>", END},
    {"<|return|>", END},
    {"<|call|>", END},
    {"<|flush|>", END},
    {"<|calls|>", END},
    {"<end_of_turn>", END},
    {"<|endoftext|>", END},
    {"</s>", END},
    {"<|eom_id|>", END},
    {"<EOT>", END},
    {"_<EOT>", END},
    {"[EOT]", END},
    {"[EOS]", END},
    {"<|end_of_text|>", END},
    {"<end_of_utterance>", END},
    {"<eos>", END},
    {"<turn|>", END},
    {"<|tool_response>", END},
    {"<\xEF\xBD\x9C"
     "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
     END},
    {"[e~[", END},
    /* fill in the middle: what a completion never goes beyond */
    {"<|fim_pad|>", END},
    {"<fim-pad>", END},
    {"<fim_pad>", END},
    {"<PAD>", END},
    {"[PAD]", END},
    {"<|fim_repo|>", END},
    {"<|repo_name|>", END},
    {"<fim-repo>", END},
    {"<REPO>", END},
    {"<reponame>", END},
    {"<|file_sep|>", END},
    /* fill in the middle: its parts */
    {"<|fim_prefix|>", CONTROL},
    {"<fim-prefix>", CONTROL},
    {"<fim_prefix>", CONTROL},
    {"<\xEF\xBD\x9C"
     "fim\xE2\x96\x81"
     "begin\xEF\xBD\x9C>",
     CONTROL},
    {"<PRE>", CONTROL},
    {"\xE2\x96\x81<PRE>", CONTROL},
    {"<|code_prefix|>", CONTROL},
    {"<|prefix|>", CONTROL},
    {"<|fim_suffix|>", CONTROL},
    {"<fim-suffix>", CONTROL},
    {"<fim_suffix>", CONTROL},
    {"<\xEF\xBD\x9C"
     "fim\xE2\x96\x81hole\xEF\xBD\x9C>",
     CONTROL},
    {"<SUF>", CONTROL},
    {"\xE2\x96\x81<SUF>", CONTROL},
    {"<|code_suffix|>", CONTROL},
    {"<|suffix|>", CONTROL},
    {"<|fim_middle|>", CONTROL},
    {"<fim-middle>", CONTROL},
    {"<fim_middle>", CONTROL},
    {"<\xEF\xBD\x9C"
     "fim\xE2\x96\x81"
     "end\xEF\xBD\x9C>",
     CONTROL},
    {"<MID>", CONTROL},
    {"\xE2\x96\x81<MID>", CONTROL},
    {"<|code_middle|>", CONTROL},
    {"<|middle|>", CONTROL},
};

bool rv_token_names_equal(struct rv_str text, const char *name)
{
    return strlen(name) == text.len && memcmp(text.data, name, text.len) == 0;
}

uint32_t rv_token_names_role(struct rv_str text)
{
    /* All of them start with one of these, as few other tokens do: it keeps reading a large vocabulary fast. */
    if (text.len < 4 || !strchr("<[_\xE2", text.data[0]))
        return RV_TOKEN_ROLE_NONE;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (rv_token_names_equal(text, names[i].name))
            return names[i].role;
    }
    return RV_TOKEN_ROLE_NONE;
}
