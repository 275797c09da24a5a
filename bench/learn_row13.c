/*
 * Row 13: what capturing costs who decodes: microseconds of capturing a token, over those of computing one, on one
 * thread as the engine does it. Besides, one stream decodes by an engine that captures and by one that does not, in
 * turn; `ab` is the median over rounds of how much longer an answer takes. Two engines that do the same differ by some
 * percent, so `ab` can only show what is larger than that. EXTRA as in row 12.
 */
#include "learn_common.h"
#include "learn_host.h"

#include "base/clock.h"
#include "base/rng.h"
#include "engine/engine_learn.h"
#include "engine/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PROMPT = 8, MAX_ROUNDS = 11, MAX_CAPTURED = 64 };

static char tenant[32]; // one that the store has never seen: who has always voted the same moves nothing

/* The other engine's threads wait busily for a while after its last step. */
static void let_settle(void)
{
    const struct timespec pause = {.tv_nsec = 400000000};

    nanosleep(&pause, NULL);
}

/* *id is of the answer. */
static double decode_us(struct host *host, uint64_t seed, int32_t n, uint64_t *id)
{
    struct host_ask ask = {
        .tenant = tenant, .seed = seed, .n_prompt = PROMPT, .n_answer = n, .temperature = 1, .n_logprobs = -1};
    struct ruvllm_response *r = host_ask(host, &ask, id);
    double us = (double)r->decode_us;

    ruvllm_response_free(r);
    return us;
}

/* The median time to capture a token with the engine's own state for it, while nobody asks it anything. */
static double capture_us(struct host *host, int32_t n)
{
    struct rv_head_gradient *g = &atomic_load(&host->engine->learn)->gradient;
    size_t n_dims = (size_t)host->engine->model->hparams.n_embd, n_vocab = (size_t)host->engine->model->hparams.n_vocab;
    float *state = lab_need(calloc(n_dims, sizeof(*state))), *logits = lab_need(calloc(n_vocab, sizeof(*logits)));
    double us[MAX_CAPTURED];
    struct rv_trace *trace;
    struct ruvllm_error err;
    struct rv_rng rng;

    if (rv_trace_new(&trace, 0, tenant, (int32_t)n_dims, n, &err))
        lab_die("trace", &err);
    rv_rng_init(&rng, 1);
    for (int32_t i = 0; i < n; i++) {
        int64_t start;

        for (size_t k = 0; k < n_dims; k++)
            state[k] = (float)rv_rng_normal(&rng);
        for (size_t k = 0; k < n_vocab; k++)
            logits[k] = 2 * (float)rv_rng_normal(&rng);
        start = rv_clock_us();
        rv_head_gradient_capture(g, trace, state, logits, 1, (int32_t)rv_rng_below(&rng, (uint32_t)n_vocab));
        us[i] = (double)(rv_clock_us() - start);
    }
    rv_trace_unref(trace);
    free(state);
    free(logits);
    return learn_sample_quantile(us, (size_t)n, 0.5);
}

void learn_row13(struct learn_args *args)
{
    struct host_config config = {
        .path = args->path, .store = args->extra, .context = 256, .n_threads = args->is_short ? 1 : 2};
    int n_rounds = args->is_short ? 9 : MAX_ROUNDS;
    double slower[MAX_ROUNDS], off[MAX_ROUNDS], best[2] = {1e30, 1e30};
    const int32_t n = 64;
    struct host hosts[2];
    uint64_t ids[2];
    double token_us;
    bool is_large;

    (void)snprintf(tenant, sizeof(tenant), "row13-%lld", (long long)rv_clock_us());
    host_open(&hosts[0], &config);
    config.learns = true;
    host_open(&hosts[1], &config);
    for (int i = -1; i < n_rounds; i++) { // the first one warms up; who goes first changes
        double us[2];

        for (int turn = 0; turn < 2; turn++) {
            int side = (i + 1 + turn) % 2;

            let_settle();
            us[side] = decode_us(&hosts[side], args->seed * 100 + (uint64_t)(i + 1), n, &ids[side]);
            best[side] = us[side] < best[side] ? us[side] : best[side];
        }
        if (i >= 0) {
            slower[i] = us[1] / us[0] - 1;
            off[i] = us[0] / (n - 1);
        }
    }
    /* The table names TinyLlama and the 0.5B shape; who computes a token in microseconds pays a larger share. */
    is_large = host_info(&hosts[0]).n_params > 100000000;
    token_us = learn_sample_quantile(off, (size_t)n_rounds, 0.5);
    learn_figure_print(args, &(struct learn_figure){.value = capture_us(&hosts[1], MAX_CAPTURED) / token_us,
                                                    .bound = is_large ? LEARN_AT_MOST : LEARN_FREE,
                                                    .must = 0.01,
                                                    .short_must = 0.5});
    learn_figure_print(
        args, &(struct learn_figure){.what = "ab", .value = learn_sample_quantile(slower, (size_t)n_rounds, 0.5)});
    /* Where others compute too, the best of each side says most. */
    learn_figure_print(args, &(struct learn_figure){.what = "ab.best",
                                                    .value = best[1] / best[0] - 1,
                                                    .bound = args->is_short ? LEARN_AT_MOST : LEARN_FREE,
                                                    .short_must = 2});
    learn_figure_print(args, &(struct learn_figure){.what = "captured", // else nothing was paid for
                                                    .value = host_vote(&hosts[1], tenant, ids[1], 0).kl > 0,
                                                    .bound = LEARN_AT_LEAST,
                                                    .must = 1,
                                                    .short_must = 1});
    for (int i = 0; i < 2; i++)
        learn_figure_print(
            args, &(struct learn_figure){.what = i == 0 ? "ab.p25" : "ab.p75",
                                         .value = learn_sample_quantile(slower, (size_t)n_rounds, 0.25 + 0.5 * i)});
    learn_figure_print(args, &(struct learn_figure){.what = "token_us", .value = token_us});
    host_close(&hosts[0]);
    host_close(&hosts[1]);
}
