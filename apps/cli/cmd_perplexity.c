/*
 * ruvllm perplexity: how surprised a model is by a text. The method is llama-perplexity's, so that figures compare:
 * the text is tokenised once and cut into chunks of --ctx tokens; each chunk is computed as a sequence of its own,
 * with its first token replaced by BOS where the model has one in front; the second half of each chunk is scored,
 * so that every scored token has at least half a chunk of context. For the same reason ggml's attention is the default.
 */
#include "commands.h"
#include "interrupt.h"
#include "model_options.h"
#include "output.h"
#include "progress.h"
#include "text_input.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <math.h>
#include <string.h>

enum { DEFAULT_CTX = 512 };

enum bos_mode { BOS_AUTO, BOS_FORCE, BOS_NONE };

static const char *const bos_modes[] = {"auto", "force", "none", NULL};

struct perplexity_options {
    struct rv_model_options model;
    const char *file;
    int32_t chunks;
    int32_t bos;  // enum bos_mode
    bool has_ctx; // --ctx was given
    bool json;
};

static const struct rv_option own_options[] = {
    {.name = "file",
     .short_name = 'f',
     .value = "FILE",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct perplexity_options, file),
     .help = "The text to score; - is standard input"},
    {.name = "chunks",
     .value = "N",
     .type = RV_OPTION_INT,
     .max = INT32_MAX,
     .offset = offsetof(struct perplexity_options, chunks),
     .help = "Score only the first N chunks; 0 is all (default 0)"},
    {.name = "bos",
     .value = "MODE",
     .type = RV_OPTION_CHOICE,
     .choices = bos_modes,
     .offset = offsetof(struct perplexity_options, bos),
     .help = "Begin-of-text token before each chunk: auto as the model wants, force, or none (default auto)"},
};

static const struct rv_option output_options[] = {
    {.name = "json",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct perplexity_options, json),
     .help = "Print one JSON object at the end"},
};

static const struct rv_option_group groups[] = {
    {"Text", own_options, RV_OPTION_COUNT(own_options), 0},
    {"Output", output_options, RV_OPTION_COUNT(output_options), 0},
    RV_MODEL_GROUP_FILE(offsetof(struct perplexity_options, model)),
    RV_MODEL_GROUP_ADAPTER(offsetof(struct perplexity_options, model)),
    RV_MODEL_GROUP_COMPUTE(offsetof(struct perplexity_options, model)),
    RV_MODEL_GROUP_THREADS(offsetof(struct perplexity_options, model)),
    RV_MODEL_GROUP_ROPE(offsetof(struct perplexity_options, model)),
};

/* Sums over the tokens scored so far. */
struct score {
    double nll;        // of -log p
    double nll_square; // of its square
    size_t n;
};

struct job {
    ruvllm_model *model;
    int32_t *tokens;
    size_t n_tokens;
    size_t n_ctx;
    size_t n_chunks;
    size_t n_vocab;
    int32_t bos; // put before each chunk; -1: none
    float *logits;
    size_t logits_cap;
    double *running; // perplexity after each chunk
    size_t n_done;
    struct score score;
};

/* -log of the probability the row gives to `token`. */
static double surprise(const float *logits, size_t n_vocab, int32_t token)
{
    float max = logits[0];
    double sum = 0;

    for (size_t i = 1; i < n_vocab; i++)
        max = logits[i] > max ? logits[i] : max;
    for (size_t i = 0; i < n_vocab; i++)
        sum += exp((double)logits[i] - (double)max);
    return log(sum) + (double)max - (double)logits[token];
}

static double score_perplexity(const struct score *score)
{
    return exp(score->nll / (double)score->n);
}

/* Standard error of the perplexity, by the delta method from that of the mean surprise. */
static double score_error(const struct score *score)
{
    double mean = score->nll / (double)score->n;
    double variance = score->nll_square / (double)score->n - mean * mean;

    return score->n > 1 && variance > 0 ? sqrt(variance / (double)(score->n - 1)) * exp(mean) : 0;
}

static ruvllm_status score_chunk(struct job *job, size_t chunk, struct ruvllm_error *err)
{
    int32_t *tokens = job->tokens + chunk * job->n_ctx;
    int32_t first_token = tokens[0];
    size_t first = job->n_ctx / 2;
    ruvllm_status rc;

    if (job->bos >= 0)
        tokens[0] = job->bos;
    rc = ruvllm_forward(job->model, tokens, job->n_ctx, first, job->logits, job->logits_cap, err);
    tokens[0] = first_token;
    if (rc)
        return rc;
    for (size_t i = first; i + 1 < job->n_ctx; i++) {
        double nll = surprise(job->logits + (i - first) * job->n_vocab, job->n_vocab, tokens[i + 1]);

        job->score.nll += nll;
        job->score.nll_square += nll * nll;
        job->score.n++;
    }
    return RUVLLM_OK;
}

/* Whether the model's own tokenizer puts BOS before a text. */
static bool adds_bos(const ruvllm_model *model, int32_t bos)
{
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = "a", .text_len = 1};
    int32_t *tokens;
    size_t n;
    bool does;

    if (bos < 0 || ruvllm_tokenize(model, &input, &tokens, &n, NULL) != RUVLLM_OK)
        return false;
    does = n > 0 && tokens[0] == bos;
    ruvllm_free(tokens);
    return does;
}

/* Settles which token begins a chunk and tokenises the text the same way. */
static ruvllm_status tokenize(struct job *job, const struct perplexity_options *options, int32_t model_bos,
                              const char *text, size_t len, struct ruvllm_error *err)
{
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text, .text_len = len, .no_bos = true};
    int32_t *plain;
    size_t n;
    ruvllm_status rc;

    if (options->bos == BOS_FORCE && model_bos < 0)
        return rv_fail(err, RUVLLM_INVALID, "the model has no begin-of-text token to force");
    job->bos =
        options->bos == BOS_FORCE || (options->bos == BOS_AUTO && adds_bos(job->model, model_bos)) ? model_bos : -1;
    rc = ruvllm_tokenize(job->model, &input, &plain, &n, err);
    if (rc)
        return rc;
    job->tokens = rv_realloc_array(NULL, n + 1, sizeof(*job->tokens));
    if (job->tokens) {
        if (job->bos >= 0)
            job->tokens[job->n_tokens++] = job->bos;
        if (n)
            memcpy(job->tokens + job->n_tokens, plain, n * sizeof(*plain));
        job->n_tokens += n;
    }
    ruvllm_free(plain);
    return job->tokens ? RUVLLM_OK : rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold %zu tokens", n);
}

static ruvllm_status prepare(struct job *job, const struct perplexity_options *options,
                             const struct ruvllm_model_info *info, const char *text, size_t len,
                             struct ruvllm_error *err)
{
    int32_t wanted = options->model.params.max_context;
    size_t rows;
    ruvllm_status rc;

    if (options->has_ctx && wanted > info->context)
        return rv_fail(err, RUVLLM_TOO_LARGE, "the model was trained for %d tokens, not %d", info->context, wanted);
    job->n_ctx = (size_t)(wanted > 0 && wanted < info->context ? wanted : info->context);
    job->n_vocab = (size_t)info->n_vocab;
    rc = tokenize(job, options, info->bos_token, text, len, err);
    if (rc)
        return rc;
    job->n_chunks = job->n_tokens / job->n_ctx;
    if (job->n_chunks == 0 || job->n_ctx < 4)
        return rv_fail(err, RUVLLM_INVALID, "the text has %zu tokens, one chunk needs %zu", job->n_tokens, job->n_ctx);
    if (options->chunks > 0 && (size_t)options->chunks < job->n_chunks)
        job->n_chunks = (size_t)options->chunks;
    rows = job->n_ctx - job->n_ctx / 2;
    if (!rv_size_mul(rows, job->n_vocab, &job->logits_cap))
        return rv_fail(err, RUVLLM_TOO_LARGE, "cannot hold the logits of %zu tokens", rows);
    job->logits = rv_realloc_array(NULL, job->logits_cap, sizeof(float));
    job->running = rv_realloc_array(NULL, job->n_chunks, sizeof(double));
    if (!job->logits || !job->running)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold the logits of %zu tokens", rows);
    return RUVLLM_OK;
}

/* Scores chunk after chunk until done or Ctrl-C, telling how it goes. */
static ruvllm_status score_all(struct job *job, bool json, struct ruvllm_error *err)
{
    int64_t start = rv_clock_us();
    struct rv_progress progress;
    char note[96];
    ruvllm_status rc = RUVLLM_OK;

    rv_progress_init(&progress, "perplexity");
    while (job->n_done < job->n_chunks && !rv_interrupt_seen()) {
        double seconds;

        rc = score_chunk(job, job->n_done, err);
        if (rc)
            break;
        job->running[job->n_done++] = score_perplexity(&job->score);
        if (!json) {
            rv_progress_clear(&progress);
            printf("[%zu] %.4f\n", job->n_done, job->running[job->n_done - 1]);
            fflush(stdout);
        }
        seconds = (double)(rv_clock_us() - start) / 1e6;
        snprintf(note, sizeof(note), "chunk %zu of %zu, %.0f s left", job->n_done, job->n_chunks,
                 seconds / (double)job->n_done * (double)(job->n_chunks - job->n_done));
        rv_progress_show(&progress, (double)job->n_done / (double)job->n_chunks, note);
    }
    rv_progress_clear(&progress);
    return rc;
}

static int report_json(const struct job *job, bool interrupted)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc), *list;

    yyjson_mut_doc_set_root(doc, root);
    rv_output_json_add(doc, root, "perplexity", rv_output_json_real(doc, score_perplexity(&job->score), 6));
    rv_output_json_add(doc, root, "stderr", rv_output_json_real(doc, score_error(&job->score), 6));
    rv_output_json_add(doc, root, "mean_nll", rv_output_json_real(doc, job->score.nll / (double)job->score.n, 8));
    yyjson_mut_obj_add_uint(doc, root, "tokens_scored", job->score.n);
    yyjson_mut_obj_add_uint(doc, root, "tokens_in_text", job->n_tokens);
    yyjson_mut_obj_add_uint(doc, root, "chunks", job->n_done);
    yyjson_mut_obj_add_uint(doc, root, "context", job->n_ctx);
    yyjson_mut_obj_add_int(doc, root, "bos", job->bos);
    yyjson_mut_obj_add_bool(doc, root, "interrupted", interrupted);
    list = yyjson_mut_obj_add_arr(doc, root, "running");
    for (size_t i = 0; i < job->n_done; i++)
        yyjson_mut_arr_append(list, rv_output_json_real(doc, job->running[i], 6));
    return rv_output_json(doc, false);
}

static int report(const struct job *job, bool json)
{
    bool interrupted = job->n_done < job->n_chunks;
    char count[32];
    int code = RV_EXIT_OK;

    if (job->n_done == 0)
        return RV_EXIT_INTERRUPTED;
    if (json)
        code = report_json(job, interrupted);
    else
        printf("%sperplexity: %.4f ± %.5f%s  (%s tokens in %zu chunks of %zu%s)\n",
               rv_output_style(stdout, RV_STYLE_BOLD), score_perplexity(&job->score), score_error(&job->score),
               rv_output_style(stdout, RV_STYLE_RESET), rv_output_count(job->score.n, count), job->n_done, job->n_ctx,
               interrupted ? ", interrupted" : "");
    return interrupted ? RV_EXIT_INTERRUPTED : code;
}

static int measure(const struct perplexity_options *options, const char *text, size_t len)
{
    struct ruvllm_model_info info;
    struct ruvllm_error err = {0};
    struct job job = {0};
    int code = rv_model_options_open(&options->model, &job.model, &info);

    if (code)
        return code;
    if (prepare(&job, options, &info, text, len, &err))
        code = rv_output_failure(&err, err.status == RUVLLM_INVALID || err.status == RUVLLM_TOO_LARGE
                                           ? "take a longer text, or a smaller --ctx"
                                           : NULL);
    else if (score_all(&job, options->json, &err))
        code = rv_output_failure(&err, NULL);
    else
        code = report(&job, options->json);
    rv_free(job.running);
    rv_free(job.logits);
    rv_free(job.tokens);
    ruvllm_model_close(job.model);
    return code;
}

static int run(int argc, char **argv)
{
    struct perplexity_options options = {0};
    struct rv_arguments args;
    struct ruvllm_error err = {0};
    char *text;
    size_t len;
    int code;

    rv_model_options_init(&options.model);
    options.model.params.max_context = -1;
    options.model.params.attention = "ggml"; // rounds as llama-perplexity's does
    if (!rv_options_parse(&rv_cmd_perplexity, &options, argc, argv, &args, &code))
        return code;
    options.has_ctx = options.model.params.max_context >= 0;
    if (!options.has_ctx)
        options.model.params.max_context = DEFAULT_CTX;
    code = rv_model_options_settle(&options.model, &rv_cmd_perplexity, &args);
    if (code)
        return code;
    if (!options.file)
        options.file = rv_options_shift(&args);
    code = rv_options_finish(&rv_cmd_perplexity, &args);
    if (code)
        return code;
    rv_interrupt_catch(RV_INTERRUPT_ONCE);
    if (rv_text_input_get(NULL, options.file, &text, &len, &err)) {
        code = rv_output_failure(&err, "give the text to score with -f FILE");
        return err.status == RUVLLM_INVALID ? RV_EXIT_USAGE : code;
    }
    code = measure(&options, text, len);
    rv_free(text);
    return code;
}

const struct rv_command rv_cmd_perplexity = {
    .name = "perplexity",
    .arguments = "MODEL -f FILE",
    .summary = "how well a model predicts a text",
    .about = "Scores a text: the lower the perplexity, the better the model predicts it. The text is cut into chunks "
             "of --ctx tokens (default 512 here) and the second half of each is scored, as llama-perplexity does, so "
             "figures compare; for the same reason attention is ggml's here unless --attention says otherwise. One "
             "line per chunk shows the perplexity so far. Ctrl-C ends it with the result so far.",
    .examples = "ruvllm perplexity model.gguf -f wiki.test.txt\n"
                "    the usual measurement\n"
                "ruvllm perplexity model.gguf -f wiki.test.txt --ctx 256 --chunks 20\n"
                "    a quick one\n"
                "ruvllm perplexity model.gguf -f chat.txt --bos force --json\n"
                "    for models that need their begin-of-text token but do not add it themselves\n",
    .groups = groups,
    .n_groups = RV_OPTION_COUNT(groups),
    .run = run,
};
