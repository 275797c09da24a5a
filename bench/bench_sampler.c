/*
 * Time to choose a token from 151,936 logits (Qwen's vocabulary), beside the same choice made by sorting the whole row
 * with qsort, both measured in this run. Prints name=value lines: microseconds (the fastest of ROUNDS), and ours over
 * the sort's.
 */
#include "base/clock.h"
#include "base/rng.h"
#include "sample/sampler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_VOCAB 151936
#define ROUNDS 31

struct pair {
    float logit;
    int32_t token;
};

static float source[N_VOCAB], row[N_VOCAB];
static struct pair pairs[N_VOCAB];
static int64_t sink; // keeps the compiler from dropping the work

static int by_logit(const void *a, const void *b)
{
    float x = ((const struct pair *)a)->logit, y = ((const struct pair *)b)->logit;

    return (x < y) - (x > y);
}

/* Sort everything, softmax, cut at p, draw: what the sampler replaces. */
static int32_t choose_by_sorting(struct rv_rng *rng, const float *logits, double p)
{
    double total = 0, mass = 0, mark;
    size_t n = 0;

    for (size_t i = 0; i < N_VOCAB; i++)
        pairs[i] = (struct pair){logits[i], (int32_t)i};
    qsort(pairs, N_VOCAB, sizeof(pairs[0]), by_logit);
    for (size_t i = 0; i < N_VOCAB; i++)
        total += exp((double)(pairs[i].logit - pairs[0].logit) / 0.7);
    while (n < N_VOCAB && mass < p * total)
        mass += exp((double)(pairs[n++].logit - pairs[0].logit) / 0.7);
    mark = rv_rng_uniform(rng) * mass;
    for (size_t i = 0; i < n; i++) {
        mark -= exp((double)(pairs[i].logit - pairs[0].logit) / 0.7);
        if (mark < 0)
            return pairs[i].token;
    }
    return pairs[0].token;
}

/* The fastest: other programs on the machine only ever add. */
static double least(const int64_t *times)
{
    int64_t best = times[0];

    for (int i = 1; i < ROUNDS; i++)
        best = times[i] < best ? times[i] : best;
    return (double)best;
}

static double time_sorting(void)
{
    int64_t times[ROUNDS];
    struct rv_rng rng;

    rv_rng_init(&rng, 1);
    for (int i = 0; i < ROUNDS; i++) {
        int64_t start = rv_clock_us();

        sink += choose_by_sorting(&rng, source, 0.9);
        times[i] = rv_clock_us() - start;
    }
    return least(times);
}

static double time_sampler(const struct ruvllm_generate_params *params)
{
    struct ruvllm_error err;
    struct rv_sampler *s;
    int64_t times[ROUNDS];

    if (rv_sampler_new(&s, params, N_VOCAB, &err)) {
        fprintf(stderr, "bench_sampler: %s\n", err.message);
        exit(1);
    }
    for (int i = 0; i < ROUNDS; i++) {
        int32_t token = 0;
        int64_t start;

        memcpy(row, source, sizeof(row));
        start = rv_clock_us();
        if (rv_sampler_choose(s, row, &token, &err))
            exit(1);
        times[i] = rv_clock_us() - start;
        sink += token;
        rv_sampler_accept(s, token);
    }
    rv_sampler_free(s);
    return least(times);
}

static double time_logprobs(void)
{
    struct ruvllm_token_logprob top[20];
    int64_t times[ROUNDS];
    double lse;

    for (int i = 0; i < ROUNDS; i++) {
        int64_t start = rv_clock_us();

        rv_sampler_top_logprobs(source, N_VOCAB, 20, top, &lse);
        times[i] = rv_clock_us() - start;
        sink += top[0].token;
    }
    return least(times);
}

/* `zipf`: log-rank logits in random order, as trained models have them; `normal`: a wide bell; `flat`: the hardest. */
static void make_row(const char *shape)
{
    struct rv_rng rng;

    rv_rng_init(&rng, 2);
    for (size_t i = 0; i < N_VOCAB; i++)
        source[i] = strcmp(shape, "zipf") == 0
                        ? (float)(12 - 1.5 * log((double)(i + 1)) + 0.3 * rv_rng_normal(&rng))
                        : (float)(strcmp(shape, "flat") ? 2.5 : 0.001) * (float)rv_rng_normal(&rng);
    for (size_t i = N_VOCAB - 1; i > 0; i--) {
        size_t j = (size_t)rv_rng_below(&rng, i + 1);
        float swap = source[i];

        source[i] = source[j];
        source[j] = swap;
    }
}

static void print_figure(const char *setting, const char *shape, double us, double sort_us)
{
    printf("sampler.%s.%s_us=%.0f\n", setting, shape, us);
    printf("sampler.%s.%s_over_qsort=%.4f\n", setting, shape, us / sort_us);
}

int main(void)
{
    static const char *const shapes[] = {"zipf", "normal", "flat"};

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct ruvllm_generate_params p = {.struct_size = sizeof(p),
                                           .temperature = 0.0f,
                                           .top_p = 1.0f,
                                           .typical_p = 1.0f,
                                           .repetition_penalty = 1.1f,
                                           .penalty_window = 64,
                                           .has_seed = true};
        double sort_us;

        make_row(shapes[i]);
        sort_us = time_sorting();
        printf("sampler.qsort.%s_us=%.0f\n", shapes[i], sort_us);
        print_figure("greedy", shapes[i], time_sampler(&p), sort_us);
        p.temperature = 0.7f;
        print_figure("plain", shapes[i], time_sampler(&p), sort_us);
        p.top_p = 0.9f;
        print_figure("top_p", shapes[i], time_sampler(&p), sort_us);
        p.top_k = 40;
        print_figure("top_k_top_p", shapes[i], time_sampler(&p), sort_us);
        p.top_k = 0;
        p.typical_p = 0.9f;
        print_figure("typical_top_p", shapes[i], time_sampler(&p), sort_us);
        print_figure("logprobs20", shapes[i], time_logprobs(), sort_us);
    }
    return sink == 42; // never mind the value
}
