/*
 * Options as data: each command owns tables of struct rv_option, and the parser, the help text and the error
 * messages all come from them.
 *
 * A command's values live in one struct of its own. A group of options (`struct rv_option_group`) says where in
 * that struct its part begins, so tables that several commands share, such as the model's, are written once.
 *
 * Accepted spellings: `--name value`, `--name=value`, `-n value`, `-nvalue`. Options and arguments may be mixed;
 * `--` ends the options; a lone `-` is an argument.
 */
#ifndef RV_CLI_OPTIONS_H
#define RV_CLI_OPTIONS_H

#include "base/error.h"

enum rv_option_type {
    RV_OPTION_FLAG,   // bool, set to true
    RV_OPTION_UNFLAG, // bool, set to false
    RV_OPTION_INT,    // int32_t within min..max
    RV_OPTION_FLOAT,  // float within min..max, never NaN
    RV_OPTION_STRING, // const char *, borrowed from argv
    RV_OPTION_CHOICE, // int32_t, the index into `choices`
    RV_OPTION_PARSED  // whatever `parse` makes of it
};

struct rv_option {
    const char *name;  // long form without its dashes
    const char *value; // placeholder in the help; NULL for flags
    const char *help;  // one sentence without its full stop
    size_t offset;     // of the target inside the group's struct
    double min, max;
    const char *const *choices; // NULL-terminated
    /* Reads `text` into `target`; on failure says what is wanted ("a list such as 1,2") and is not OK. */
    ruvllm_status (*parse)(void *target, const char *text, struct ruvllm_error *err);
    enum rv_option_type type;
    char short_name; // 0: none
};

struct rv_option_group {
    const char *title; // heading in the help; NULL continues the group before
    const struct rv_option *options;
    size_t n_options;
    size_t offset; // of the group's struct inside the command's
};

#define RV_OPTION_COUNT(table) (sizeof(table) / sizeof((table)[0]))

struct rv_command {
    const char *name;
    const char *arguments; // "MODEL [PROMPT]"
    const char *summary;   // one line of the command list
    const char *about;     // what it does, in a few sentences
    const char *examples;  // "command\n    explanation\n" pairs, without indentation of their own
    const struct rv_option_group *groups;
    size_t n_groups;
    int (*run)(int argc, char **argv); // argv[0] is the first word after the command; returns the exit code
};

enum { RV_ARGUMENTS_MAX = 64 };

/* Arguments that are not options, in order, borrowed from argv. */
struct rv_arguments {
    const char *items[RV_ARGUMENTS_MAX];
    size_t n;
};

/*
 * Reads argv into `target` (a struct already holding the defaults) and `args`. True: go on. False: the command is
 * over with *exit_code, because help was asked for and printed (0) or the usage was wrong and explained (2).
 */
RV_CHECKED bool rv_options_parse(const struct rv_command *command, void *target, int argc, char **argv,
                                 struct rv_arguments *args, int *exit_code);

/* Removes and returns the first argument; NULL when there is none. */
const char *rv_options_shift(struct rv_arguments *args);
/* Complains about what is left over and returns 2; 0 when nothing is. */
RV_CHECKED int rv_options_finish(const struct rv_command *command, const struct rv_arguments *args);

/* Strict numbers: all of `text`, within the bounds; false leaves *out alone. */
bool rv_options_int(const char *text, int64_t min, int64_t max, int64_t *out);
bool rv_options_double(const char *text, double min, double max, double *out);

#endif
