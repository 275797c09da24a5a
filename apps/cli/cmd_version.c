/* ruvllm version: what is installed. */
#include "commands.h"
#include "output.h"

struct version_options {
    bool json;
};

static const struct rv_option own_options[] = {
    {.name = "json",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct version_options, json),
     .help = "Print a JSON object"},
};

static const struct rv_option_group groups[] = {{"Output", own_options, RV_OPTION_COUNT(own_options), 0}};

static int run(int argc, char **argv)
{
    struct version_options options = {0};
    struct rv_arguments args;
    yyjson_mut_doc *doc;
    yyjson_mut_val *root;
    int code;

    if (!rv_options_parse(&rv_cmd_version, &options, argc, argv, &args, &code))
        return code;
    code = rv_options_finish(&rv_cmd_version, &args);
    if (code)
        return code;
    if (!options.json) {
        printf("ruvllm %s\n", ruvllm_version());
        return RV_EXIT_OK;
    }
    doc = yyjson_mut_doc_new(NULL);
    root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_str(doc, root, "version", ruvllm_version());
    return rv_output_json(doc, false);
}

const struct rv_command rv_cmd_version = {
    .name = "version",
    .arguments = "",
    .summary = "show the version",
    .about = "Shows the version of ruvllm. 'ruvllm doctor' shows more about this installation.",
    .examples = "ruvllm version\n",
    .groups = groups,
    .n_groups = RV_OPTION_COUNT(groups),
    .run = run,
};
