/*
 * What a grammar costs: compiling, each token's mask, and many constrained rows in one batch, on a real vocabulary.
 *
 *     bench_grammar MODEL.gguf            masks and compiling; only the vocabulary is read
 *     bench_grammar beside MODEL.gguf     the same GBNF through libllama's grammar sampler, token by token in turns
 *     bench_grammar rows MODEL.gguf       64 answers at once with a schema and 64 without, in turns
 *
 *     grammar.<case>.compile_us           text to automaton, tables included
 *     grammar.<case>.token_us_p50, _p99   finding the mask, applying it to a row of logits, and following the token
 *     grammar.<case>.theirs_us_p50, _p99  the same work of libllama
 *     grammar.<case>.ratio_p50            ours over theirs
 *     grammar.<case>.only_ours, _theirs   tokens that only one of the two allowed, all steps together
 *     grammar.<case>.only_theirs_<why>    theirs by what they are: control tokens, bytes no text in UTF-8 has, ...
 *     grammar.rows64.ratio                tokens a second with a schema over those without; median of the rounds
 *
 * An answer is made of random allowed tokens, so that every state is visited. Times in microseconds of the thread.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "engine/model.h"
#include "sample/grammar.h"

#include <llama.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_ANSWERS = 40, MAX_TOKENS = 200, MAX_TIMES = N_ANSWERS * MAX_TOKENS };
enum { BESIDE_ANSWERS = 6, BESIDE_TOKENS = 60 };
enum { N_ROWS = 64, ROW_TOKENS = 24, ROUNDS = 7 };

static const char json_gbnf[] =
    "root ::= object\nobject ::= \"{\" ws (pair (\",\" ws pair)*)? \"}\"\npair ::= string \":\" ws value\n"
    "string ::= \"\\\"\" char* \"\\\"\" ws\nchar ::= [^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" "
    "[0-9a-fA-F]{4})\nvalue ::= object | array | string | number | \"true\" ws | \"null\" ws\n"
    "array ::= \"[\" ws (value (\",\" ws value)*)? \"]\" ws\nnumber ::= \"-\"? [0-9]{1,15} (\".\" [0-9]+)? ws\n"
    "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n";
static const char counted_gbnf[] = "root ::= (\"\\\"\" [^\"\\\\\\x00-\\x1F]{0,120} \"\\\"\\n\"){4,8}\n";

/* The thread's own time, so that others on the machine do not count. */
static int64_t cpu_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "bench_grammar: %s: %s\n", what, why);
    exit(1);
}

/* The part of sorted times below which the share p lies. */
static double at_share(const double *times, size_t n, double p)
{
    return times[(size_t)((double)(n - 1) * p + 0.5)];
}

static bool is_set(const uint64_t *bits, size_t token)
{
    return bits[token / 64] >> (token % 64) & 1;
}

/* A random allowed token; ends only where it must, so that answers are long. `theirs`, if given, allows it too. */
static int32_t pick(const uint64_t *bits, const llama_token_data *theirs, const struct rv_token_trie *trie,
                    struct rv_rng *rng)
{
    size_t first = rv_rng_below(rng, (uint32_t)trie->n_tokens);
    int32_t end = -1;

    for (size_t i = 0; i < trie->n_tokens; i++) {
        size_t token = (first + i) % trie->n_tokens;

        if (!is_set(bits, token) || (theirs && theirs[token].logit == -INFINITY))
            continue;
        if (!rv_vocab_is_eog(trie->vocab, (int32_t)token))
            return (int32_t)token;
        end = (int32_t)token;
    }
    return end;
}

static struct rv_grammar *compile(const char *name, const struct rv_token_trie *trie, enum rv_grammar_kind kind,
                                  const char *text)
{
    struct rv_grammar_source source = {.kind = kind, .text = text, .len = strlen(text)};
    struct ruvllm_error err;
    struct rv_grammar *g;
    int64_t start = cpu_us();

    if (rv_grammar_new(&g, &source, trie, &err))
        die(name, err.message);
    printf("grammar.%s.compile_us=%lld\n", name, (long long)(cpu_us() - start));
    return g;
}

/* Finds and applies a mask; what it took is added to *us. */
static const uint64_t *apply(struct rv_grammar_matcher *m, float *logits, size_t n, double *us)
{
    const uint64_t *bits = NULL;
    struct ruvllm_error err;
    int64_t start;

    memset(logits, 0, n * sizeof(*logits));
    start = cpu_us();
    if (rv_grammar_matcher_apply(m, logits, n, &err) || rv_grammar_matcher_mask(m, &bits, &err))
        die("mask", err.message);
    *us += (double)(cpu_us() - start);
    return bits;
}

static void accept(struct rv_grammar_matcher *m, int32_t token, double *us)
{
    int64_t start = cpu_us();
    struct ruvllm_error err;

    if (rv_grammar_matcher_accept(m, token, &err))
        die("token", err.message);
    *us += (double)(cpu_us() - start);
}

static struct rv_grammar_matcher *new_matcher(struct rv_grammar *g)
{
    struct rv_grammar_matcher *m;
    struct ruvllm_error err;

    if (rv_grammar_matcher_new(&m, g, &err))
        die("matcher", err.message);
    return m;
}

static void run(const char *name, const struct rv_token_trie *trie, enum rv_grammar_kind kind, const char *text)
{
    static double times[MAX_TIMES];
    float *logits = rv_calloc(trie->n_tokens, sizeof(*logits));
    struct rv_grammar *g = compile(name, trie, kind, text);
    struct rv_rng rng;
    size_t n = 0;

    if (!logits)
        die(name, "no memory");
    rv_rng_init(&rng, 1);
    for (int i = 0; i < N_ANSWERS; i++) {
        struct rv_grammar_matcher *m = new_matcher(g);

        for (int k = 0; k < MAX_TOKENS && !rv_grammar_matcher_is_complete(m); k++) {
            double us = 0;
            int32_t token = pick(apply(m, logits, trie->n_tokens, &us), NULL, trie, &rng);

            if (rv_vocab_is_eog(trie->vocab, token))
                break;
            accept(m, token, &us);
            times[n++] = us;
        }
        rv_grammar_matcher_free(m);
    }
    rv_grammar_unref(g);
    rv_free(logits);
    qsort(times, n, sizeof(*times), compare);
    printf("grammar.%s.tokens=%zu\n", name, n);
    printf("grammar.%s.token_us_p50=%.0f\n", name, at_share(times, n, 0.5));
    printf("grammar.%s.token_us_p99=%.0f\n", name, at_share(times, n, 0.99));
    printf("grammar.%s.token_us_max=%.0f\n", name, times[n - 1]);
}

/* Close to 64 KiB: objects in objects, enums, arrays and strings of every kind. */
static char *large_schema(void)
{
    struct rv_buf buf;

    rv_buf_init(&buf, 1 << 17);
    rv_buf_add_str(&buf, "{\"type\":\"object\",\"properties\":{");
    for (int i = 0; buf.len < (63 << 10) + 200; i++) {
        rv_buf_addf(&buf, "%s\"part_%d\":", i ? "," : "", i);
        switch (i % 5) {
        case 0:
            rv_buf_addf(&buf,
                        "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"integer\",\"minimum\":%d},\"note\":{"
                        "\"type\":\"string\",\"maxLength\":%d}},\"required\":[\"id\"],\"additionalProperties\":false}",
                        i, 10 + i);
            break;
        case 1:
            rv_buf_addf(&buf, "{\"enum\":[\"small_%d\",\"middle_%d\",\"large_%d\",null]}", i, i, i);
            break;
        case 2:
            rv_buf_add_str(&buf, "{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"maxItems\":5}");
            break;
        case 3:
            rv_buf_addf(&buf, "{\"anyOf\":[{\"type\":\"number\",\"maximum\":%d},{\"type\":\"null\"}]}", i);
            break;
        default:
            rv_buf_addf(&buf, "{\"type\":\"string\",\"title\":\"Part %d\"}", i);
        }
    }
    rv_buf_add_str(&buf, "}}");
    return rv_buf_take(&buf, NULL);
}

static void measure_masks(const struct rv_token_trie *trie)
{
    char *large = large_schema();

    if (!large)
        die("large", "no memory");
    run("object", trie, RV_GRAMMAR_JSON_OBJECT, "");
    run("schema", trie, RV_GRAMMAR_JSON_SCHEMA,
        "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":\"integer\",\"minimum\":"
        "0,\"maximum\":150},\"mail\":{\"type\":\"string\",\"format\":\"email\"},\"tags\":{\"type\":\"array\","
        "\"items\":{\"type\":\"string\",\"maxLength\":40}},\"kind\":{\"enum\":[\"person\",\"robot\"]}},"
        "\"required\":[\"name\",\"age\",\"mail\",\"tags\",\"kind\"],\"additionalProperties\":false}");
    run("counted", trie, RV_GRAMMAR_JSON_SCHEMA,
        "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":5,\"maxLength\":200}}");
    run("counted_long", trie, RV_GRAMMAR_JSON_SCHEMA, "{\"type\":\"string\",\"minLength\":500,\"maxLength\":5000}");
    run("counted_pattern", trie, RV_GRAMMAR_JSON_SCHEMA,
        "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"^[A-Za-z0-9 _.-]{3,60}$\"}}");
    run("gbnf_json", trie, RV_GRAMMAR_GBNF, json_gbnf);
    run("regex", trie, RV_GRAMMAR_REGEX, "([A-Z][a-z]+ ){3,9}[^.]{10,200}\\.");
    printf("grammar.large.bytes=%zu\n", strlen(large));
    run("large", trie, RV_GRAMMAR_JSON_SCHEMA, large);
    rv_free(large);
}

/* ---- beside libllama -------------------------------------------------------------------------------------- */

static void silent(enum ggml_log_level level, const char *text, void *user)
{
    (void)level;
    (void)text;
    (void)user;
}

/* What a token is that only libllama allows. */
enum why { WHY_CONTROL, WHY_END, WHY_UNLISTED, WHY_BYTES, WHY_OTHER, N_WHYS };

struct pair {
    const struct rv_token_trie *trie;
    struct rv_buf text; // the answer so far
    float *logits;
    llama_token_data *data; // by token
    double ours[BESIDE_ANSWERS * BESIDE_TOKENS], theirs[BESIDE_ANSWERS * BESIDE_TOKENS];
    size_t n, n_only_ours, n_only_theirs[N_WHYS];
};

/* Whether bytes are the beginning of a text in UTF-8. */
static bool may_be_text(const char *bytes, size_t len)
{
    uint32_t cp;
    int n = 1;

    for (size_t i = 0; i < len && n > 0; i += (size_t)n) {
        n = rv_utf8_decode(bytes + i, len - i, &cp);
        if (n == 0)
            return false;
    }
    return true;
}

static enum why why_not(struct pair *p, int32_t token)
{
    enum rv_token_type type = rv_vocab_type(p->trie->vocab, token);
    uint8_t bytes[RV_TOKEN_TRIE_MAX_LEN];
    size_t len = rv_token_trie_bytes(p->trie, token, bytes), before = p->text.len;
    bool is_text;

    if (rv_vocab_is_eog(p->trie->vocab, token))
        return WHY_END;
    if (type == RV_TOKEN_CONTROL)
        return WHY_CONTROL;
    if (len == 0)
        return WHY_UNLISTED;
    rv_buf_add(&p->text, bytes, len);
    is_text = may_be_text(p->text.data, p->text.len);
    p->text.len = before;
    return is_text ? WHY_OTHER : WHY_BYTES;
}

static void print_verdicts(const char *name, const struct pair *p)
{
    static const char *const names[] = {"control", "end", "unlisted", "not_utf8", "other"};
    size_t sum = 0;

    for (size_t i = 0; i < N_WHYS; i++)
        sum += p->n_only_theirs[i];
    printf("grammar.%s.only_ours=%zu\n", name, p->n_only_ours);
    printf("grammar.%s.only_theirs=%zu\n", name, sum);
    for (size_t i = 0; i < N_WHYS; i++)
        printf("grammar.%s.only_theirs_%s=%zu\n", name, names[i], p->n_only_theirs[i]);
}

static void apply_theirs(struct pair *p, struct llama_sampler *sampler, double *us)
{
    llama_token_data_array list = {.data = p->data, .size = p->trie->n_tokens, .selected = -1};
    int64_t start;

    for (size_t i = 0; i < p->trie->n_tokens; i++)
        p->data[i] = (llama_token_data){.id = (llama_token)i};
    start = cpu_us();
    llama_sampler_apply(sampler, &list);
    *us += (double)(cpu_us() - start);
}

static void answer_beside(struct pair *p, struct rv_grammar *g, struct llama_sampler *sampler, struct rv_rng *rng)
{
    struct rv_grammar_matcher *m = new_matcher(g);

    rv_buf_clear(&p->text);
    for (int k = 0; k < BESIDE_TOKENS && !rv_grammar_matcher_is_complete(m); k++) {
        uint8_t bytes[RV_TOKEN_TRIE_MAX_LEN];
        double ours = 0, theirs = 0;
        const uint64_t *bits = apply(m, p->logits, p->trie->n_tokens, &ours);
        int64_t start;
        int32_t token;

        apply_theirs(p, sampler, &theirs);
        for (size_t i = 0; i < p->trie->n_tokens; i++) {
            p->n_only_ours += is_set(bits, i) && p->data[i].logit == -INFINITY;
            if (!is_set(bits, i) && p->data[i].logit != -INFINITY)
                p->n_only_theirs[why_not(p, (int32_t)i)]++;
        }
        token = pick(bits, p->data, p->trie, rng);
        if (token < 0 || rv_vocab_is_eog(p->trie->vocab, token))
            break;
        accept(m, token, &ours);
        rv_buf_add(&p->text, bytes, rv_token_trie_bytes(p->trie, token, bytes));
        start = cpu_us();
        llama_sampler_accept(sampler, token);
        p->ours[p->n] = ours;
        p->theirs[p->n++] = theirs + (double)(cpu_us() - start);
    }
    rv_grammar_matcher_free(m);
}

static void run_beside(const char *name, const struct rv_token_trie *trie, const struct llama_vocab *vocab,
                       const char *text)
{
    struct pair *p = rv_calloc(1, sizeof(*p));
    struct rv_grammar *g = compile(name, trie, RV_GRAMMAR_GBNF, text);
    struct rv_rng rng;

    if (p) {
        p->trie = trie;
        p->logits = rv_calloc(trie->n_tokens, sizeof(*p->logits));
        p->data = rv_calloc(trie->n_tokens, sizeof(*p->data));
    }
    if (!p || !p->logits || !p->data)
        die(name, "no memory");
    rv_buf_init(&p->text, 1 << 20);
    rv_rng_init(&rng, 1);
    for (int i = 0; i < BESIDE_ANSWERS; i++) {
        struct llama_sampler *sampler = llama_sampler_init_grammar(vocab, text, "root");

        if (!sampler)
            die(name, "libllama does not read the grammar");
        answer_beside(p, g, sampler, &rng);
        llama_sampler_free(sampler);
    }
    qsort(p->ours, p->n, sizeof(*p->ours), compare);
    qsort(p->theirs, p->n, sizeof(*p->theirs), compare);
    printf("grammar.%s.tokens=%zu\n", name, p->n);
    print_verdicts(name, p);
    printf("grammar.%s.ours_us_p50=%.0f\n", name, at_share(p->ours, p->n, 0.5));
    printf("grammar.%s.theirs_us_p50=%.0f\n", name, at_share(p->theirs, p->n, 0.5));
    printf("grammar.%s.ours_us_p99=%.0f\n", name, at_share(p->ours, p->n, 0.99));
    printf("grammar.%s.theirs_us_p99=%.0f\n", name, at_share(p->theirs, p->n, 0.99));
    printf("grammar.%s.ratio_p50=%.5f\n", name, at_share(p->ours, p->n, 0.5) / at_share(p->theirs, p->n, 0.5));
    printf("grammar.%s.ratio_p99=%.5f\n", name, at_share(p->ours, p->n, 0.99) / at_share(p->theirs, p->n, 0.99));
    rv_grammar_unref(g);
    rv_buf_release(&p->text);
    rv_free(p->logits);
    rv_free(p->data);
    rv_free(p);
}

static void measure_beside(const struct rv_token_trie *trie, const char *path)
{
    struct llama_model_params params = llama_model_default_params();
    struct llama_model *model;

    llama_log_set(silent, NULL);
    params.vocab_only = true;
    model = llama_model_load_from_file(path, params);
    if (!model)
        die(path, "libllama does not read it");
    if ((size_t)llama_vocab_n_tokens(llama_model_get_vocab(model)) != trie->n_tokens)
        die(path, "libllama sees another number of tokens");
    run_beside("beside_json", trie, llama_model_get_vocab(model), json_gbnf);
    run_beside("beside_counted", trie, llama_model_get_vocab(model), counted_gbnf);
    llama_model_free(model);
}

static int with_vocabulary(const char *path, bool is_beside)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();
    struct rv_token_trie *trie;
    struct ruvllm_error err;
    ruvllm_model *model;
    int64_t start;

    params.vocab_only = true;
    if (ruvllm_model_open(&model, path, &params, &err))
        die(path, err.message);
    start = cpu_us();
    if (rv_token_trie_new(&trie, model->vocab, &err))
        die(path, err.message);
    printf("grammar.vocabulary=%zu\n", trie->n_tokens);
    printf("grammar.trie_us=%lld\n", (long long)(cpu_us() - start));
    printf("grammar.trie_nodes=%d\n", (int)trie->n_nodes);
    if (is_beside)
        measure_beside(trie, path);
    else
        measure_masks(trie);
    rv_token_trie_free(trie);
    ruvllm_model_close(model);
    return 0;
}

/* ---- rows ------------------------------------------------------------------------------------------------- */

/* No answer to it is short, so that all rows are there from the first step to the last. */
static const char row_schema[] =
    "{\"type\":\"array\",\"minItems\":50,\"items\":{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\","
    "\"maxLength\":60},\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":150},\"kind\":{\"enum\":[\"person\","
    "\"robot\",\"other\"]},\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":3}}},\"required\":"
    "["
    "\"name\",\"age\",\"kind\",\"tags\"],\"additionalProperties\":false}}";

/* Tokens a second of N_ROWS answers at once. */
static double rows_round(ruvllm_engine *engine, const char *schema, uint64_t seed)
{
    static const char text[] = "A list of people as JSON:\n";
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text, .text_len = sizeof(text) - 1};
    struct ruvllm_request request = {.struct_size = sizeof(request), .input = &input, .params = &params};
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    int64_t start = rv_clock_us();
    struct ruvllm_error err;
    uint64_t ids[N_ROWS];
    size_t n = 0;

    params.max_tokens = ROW_TOKENS;
    params.ignore_eos = true;
    params.temperature = 1;
    params.json_schema = schema;
    params.has_seed = true;
    for (int i = 0; i < N_ROWS; i++) {
        params.seed = seed * N_ROWS + (uint64_t)i;
        if (ruvllm_engine_submit(engine, &request, &ids[i], &err))
            die("submit", err.message);
    }
    for (int i = 0; i < N_ROWS; i++) {
        do {
            if (ruvllm_engine_next_event(engine, ids[i], -1, &event, &err))
                die("event", err.message);
        } while (event.type != RUVLLM_EVENT_DONE);
        n += (size_t)event.response->n_tokens;
        ruvllm_response_free(event.response);
    }
    if (n != (size_t)N_ROWS * ROW_TOKENS)
        die("rows", "an answer was too short");
    return (double)n / ((double)(rv_clock_us() - start) / 1e6);
}

static int measure_rows(const char *path)
{
    struct ruvllm_engine_params params = ruvllm_engine_params_default();
    struct ruvllm_model_params model = ruvllm_model_params_default();
    double ratios[ROUNDS], with[ROUNDS], without[ROUNDS];
    struct ruvllm_error err;
    ruvllm_engine *engine;

    model.max_context = 256;
    params.model = &model;
    params.max_sequences = N_ROWS;
    params.speculate = false;
    if (ruvllm_engine_open(&engine, path, &params, &err))
        die(path, err.message);
    (void)rows_round(engine, row_schema, ROUNDS); // compiles it, and warms up
    for (uint64_t i = 0; i < ROUNDS; i++) {
        /* Who goes first changes, so that what a machine does over time hits both. */
        if (i % 2)
            with[i] = rows_round(engine, row_schema, i);
        without[i] = rows_round(engine, NULL, i);
        if (i % 2 == 0)
            with[i] = rows_round(engine, row_schema, i);
        ratios[i] = with[i] / without[i];
    }
    qsort(ratios, ROUNDS, sizeof(*ratios), compare);
    qsort(with, ROUNDS, sizeof(*with), compare);
    qsort(without, ROUNDS, sizeof(*without), compare);
    printf("grammar.rows64.with_tok_s=%.1f\n", with[ROUNDS / 2]);
    printf("grammar.rows64.without_tok_s=%.1f\n", without[ROUNDS / 2]);
    printf("grammar.rows64.ratio=%.4f\n", ratios[ROUNDS / 2]);
    printf("grammar.rows64.range=%.4f..%.4f\n", ratios[0], ratios[ROUNDS - 1]);
    ruvllm_engine_close(engine);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return with_vocabulary(argv[1], false);
    if (argc == 3 && strcmp(argv[1], "beside") == 0)
        return with_vocabulary(argv[2], true);
    if (argc == 3 && strcmp(argv[1], "rows") == 0)
        return measure_rows(argv[2]);
    fprintf(stderr, "usage: bench_grammar [beside|rows] MODEL.gguf\n");
    return 2;
}
