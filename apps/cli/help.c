/* Layout of the help texts: wrapped to the terminal's width, never wider than is comfortable to read. */
#include "help.h"

#include "output.h"

#include <string.h>

enum { OPTION_COLUMN = 30, WIDTH_MAX = 100 };

/* Words of `text` from column `column` on, continued below at `indent`. Newlines in the text are kept. */
static void wrapped(FILE *out, const char *text, size_t column, size_t indent)
{
    size_t width = rv_output_width(out);

    if (width > WIDTH_MAX)
        width = WIDTH_MAX;
    while (*text) {
        size_t len = strcspn(text, " \n");

        if (column > indent && column + len >= width) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
        }
        fprintf(out, "%.*s", (int)len, text);
        column += len;
        text += len;
        if (*text == '\n') {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
            text++;
        } else if (*text == ' ') {
            while (*text == ' ')
                text++;
            if (column + 1 + strcspn(text, " \n") < width) {
                putc(' ', out);
                column++;
            } else {
                fprintf(out, "\n%*s", (int)indent, "");
                column = indent;
            }
        }
    }
    putc('\n', out);
}

static void heading(FILE *out, const char *title)
{
    fprintf(out, "\n%s%s%s\n", rv_output_style(out, RV_STYLE_BOLD), title, rv_output_style(out, RV_STYLE_RESET));
}

/* Command lines stand out; the explanations under them, which are indented, stay plain. */
static void examples(FILE *out, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        bool is_command = *text != ' ';

        fprintf(out, "  %s%.*s%s\n", is_command ? rv_output_style(out, RV_STYLE_CYAN) : "", (int)len, text,
                is_command ? rv_output_style(out, RV_STYLE_RESET) : "");
        text += len + (text[len] == '\n');
    }
}

static void option_line(FILE *out, char short_name, const char *name, const char *value, const char *help)
{
    size_t column;

    if (short_name)
        fprintf(out, "  -%c, ", short_name);
    else
        fputs("      ", out);
    fprintf(out, "%s--%s%s", rv_output_style(out, RV_STYLE_CYAN), name, rv_output_style(out, RV_STYLE_RESET));
    column = 6 + 2 + strlen(name);
    if (value) {
        fprintf(out, " %s", value);
        column += 1 + strlen(value);
    }
    if (column + 2 > OPTION_COLUMN)
        fprintf(out, "\n%*s", OPTION_COLUMN, "");
    else
        fprintf(out, "%*s", (int)(OPTION_COLUMN - column), "");
    wrapped(out, help, OPTION_COLUMN, OPTION_COLUMN);
}

void rv_help_command(FILE *out, const struct rv_command *command)
{
    fprintf(out, "%sUsage:%s ruvllm %s%s%s", rv_output_style(out, RV_STYLE_BOLD), rv_output_style(out, RV_STYLE_RESET),
            command->name, *command->arguments ? " " : "", command->arguments);
    fputs(" [OPTIONS]\n\n", out);
    wrapped(out, command->about, 0, 0);
    if (*command->examples) {
        heading(out, "Examples");
        examples(out, command->examples);
    }
    for (size_t g = 0; g < command->n_groups; g++) {
        const struct rv_option_group *group = &command->groups[g];

        if (group->title)
            heading(out, group->title);
        for (size_t i = 0; i < group->n_options; i++)
            option_line(out, group->options[i].short_name, group->options[i].name, group->options[i].value,
                        group->options[i].help);
    }
    heading(out, "Help");
    option_line(out, 'h', "help", NULL, "Show this text");
}

void rv_help_overview(FILE *out, const struct rv_command *const *commands, size_t n_commands)
{
    fprintf(out, "%sruvllm%s runs language models stored as GGUF files, on this machine.\n",
            rv_output_style(out, RV_STYLE_BOLD), rv_output_style(out, RV_STYLE_RESET));
    heading(out, "Start here");
    examples(out, "ruvllm chat model.gguf\n"
                  "    talk with a model; /help lists what you can do there\n"
                  "ruvllm run model.gguf \"Once upon a time\"\n"
                  "    continue a text\n"
                  "ruvllm info model.gguf\n"
                  "    what is in a model file, and how much memory it takes\n"
                  "ruvllm pull owner/name:Q4_K_M\n"
                  "    fetch a model from a hub; its name then works wherever a file does\n");
    heading(out, "More examples");
    examples(out, "ruvllm run model.gguf --chat \"Why is the sky blue?\" --temp 0\n"
                  "    ask one question, always the same answer\n"
                  "git diff | ruvllm run model.gguf --chat --system \"Summarise this change\"\n"
                  "    the prompt from another program\n"
                  "ruvllm run model.gguf -f prompt.txt --json | jq .usage\n"
                  "    answers for scripts\n"
                  "ruvllm doctor model.gguf\n"
                  "    is this machine ready, does this model work\n");
    heading(out, "Commands");
    for (size_t i = 0; i < n_commands; i++)
        fprintf(out, "  %s%-12s%s %s\n", rv_output_style(out, RV_STYLE_CYAN), commands[i]->name,
                rv_output_style(out, RV_STYLE_RESET), commands[i]->summary);
    fputs("\n'ruvllm COMMAND --help' explains a command and its options; 'man ruvllm' has it all.\n", out);
    heading(out, "Environment");
    fputs("  RUVLLM_DEVICE        where to compute when --device is not given\n"
          "  RUVLLM_LOG_LEVEL     debug, info (the default), warn, error or off\n"
          "  RUVLLM_MODELS        where fetched models are kept (~/.local/share/ruvllm/models)\n"
          "  RUVLLM_CACHE_DIR     a folder for what is fetched: models are in its models/\n"
          "  HF_ENDPOINT          address of the hub (https://huggingface.co)\n"
          "  HF_TOKEN             what to identify with there; sent to no other host\n"
          "  HF_HUB_OFFLINE       1: ask no hub\n"
          "  SSL_CERT_FILE        certificates to trust a hub by, instead of the system's\n"
          "  NO_COLOR             no colours, whatever the terminal can do\n",
          out);
}
