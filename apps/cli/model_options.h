/*
 * The options every command with a model shares, and opening the model they describe.
 *
 * MODEL is the first argument or `-m`: a path, or the name of a model that was fetched (owner/name:Q4_K_M). A path that
 * exists wins.
 */
#ifndef RV_CLI_MODEL_OPTIONS_H
#define RV_CLI_MODEL_OPTIONS_H

#include "options.h"

#include <limits.h>

struct rv_model_options {
    const char *path;     // as given; once settled, a path
    char found[PATH_MAX]; // where `path` points after a name was found
    struct ruvllm_model_params params;
    int32_t rope_scaling; // index into the option's choices
    const char *adapter;  // NULL: none
    float adapter_weight;
};

/* All of them as groups for a command whose options begin with `struct rv_model_options` at `offset`. */
extern const struct rv_option rv_model_options_file[];    // -m, --template-sha256
extern const struct rv_option rv_model_options_compute[]; // --ctx, --batch, --device, --backend, ...
extern const struct rv_option rv_model_options_threads[]; // --threads
extern const struct rv_option rv_model_options_rope[];
extern const struct rv_option rv_model_options_adapter[]; // --adapter, --adapter-weight: who computes for one caller

enum {
    RV_MODEL_OPTIONS_N_FILE = 2,
    RV_MODEL_OPTIONS_N_COMPUTE = 7,
    RV_MODEL_OPTIONS_N_THREADS = 1,
    RV_MODEL_OPTIONS_N_ROPE = 8,
    RV_MODEL_OPTIONS_N_ADAPTER = 2
};

#define RV_MODEL_GROUP_FILE(offset)                                                                                    \
    {                                                                                                                  \
        "Model", rv_model_options_file, RV_MODEL_OPTIONS_N_FILE, offset                                                \
    }
#define RV_MODEL_GROUP_ADAPTER(offset)                                                                                 \
    {                                                                                                                  \
        NULL, rv_model_options_adapter, RV_MODEL_OPTIONS_N_ADAPTER, offset                                             \
    }
#define RV_MODEL_GROUP_COMPUTE(offset)                                                                                 \
    {                                                                                                                  \
        "Computing", rv_model_options_compute, RV_MODEL_OPTIONS_N_COMPUTE, offset                                      \
    }
#define RV_MODEL_GROUP_THREADS(offset)                                                                                 \
    {                                                                                                                  \
        NULL, rv_model_options_threads, RV_MODEL_OPTIONS_N_THREADS, offset                                             \
    }
#define RV_MODEL_GROUP_ROPE(offset)                                                                                    \
    {                                                                                                                  \
        "Positions (RoPE)", rv_model_options_rope, RV_MODEL_OPTIONS_N_ROPE, offset                                     \
    }

void rv_model_options_init(struct rv_model_options *options);

/*
 * Settles which model is meant (-m, else the first of `args`, which it takes out) and that it can be a file.
 * Returns 0, or the exit code after saying what is wrong.
 */
RV_CHECKED int rv_model_options_settle(struct rv_model_options *options, const struct rv_command *command,
                                       struct rv_arguments *args);

/*
 * Opens the settled model, with its adapter, with a progress line on standard error. Returns 0, or the exit code (130
 * after Ctrl-C) after saying what is wrong; *out is NULL then.
 */
RV_CHECKED int rv_model_options_open(const struct rv_model_options *options, ruvllm_model **out,
                                     struct ruvllm_model_info *info);

/*
 * The path `model` means: itself where it exists, else that of a fetched model of this name, copied to `found`. NULL
 * with the exit code in *code after saying what is wrong.
 */
RV_CHECKED const char *rv_model_options_resolve(const char *model, char found[PATH_MAX], int *code);

/* The path without its folders. */
const char *rv_model_options_base_name(const char *path);

#endif
