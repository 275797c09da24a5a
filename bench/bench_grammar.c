/*
 * What a grammar costs: compiling, and each token's mask, on a real vocabulary.
 *
 *     bench_grammar MODEL.gguf       only its vocabulary is read
 *
 * An answer is made of random allowed tokens, so that every state is visited. Prints name=value lines; times in us.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/rng.h"
#include "engine/model.h"
#include "sample/grammar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_ANSWERS = 40, MAX_TOKENS = 200, MAX_TIMES = N_ANSWERS * MAX_TOKENS };

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

/* A random allowed token; ends only where it must, so that answers are long. */
static int32_t pick(const uint64_t *bits, const struct rv_token_trie *trie, struct rv_rng *rng)
{
    size_t first = rv_rng_below(rng, (uint32_t)trie->n_tokens);
    int32_t end = -1;

    for (size_t i = 0; i < trie->n_tokens; i++) {
        size_t token = (first + i) % trie->n_tokens;

        if (!(bits[token / 64] >> (token % 64) & 1))
            continue;
        if (!rv_vocab_is_eog(trie->vocab, (int32_t)token))
            return (int32_t)token;
        end = (int32_t)token;
    }
    return end;
}

static void run(const char *name, const struct rv_token_trie *trie, enum rv_grammar_kind kind, const char *text)
{
    static double times[MAX_TIMES];
    struct rv_grammar_source source = {.kind = kind, .text = text, .len = strlen(text)};
    float *logits = rv_calloc(trie->n_tokens, sizeof(*logits));
    struct ruvllm_error err;
    struct rv_grammar *g;
    int64_t start = cpu_us(), compiled;
    size_t n = 0;
    struct rv_rng rng;

    if (!logits || rv_grammar_new(&g, &source, trie, &err)) {
        fprintf(stderr, "%s: %s\n", name, logits ? err.message : "no memory");
        exit(1);
    }
    compiled = cpu_us() - start;
    rv_rng_init(&rng, 1);
    for (int i = 0; i < N_ANSWERS; i++) {
        struct rv_grammar_matcher *m;

        if (rv_grammar_matcher_new(&m, g, &err))
            exit(1);
        for (int k = 0; k < MAX_TOKENS && !rv_grammar_matcher_is_complete(m); k++) {
            const uint64_t *bits;
            int32_t token;

            memset(logits, 0, trie->n_tokens * sizeof(*logits));
            start = cpu_us();
            if (rv_grammar_matcher_apply(m, logits, trie->n_tokens, &err) || rv_grammar_matcher_mask(m, &bits, &err)) {
                fprintf(stderr, "%s: %s\n", name, err.message);
                exit(1);
            }
            times[n] = (double)(cpu_us() - start);
            token = pick(bits, trie, &rng);
            if (rv_vocab_is_eog(trie->vocab, token))
                break;
            start = cpu_us();
            if (rv_grammar_matcher_accept(m, token, &err))
                exit(1);
            times[n++] += (double)(cpu_us() - start);
        }
        rv_grammar_matcher_free(m);
    }
    rv_grammar_unref(g);
    rv_free(logits);
    qsort(times, n, sizeof(*times), compare);
    printf("grammar.%s.compile_us=%lld\n", name, (long long)compiled);
    printf("grammar.%s.tokens=%zu\n", name, n);
    printf("grammar.%s.token_us_p50=%.0f\n", name, times[n / 2]);
    printf("grammar.%s.token_us_p99=%.0f\n", name, times[n * 99 / 100]);
    printf("grammar.%s.token_us_max=%.0f\n", name, times[n - 1]);
}

/* Close to 64 KiB of properties. */
static char *large_schema(void)
{
    struct rv_buf buf;

    rv_buf_init(&buf, 1 << 17);
    rv_buf_add_str(&buf, "{\"type\":\"object\",\"properties\":{");
    for (int i = 0; buf.len < 63 << 10; i++)
        rv_buf_addf(&buf, "%s\"property_%d\":{\"type\":\"%s\",\"title\":\"x\"}", i ? "," : "", i,
                    i % 3 ? "string" : "integer");
    rv_buf_add_str(&buf, "}}");
    return rv_buf_take(&buf, NULL);
}

int main(int argc, char **argv)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();
    char *large = large_schema();
    struct rv_token_trie *trie;
    struct ruvllm_error err;
    ruvllm_model *model;
    int64_t start;

    if (argc != 2 || !large) {
        fprintf(stderr, "usage: %s MODEL.gguf\n", argv[0]);
        return 2;
    }
    params.vocab_only = true;
    if (ruvllm_model_open(&model, argv[1], &params, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    start = cpu_us();
    if (rv_token_trie_new(&trie, model->vocab, &err))
        return 1;
    printf("grammar.vocabulary=%zu\n", trie->n_tokens);
    printf("grammar.trie_us=%lld\n", (long long)(cpu_us() - start));
    printf("grammar.trie_nodes=%d\n", (int)trie->n_nodes);
    run("object", trie, RV_GRAMMAR_JSON_OBJECT, "");
    run("schema", trie, RV_GRAMMAR_JSON_SCHEMA,
        "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":\"integer\",\"minimum\":"
        "0,"
        "\"maximum\":150},\"mail\":{\"type\":\"string\",\"format\":\"email\"},\"tags\":{\"type\":\"array\",\"items\":"
        "{\"type\":\"string\",\"maxLength\":40}},\"kind\":{\"enum\":[\"person\",\"robot\"]}},\"required\":[\"name\","
        "\"age\","
        "\"mail\",\"tags\",\"kind\"],\"additionalProperties\":false}");
    run("gbnf_json", trie, RV_GRAMMAR_GBNF,
        "root ::= object\nobject ::= \"{\" ws (pair (\",\" ws pair)*)? \"}\"\npair ::= string \":\" ws value\n"
        "string ::= \"\\\"\" char* \"\\\"\" ws\nchar ::= [^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" "
        "[0-9a-fA-F]{4})\nvalue ::= object | array | string | number | \"true\" ws | \"null\" ws\n"
        "array ::= \"[\" ws (value (\",\" ws value)*)? \"]\" ws\nnumber ::= \"-\"? [0-9]{1,15} (\".\" [0-9]+)? ws\n"
        "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n");
    run("regex", trie, RV_GRAMMAR_REGEX, "([A-Z][a-z]+ ){3,9}[^.]{10,200}\\.");
    run("large", trie, RV_GRAMMAR_JSON_SCHEMA, large);
    rv_token_trie_free(trie);
    ruvllm_model_close(model);
    rv_free(large);
    return 0;
}
