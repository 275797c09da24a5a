/* Help that teaches: generated from the command and option tables. */
#ifndef RV_CLI_HELP_H
#define RV_CLI_HELP_H

#include "options.h"

#include <stdio.h>

/* What `ruvllm` alone says: the three lines most people need, examples, then the commands. */
void rv_help_overview(FILE *out, const struct rv_command *const *commands, size_t n_commands);
/* Usage, explanation, examples and every option of one command. */
void rv_help_command(FILE *out, const struct rv_command *command);

#endif
