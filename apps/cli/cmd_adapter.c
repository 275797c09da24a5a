/* ruvllm adapter: low-rank changes of a model as files: convert, merge, look at. */
#include "commands.h"
#include "model_options.h"
#include "output.h"
#include "suggest.h"

#include "base/alloc.h"
#include "ruvllm_adapter.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct adapter_options {
    const char *out;
    int32_t format;
    int32_t method;
    float density;
    int32_t rank;
    int32_t seed;
    bool force;
    bool json;
};

/* In the order of the library's enumerations. */
static const char *const formats[] = {"gguf", "peft", "own", NULL};
static const char *const methods[] = {"sum", "average", "slerp", "ties", "dare", NULL};
static const char *const actions[] = {"import", "export", "merge", "info", "list"};

static const struct rv_option own_options[] = {
    {.name = "output",
     .short_name = 'o',
     .value = "PATH",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct adapter_options, out),
     .help = "import, export, merge: where to write"},
    {.name = "format",
     .value = "FORMAT",
     .type = RV_OPTION_CHOICE,
     .choices = formats,
     .offset = offsetof(struct adapter_options, format),
     .help = "export: gguf (a file for llama.cpp), peft (a folder) or own (default gguf)"},
    {.name = "force",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct adapter_options, force),
     .help = "Replace the file at --output if it exists"},
};

static const struct rv_option merge_options[] = {
    {.name = "method",
     .value = "METHOD",
     .type = RV_OPTION_CHOICE,
     .choices = methods,
     .offset = offsetof(struct adapter_options, method),
     .help = "merge: sum, average, slerp (two), ties or dare (default average)"},
    {.name = "density",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .min = 0.001,
     .max = 1,
     .offset = offsetof(struct adapter_options, density),
     .help = "merge with ties or dare: the share of each change that is kept (default 0.2)"},
    {.name = "rank",
     .value = "N",
     .type = RV_OPTION_INT,
     .max = 256,
     .offset = offsetof(struct adapter_options, rank),
     .help = "merge: rank of the result; 0 is as much as it takes to be exact, where that can be (default 0)"},
    {.name = "seed",
     .value = "N",
     .type = RV_OPTION_INT,
     .max = INT32_MAX,
     .offset = offsetof(struct adapter_options, seed),
     .help = "merge with dare: the same seed drops the same (default 0)"},
};

static const struct rv_option output_options[] = {
    {.name = "json",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct adapter_options, json),
     .help = "Print a JSON object"},
};

static const struct rv_option_group groups[] = {
    {"Adapter", own_options, RV_OPTION_COUNT(own_options), 0},
    {"Merging", merge_options, RV_OPTION_COUNT(merge_options), 0},
    {"Output", output_options, RV_OPTION_COUNT(output_options), 0},
};

static int usage_error(const char *message)
{
    rv_output_error("see 'ruvllm adapter --help'", "%s", message);
    return RV_EXIT_USAGE;
}

/* ---- showing ------------------------------------------------------------------------------- */

static void add_json(yyjson_mut_doc *doc, yyjson_mut_val *o, const char *path, const struct ruvllm_adapter_info *info)
{
    rv_output_json_add(doc, o, "path", rv_output_json_text(doc, path, strlen(path)));
    yyjson_mut_obj_add_strcpy(doc, o, "hash", info->hash);
    yyjson_mut_obj_add_int(doc, o, "rank", info->max_rank);
    yyjson_mut_obj_add_int(doc, o, "pairs", info->n_pairs);
    yyjson_mut_obj_add_bool(doc, o, "changes_head", info->changes_head);
    yyjson_mut_obj_add_bool(doc, o, "changes_layers", info->changes_layers);
    yyjson_mut_obj_add_uint(doc, o, "n_bytes", info->n_bytes);
    yyjson_mut_obj_add_uint(doc, o, "file_bytes", info->file_bytes);
    rv_output_json_add(doc, o, "norm", rv_output_json_real(doc, info->norm, 6));
}

static const char *what_changes(const struct ruvllm_adapter_info *info)
{
    return info->changes_layers && info->changes_head ? "layers and head" : info->changes_head ? "head" : "layers";
}

static int describe(const char *model, const char *path, struct ruvllm_adapter_info *info)
{
    struct ruvllm_error err = {0};

    *info = (struct ruvllm_adapter_info){.struct_size = sizeof(*info)};
    return ruvllm_adapter_describe(model, path, info, &err) ? rv_output_failure(&err, NULL) : RV_EXIT_OK;
}

static int print_info(const struct adapter_options *options, const char *path, const struct ruvllm_adapter_info *info)
{
    yyjson_mut_doc *doc;
    yyjson_mut_val *root;
    char bytes[24];

    if (options->json) {
        doc = yyjson_mut_doc_new(NULL);
        root = yyjson_mut_obj(doc);
        yyjson_mut_doc_set_root(doc, root);
        add_json(doc, root, path, info);
        return rv_output_json(doc, false);
    }
    printf("%s\n", path);
    printf("  changes   %s, %d matrices of layers\n", what_changes(info), info->n_pairs);
    printf("  rank      %d\n", info->max_rank);
    printf("  norm      %.6g\n", info->norm);
    printf("  memory    %s\n", rv_output_bytes(info->n_bytes, bytes));
    printf("  file      %s\n", rv_output_bytes(info->file_bytes, bytes));
    printf("  content   %s\n", info->hash);
    return RV_EXIT_OK;
}

static int show(const struct adapter_options *options, const char *model, const char *path)
{
    struct ruvllm_adapter_info info;
    int code = describe(model, path, &info);

    return code ? code : print_info(options, path, &info);
}

/* ---- a folder of them ------------------------------------------------------------------------ */

static bool is_adapter(const char *path, const char *file)
{
    char config[PATH_MAX];
    size_t len = strlen(file);
    struct stat st;

    if (file[0] == '.' || stat(path, &st) != 0)
        return false;
    if (!S_ISDIR(st.st_mode))
        return len > 5 && strcmp(file + len - 5, ".gguf") == 0;
    return snprintf(config, sizeof(config), "%s/adapter_config.json", path) < PATH_MAX && stat(config, &st) == 0;
}

/* One row, or why it is none; the others are still shown. */
static void list_one(const struct adapter_options *options, const char *model, const char *path, const char *file,
                     yyjson_mut_doc *doc, yyjson_mut_val *rows)
{
    struct ruvllm_adapter_info info = {.struct_size = sizeof(info)};
    struct ruvllm_error err = {0};
    ruvllm_status rc = ruvllm_adapter_describe(model, path, &info, &err);
    yyjson_mut_val *o = options->json ? yyjson_mut_arr_add_obj(doc, rows) : NULL;
    char bytes[24];

    if (options->json && rc) {
        rv_output_json_add(doc, o, "path", rv_output_json_text(doc, path, strlen(path)));
        rv_output_json_add(doc, o, "error", rv_output_json_text(doc, err.message, strlen(err.message)));
    } else if (options->json) {
        add_json(doc, o, path, &info);
    } else if (rc) {
        printf("%-32s %s\n", file, err.message);
    } else {
        printf("%-32s rank %-3d %-15s %10s  norm %.4g\n", file, info.max_rank, what_changes(&info),
               rv_output_bytes(info.file_bytes, bytes), info.norm);
    }
}

static int list(const struct adapter_options *options, const char *model, const char *folder)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc), *rows = yyjson_mut_obj_add_arr(doc, root, "adapters");
    struct ruvllm_error err = {0};
    struct dirent **entries = NULL;
    char path[PATH_MAX];
    int n = scandir(folder, &entries, NULL, alphasort), n_found = 0;

    yyjson_mut_doc_set_root(doc, root);
    if (n < 0)
        rv_fail_errno(&err, errno, "cannot read the folder '%.160s'", folder);
    for (int i = 0; i < n; i++) {
        const char *file = entries[i]->d_name;

        if (snprintf(path, sizeof(path), "%s/%s", folder, file) < PATH_MAX && is_adapter(path, file)) {
            list_one(options, model, path, file, doc, rows);
            n_found++;
        }
        free(entries[i]);
    }
    free(entries);
    if (n >= 0 && options->json)
        return rv_output_json(doc, false);
    yyjson_mut_doc_free(doc);
    if (n < 0)
        return rv_output_failure(&err, NULL);
    if (n_found == 0)
        puts("no adapters; they are .gguf files, and folders with an adapter_config.json");
    return RV_EXIT_OK;
}

/* ---- writing ----------------------------------------------------------------------------------- */

static int check_output(const struct adapter_options *options)
{
    struct stat st;

    if (!options->out)
        return usage_error("say where to write: -o PATH");
    if (stat(options->out, &st) == 0 && (!options->force || S_ISDIR(st.st_mode))) {
        rv_output_error(S_ISDIR(st.st_mode) ? "remove it, or choose another name" : "--force replaces it",
                        "'%s' exists", options->out);
        return RV_EXIT_FAILURE;
    }
    return RV_EXIT_OK;
}

/* Where to write first: the library replaces nothing, so what --force replaces is renamed over in the end. */
static int begin_output(const struct adapter_options *options, char out[PATH_MAX])
{
    int code = check_output(options);

    if (!code && snprintf(out, PATH_MAX, "%s%s", options->out, options->force ? ".partial" : "") >= PATH_MAX) {
        rv_output_error(NULL, "the path '%.80s...' is too long", options->out);
        code = RV_EXIT_FAILURE;
    }
    return code;
}

static ruvllm_status end_output(const struct adapter_options *options, const char *out, struct ruvllm_error *err)
{
    if (!options->force || rename(out, options->out) == 0)
        return RUVLLM_OK;
    return rv_fail_errno(err, errno, "cannot write '%.160s'", options->out);
}

static int convert(const struct adapter_options *options, const char *model, const char *path,
                   ruvllm_adapter_format format)
{
    struct ruvllm_error err = {0};
    char out[PATH_MAX];
    int code = begin_output(options, out);

    if (code)
        return code;
    if (ruvllm_adapter_convert(model, path, out, format, &err) || end_output(options, out, &err))
        return rv_output_failure(&err, NULL);
    return show(options, model, options->out);
}

static int report_merge(const struct adapter_options *options, const char *model, double error)
{
    struct ruvllm_adapter_info info;
    yyjson_mut_doc *doc;
    yyjson_mut_val *root;
    int code = describe(model, options->out, &info);

    if (code)
        return code;
    if (!options->json) {
        code = print_info(options, options->out, &info);
        printf("  error     %.3g of what the methods gave is lost by the rank\n", error);
        return code;
    }
    doc = yyjson_mut_doc_new(NULL);
    root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    add_json(doc, root, options->out, &info);
    rv_output_json_add(doc, root, "error", rv_output_json_real(doc, error, 9));
    return rv_output_json(doc, false);
}

/* "PATH=0.5": the weight is what follows the last '=', if that is a number; the text is cut there. */
static bool take_weight(char *text, float *weight)
{
    char *equals = strrchr(text, '=');
    double number;

    *weight = 1;
    if (!equals || !rv_options_double(equals + 1, -100, 100, &number))
        return false;
    *equals = '\0';
    *weight = (float)number;
    return true;
}

/* What is merged: arguments with their weights taken off. */
struct inputs {
    char *paths[RV_ARGUMENTS_MAX];
    float weights[RV_ARGUMENTS_MAX];
    size_t n;
    bool has_weights;
};

static int read_inputs(struct rv_arguments *args, struct inputs *inputs)
{
    const char *text;

    while ((text = rv_options_shift(args))) {
        inputs->paths[inputs->n] = rv_strdup(text);
        if (!inputs->paths[inputs->n])
            return RV_EXIT_FAILURE;
        inputs->has_weights |= take_weight(inputs->paths[inputs->n], &inputs->weights[inputs->n]);
        inputs->n++;
    }
    return inputs->n >= 2 ? RV_EXIT_OK : usage_error("name at least two adapters to merge: PATH or PATH=WEIGHT");
}

static int merge(const struct adapter_options *options, const char *model, struct rv_arguments *args)
{
    struct ruvllm_merge_params params = ruvllm_merge_params_default();
    struct inputs inputs = {.n = 0};
    struct ruvllm_error err = {0};
    char out[PATH_MAX];
    double error = 0;
    int code = begin_output(options, out);

    if (!code)
        code = read_inputs(args, &inputs);
    params.method = (ruvllm_merge_method)options->method;
    params.weights = inputs.has_weights ? inputs.weights : NULL;
    params.density = options->density;
    params.rank = options->rank;
    params.seed = (uint64_t)options->seed;
    if (!code &&
        (ruvllm_adapter_merge(model, (const char *const *)inputs.paths, inputs.n, &params, out, &error, &err) ||
         end_output(options, out, &err)))
        code = rv_output_failure(&err, NULL);
    else if (!code)
        code = report_merge(options, model, error);
    for (size_t i = 0; i < inputs.n; i++)
        rv_free(inputs.paths[i]);
    return code;
}

/* ---- which of them ------------------------------------------------------------------------------ */

static int unknown_action(const char *action)
{
    struct rv_suggestion nearest;

    rv_suggestion_init(&nearest, action, strlen(action));
    for (size_t i = 0; i < RV_OPTION_COUNT(actions); i++)
        rv_suggestion_offer(&nearest, actions[i]);
    rv_output_error("see 'ruvllm adapter --help'", "unknown action '%.64s'; %s%s%s", action,
                    nearest.best[0] ? "did you mean '" : "it is one of import, export, merge, info, list", nearest.best,
                    nearest.best[0] ? "'?" : "");
    return RV_EXIT_USAGE;
}

static int act(const struct adapter_options *options, const char *action, const char *model, struct rv_arguments *args)
{
    const char *path;
    int code;

    if (strcmp(action, "merge") == 0)
        return merge(options, model, args);
    path = rv_options_shift(args);
    if (!path)
        return usage_error(strcmp(action, "list") == 0 ? "no folder given" : "no adapter given");
    code = rv_options_finish(&rv_cmd_adapter, args);
    if (code)
        return code;
    if (strcmp(action, "import") == 0)
        return convert(options, model, path, RUVLLM_ADAPTER_OWN);
    if (strcmp(action, "export") == 0)
        return convert(options, model, path, (ruvllm_adapter_format)options->format);
    return strcmp(action, "list") == 0 ? list(options, model, path) : show(options, model, path);
}

static int run(int argc, char **argv)
{
    struct adapter_options options = {.method = RUVLLM_MERGE_AVERAGE, .density = 0.2f};
    struct rv_arguments args;
    const char *action, *model;
    char found[PATH_MAX];
    bool is_known = false;
    int code;

    if (!rv_options_parse(&rv_cmd_adapter, &options, argc, argv, &args, &code))
        return code;
    action = rv_options_shift(&args);
    if (!action)
        return usage_error("say what to do: import, export, merge, info or list");
    for (size_t i = 0; i < RV_OPTION_COUNT(actions); i++)
        is_known |= strcmp(action, actions[i]) == 0;
    if (!is_known)
        return unknown_action(action);
    model = rv_options_shift(&args);
    if (!model)
        return usage_error("no model given: an adapter is checked against the model that it changes");
    model = rv_model_options_resolve(model, found, &code);
    return model ? act(&options, action, model, &args) : code;
}

const struct rv_command rv_cmd_adapter = {
    .name = "adapter",
    .arguments = "import|export|merge|info|list MODEL PATH...",
    .summary = "convert, merge and look at adapters (LoRA)",
    .about =
        "Adapters are low-rank changes of a model. PATH is a GGUF LoRA file, a PEFT folder or a file of ours; each is "
        "checked against MODEL, whose matrices it changes. 'import' writes a file of ours, which keeps everything "
        "and is what servers load fastest; 'export' writes for others; 'merge' makes one adapter of several, given as "
        "PATH or PATH=WEIGHT, by adding the changes themselves and not their factors; 'info' describes one; 'list' "
        "shows those of a folder.",
    .examples = "ruvllm adapter import model.gguf ./my-peft-folder -o my.gguf\n"
                "    a file to put into the folder of adapters of 'ruvllm serve'; then ask for \"model:my\"\n"
                "ruvllm adapter export model.gguf my.gguf --format peft -o ./for-peft\n"
                "    the same numbers as a PEFT folder\n"
                "ruvllm adapter merge model.gguf a.gguf=0.7 b.gguf=0.3 -o ab.gguf --rank 16\n"
                "    a weighted average at rank 16, and how much the rank loses\n"
                "ruvllm adapter info model.gguf my.gguf\n"
                "ruvllm adapter list model.gguf ./adapters\n",
    .groups = groups,
    .n_groups = RV_OPTION_COUNT(groups),
    .run = run,
};
