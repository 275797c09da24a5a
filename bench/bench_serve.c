/*
 * Many sequences at once, through the public API: N requests with prompts of their own are handed in together, and the
 * time until the last one is done is taken.
 *
 *     bench_serve MODEL SEQUENCES PROMPT ANSWER [THREADS] [f16|tiers]
 *
 * prints serve.<sequences>.tok_s= (prompt and answer tokens of all a second), serve.<sequences>.first_ms= (mean time to
 * the first token) and serve.<sequences>.steps=.
 */
#include "ruvllm.h"

#include "base/clock.h"
#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SEQUENCES = 256 };

static void die(const char *what, const struct ruvllm_error *err)
{
    fprintf(stderr, "bench_serve: %s: %s\n", what, err->message);
    exit(1);
}

static ruvllm_engine *open_engine(const char *path, int n_sequences, int n_tokens, int n_threads, int is_f16)
{
    struct ruvllm_model_params model = ruvllm_model_params_default();
    struct ruvllm_engine_params params = ruvllm_engine_params_default();
    struct ruvllm_kv_policy policy = ruvllm_kv_policy_default();
    struct ruvllm_error err;
    ruvllm_engine *engine;

    if (is_f16)
        policy.cold = RUVLLM_PRECISION_FP16;
    model.n_threads = n_threads;
    model.max_context = n_tokens + 32;
    params.model = &model;
    params.kv = &policy;
    params.max_sequences = n_sequences;
    params.kv_bytes = (uint64_t)4 << 30;
    if (ruvllm_engine_open(&engine, path, &params, &err))
        die(path, &err);
    return engine;
}

static uint64_t submit(ruvllm_engine *engine, struct rv_rng *rng, int32_t *tokens, int n_prompt, int n_answer)
{
    struct ruvllm_model_info info = {.struct_size = sizeof(info)};
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_input input = {.struct_size = sizeof(input), .tokens = tokens, .n_tokens = (size_t)n_prompt};
    struct ruvllm_request request = {
        .struct_size = sizeof(request), .input = &input, .params = &params, .no_shared_prefix = true};
    struct ruvllm_error err;
    uint64_t id;

    if (ruvllm_model_info_get(ruvllm_engine_model(engine), &info, &err))
        die("info", &err);
    for (int i = 0; i < n_prompt; i++)
        tokens[i] = (int32_t)rv_rng_below(rng, (uint64_t)info.n_vocab);
    params.max_tokens = n_answer;
    params.ignore_eos = true;
    params.temperature = 0;
    params.repetition_penalty = 1;
    if (ruvllm_engine_submit(engine, &request, &id, &err))
        die("submit", &err);
    return id;
}

/* Reads one request to its end; returns its time to the first token. */
static int64_t drain(ruvllm_engine *engine, uint64_t id)
{
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    struct ruvllm_error err;
    int64_t first;

    do {
        if (ruvllm_engine_next_event(engine, id, -1, &event, &err))
            die("event", &err);
    } while (event.type != RUVLLM_EVENT_DONE);
    first = event.response->prefill_us;
    ruvllm_response_free(event.response);
    return first;
}

int main(int argc, char **argv)
{
    uint64_t ids[MAX_SEQUENCES];
    struct ruvllm_engine_stats stats = {.struct_size = sizeof(stats)};
    struct ruvllm_error err;
    struct rv_rng rng;
    ruvllm_engine *engine;
    int n_sequences, n_prompt, n_answer;
    int64_t start, end, first_us = 0;
    int32_t *tokens;

    if (argc < 5) {
        fprintf(stderr, "usage: bench_serve MODEL SEQUENCES PROMPT ANSWER [THREADS] [f16|tiers]\n");
        return 2;
    }
    n_sequences = (int)strtol(argv[2], NULL, 10);
    n_prompt = (int)strtol(argv[3], NULL, 10);
    n_answer = (int)strtol(argv[4], NULL, 10);
    if (n_sequences < 1 || n_sequences > MAX_SEQUENCES || n_prompt < 1 || n_answer < 1)
        return 2;
    tokens = malloc((size_t)n_prompt * sizeof(*tokens));
    if (!tokens)
        return 1;
    rv_rng_init(&rng, 1);
    engine = open_engine(argv[1], n_sequences, n_prompt + n_answer, argc > 5 ? (int)strtol(argv[5], NULL, 10) : 0,
                         argc > 6 && strcmp(argv[6], "f16") == 0);
    drain(engine, submit(engine, &rng, tokens, 16, 4)); // pages and buffers come to life
    start = rv_clock_us();
    for (int i = 0; i < n_sequences; i++)
        ids[i] = submit(engine, &rng, tokens, n_prompt, n_answer);
    for (int i = 0; i < n_sequences; i++)
        first_us += drain(engine, ids[i]);
    end = rv_clock_us();
    if (ruvllm_engine_stats_get(engine, &stats, &err))
        die("stats", &err);
    printf("serve.%d.tok_s=%.2f\n", n_sequences, 1e6 * n_sequences * (n_prompt + n_answer) / (double)(end - start));
    printf("serve.%d.first_ms=%.1f\n", n_sequences, (double)first_us / n_sequences / 1e3);
    printf("serve.%d.steps=%llu\n", n_sequences, (unsigned long long)stats.steps);
    ruvllm_engine_close(engine);
    free(tokens);
    return 0;
}
