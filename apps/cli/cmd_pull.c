/* ruvllm pull: fetch a model from a hub. */
#include "commands.h"
#include "model_options.h"
#include "output.h"
#include "transfer.h"

#include <string.h>

struct pull_options {
    struct rv_transfer_options transfer;
    uint64_t max_bytes;
    bool offline;
    bool json;
};

/* "8G", "500M", "123456": bytes, in steps of 1024. */
static ruvllm_status parse_size(void *target, const char *text, struct ruvllm_error *err)
{
    static const char units[] = "KMGT";
    char digits[24];
    size_t len = strlen(text);
    const char *unit = len ? strchr(units, text[len - 1]) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    int64_t n;

    len -= unit != NULL;
    if (len < sizeof(digits)) {
        memcpy(digits, text, len);
        digits[len] = '\0';
        if (rv_options_int(digits, 1, INT64_MAX >> shift, &n)) {
            *(uint64_t *)target = (uint64_t)n << shift;
            return RUVLLM_OK;
        }
    }
    return rv_fail(err, RUVLLM_INVALID, "a size such as 8G or 500M");
}

static const struct rv_option own_options[] = {
    {.name = "offline",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct pull_options, offline),
     .help = "Ask no hub: succeed only if the model is here already (HF_HUB_OFFLINE=1 does the same)"},
    {.name = "max-size",
     .value = "SIZE",
     .type = RV_OPTION_PARSED,
     .parse = parse_size,
     .offset = offsetof(struct pull_options, max_bytes),
     .help = "Refuse a file larger than this, such as 8G or 500M (default: what the disk takes)"},
    {.name = "json",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct pull_options, json),
     .help = "Print a JSON object"},
};

static const struct rv_option_group groups[] = {
    {"Model", own_options, RV_OPTION_COUNT(own_options), 0},
    RV_TRANSFER_GROUP(offsetof(struct pull_options, transfer)),
};

static int print_json(const char *model, const char *path)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);

    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_strcpy(doc, root, "model", model);
    rv_output_json_add(doc, root, "path", rv_output_json_text(doc, path, strlen(path)));
    return rv_output_json(doc, false);
}

static int report(const struct pull_options *options, const char *model, const char *path)
{
    if (options->json)
        return print_json(model, path);
    puts(path);
    if (!options->transfer.quiet)
        fprintf(stderr, "ready; try: ruvllm chat %.*s:%s\n", (int)strcspn(model, ":"), model,
                rv_model_options_base_name(path));
    return RV_EXIT_OK;
}

static int fail(const char *model, const struct rv_transfer *transfer, const struct ruvllm_error *err)
{
    char bytes[24];

    if (err->status == RUVLLM_IO && transfer->done)
        return rv_output_failure(err, "what came is kept; the same command goes on from there");
    if (err->status == RUVLLM_FORMAT)
        return rv_output_failure(err, "if it happens again, tell the owner of the model or of the hub");
    if (err->status != RUVLLM_CANCELLED)
        return rv_output_failure(err, NULL);
    if (transfer->done)
        fprintf(stderr, "stopped; %s are kept. To go on: ruvllm pull %s\n", rv_output_bytes(transfer->done, bytes),
                model);
    else
        fprintf(stderr, "stopped. To begin again: ruvllm pull %s\n", model);
    return RV_EXIT_INTERRUPTED;
}

static int run(int argc, char **argv)
{
    struct pull_options options = {0};
    struct ruvllm_hub_params params;
    struct ruvllm_error err = {0};
    struct rv_transfer transfer;
    struct rv_arguments args;
    const char *model;
    char *path = NULL;
    ruvllm_status rc;
    int code;

    rv_transfer_options_init(&options.transfer);
    if (!rv_options_parse(&rv_cmd_pull, &options, argc, argv, &args, &code))
        return code;
    model = rv_options_shift(&args);
    if (!model) {
        rv_output_error("ruvllm pull owner/name:Q4_K_M", "no model given");
        return RV_EXIT_USAGE;
    }
    code = rv_options_finish(&rv_cmd_pull, &args);
    if (code)
        return code;
    params = rv_transfer_begin(&transfer, &options.transfer, "fetching");
    params.offline = options.offline;
    params.max_bytes = options.max_bytes;
    rc = ruvllm_hub_pull(model, &params, &path, &err);
    rv_transfer_end(&transfer);
    code = rc ? fail(model, &transfer, &err) : report(&options, model, path);
    ruvllm_free(path);
    return code;
}

const struct rv_command rv_cmd_pull = {
    .name = "pull",
    .arguments = "OWNER/NAME[:QUANTISATION or FILE]",
    .summary = "fetch a model from a hub",
    .about =
        "Fetches a GGUF model and prints where it is. Without a quantisation it takes Q4_K_M, else Q4_K_S, Q5_K_M, "
        "Q8_0, else the first file there is. A transfer that breaks is taken up again where it stopped, now or the "
        "next time; size and SHA-256 are checked before the file gets its name. The hub is HF_ENDPOINT, or "
        "https://huggingface.co; HF_TOKEN is sent to it and to no other host.",
    .examples = "ruvllm pull TheBloke/TinyLlama-1.1B-GGUF:Q4_K_M\n"
                "    one quantisation of a model\n"
                "ruvllm run \"$(ruvllm pull -q owner/name)\" \"Once upon a time\"\n"
                "    fetch if needed, then run\n"
                "HF_ENDPOINT=https://mirror.example ruvllm pull owner/name --max-size 8G\n"
                "    from a mirror, and nothing larger than 8 GiB\n"
                "ruvllm pull owner/name:model-q8_0.gguf --revision v1.0\n"
                "    a file by its name, as it was at a tag\n",
    .groups = groups,
    .n_groups = RV_OPTION_COUNT(groups),
    .run = run,
};
