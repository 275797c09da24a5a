/* ruvllm rm: remove a model that was fetched. */
#include "commands.h"
#include "output.h"

#include "ruvllm_hub.h"

#include <string.h>

struct rm_options {
    bool yes;
};

static const struct rv_option own_options[] = {
    {.name = "yes",
     .short_name = 'y',
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct rm_options, yes),
     .help = "Do not ask"},
};

static const struct rv_option_group groups[] = {{"Options", own_options, RV_OPTION_COUNT(own_options), 0}};

/* Whether the person at the terminal says y. */
static bool is_agreed(const char *model)
{
    char answer[16];

    fputs("Remove ", stderr);
    rv_output_field(stderr, model, strlen(model));
    fputs("? [y/N] ", stderr);
    fflush(stderr);
    if (!fgets(answer, sizeof(answer), stdin))
        return false;
    return answer[0] == 'y' || answer[0] == 'Y';
}

static int run(int argc, char **argv)
{
    struct rm_options options = {0};
    struct ruvllm_error err = {0};
    struct rv_arguments args;
    const char *model;
    uint64_t n_bytes = 0;
    char bytes[24];
    int code;

    if (!rv_options_parse(&rv_cmd_rm, &options, argc, argv, &args, &code))
        return code;
    model = rv_options_shift(&args);
    if (!model) {
        rv_output_error("'ruvllm list' shows the models there are", "no model given");
        return RV_EXIT_USAGE;
    }
    code = rv_options_finish(&rv_cmd_rm, &args);
    if (code)
        return code;
    if (!options.yes && !rv_output_is_terminal(stdin)) {
        rv_output_error("add --yes", "there is nobody to ask whether '%.100s' may be removed", model);
        return RV_EXIT_USAGE;
    }
    if (!options.yes && !is_agreed(model)) {
        fputs("nothing was removed\n", stderr);
        return RV_EXIT_FAILURE;
    }
    if (ruvllm_models_remove(NULL, model, &n_bytes, &err))
        return rv_output_failure(&err, NULL);
    fprintf(stderr, "removed; %s are free again\n", rv_output_bytes(n_bytes, bytes));
    return RV_EXIT_OK;
}

const struct rv_command rv_cmd_rm = {
    .name = "rm",
    .arguments = "OWNER/NAME[:QUANTISATION or FILE]",
    .summary = "remove a model that was fetched",
    .about =
        "Removes a model 'ruvllm pull' fetched, with what is left of interrupted transfers; without a quantisation or "
        "file, all files of that name. Asks first. Only the folder of fetched models is touched: files elsewhere are "
        "not ruvllm's to remove.",
    .examples = "ruvllm rm owner/name:Q8_0\n"
                "    one quantisation, after asking\n"
                "ruvllm rm owner/name --yes\n"
                "    all of it, without asking\n",
    .groups = groups,
    .n_groups = RV_OPTION_COUNT(groups),
    .run = run,
};
