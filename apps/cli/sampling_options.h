/* The options of every command that generates text, as ruvllm_generate_params. */
#ifndef RV_CLI_SAMPLING_OPTIONS_H
#define RV_CLI_SAMPLING_OPTIONS_H

#include "options.h"

enum { RV_SAMPLING_STOP_MAX = 16, RV_SAMPLING_BIAS_MAX = 300, RV_SAMPLING_OPTIONS_N = 18 };

struct rv_sampling_stops {
    const char *items[RV_SAMPLING_STOP_MAX];
    size_t n;
};

struct rv_sampling_biases {
    struct ruvllm_logit_bias items[RV_SAMPLING_BIAS_MAX];
    size_t n;
};

struct rv_sampling_seed {
    uint64_t value;
    bool is_set;
};

/* The answer's shape: at most one. */
struct rv_sampling_shape {
    const char *schema_file;
    const char *grammar_file;
    const char *regex;
    char *text; // of the file, once it is read
};

struct rv_sampling_options {
    struct ruvllm_generate_params params;
    struct rv_sampling_stops stops;
    struct rv_sampling_biases biases;
    struct rv_sampling_seed seed;
    struct rv_sampling_shape shape;
};

extern const struct rv_option rv_sampling_options_table[];
#define RV_SAMPLING_GROUP(offset)                                                                                      \
    {                                                                                                                  \
        "Answer", rv_sampling_options_table, RV_SAMPLING_OPTIONS_N, offset                                             \
    }

void rv_sampling_options_init(struct rv_sampling_options *options);
/* Reads the file that a shape is in. Returns an exit code, after a message unless it is 0. */
RV_CHECKED int rv_sampling_options_settle(struct rv_sampling_options *options);
/* Whether the model can keep to the shape, if there is one; likewise. */
RV_CHECKED int rv_sampling_options_check(const struct rv_sampling_options *options, const ruvllm_model *model);
void rv_sampling_options_release(struct rv_sampling_options *options);
/* The parameters with the lists attached; borrows from `options`. */
struct ruvllm_generate_params rv_sampling_options_params(const struct rv_sampling_options *options);

#endif
