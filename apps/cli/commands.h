/* Every command of the program. A new one is a file cmd_<name>.c, a line here and a line in commands.c. */
#ifndef RV_CLI_COMMANDS_H
#define RV_CLI_COMMANDS_H

#include "options.h"

extern const struct rv_command rv_cmd_run;
extern const struct rv_command rv_cmd_chat;
extern const struct rv_command rv_cmd_serve;
extern const struct rv_command rv_cmd_info;
extern const struct rv_command rv_cmd_tokenize;
extern const struct rv_command rv_cmd_perplexity;
extern const struct rv_command rv_cmd_bench;
extern const struct rv_command rv_cmd_key;
extern const struct rv_command rv_cmd_witness;
extern const struct rv_command rv_cmd_pull;
extern const struct rv_command rv_cmd_list;
extern const struct rv_command rv_cmd_rm;
extern const struct rv_command rv_cmd_push;
extern const struct rv_command rv_cmd_quantize;
extern const struct rv_command rv_cmd_adapter;
extern const struct rv_command rv_cmd_learn;
extern const struct rv_command rv_cmd_doctor;
extern const struct rv_command rv_cmd_version;
extern const struct rv_command rv_cmd_help;

/* NULL when there is none of that name. */
const struct rv_command *rv_commands_find(const char *name);
/* Complains about an unknown command, names the nearest, and returns the exit code. */
int rv_commands_unknown(const char *name);
/* The overview that `ruvllm` alone prints. */
void rv_commands_overview(void);

#endif
