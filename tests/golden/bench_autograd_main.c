/*
 * How many sequences of 256 tokens a second ggml's automatic differentiation trains on, the model in F32: what
 * bench_train is held against.
 *
 *     bench_autograd MODEL [name [threads [rounds [GiB]]]]
 *
 * prints reference.<name>.seqs_per_s=; the best round counts, and building the graph does not.
 */
#include "golden/autograd_model.h"
#include "support/test.h"

#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 256, RANK = 8 };

static long number(int argc, char **argv, int at, long otherwise)
{
    return argc > at ? strtol(argv[at], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    struct rv_rope_override rope = {.ext_factor = -1};
    struct autograd_effort effort = {.n_threads = (int32_t)number(argc, argv, 3, 2),
                                     .max_bytes = (size_t)number(argc, argv, 5, 8) << 30};
    struct rv_trainable_shape shape = {.parts = rv_trainable_all_parts(), .rank = RANK, .alpha = 2 * RANK, .seed = 1};
    struct rv_gguf_file *file;
    struct rv_hparams hparams;
    struct rv_manifest manifest;
    struct rv_trainable trainable;
    struct double_model *model;
    struct ruvllm_error error;
    int32_t tokens[LENGTH];
    double best = 1e30;
    struct rv_rng rng;
    float *grads;

    shape.hparams = &hparams;
    shape.manifest = &manifest;
    if (argc < 2 || rv_gguf_file_open(&file, argv[1], &error) || rv_hparams_read(&hparams, file, &rope, &error) ||
        rv_manifest_init(&manifest, file, &hparams, &error) || rv_trainable_init(&trainable, &shape, &error)) {
        fprintf(stderr, "bench_autograd: %s\n", argc < 2 ? "MODEL [name [threads [rounds [GiB]]]]" : error.message);
        return 2;
    }
    model = double_model_new(&hparams, &manifest);
    grads = calloc(trainable.n, sizeof(*grads));
    rv_rng_init(&rng, 1);
    for (int i = 0; i < LENGTH; i++)
        tokens[i] = (int32_t)rv_rng_below(&rng, (uint64_t)hparams.n_vocab);
    for (long i = 0; grads && i < number(argc, argv, 4, 3); i++) {
        double seconds;

        (void)autograd_model_run_with(model, &hparams, &manifest, &trainable, tokens, LENGTH, &effort, grads, &seconds);
        best = seconds < best ? seconds : best;
    }
    printf("reference.%s.seqs_per_s=%.3f\n", argc > 2 ? argv[2] : "model", 1 / best);
    free(grads);
    double_model_free(model);
    rv_trainable_release(&trainable);
    rv_manifest_release(&manifest);
    rv_gguf_file_close(file);
    return 0;
}
