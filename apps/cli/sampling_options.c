/* Sampling options. The library checks the values again; the bounds here give the better sentence. */
#include "sampling_options.h"

#include "output.h"
#include "text_input.h"

#include "base/alloc.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SHAPE(field) offsetof(struct rv_sampling_options, shape.field)
#define PARAM(field) offsetof(struct rv_sampling_options, params.field)

static ruvllm_status parse_stop(void *target, const char *text, struct ruvllm_error *err)
{
    struct rv_sampling_stops *stops = target;

    if (!*text)
        return rv_fail(err, RUVLLM_INVALID, "a text that is not empty");
    if (stops->n == RV_SAMPLING_STOP_MAX)
        return rv_fail(err, RUVLLM_TOO_LARGE, "to be given at most %d times", RV_SAMPLING_STOP_MAX);
    stops->items[stops->n++] = text;
    return RUVLLM_OK;
}

static ruvllm_status parse_bias(void *target, const char *text, struct ruvllm_error *err)
{
    struct rv_sampling_biases *biases = target;
    const char *equals = strchr(text, '=');
    char id_text[16];
    int64_t id;
    double bias;

    if (biases->n == RV_SAMPLING_BIAS_MAX)
        return rv_fail(err, RUVLLM_TOO_LARGE, "to be given at most %d times", RV_SAMPLING_BIAS_MAX);
    if (equals && (size_t)(equals - text) < sizeof(id_text)) {
        memcpy(id_text, text, (size_t)(equals - text));
        id_text[equals - text] = '\0';
        if (rv_options_int(id_text, 0, INT32_MAX, &id) &&
            rv_options_double(equals + 1, (double)-INFINITY, 1e6, &bias)) {
            biases->items[biases->n++] = (struct ruvllm_logit_bias){.token = (int32_t)id, .bias = (float)bias};
            return RUVLLM_OK;
        }
    }
    return rv_fail(err, RUVLLM_INVALID, "a token id and a number, such as 42=-1.5 or 42=-inf");
}

static ruvllm_status parse_seed(void *target, const char *text, struct ruvllm_error *err)
{
    struct rv_sampling_seed *seed = target;
    unsigned long long value;
    char *end;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno)
        return rv_fail(err, RUVLLM_INVALID, "a whole number from 0 to 18446744073709551615");
    seed->value = value;
    seed->is_set = true;
    return RUVLLM_OK;
}

const struct rv_option rv_sampling_options_table[RV_SAMPLING_OPTIONS_N] = {
    {.name = "max-tokens",
     .short_name = 'n',
     .value = "N",
     .type = RV_OPTION_INT,
     .max = INT32_MAX,
     .offset = PARAM(max_tokens),
     .help = "Longest answer, in tokens (default 256; in chat, what fits the context)"},
    {.name = "temp",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .max = 100,
     .offset = PARAM(temperature),
     .help = "Temperature: 0 always takes the likeliest token, more is more varied (default 0.7)"},
    {.name = "top-p",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .max = 1,
     .offset = PARAM(top_p),
     .help = "Choose among the likeliest tokens that together have this probability; 1 is off (default 0.9)"},
    {.name = "top-k",
     .value = "N",
     .type = RV_OPTION_INT,
     .max = INT32_MAX,
     .offset = PARAM(top_k),
     .help = "Choose among the N likeliest tokens; 0 is off (default 0)"},
    {.name = "min-p",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .max = 1,
     .offset = PARAM(min_p),
     .help = "Drop tokens less likely than this share of the likeliest; 0 is off (default 0)"},
    {.name = "typical",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .max = 1,
     .offset = PARAM(typical_p),
     .help = "Locally typical sampling; 1 is off (default 1)"},
    {.name = "repeat-penalty",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .max = 100,
     .offset = PARAM(repetition_penalty),
     .help = "Make tokens already seen less likely; 1 is off (default 1.1)"},
    {.name = "frequency-penalty",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .min = -2,
     .max = 2,
     .offset = PARAM(frequency_penalty),
     .help = "Less likely with every occurrence, -2 to 2 (default 0)"},
    {.name = "presence-penalty",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .min = -2,
     .max = 2,
     .offset = PARAM(presence_penalty),
     .help = "Less likely once it occurred, -2 to 2 (default 0)"},
    {.name = "penalty-window",
     .value = "N",
     .type = RV_OPTION_INT,
     .min = -1,
     .max = INT32_MAX,
     .offset = PARAM(penalty_window),
     .help = "How many last tokens the penalties see; -1 is all (default 64)"},
    {.name = "logit-bias",
     .value = "ID=X",
     .type = RV_OPTION_PARSED,
     .parse = parse_bias,
     .offset = offsetof(struct rv_sampling_options, biases),
     .help = "Add X to the logit of token ID; -inf bans it (may be repeated; 'ruvllm tokenize' shows ids)"},
    {.name = "stop",
     .value = "TEXT",
     .type = RV_OPTION_PARSED,
     .parse = parse_stop,
     .offset = offsetof(struct rv_sampling_options, stops),
     .help = "End the answer before this text (may be repeated)"},
    {.name = "seed",
     .short_name = 's',
     .value = "N",
     .type = RV_OPTION_PARSED,
     .parse = parse_seed,
     .offset = offsetof(struct rv_sampling_options, seed),
     .help = "Repeat an answer: the same seed, prompt and options give the same text (default: drawn each time)"},
    {.name = "json-schema",
     .value = "FILE",
     .type = RV_OPTION_STRING,
     .offset = SHAPE(schema_file),
     .help = "The answer is JSON that satisfies the JSON Schema in this file"},
    {.name = "grammar",
     .value = "FILE",
     .type = RV_OPTION_STRING,
     .offset = SHAPE(grammar_file),
     .help = "The answer follows the grammar (GBNF) in this file"},
    {.name = "regex",
     .value = "RE",
     .type = RV_OPTION_STRING,
     .offset = SHAPE(regex),
     .help = "The whole answer matches this regular expression"},
    {.name = "logprobs",
     .value = "N",
     .type = RV_OPTION_INT,
     .min = -1,
     .max = 20,
     .offset = PARAM(n_logprobs),
     .help = "With --json: log-probability of each token and of N alternatives, up to 20 (default -1: none)"},
    {.name = "ignore-eos",
     .type = RV_OPTION_FLAG,
     .offset = PARAM(ignore_eos),
     .help = "Go on when the model says it is done"},
};

void rv_sampling_options_init(struct rv_sampling_options *options)
{
    *options = (struct rv_sampling_options){.params = ruvllm_generate_params_default()};
}

static int complain_of_two(const struct rv_sampling_shape *shape)
{
    rv_output_error("give one of them; a schema can hold a pattern, and a grammar any of them",
                    "%s and %s both say what the answer looks like", shape->schema_file ? "--json-schema" : "--grammar",
                    shape->regex ? "--regex" : "--grammar");
    return RV_EXIT_USAGE;
}

int rv_sampling_options_settle(struct rv_sampling_options *options)
{
    struct rv_sampling_shape *shape = &options->shape;
    const char *file = shape->schema_file ? shape->schema_file : shape->grammar_file;
    struct ruvllm_error err = {0};
    size_t len;

    if ((shape->schema_file != NULL) + (shape->grammar_file != NULL) + (shape->regex != NULL) > 1)
        return complain_of_two(shape);
    if (!file)
        return RV_EXIT_OK;
    if (strcmp(file, "-") == 0) {
        rv_output_error("write it into a file and give its name", "standard input is for the prompt");
        return RV_EXIT_USAGE;
    }
    if (rv_text_input_file(file, &shape->text, &len, &err))
        return rv_output_failure(&err, shape->schema_file ? "--json-schema takes a file; write the schema into one"
                                                          : "--grammar takes a file; write the rules into one");
    if (strlen(shape->text) == len)
        return RV_EXIT_OK;
    rv_output_error("a schema and a grammar are plain text", "'%s' contains a NUL byte", file);
    return RV_EXIT_FAILURE;
}

int rv_sampling_options_check(const struct rv_sampling_options *options, const ruvllm_model *model)
{
    struct ruvllm_generate_params params = rv_sampling_options_params(options);
    struct ruvllm_error err = {0};

    if (ruvllm_shape_check(model, &params, &err))
        return rv_output_failure(&err, params.regex         ? "rewrite the expression without it"
                                       : params.json_schema ? "change that part of the schema; annotations may stay"
                                                            : "correct the rules; 'root' is where an answer begins");
    return RV_EXIT_OK;
}

void rv_sampling_options_release(struct rv_sampling_options *options)
{
    rv_free(options->shape.text);
    options->shape.text = NULL;
}

struct ruvllm_generate_params rv_sampling_options_params(const struct rv_sampling_options *options)
{
    struct ruvllm_generate_params params = options->params;

    params.stop = options->stops.items;
    params.n_stop = options->stops.n;
    params.logit_bias = options->biases.items;
    params.n_logit_bias = options->biases.n;
    params.has_seed = options->seed.is_set;
    params.seed = options->seed.value;
    params.regex = options->shape.regex;
    if (options->shape.schema_file)
        params.json_schema = options->shape.text;
    else if (options->shape.grammar_file)
        params.grammar = options->shape.text;
    return params;
}
