/* The option parser. It knows the tables' types and nothing about any command. */
#include "options.h"

#include "help.h"
#include "output.h"
#include "suggest.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool rv_options_int(const char *text, int64_t min, int64_t max, int64_t *out)
{
    char *end;
    long long value;

    /* strtoll skips blanks and takes "+5"; a number here is digits with at most a minus. */
    if (!(*text >= '0' && *text <= '9') && !(*text == '-' && text[1] >= '0' && text[1] <= '9'))
        return false;
    errno = 0;
    value = strtoll(text, &end, 10);
    if (errno || *end || value < min || value > max)
        return false;
    *out = value;
    return true;
}

bool rv_options_double(const char *text, double min, double max, double *out)
{
    char *end;
    double value;

    if (!*text || strchr(" \t\n\v\f\r", *text))
        return false;
    value = strtod(text, &end);
    if (end == text || *end || isnan(value) || value < min || value > max)
        return false;
    *out = value;
    return true;
}

/* A match in the command's tables, and where its value goes. */
struct found {
    const struct rv_option *option;
    void *target;
};

static bool find(const struct rv_command *command, void *base, const char *name, size_t len, char short_name,
                 struct found *out)
{
    for (size_t g = 0; g < command->n_groups; g++) {
        const struct rv_option_group *group = &command->groups[g];

        for (size_t i = 0; i < group->n_options; i++) {
            const struct rv_option *option = &group->options[i];

            if (name ? strlen(option->name) == len && memcmp(option->name, name, len) == 0
                     : option->short_name == short_name) {
                out->option = option;
                out->target = (char *)base + group->offset + option->offset;
                return true;
            }
        }
    }
    return false;
}

static int usage_error(const struct rv_command *command, const char *message)
{
    char hint[96];

    snprintf(hint, sizeof(hint), "see 'ruvllm %s --help'", command->name);
    rv_output_error(hint, "%s", message);
    return RV_EXIT_USAGE;
}

/* What users of other servers are used to type, and what it is here: no nearness of letters would find it. */
static const struct {
    const char *theirs, *ours;
} elsewhere[] = {
    {"--port", "listen"},           {"--host", "listen"},
    {"--ctx-size", "ctx"},          {"--max-model-len", "ctx"},
    {"--batch-size", "batch"},      {"--parallel", "max-sequences"},
    {"-np", "max-sequences"},       {"--max-num-seqs", "max-sequences"},
    {"--model-draft", "draft"},     {"-md", "draft"},
    {"--lora", "adapter"},          {"--ssl-cert-file", "tls-cert"},
    {"--ssl-certfile", "tls-cert"}, {"--ssl-key-file", "tls-key"},
    {"--ssl-keyfile", "tls-key"},   {"--n-predict", "max-tokens"},
    {"--temperature", "temp"},
};

static bool is_called_elsewhere(const char *ours, const char *word, size_t len)
{
    for (size_t i = 0; i < RV_OPTION_COUNT(elsewhere); i++)
        if (strcmp(elsewhere[i].ours, ours) == 0 && strlen(elsewhere[i].theirs) == len &&
            memcmp(elsewhere[i].theirs, word, len) == 0)
            return true;
    return false;
}

/* Says that the option is unknown, with the one that is called so elsewhere, or the nearest known one. */
static int unknown_option(const struct rv_command *command, const char *word)
{
    struct rv_suggestion nearest;
    size_t len = strcspn(word, "=");
    char message[192], spelled[80];

    rv_suggestion_init(&nearest, word, len);
    rv_suggestion_offer(&nearest, "--help");
    for (size_t g = 0; g < command->n_groups; g++) {
        for (size_t i = 0; i < command->groups[g].n_options; i++) {
            snprintf(spelled, sizeof(spelled), "--%s", command->groups[g].options[i].name);
            if (is_called_elsewhere(command->groups[g].options[i].name, word, len))
                rv_suggestion_settle(&nearest, spelled);
            else
                rv_suggestion_offer(&nearest, spelled);
        }
    }
    if (nearest.best[0])
        snprintf(message, sizeof(message), "unknown option '%.*s'; did you mean '%s'?", (int)(len > 64 ? 64 : len),
                 word, nearest.best);
    else
        snprintf(message, sizeof(message), "unknown option '%.*s'", (int)(len > 64 ? 64 : len), word);
    return usage_error(command, message);
}

static bool store_number(const struct rv_option *option, void *target, const char *text, char *want, size_t want_size)
{
    int64_t integer;
    double real;

    if (option->type == RV_OPTION_INT) {
        if (rv_options_int(text, (int64_t)option->min, (int64_t)option->max, &integer)) {
            *(int32_t *)target = (int32_t)integer;
            return true;
        }
        snprintf(want, want_size, "a whole number from %.0f to %.0f", option->min, option->max);
        return false;
    }
    if (rv_options_double(text, option->min, option->max, &real)) {
        *(float *)target = (float)real;
        return true;
    }
    snprintf(want, want_size, "a number from %g to %g", option->min, option->max);
    return false;
}

static bool store_choice(const struct rv_option *option, void *target, const char *text, char *want, size_t want_size)
{
    size_t used = (size_t)snprintf(want, want_size, "one of");

    for (int32_t i = 0; option->choices[i]; i++) {
        if (strcmp(text, option->choices[i]) == 0) {
            *(int32_t *)target = i;
            return true;
        }
        if (used < want_size)
            used += (size_t)snprintf(want + used, want_size - used, "%s %s", i ? "," : "", option->choices[i]);
    }
    return false;
}

/* Puts one value in its place; false fills `want` with what would have been right. */
static bool store(const struct found *found, const char *text, char *want, size_t want_size)
{
    struct ruvllm_error err = {0};

    switch (found->option->type) {
    case RV_OPTION_FLAG:
    case RV_OPTION_UNFLAG:
        *(bool *)found->target = found->option->type == RV_OPTION_FLAG;
        return true;
    case RV_OPTION_INT:
    case RV_OPTION_FLOAT:
        return store_number(found->option, found->target, text, want, want_size);
    case RV_OPTION_STRING:
        *(const char **)found->target = text;
        return true;
    case RV_OPTION_CHOICE:
        return store_choice(found->option, found->target, text, want, want_size);
    case RV_OPTION_PARSED:
        if (found->option->parse(found->target, text, &err) == RUVLLM_OK)
            return true;
        snprintf(want, want_size, "%s", err.message);
        return false;
    }
    return false;
}

/*
 * One option word, with its value when it takes one. `attached` is what stood behind '=' or behind the short
 * letter; *i moves on when the next word was the value.
 */
static int take(const struct rv_command *command, const struct found *found, const char *attached, int argc,
                char **argv, int *i)
{
    const struct rv_option *option = found->option;
    const char *text = attached ? attached : "";
    char want[192], message[448];

    if (!option->value && attached) {
        snprintf(message, sizeof(message), "option '--%s' takes no value", option->name);
        return usage_error(command, message);
    }
    if (option->value && !attached) {
        if (*i + 1 >= argc) {
            snprintf(message, sizeof(message), "option '--%s' needs a value: --%s %s", option->name, option->name,
                     option->value);
            return usage_error(command, message);
        }
        text = argv[++*i];
    }
    if (store(found, text, want, sizeof(want)))
        return RV_EXIT_OK;
    snprintf(message, sizeof(message), "option '--%s' needs %s, not '%.64s'", option->name, want, text);
    return usage_error(command, message);
}

static int take_long(const struct rv_command *command, void *target, int argc, char **argv, int *i)
{
    const char *word = argv[*i];
    size_t len = strcspn(word + 2, "=");
    struct found found;

    if (!find(command, target, word + 2, len, 0, &found))
        return unknown_option(command, word);
    return take(command, &found, word[2 + len] ? word + 3 + len : NULL, argc, argv, i);
}

static int take_short(const struct rv_command *command, void *target, int argc, char **argv, int *i)
{
    const char *word = argv[*i];
    struct found found;

    if (!find(command, target, NULL, 0, word[1], &found))
        return unknown_option(command, word);
    return take(command, &found, word[2] ? word + 2 : NULL, argc, argv, i);
}

bool rv_options_parse(const struct rv_command *command, void *target, int argc, char **argv, struct rv_arguments *args,
                      int *exit_code)
{
    bool options_over = false;

    args->n = 0;
    *exit_code = RV_EXIT_OK;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];

        if (!options_over && strcmp(word, "--") == 0) {
            options_over = true;
        } else if (!options_over && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
            rv_help_command(stdout, command);
            return false;
        } else if (!options_over && word[0] == '-' && word[1]) {
            *exit_code = word[1] == '-' ? take_long(command, target, argc, argv, &i)
                                        : take_short(command, target, argc, argv, &i);
            if (*exit_code)
                return false;
        } else if (args->n == RV_ARGUMENTS_MAX) {
            *exit_code = usage_error(command, "too many arguments");
            return false;
        } else {
            args->items[args->n++] = word;
        }
    }
    return true;
}

const char *rv_options_shift(struct rv_arguments *args)
{
    const char *first;

    if (args->n == 0)
        return NULL;
    first = args->items[0];
    memmove(args->items, args->items + 1, --args->n * sizeof(args->items[0]));
    return first;
}

int rv_options_finish(const struct rv_command *command, const struct rv_arguments *args)
{
    char message[192];

    if (args->n == 0)
        return RV_EXIT_OK;
    snprintf(message, sizeof(message), "unexpected argument '%.64s'; text with spaces needs quotes around it",
             args->items[0]);
    return usage_error(command, message);
}
