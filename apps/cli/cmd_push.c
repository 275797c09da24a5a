/* ruvllm push: upload a model or an adapter to a hub. */
#include "commands.h"
#include "model_options.h"
#include "output.h"
#include "transfer.h"

#include <string.h>

struct push_options {
    struct rv_transfer_options transfer;
    bool is_private;
    bool json;
};

static const struct rv_option own_options[] = {
    {.name = "private",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct push_options, is_private),
     .help = "If the repository has to be created, only its owner may see it"},
    {.name = "json",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct push_options, json),
     .help = "Print a JSON object"},
};

static const struct rv_option_group groups[] = {
    {"Repository", own_options, RV_OPTION_COUNT(own_options), 0},
    RV_TRANSFER_GROUP(offsetof(struct push_options, transfer)),
};

static int report(const struct push_options *options, const char *url)
{
    yyjson_mut_doc *doc;
    yyjson_mut_val *root;

    if (!options->json) {
        puts(url);
        return RV_EXIT_OK;
    }
    doc = yyjson_mut_doc_new(NULL);
    root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    rv_output_json_add(doc, root, "url", rv_output_json_text(doc, url, strlen(url)));
    return rv_output_json(doc, false);
}

static int upload(const struct push_options *options, const char *path, const char *repository)
{
    struct ruvllm_hub_params params;
    struct ruvllm_error err = {0};
    struct rv_transfer transfer;
    char *url = NULL;
    ruvllm_status rc;
    int code;

    params = rv_transfer_begin(&transfer, &options->transfer, "uploading");
    params.is_private = options->is_private;
    rc = ruvllm_hub_push(path, repository, &params, &url, &err);
    rv_transfer_end(&transfer);
    code = rc ? rv_output_failure(&err, NULL) : report(options, url);
    ruvllm_free(url);
    return code;
}

static int run(int argc, char **argv)
{
    struct push_options options = {0};
    struct rv_arguments args;
    const char *model, *repository, *path;
    char found[PATH_MAX];
    int code;

    rv_transfer_options_init(&options.transfer);
    if (!rv_options_parse(&rv_cmd_push, &options, argc, argv, &args, &code))
        return code;
    model = rv_options_shift(&args);
    repository = rv_options_shift(&args);
    if (!model || !repository) {
        rv_output_error("ruvllm push model.gguf owner/name", "a file and a repository are needed");
        return RV_EXIT_USAGE;
    }
    code = rv_options_finish(&rv_cmd_push, &args);
    if (code)
        return code;
    path = rv_model_options_resolve(model, found, &code);
    return path ? upload(&options, path, repository) : code;
}

const struct rv_command rv_cmd_push = {
    .name = "push",
    .arguments = "MODEL OWNER/NAME",
    .summary = "upload a model or an adapter to a hub",
    .about =
        "Uploads a GGUF file, a model or an adapter, as one commit, and prints its address. A repository that does "
        "not exist is created; one without a model card gets one with name, quantisation, size, SHA-256 and how to "
        "run it. HF_TOKEN must hold a token with the right to write. Files the hub wants in several parts are "
        "refused.",
    .examples = "HF_TOKEN=... ruvllm push model-Q4_K_M.gguf me/my-model\n"
                "    a model, with a card\n"
                "ruvllm push adapter.gguf me/my-adapter --private\n"
                "    an adapter only its owner can see\n",
    .groups = groups,
    .n_groups = RV_OPTION_COUNT(groups),
    .run = run,
};
