/* ruvllm list: the models that were fetched. */
#include "commands.h"
#include "output.h"

#include "ruvllm_hub.h"

#include <string.h>
#include <time.h>

struct list_options {
    bool json;
};

static const struct rv_option own_options[] = {
    {.name = "json",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct list_options, json),
     .help = "Print a JSON object"},
};

static const struct rv_option_group groups[] = {{"Output", own_options, RV_OPTION_COUNT(own_options), 0}};

static void when(int64_t seconds, bool is_utc, char out[32])
{
    time_t t = (time_t)seconds;
    struct tm tm;

    if (!(is_utc ? gmtime_r(&t, &tm) : localtime_r(&t, &tm)) ||
        !strftime(out, 32, is_utc ? "%Y-%m-%dT%H:%M:%SZ" : "%Y-%m-%d %H:%M", &tm))
        out[0] = '\0';
}

/* What `run` and `rm` take: with the quantisation where that is enough to name the file. */
static void name_of(const struct ruvllm_models_entry *entry, char out[256])
{
    snprintf(out, 256, "%s:%s", entry->repository, entry->file);
}

static void add_json(yyjson_mut_doc *doc, yyjson_mut_val *list, const struct ruvllm_models_entry *entry)
{
    yyjson_mut_val *o = yyjson_mut_arr_add_obj(doc, list);
    char name[256], time_text[32];

    name_of(entry, name);
    when(entry->time, true, time_text);
    yyjson_mut_obj_add_strcpy(doc, o, "name", name);
    yyjson_mut_obj_add_strcpy(doc, o, "repository", entry->repository);
    yyjson_mut_obj_add_strcpy(doc, o, "file", entry->file);
    yyjson_mut_obj_add_strcpy(doc, o, "quantization", entry->quantization);
    yyjson_mut_obj_add_uint(doc, o, "n_bytes", entry->n_bytes);
    yyjson_mut_obj_add_strcpy(doc, o, "time", time_text);
    yyjson_mut_obj_add_strcpy(doc, o, "sha256", entry->sha256);
    yyjson_mut_obj_add_strcpy(doc, o, "source", entry->source);
    yyjson_mut_obj_add_strcpy(doc, o, "revision", entry->revision);
    yyjson_mut_obj_add_bool(doc, o, "partial", entry->is_partial);
    rv_output_json_add(doc, o, "path", rv_output_json_text(doc, entry->path, strlen(entry->path)));
}

static int print_json(const ruvllm_models *models, const char *folder)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc), *list;
    struct ruvllm_models_entry entry = {.struct_size = sizeof(entry)};
    struct ruvllm_error err = {0};

    yyjson_mut_doc_set_root(doc, root);
    rv_output_json_add(doc, root, "folder", rv_output_json_text(doc, folder, strlen(folder)));
    list = yyjson_mut_obj_add_arr(doc, root, "models");
    for (size_t i = 0; i < ruvllm_models_count(models); i++) {
        if (ruvllm_models_at(models, i, &entry, &err)) {
            yyjson_mut_doc_free(doc);
            return rv_output_failure(&err, NULL);
        }
        add_json(doc, list, &entry);
    }
    return rv_output_json(doc, false);
}

static int print_human(const ruvllm_models *models, const char *folder)
{
    struct ruvllm_models_entry entry = {.struct_size = sizeof(entry)};
    struct ruvllm_error err = {0};
    char name[256], bytes[24], time_text[32];
    size_t n = ruvllm_models_count(models), width = 4;

    if (n == 0) {
        fprintf(stderr, "no models in %s; to fetch one: ruvllm pull owner/name\n", folder);
        return RV_EXIT_OK;
    }
    for (size_t i = 0; i < n; i++) {
        if (ruvllm_models_at(models, i, &entry, &err))
            return rv_output_failure(&err, NULL);
        name_of(&entry, name);
        width = strlen(name) > width ? strlen(name) : width;
    }
    printf("%s%-*s  %-12s  %10s  %s%s\n", rv_output_style(stdout, RV_STYLE_BOLD), (int)width, "NAME", "QUANTISATION",
           "SIZE", "WHEN", rv_output_style(stdout, RV_STYLE_RESET));
    for (size_t i = 0; i < n; i++) {
        if (ruvllm_models_at(models, i, &entry, &err))
            return rv_output_failure(&err, NULL);
        name_of(&entry, name);
        when(entry.time, false, time_text);
        printf("%-*s  %-12s  %10s  %s%s\n", (int)width, name, *entry.quantization ? entry.quantization : "-",
               rv_output_bytes(entry.n_bytes, bytes), time_text, entry.is_partial ? "  (in part)" : "");
    }
    return RV_EXIT_OK;
}

static int run(int argc, char **argv)
{
    struct list_options options = {0};
    struct ruvllm_error err = {0};
    struct rv_arguments args;
    ruvllm_models *models = NULL;
    char *folder = NULL;
    int code;

    if (!rv_options_parse(&rv_cmd_list, &options, argc, argv, &args, &code))
        return code;
    code = rv_options_finish(&rv_cmd_list, &args);
    if (code)
        return code;
    if (ruvllm_models_dir(&folder, &err) || ruvllm_models_list(folder, &models, &err))
        code = rv_output_failure(&err, NULL);
    else
        code = options.json ? print_json(models, folder) : print_human(models, folder);
    ruvllm_models_free(models);
    ruvllm_free(folder);
    return code;
}

const struct rv_command rv_cmd_list = {
    .name = "list",
    .arguments = "",
    .summary = "show the models that were fetched",
    .about =
        "Lists what 'ruvllm pull' fetched: the name to use it by, quantisation, size and when it came. Transfers that "
        "were interrupted are marked; pulling them again goes on. The folder is RUVLLM_MODELS, or ruvllm/models in "
        "XDG_DATA_HOME (~/.local/share).",
    .examples = "ruvllm list\n"
                "    what is here\n"
                "ruvllm list --json | jq -r '.models[].path'\n"
                "    where the files are\n",
    .groups = groups,
    .n_groups = RV_OPTION_COUNT(groups),
    .run = run,
};
