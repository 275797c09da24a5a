/* ruvllm help [COMMAND]. */
#include "commands.h"
#include "help.h"
#include "output.h"

static int run(int argc, char **argv)
{
    const struct rv_command *command;
    struct rv_arguments args;
    const char *name;
    int code;

    if (!rv_options_parse(&rv_cmd_help, NULL, argc, argv, &args, &code))
        return code;
    name = rv_options_shift(&args);
    code = rv_options_finish(&rv_cmd_help, &args);
    if (code)
        return code;
    if (!name) {
        rv_commands_overview();
        return RV_EXIT_OK;
    }
    command = rv_commands_find(name);
    if (!command)
        return rv_commands_unknown(name);
    rv_help_command(stdout, command);
    return RV_EXIT_OK;
}

const struct rv_command rv_cmd_help = {
    .name = "help",
    .arguments = "[COMMAND]",
    .summary = "explain ruvllm, or one command",
    .about = "Shows how to begin, or everything about one command.",
    .examples = "ruvllm help\nruvllm help run\n",
    .run = run,
};
