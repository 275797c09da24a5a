/*
 * ruvllm bench: speed of one model. Two tests for each thread count, as llama-bench has them:
 *
 *   ppN  a prompt of N tokens computed in one call, logits of the last token only
 *   tgN  N tokens generated one after another from a prompt of a single token
 *
 * One round of each before the first is thrown away (pages are read, graphs are made), then all rounds are
 * reported; the median is the figure to quote.
 */
#include "commands.h"
#include "interrupt.h"
#include "model_options.h"
#include "output.h"
#include "progress.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 16, ROUNDS_MAX = 1000, TEST_TOKENS_MAX = 1 << 20 };

struct thread_list {
    int32_t items[THREADS_MAX];
    size_t n;
};

struct bench_options {
    struct rv_model_options model;
    struct thread_list threads;
    int32_t n_prompt;
    int32_t n_generate;
    int32_t rounds;
    bool json;
};

static ruvllm_status parse_threads(void *target, const char *text, struct ruvllm_error *err)
{
    struct thread_list *list = target;

    list->n = 0;
    for (const char *word = text;;) {
        size_t len = strcspn(word, ",");
        char number[16];
        int64_t n;

        if (len >= sizeof(number) || list->n == THREADS_MAX)
            break;
        memcpy(number, word, len);
        number[len] = '\0';
        if (!rv_options_int(number, 0, 512, &n))
            break;
        list->items[list->n++] = (int32_t)n;
        if (!word[len])
            return RUVLLM_OK;
        word += len + 1;
    }
    return rv_fail(err, RUVLLM_INVALID, "up to %d numbers from 0 to 512, such as 1,2,4", THREADS_MAX);
}

static const struct rv_option own_options[] = {
    {.name = "prompt-tokens",
     .short_name = 'p',
     .value = "N",
     .type = RV_OPTION_INT,
     .max = TEST_TOKENS_MAX,
     .offset = offsetof(struct bench_options, n_prompt),
     .help = "Tokens of the prompt test; 0 skips it (default 512)"},
    {.name = "gen-tokens",
     .short_name = 'n',
     .value = "N",
     .type = RV_OPTION_INT,
     .max = TEST_TOKENS_MAX,
     .offset = offsetof(struct bench_options, n_generate),
     .help = "Tokens of the generation test; 0 skips it (default 128)"},
    {.name = "rounds",
     .short_name = 'r',
     .value = "N",
     .type = RV_OPTION_INT,
     .min = 1,
     .max = ROUNDS_MAX,
     .offset = offsetof(struct bench_options, rounds),
     .help = "How often each test is run (default 5)"},
    {.name = "threads",
     .short_name = 't',
     .value = "LIST",
     .type = RV_OPTION_PARSED,
     .parse = parse_threads,
     .offset = offsetof(struct bench_options, threads),
     .help = "Thread counts to try, separated by commas; 0 is one per physical core (default 0)"},
    {.name = "json",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct bench_options, json),
     .help = "Print one JSON object with the medians and every round"},
};

static const struct rv_option_group groups[] = {
    {"Tests", own_options, RV_OPTION_COUNT(own_options), 0},
    RV_MODEL_GROUP_FILE(offsetof(struct bench_options, model)),
    RV_MODEL_GROUP_COMPUTE(offsetof(struct bench_options, model)),
    RV_MODEL_GROUP_ROPE(offsetof(struct bench_options, model)),
};

/* One test with one thread count. */
struct result {
    char name[24];
    int32_t threads;
    int32_t n_tokens;
    size_t n_rounds;
    double *rates; // tokens a second, one a round
};

struct bench {
    const struct bench_options *options;
    ruvllm_model *model;
    struct ruvllm_model_info info;
    int32_t *tokens; // random ids, the prompt of the first test
    float *logits;
    struct result results[2 * THREADS_MAX];
    size_t n_results;
    struct rv_progress progress;
    char device[64]; // outlives the model
};

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* The order statistics of the rounds; false without any. */
static bool summarise(const struct result *result, double *median, double *min, double *max)
{
    size_t n = result->n_rounds;
    double *sorted = n ? rv_realloc_array(NULL, n, sizeof(*sorted)) : NULL;

    if (!sorted)
        return false;
    memcpy(sorted, result->rates, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), compare_doubles);
    *median = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    *min = sorted[0];
    *max = sorted[n - 1];
    rv_free(sorted);
    return true;
}

static ruvllm_status measure_prompt(struct bench *bench, double *rate, struct ruvllm_error *err)
{
    size_t n = (size_t)bench->options->n_prompt;
    int64_t start = rv_clock_us();
    ruvllm_status rc =
        ruvllm_forward(bench->model, bench->tokens, n, n - 1, bench->logits, (size_t)bench->info.n_vocab, err);

    *rate = rv_output_rate((int64_t)n, rv_clock_us() - start);
    return rc;
}

static bool go_on(void *user, const struct ruvllm_chunk *chunk)
{
    (void)user;
    (void)chunk;
    return !rv_interrupt_seen();
}

static ruvllm_status measure_generation(struct bench *bench, double *rate, struct ruvllm_error *err)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_input input = {.struct_size = sizeof(input), .tokens = bench->tokens, .n_tokens = 1};
    struct ruvllm_response *response;
    ruvllm_status rc;

    /* The first token comes out of computing the prompt; N more steps make N tokens of pure decoding. */
    params.max_tokens = bench->options->n_generate + 1;
    params.temperature = 0;
    params.repetition_penalty = 1;
    params.ignore_eos = true;
    rc = ruvllm_generate_stream(bench->model, &input, &params, go_on, NULL, &response, err);
    if (rc)
        return rc;
    *rate = rv_output_rate((int64_t)response->n_tokens - 1, response->decode_us);
    if (response->stop_reason == RUVLLM_STOP_CALLBACK)
        rc = rv_fail(err, RUVLLM_CANCELLED, "interrupted");
    else if (response->n_tokens != (size_t)params.max_tokens)
        rc = rv_fail(err, RUVLLM_INTERNAL, "the model stopped after %zu of %d tokens", response->n_tokens,
                     params.max_tokens);
    ruvllm_response_free(response);
    return rc;
}

typedef ruvllm_status (*measure_fn)(struct bench *bench, double *rate, struct ruvllm_error *err);

static ruvllm_status run_rounds(struct bench *bench, struct result *result, measure_fn measure,
                                struct ruvllm_error *err)
{
    size_t rounds = (size_t)bench->options->rounds;
    char note[64];
    double warm_up;
    ruvllm_status rc;

    result->rates = rv_calloc(rounds, sizeof(*result->rates));
    if (!result->rates)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold %zu rounds", rounds);
    rc = measure(bench, &warm_up, err);
    while (rc == RUVLLM_OK && result->n_rounds < rounds) {
        if (rv_interrupt_seen())
            return rv_fail(err, RUVLLM_CANCELLED, "interrupted");
        snprintf(note, sizeof(note), "%s, %d threads, round %zu of %zu", result->name, result->threads,
                 result->n_rounds + 1, rounds);
        rv_progress_show(&bench->progress, (double)result->n_rounds / (double)rounds, note);
        rc = measure(bench, &result->rates[result->n_rounds], err);
        if (rc == RUVLLM_OK)
            result->n_rounds++;
    }
    return rc;
}

static struct result *add_result(struct bench *bench, const char *kind, int32_t n_tokens, int32_t threads)
{
    struct result *result = &bench->results[bench->n_results++];

    snprintf(result->name, sizeof(result->name), "%s%d", kind, n_tokens);
    result->n_tokens = n_tokens;
    result->threads = threads;
    return result;
}

static ruvllm_status prepare(struct bench *bench, struct ruvllm_error *err)
{
    int32_t n = bench->options->n_prompt > 1 ? bench->options->n_prompt : 1;
    int32_t n_generate = bench->options->n_generate ? bench->options->n_generate + 2 : 0;
    struct rv_rng rng;

    if (bench->info.context < n || bench->info.context < n_generate)
        return rv_fail(err, RUVLLM_TOO_LARGE,
                       "%d prompt tokens and %d generated ones do not both fit the context of %d", n,
                       bench->options->n_generate, bench->info.context);
    bench->tokens = rv_realloc_array(NULL, (size_t)n, sizeof(*bench->tokens));
    bench->logits = rv_realloc_array(NULL, (size_t)bench->info.n_vocab, sizeof(*bench->logits));
    if (!bench->tokens || !bench->logits)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold %d tokens", n);
    rv_rng_init(&rng, 1);
    for (int32_t i = 0; i < n; i++)
        bench->tokens[i] = (int32_t)rv_rng_below(&rng, (uint64_t)bench->info.n_vocab);
    if (bench->info.bos_token >= 0)
        bench->tokens[0] = bench->info.bos_token;
    return RUVLLM_OK;
}

/* Both tests with one thread count, on a model opened for it. */
static int bench_threads(struct bench *bench, int32_t threads)
{
    struct rv_model_options model = bench->options->model;
    struct ruvllm_error err = {0};
    ruvllm_status rc;
    int code;

    model.params.n_threads = threads;
    code = rv_model_options_open(&model, &bench->model, &bench->info);
    if (code)
        return code;
    snprintf(bench->device, sizeof(bench->device), "%s", bench->info.device);
    rv_progress_init(&bench->progress, "bench");
    rc = prepare(bench, &err);
    if (rc == RUVLLM_OK && bench->options->n_prompt)
        rc = run_rounds(bench, add_result(bench, "pp", bench->options->n_prompt, threads), measure_prompt, &err);
    if (rc == RUVLLM_OK && bench->options->n_generate)
        rc = run_rounds(bench, add_result(bench, "tg", bench->options->n_generate, threads), measure_generation, &err);
    rv_progress_clear(&bench->progress);
    ruvllm_model_close(bench->model);
    rv_free(bench->tokens);
    rv_free(bench->logits);
    bench->model = NULL;
    bench->tokens = NULL;
    bench->logits = NULL;
    return rc ? rv_output_failure(&err, rc == RUVLLM_TOO_LARGE ? "choose smaller -p and -n, or a larger --ctx" : NULL)
              : RV_EXIT_OK;
}

static void print_table(const struct bench *bench)
{
    const char *model = rv_model_options_base_name(bench->options->model.path);

    rv_output_field(stdout, model, strlen(model));
    printf(" on %s\n\n", bench->device);
    printf("%s%-10s %8s %12s %12s %12s  rounds%s\n", rv_output_style(stdout, RV_STYLE_BOLD), "test", "threads",
           "median tok/s", "min", "max", rv_output_style(stdout, RV_STYLE_RESET));
    for (size_t i = 0; i < bench->n_results; i++) {
        const struct result *result = &bench->results[i];
        double median, min, max;
        char threads[16] = "auto";

        if (result->threads)
            snprintf(threads, sizeof(threads), "%d", result->threads);
        if (summarise(result, &median, &min, &max))
            printf("%-10s %8s %12.2f %12.2f %12.2f  %6zu\n", result->name, threads, median, min, max, result->n_rounds);
    }
}

static int print_json(const struct bench *bench)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc), *list;

    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_strcpy(doc, root, "model", rv_model_options_base_name(bench->options->model.path));
    yyjson_mut_obj_add_strcpy(doc, root, "version", ruvllm_version());
    yyjson_mut_obj_add_strcpy(doc, root, "device", bench->device);
    list = yyjson_mut_obj_add_arr(doc, root, "results");
    for (size_t i = 0; i < bench->n_results; i++) {
        const struct result *result = &bench->results[i];
        yyjson_mut_val *o = yyjson_mut_arr_add_obj(doc, list), *rates;
        double median, min, max;

        yyjson_mut_obj_add_str(doc, o, "test", result->name);
        yyjson_mut_obj_add_int(doc, o, "threads", result->threads);
        yyjson_mut_obj_add_int(doc, o, "n_tokens", result->n_tokens);
        if (summarise(result, &median, &min, &max))
            rv_output_json_add(doc, o, "median_tokens_per_second", rv_output_json_real(doc, median, 3));
        rates = yyjson_mut_obj_add_arr(doc, o, "tokens_per_second");
        for (size_t k = 0; k < result->n_rounds; k++)
            yyjson_mut_arr_append(rates, rv_output_json_real(doc, result->rates[k], 3));
    }
    return rv_output_json(doc, false);
}

/* Room for the larger test unless --ctx says otherwise. */
static void choose_context(struct bench_options *options)
{
    int32_t generate = options->n_generate + 2;

    if (options->model.params.max_context < 0)
        options->model.params.max_context = options->n_prompt > generate ? options->n_prompt : generate;
}

static int run(int argc, char **argv)
{
    struct bench_options options = {.n_prompt = 512, .n_generate = 128, .rounds = 5, .threads = {.n = 1}};
    struct bench bench = {.options = &options};
    struct rv_arguments args;
    int code;

    rv_model_options_init(&options.model);
    options.model.params.max_context = -1;
    if (!rv_options_parse(&rv_cmd_bench, &options, argc, argv, &args, &code))
        return code;
    choose_context(&options);
    code = rv_model_options_settle(&options.model, &rv_cmd_bench, &args);
    if (code == RV_EXIT_OK)
        code = rv_options_finish(&rv_cmd_bench, &args);
    if (code)
        return code;
    rv_interrupt_catch(RV_INTERRUPT_ONCE);
    for (size_t i = 0; i < options.threads.n && code == RV_EXIT_OK; i++)
        code = bench_threads(&bench, options.threads.items[i]);
    if (code == RV_EXIT_OK && options.json)
        code = print_json(&bench);
    else if (code == RV_EXIT_OK)
        print_table(&bench);
    for (size_t i = 0; i < bench.n_results; i++)
        rv_free(bench.results[i].rates);
    return code;
}

const struct rv_command rv_cmd_bench = {
    .name = "bench",
    .arguments = "MODEL",
    .summary = "how fast a model computes here",
    .about = "Measures reading a prompt (pp) and generating (tg) in tokens per second, several rounds each after one "
             "that is not counted. Compare figures only from the same machine with nothing else running.",
    .examples = "ruvllm bench model.gguf\n"
                "ruvllm bench model.gguf -t 1,2,4 -r 10\n"
                "    which thread count suits this machine\n"
                "ruvllm bench model.gguf -p 0 -n 64 --json\n"
                "    generation only, for programs\n",
    .groups = groups,
    .n_groups = RV_OPTION_COUNT(groups),
    .run = run,
};
