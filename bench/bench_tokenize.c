/*
 * Tokenising beside libllama: `bench_tokenize TEXT-FILE VOCAB.gguf...` prints megabytes a second of processor time,
 * best of three, for the first megabyte of the text, and whether the ids are equal.
 */
#include "base/alloc.h"
#include "engine/vocab_loader.h"
#include "model/gguf_file.h"
#include "text/vocab.h"

#include <llama.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_TEXT ((size_t)1 << 20)
#define ROUNDS 3

static void silent(enum ggml_log_level level, const char *text, void *user)
{
    (void)level;
    (void)text;
    (void)user;
}

static double seconds_since(clock_t start)
{
    return (double)(clock() - start) / CLOCKS_PER_SEC;
}

static double best(double a, double b)
{
    return b == 0 || a < b ? a : b;
}

static int measure(const struct rv_vocab *ours, const struct llama_vocab *theirs, const char *text, size_t len)
{
    int32_t *expected = malloc(MAX_TEXT * sizeof(*expected)), *ids = NULL;
    double ours_s = 0, theirs_s = 0;
    int32_t n_expected = 0;
    size_t n_ids = 0;

    for (int i = 0; expected && i < ROUNDS; i++) {
        clock_t start = clock();
        rv_free(ids);
        if (rv_vocab_encode(ours, text, len, NULL, 0, &ids, &n_ids, NULL))
            break;
        ours_s = best(seconds_since(start), ours_s);
        start = clock();
        n_expected = llama_tokenize(theirs, text, (int32_t)len, expected, (int32_t)MAX_TEXT, false, false);
        theirs_s = best(seconds_since(start), theirs_s);
    }
    printf("ours_mb_s=%.2f\nlibllama_mb_s=%.2f\nratio=%.2f\n", (double)len / ours_s / 1e6, (double)len / theirs_s / 1e6,
           theirs_s / ours_s);
    printf("equal=%d\n", ids && n_expected == (int32_t)n_ids && memcmp(ids, expected, n_ids * sizeof(*ids)) == 0);
    rv_free(ids);
    free(expected);
    return 0;
}

static int bench_file(const char *path, const char *text, size_t len)
{
    struct llama_model_params params = llama_model_default_params();
    struct ruvllm_error err = {0};
    struct rv_gguf_file *file = NULL;
    struct rv_vocab *vocab = NULL;
    struct llama_model *model;
    int rc = 1;

    params.vocab_only = true;
    model = llama_model_load_from_file(path, params);
    if (rv_gguf_file_open(&file, path, &err) || rv_vocab_loader_open(file, &vocab, &err) || !model) {
        fprintf(stderr, "bench_tokenize: cannot read '%s': %s\n", path, err.message);
    } else {
        printf("vocab=%s %s\n", path, rv_vocab_description(vocab));
        rc = measure(vocab, llama_model_get_vocab(model), text, len);
    }
    rv_vocab_free(vocab);
    rv_gguf_file_close(file);
    llama_model_free(model);
    return rc;
}

int main(int argc, char **argv)
{
    static char text[MAX_TEXT];
    FILE *file = argc > 2 ? fopen(argv[1], "rb") : NULL;
    size_t len;
    int rc = 0;

    if (!file) {
        fprintf(stderr, "usage: bench_tokenize TEXT-FILE VOCAB.gguf...\n");
        return 2;
    }
    len = fread(text, 1, sizeof(text), file);
    fclose(file);
    llama_log_set(silent, NULL);
    for (int i = 2; i < argc; i++)
        rc |= bench_file(argv[i], text, len);
    return rc;
}
