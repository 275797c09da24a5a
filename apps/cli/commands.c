/* The command table, in the order the help shows it. */
#include "commands.h"

#include "help.h"
#include "output.h"
#include "suggest.h"

#include <string.h>
#include <unistd.h>

static const struct rv_command *const commands[] = {
    &rv_cmd_run,      &rv_cmd_chat,    &rv_cmd_serve,    &rv_cmd_pull,       &rv_cmd_list,
    &rv_cmd_rm,       &rv_cmd_info,    &rv_cmd_tokenize, &rv_cmd_perplexity, &rv_cmd_bench,
    &rv_cmd_quantize, &rv_cmd_adapter, &rv_cmd_learn,    &rv_cmd_push,       &rv_cmd_key,
    &rv_cmd_witness,  &rv_cmd_doctor,  &rv_cmd_version,  &rv_cmd_help,
};

const struct rv_command *rv_commands_find(const char *name)
{
    for (size_t i = 0; i < RV_OPTION_COUNT(commands); i++) {
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    }
    return NULL;
}

int rv_commands_unknown(const char *name)
{
    struct rv_suggestion nearest;
    size_t len = strlen(name);
    char hint[160];

    if (len > 5 && strcmp(name + len - 5, ".gguf") == 0) {
        snprintf(hint, sizeof(hint), "to talk with it: ruvllm chat %.120s", name);
        rv_output_error(hint, "'%.100s' is a model file where a command is expected", name);
        return RV_EXIT_USAGE;
    }
    rv_suggestion_init(&nearest, name, len);
    for (size_t i = 0; i < RV_OPTION_COUNT(commands); i++)
        rv_suggestion_offer(&nearest, commands[i]->name);
    if (nearest.best[0])
        rv_output_error("'ruvllm help' lists all commands", "unknown command '%.64s'; did you mean '%s'?", name,
                        nearest.best);
    else
        rv_output_error("'ruvllm help' lists all commands", "unknown command '%.64s'", name);
    return RV_EXIT_USAGE;
}

void rv_commands_overview(void)
{
    rv_help_overview(stdout, commands, RV_OPTION_COUNT(commands));
}
