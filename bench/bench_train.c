/*
 * How many sequences of 256 tokens a second the backward pass trains on: forward, loss at the head and gradients of
 * rank-8 pairs beside all seven projections, every token with a weight.
 *
 *     bench_train MODEL [name [sequences at once [threads [rounds]]]]
 *
 * prints deep.<name>.seqs_per_s=, and besides what a forward pass alone does and the memory taken. The best round
 * counts.
 */
#include "base/clock.h"
#include "base/rng.h"
#include "learn/backward.h"

#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 256, MAX_AT_ONCE = 16, RANK = 8 };

static int fail(const struct ruvllm_error *err)
{
    fprintf(stderr, "bench_train: %s\n", err->message);
    return 1;
}

struct bench {
    struct rv_gguf_file *file;
    struct rv_hparams hparams;
    struct rv_manifest manifest;
    struct rv_team *team;
    struct rv_backward *backward;
    struct rv_trainable trainable;
    int32_t tokens[MAX_AT_ONCE][LENGTH];
    float weights[LENGTH];
    struct rv_backward_sequence sequences[MAX_AT_ONCE];
    int32_t n;
};

static ruvllm_status open_bench(struct bench *b, const char *path, int32_t n_threads, struct ruvllm_error *err)
{
    struct rv_rope_override rope = {.ext_factor = -1};
    struct rv_trainable_shape shape = {.hparams = &b->hparams,
                                       .manifest = &b->manifest,
                                       .parts = rv_trainable_all_parts(),
                                       .rank = RANK,
                                       .alpha = 2 * RANK,
                                       .seed = 1};
    struct rv_backward_config config = {.hparams = &b->hparams,
                                        .manifest = &b->manifest,
                                        .max_columns = b->n * LENGTH,
                                        .max_state_bytes = (uint64_t)2 << 30};
    ruvllm_status rc = rv_gguf_file_open(&b->file, path, err);

    if (!rc)
        rc = rv_hparams_read(&b->hparams, b->file, &rope, err);
    if (!rc)
        rc = rv_manifest_init(&b->manifest, b->file, &b->hparams, err);
    if (!rc)
        rc = rv_team_open(&b->team, n_threads, false, err);
    config.team = b->team;
    if (!rc)
        rc = rv_backward_new(&b->backward, &config, err);
    return rc ? rc : rv_trainable_init(&b->trainable, &shape, err);
}

/* Seconds of the best round. */
static ruvllm_status time_rounds(struct bench *b, bool has_gradients, int rounds, double *best,
                                 struct ruvllm_error *err)
{
    struct rv_backward_result result;

    *best = 1e30;
    for (int i = 0; i < rounds; i++) {
        int64_t start = rv_clock_us();
        ruvllm_status rc = rv_backward_run(b->backward, &b->trainable, b->sequences, b->n, has_gradients, &result, err);
        double seconds = (double)(rv_clock_us() - start) / 1e6;

        if (rc)
            return rc;
        *best = seconds < *best ? seconds : *best;
    }
    return RUVLLM_OK;
}

static void fill(struct bench *b)
{
    struct rv_rng rng;

    rv_rng_init(&rng, 1);
    for (int i = 0; i < LENGTH; i++)
        b->weights[i] = 1.0f;
    for (int32_t s = 0; s < b->n; s++) {
        for (int i = 0; i < LENGTH; i++)
            b->tokens[s][i] = (int32_t)rv_rng_below(&rng, (uint64_t)b->hparams.n_vocab);
        b->sequences[s] = (struct rv_backward_sequence){.tokens = b->tokens[s], .n = LENGTH, .weights = b->weights};
    }
}

int main(int argc, char **argv)
{
    static struct bench b;
    struct ruvllm_error err = {0};
    const char *name = argc > 2 ? argv[2] : "model";
    int32_t n_threads = argc > 4 ? (int32_t)strtol(argv[4], NULL, 10) : 2;
    int rounds = argc > 5 ? (int)strtol(argv[5], NULL, 10) : 3;
    double forward, both;

    b.n = argc > 3 ? (int32_t)strtol(argv[3], NULL, 10) : 2;
    if (argc < 2 || b.n < 1 || b.n > MAX_AT_ONCE || rounds < 1) {
        fprintf(stderr, "bench_train MODEL [name [sequences at once, 1 to 16 [threads [rounds]]]]\n");
        return 2;
    }
    if (open_bench(&b, argv[1], n_threads, &err))
        return fail(&err);
    fill(&b);
    if (time_rounds(&b, false, rounds, &forward, &err) || time_rounds(&b, true, rounds, &both, &err))
        return fail(&err);
    printf("deep.%s.seqs_per_s=%.3f\n", name, b.n / both);
    printf("deep.%s.forward_seqs_per_s=%.3f\n", name, b.n / forward);
    printf("deep.%s.mib=%.0f\n", name, (double)rv_backward_n_bytes(b.backward) / 1048576.0);
    rv_trainable_release(&b.trainable);
    rv_backward_free(b.backward);
    rv_team_close(b.team);
    rv_manifest_release(&b.manifest);
    rv_gguf_file_close(b.file);
    return 0;
}
