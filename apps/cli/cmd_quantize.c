/* ruvllm quantize: make a model smaller. */
#include "commands.h"
#include "interrupt.h"
#include "model_options.h"
#include "output.h"
#include "progress.h"

#include "base/clock.h"
#include "ruvllm_hub.h"

#include <string.h>

enum { MAX_SHOWN_FALLBACKS = 8 };

struct quantize_options {
    int32_t n_threads;
    bool allow_requantize;
    bool pure;
    bool force;
    bool tensors;
    bool json;
};

static const struct rv_option own_options[] = {
    {.name = "threads",
     .short_name = 't',
     .value = "N",
     .type = RV_OPTION_INT,
     .max = 64,
     .offset = offsetof(struct quantize_options, n_threads),
     .help = "Threads to convert with; 0 is one per processor (default 0)"},
    {.name = "pure",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct quantize_options, pure),
     .help = "The same type for all matrices, instead of more bits where they matter most"},
    {.name = "allow-requantize",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct quantize_options, allow_requantize),
     .help = "Also take a file that is quantised already; what it lost stays lost"},
    {.name = "force",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct quantize_options, force),
     .help = "Replace OUT if it exists"},
};

static const struct rv_option output_options[] = {
    {.name = "tensors",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct quantize_options, tensors),
     .help = "Print each tensor: name, type before and after, size"},
    {.name = "json",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct quantize_options, json),
     .help = "Print a JSON object"},
};

static const struct rv_option_group groups[] = {
    {"Quantising", own_options, RV_OPTION_COUNT(own_options), 0},
    {"Output", output_options, RV_OPTION_COUNT(output_options), 0},
};

/* One run, as its callbacks see it. */
struct quantizing {
    const struct quantize_options *options;
    struct rv_progress progress;
    struct {
        char name[80];
        char wanted[16];
        char to[16];
    } fallbacks[MAX_SHOWN_FALLBACKS];
    size_t n_fallbacks; // those beyond the shown ones counted too
};

static bool on_progress(void *user, float fraction)
{
    struct quantizing *q = user;

    return rv_progress_on_load(&q->progress, fraction);
}

static void on_tensor(void *user, const struct ruvllm_quantize_tensor *tensor)
{
    struct quantizing *q = user;
    char before[24], after[24];

    if (strcmp(tensor->to, tensor->wanted) != 0) {
        size_t i = q->n_fallbacks++;

        if (i < MAX_SHOWN_FALLBACKS) {
            snprintf(q->fallbacks[i].name, sizeof(q->fallbacks[i].name), "%s", tensor->name);
            snprintf(q->fallbacks[i].wanted, sizeof(q->fallbacks[i].wanted), "%s", tensor->wanted);
            snprintf(q->fallbacks[i].to, sizeof(q->fallbacks[i].to), "%s", tensor->to);
        }
    }
    if (q->options->tensors && !q->options->json) {
        rv_progress_clear(&q->progress);
        printf("%-40s %6s -> %-6s %10s -> %s\n", tensor->name, tensor->from, tensor->to,
               rv_output_bytes(tensor->bytes_before, before), rv_output_bytes(tensor->bytes_after, after));
    }
}

static void print_fallbacks(const struct quantizing *q)
{
    if (q->n_fallbacks == 0)
        return;
    printf("%zu tensors have rows that are no whole blocks of the wanted type and got another:\n", q->n_fallbacks);
    for (size_t i = 0; i < q->n_fallbacks && i < MAX_SHOWN_FALLBACKS; i++)
        printf("  %s: %s instead of %s\n", q->fallbacks[i].name, q->fallbacks[i].to, q->fallbacks[i].wanted);
    if (q->n_fallbacks > MAX_SHOWN_FALLBACKS)
        printf("  and %zu more (--tensors shows all)\n", q->n_fallbacks - MAX_SHOWN_FALLBACKS);
}

static int report(const struct quantizing *q, const char *out, const struct ruvllm_quantize_report *r, int64_t us)
{
    char before[24], after[24];

    printf("%s: %s -> %s, %zu of %zu tensors converted in %.1f s\n", out, rv_output_bytes(r->bytes_in, before),
           rv_output_bytes(r->bytes_out, after), r->n_converted, r->n_tensors, (double)us / 1e6);
    print_fallbacks(q);
    return RV_EXIT_OK;
}

static int report_json(const char *out, const char *type, const struct ruvllm_quantize_report *r, int64_t us)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);

    yyjson_mut_doc_set_root(doc, root);
    rv_output_json_add(doc, root, "path", rv_output_json_text(doc, out, strlen(out)));
    yyjson_mut_obj_add_strcpy(doc, root, "type", type);
    yyjson_mut_obj_add_uint(doc, root, "bytes_in", r->bytes_in);
    yyjson_mut_obj_add_uint(doc, root, "bytes_out", r->bytes_out);
    yyjson_mut_obj_add_uint(doc, root, "n_tensors", r->n_tensors);
    yyjson_mut_obj_add_uint(doc, root, "n_converted", r->n_converted);
    yyjson_mut_obj_add_uint(doc, root, "n_fallback", r->n_fallback);
    rv_output_json_add(doc, root, "seconds", rv_output_json_real(doc, (double)us / 1e6, 3));
    return rv_output_json(doc, false);
}

static int convert(const struct quantize_options *options, const char *in, const char *out, const char *type)
{
    struct ruvllm_quantize_params params = ruvllm_quantize_params_default();
    struct ruvllm_quantize_report result = {.struct_size = sizeof(result)};
    struct quantizing q = {.options = options};
    struct ruvllm_error err = {0};
    int64_t start = rv_clock_us();
    ruvllm_status rc;

    rv_progress_init(&q.progress, "quantising");
    rv_interrupt_catch(RV_INTERRUPT_ONCE);
    params.n_threads = options->n_threads;
    params.is_pure = options->pure;
    params.allow_requantize = options->allow_requantize;
    params.overwrite = options->force;
    params.on_progress = on_progress;
    params.on_tensor = on_tensor;
    params.user = &q;
    rc = ruvllm_quantize(in, out, type, &params, &result, &err);
    rv_progress_clear(&q.progress);
    if (rc == RUVLLM_CANCELLED)
        fputs("stopped; nothing was written\n", stderr);
    if (rc)
        return rv_output_failure(&err, NULL);
    start = rv_clock_us() - start;
    return options->json ? report_json(out, type, &result, start) : report(&q, out, &result, start);
}

static int run(int argc, char **argv)
{
    struct quantize_options options = {0};
    struct rv_arguments args;
    const char *in, *out, *type, *path;
    char found[PATH_MAX];
    int code;

    if (!rv_options_parse(&rv_cmd_quantize, &options, argc, argv, &args, &code))
        return code;
    in = rv_options_shift(&args);
    out = rv_options_shift(&args);
    type = rv_options_shift(&args);
    if (!in || !out || !type) {
        rv_output_error("ruvllm quantize model-f16.gguf model-q4_k_m.gguf Q4_K_M",
                        "an input, an output and a type are needed");
        return RV_EXIT_USAGE;
    }
    code = rv_options_finish(&rv_cmd_quantize, &args);
    if (code)
        return code;
    path = rv_model_options_resolve(in, found, &code);
    return path ? convert(&options, path, out, type) : code;
}

const struct rv_command rv_cmd_quantize = {
    .name = "quantize",
    .arguments = "IN OUT TYPE",
    .summary = "make a model smaller",
    .about =
        "Writes the model IN to OUT with its matrices in fewer bits. The usual types, best quality first: Q8_0, Q6_K, "
        "Q5_K_M, Q5_K_S, Q5_0, Q4_K_M, Q4_K_S, IQ4_NL, IQ4_XS, Q4_0, Q3_K_L, Q3_K_M, Q3_K_S, Q2_K; also F16, BF16, "
        "F32, "
        "Q4_1, Q5_1, IQ3_S, IQ3_XXS, IQ2_S, IQ1_M, MXFP4, NVFP4, TQ1_0, TQ2_0, Q2_0, Q1_0. The embedding and the "
        "output keep "
        "more bits than the layers, and the _M and _L types give more to the projections that matter most. Nothing "
        "appears under the name OUT before all of it is written.",
    .examples = "ruvllm quantize model-f16.gguf model-Q4_K_M.gguf Q4_K_M\n"
                "    a quarter of the size, nearly the quality\n"
                "ruvllm quantize model-f16.gguf small.gguf Q4_0 --pure --tensors\n"
                "    one type for all matrices, and what became of each tensor\n"
                "ruvllm quantize model-q8_0.gguf model-q4_0.gguf Q4_0 --allow-requantize\n"
                "    from a file that is quantised already, at a loss\n",
    .groups = groups,
    .n_groups = RV_OPTION_COUNT(groups),
    .run = run,
};
