/* Model options and opening a model. */
#include "model_options.h"

#include "interrupt.h"
#include "output.h"
#include "progress.h"

#include "ruvllm_adapter.h"
#include "ruvllm_hub.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PARAM(field) offsetof(struct rv_model_options, params.field)

/* In the order of ruvllm_rope_scaling, whose first value, "from the model", is what no option means. */
static const char *const rope_scalings[] = {"model", "none", "linear", "ntk", "yarn", NULL};

const struct rv_option rv_model_options_file[RV_MODEL_OPTIONS_N_FILE] = {
    {.name = "model",
     .short_name = 'm',
     .value = "FILE",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct rv_model_options, path),
     .help = "The GGUF file or the name of a fetched model, instead of the first argument"},
    {.name = "template-sha256",
     .value = "HEX",
     .type = RV_OPTION_STRING,
     .offset = PARAM(template_sha256),
     .help = "Refuse the model unless its chat template has this hash (see 'ruvllm info')"},
};

const struct rv_option rv_model_options_compute[RV_MODEL_OPTIONS_N_COMPUTE] = {
    {.name = "ctx",
     .short_name = 'c',
     .value = "N",
     .type = RV_OPTION_INT,
     .max = INT32_MAX,
     .offset = PARAM(max_context),
     .help = "Tokens of context, prompt and answer together; 0 is all the model was trained for (default 4096, or "
             "less if the model was trained for less)"},
    {.name = "batch",
     .short_name = 'b',
     .value = "N",
     .type = RV_OPTION_INT,
     .min = 1,
     .max = 8192,
     .offset = PARAM(max_batch),
     .help = "Prompt tokens computed at once (default 512)"},
    {.name = "device",
     .value = "NAME",
     .type = RV_OPTION_STRING,
     .offset = PARAM(device),
     .help = "Where to compute: a name from 'ruvllm doctor', or auto (default RUVLLM_DEVICE, else auto)"},
    {.name = "backend",
     .value = "NAME",
     .type = RV_OPTION_STRING,
     .offset = PARAM(backend),
     .help = "What computes: native, llama (libllama), or hybrid: native for the architectures it knows, else llama "
             "(default hybrid)"},
    {.name = "attention",
     .value = "NAME",
     .type = RV_OPTION_STRING,
     .offset = PARAM(attention),
     .help =
         "Whose attention: own (on the CPU), ggml (rounds as llama.cpp does, to compare with it), or auto: own where "
         "it can be (default auto)"},
    {.name = "no-mmap",
     .type = RV_OPTION_UNFLAG,
     .offset = PARAM(use_mmap),
     .help = "Read the weights into memory instead of using the file's pages"},
    {.name = "no-repack",
     .type = RV_OPTION_UNFLAG,
     .offset = PARAM(repack),
     .help = "Keep the weights laid out as in the file: loads faster, computes slower"},
};

const struct rv_option rv_model_options_threads[RV_MODEL_OPTIONS_N_THREADS] = {
    {.name = "threads",
     .short_name = 't',
     .value = "N",
     .type = RV_OPTION_INT,
     .max = 512,
     .offset = PARAM(n_threads),
     .help = "Threads to compute with; 0 is one per physical core (default 0)"},
};

const struct rv_option rv_model_options_rope[RV_MODEL_OPTIONS_N_ROPE] = {
    {.name = "rope-scaling",
     .value = "KIND",
     .type = RV_OPTION_CHOICE,
     .choices = rope_scalings,
     .offset = offsetof(struct rv_model_options, rope_scaling),
     .help = "Stretch positions beyond the trained context: none, linear, ntk or yarn (default model: what the file "
             "says)"},
    {.name = "rope-scale",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .max = 1e4,
     .offset = PARAM(rope_scale),
     .help = "How many times the trained context is to fit (default 0: the file's)"},
    {.name = "rope-freq-base",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .max = 1e12,
     .offset = PARAM(rope_freq_base),
     .help = "Base of the rotation frequencies (default 0: the file's)"},
    {.name = "rope-original-context",
     .value = "N",
     .type = RV_OPTION_INT,
     .max = INT32_MAX,
     .offset = PARAM(rope_original_context),
     .help = "YaRN: the context the model was trained with (default 0: the file's)"},
    {.name = "yarn-extrapolation",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .min = -1,
     .max = 1,
     .offset = PARAM(yarn_extrapolation),
     .help = "YaRN: share of extrapolation, 0 to 1 (default -1: what goes with the scaling)"},
    {.name = "yarn-attention",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .max = 100,
     .offset = PARAM(yarn_attention),
     .help = "YaRN: factor on the attention's magnitude (default 0: the file's, or 1)"},
    {.name = "yarn-beta-fast",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .max = 1e6,
     .offset = PARAM(yarn_beta_fast),
     .help = "YaRN: rotations above which nothing is interpolated (default 0: 32)"},
    {.name = "yarn-beta-slow",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .max = 1e6,
     .offset = PARAM(yarn_beta_slow),
     .help = "YaRN: rotations below which all is interpolated (default 0: 1)"},
};

const struct rv_option rv_model_options_adapter[RV_MODEL_OPTIONS_N_ADAPTER] = {
    {.name = "adapter",
     .value = "PATH",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct rv_model_options, adapter),
     .help = "Compute with this adapter: a GGUF LoRA file, one of ours, or a PEFT folder"},
    {.name = "adapter-weight",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .min = -100,
     .max = 100,
     .offset = offsetof(struct rv_model_options, adapter_weight),
     .help = "How much of the adapter: its changes are multiplied with it (default 1)"},
};

void rv_model_options_init(struct rv_model_options *options)
{
    const char *device = getenv("RUVLLM_DEVICE");

    *options = (struct rv_model_options){.params = ruvllm_model_params_default()};
    if (device && *device)
        options->params.device = device;
    options->rope_scaling = RUVLLM_ROPE_FROM_MODEL;
    options->adapter_weight = 1;
}

/* What can only be meant as a path, so that no name is searched for. */
static bool is_path(const char *model)
{
    size_t len = strlen(model);

    return model[0] == '/' || model[0] == '.' ||
           (!strchr(model, ':') && len > 5 && strcmp(model + len - 5, ".gguf") == 0);
}

/* Whether a folder is one as Hugging Face has it. */
static bool has_config(const char *folder)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof(path), "%s/config.json", folder) < PATH_MAX && access(path, F_OK) == 0;
}

const char *rv_model_options_resolve(const char *model, char found[PATH_MAX], int *code)
{
    static const char hint[] =
        "MODEL is the path of a .gguf file or of a Hugging Face folder, or the name of a model 'ruvllm list' shows";
    struct ruvllm_error err = {0};
    struct stat st;
    char *path = NULL;
    bool is_missing;

    if (stat(model, &st) == 0 && !S_ISDIR(st.st_mode))
        return model;
    if (stat(model, &st) == 0 && has_config(model))
        return model;
    if (stat(model, &st) == 0) {
        rv_output_error("name the .gguf file inside it", "model '%s' is a folder without config.json", model);
        *code = RV_EXIT_FAILURE;
        return NULL;
    }
    is_missing = errno == ENOENT || errno == ENOTDIR;
    rv_fail_errno(&err, errno, "cannot find model '%s'", model);
    if (is_missing && !is_path(model)) {
        if (ruvllm_models_find(NULL, model, &path, &err) == RUVLLM_OK && strlen(path) < PATH_MAX) {
            memcpy(found, path, strlen(path) + 1);
            ruvllm_free(path);
            return found;
        }
        ruvllm_free(path);
        rv_fail_in(&err, err.status, "cannot find model '%s'", model);
    }
    *code = rv_output_failure(&err, is_missing ? hint : NULL);
    return NULL;
}

int rv_model_options_settle(struct rv_model_options *options, const struct rv_command *command,
                            struct rv_arguments *args)
{
    char hint[96];
    int code = RV_EXIT_OK;

    if (!options->path)
        options->path = rv_options_shift(args);
    if (!options->path) {
        snprintf(hint, sizeof(hint), "ruvllm %s model.gguf; 'ruvllm %s --help' has examples", command->name,
                 command->name);
        rv_output_error(hint, "no model given");
        return RV_EXIT_USAGE;
    }
    options->path = rv_model_options_resolve(options->path, options->found, &code);
    return code;
}

int rv_model_options_open(const struct rv_model_options *options, ruvllm_model **out, struct ruvllm_model_info *info)
{
    struct ruvllm_model_params params = options->params;
    struct ruvllm_error err = {0};
    struct rv_progress progress;
    char label[64];
    ruvllm_status rc;

    *out = NULL;
    snprintf(label, sizeof(label), "loading %s", rv_model_options_base_name(options->path));
    rv_progress_init(&progress, label);
    params.rope_scaling = (ruvllm_rope_scaling)options->rope_scaling;
    params.on_progress = rv_progress_on_load;
    params.progress_user = &progress;
    rc = ruvllm_model_open(out, options->path, &params, &err);
    rv_progress_clear(&progress);
    if (rc)
        return rv_output_failure(&err, NULL);
    info->struct_size = sizeof(*info);
    rc = ruvllm_model_info_get(*out, info, &err);
    if (!rc && options->adapter)
        rc = ruvllm_model_set_adapter(*out, options->adapter, options->adapter_weight, &err);
    if (rc) {
        ruvllm_model_close(*out);
        *out = NULL;
        return rv_output_failure(&err, NULL);
    }
    return RV_EXIT_OK;
}

const char *rv_model_options_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}
