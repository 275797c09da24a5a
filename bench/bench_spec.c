/*
 * What guessing ahead gains, and whether it ever costs: answers of an engine that guesses beside those of one that does
 * not, in turns, greedy unless said otherwise.
 *
 *     bench_spec MODEL copy            prompts whose text the answer repeats
 *     bench_spec MODEL free            stories drawn at temperature 1, in which nothing repeats
 *     bench_spec MODEL draft DRAFT     a small model guesses
 *
 *     spec.<case>.ratio          tokens a second with guessing, over those without; median of the rounds
 *     spec.<case>.range          of the rounds
 *     spec.<case>.right          share of the guesses that held
 *     spec.<case>.of_predicted   the ratio over what the right guesses and the times of steps by their rows, measured
 *                                here too, let expect
 */
#include "ruvllm.h"

#include "base/clock.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_THREADS = 2, ROUNDS = 7, CONTEXT = 1024, ANSWER = 128, MAX_ROWS = 9 };

static const char *const copied =
    "The old lighthouse keeper climbed the stairs every evening at seven. He lit the lamp, wiped the glass, and wrote "
    "the "
    "weather into his book. Then he made tea and looked at the ships that passed far away. One night a small boat came "
    "too near the rocks, and he rang the bell until it turned around.\n\n";
static const char *const begun = "Once upon a time, in a place nobody has ever heard of,";

static void die(const char *what, const struct ruvllm_error *err)
{
    fprintf(stderr, "bench_spec: %s: %s\n", what, err ? err->message : "failed");
    exit(1);
}

static ruvllm_engine *open_engine(const char *path, bool speculates, const char *draft)
{
    struct ruvllm_model_params model = ruvllm_model_params_default();
    struct ruvllm_engine_params params = ruvllm_engine_params_default();
    struct ruvllm_error err;
    ruvllm_engine *engine;

    model.n_threads = N_THREADS;
    model.max_context = CONTEXT;
    params.model = &model;
    params.max_sequences = MAX_ROWS;
    params.speculate = speculates;
    params.draft_model = draft;
    params.share_prefixes = false;
    if (ruvllm_engine_open(&engine, path, &params, &err))
        die(path, &err);
    return engine;
}

static uint64_t submit(ruvllm_engine *engine, const char *text, float temperature, uint64_t seed, int32_t n)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text, .text_len = strlen(text)};
    struct ruvllm_request request = {.struct_size = sizeof(request), .input = &input, .params = &params};
    struct ruvllm_error err;
    uint64_t id;

    params.max_tokens = n;
    params.ignore_eos = true;
    params.temperature = temperature;
    params.top_p = 1;
    params.repetition_penalty = 1;
    params.has_seed = true;
    params.seed = seed;
    if (ruvllm_engine_submit(engine, &request, &id, &err))
        die("submit", &err);
    return id;
}

static struct ruvllm_response *drain(ruvllm_engine *engine, uint64_t id)
{
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    struct ruvllm_error err;

    do {
        if (ruvllm_engine_next_event(engine, id, -1, &event, &err))
            die("event", &err);
    } while (event.type != RUVLLM_EVENT_DONE);
    return event.response;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), by_value);
    return values[n / 2];
}

static struct ruvllm_engine_stats stats_of(ruvllm_engine *engine)
{
    struct ruvllm_engine_stats stats = {.struct_size = sizeof(stats)};
    struct ruvllm_error err;

    if (ruvllm_engine_stats_get(engine, &stats, &err))
        die("stats", &err);
    return stats;
}

/* What an answer took after its first token, in microseconds a token. */
static double token_us(ruvllm_engine *engine, const char *text, float temperature, uint64_t seed)
{
    struct ruvllm_response *r = drain(engine, submit(engine, text, temperature, seed, ANSWER));
    double us = (double)r->decode_us / (double)(r->n_tokens - 1);

    ruvllm_response_free(r);
    return us;
}

/* Microseconds of a step of n rows: as many sequences. */
static double step_us(ruvllm_engine *engine, int n_rows)
{
    double times[5];

    for (int i = 0; i < 5; i++) {
        uint64_t ids[MAX_ROWS];
        double slowest = 0;

        for (int k = 0; k < n_rows; k++)
            ids[k] = submit(engine, begun, 1, (uint64_t)k, 24);
        for (int k = 0; k < n_rows; k++) {
            struct ruvllm_response *r = drain(engine, ids[k]);
            double us = (double)r->decode_us / (double)(r->n_tokens - 1);

            slowest = us > slowest ? us : slowest;
            ruvllm_response_free(r);
        }
        times[i] = slowest;
    }
    return median(times, 5);
}

/* Tokens a second over those without guesses that the right ones and the times of steps let expect. */
static double predict(ruvllm_engine *plain, const struct ruvllm_engine_stats *from,
                      const struct ruvllm_engine_stats *to, double draft_us)
{
    double n_steps = (double)(to->steps - from->steps), n_right = (double)(to->accepted_tokens - from->accepted_tokens);
    double each = (double)(to->drafted_tokens - from->drafted_tokens) / n_steps; // guesses a step
    int below = 1 + (int)each;
    double low = step_us(plain, below), high = below < MAX_ROWS ? step_us(plain, below + 1) : low;
    double one = below == 1 ? low : step_us(plain, 1), step = low + (high - low) * (each - (int)each);

    return (1 + n_right / n_steps) * one / (step + each * draft_us);
}

static void run(const char *path, const char *name, const char *draft)
{
    bool is_free = strcmp(name, "free") == 0;
    ruvllm_engine *plain = open_engine(path, false, NULL), *guessing = open_engine(path, true, draft);
    struct ruvllm_engine_stats from, to;
    double ratios[ROUNDS], draft_us = 0, ratio;
    char text[4096];

    snprintf(text, sizeof(text), "%s%s%.60s", copied, copied, copied);
    if (is_free || draft)
        snprintf(text, sizeof(text), "%s", begun);
    for (int i = 0; i < 2; i++) { // what rows cost is learned here
        (void)token_us(guessing, text, is_free, 100 + (uint64_t)i);
        (void)token_us(plain, text, is_free, 100 + (uint64_t)i);
    }
    from = stats_of(guessing);
    for (int i = 0; i < ROUNDS; i++) {
        double with = token_us(guessing, text, is_free, (uint64_t)i),
               without = token_us(plain, text, is_free, (uint64_t)i);

        ratios[i] = without / with;
    }
    to = stats_of(guessing);
    if (draft) {
        ruvllm_engine *alone = open_engine(draft, false, NULL);

        draft_us = step_us(alone, 1);
        ruvllm_engine_close(alone);
    }
    ratio = median(ratios, ROUNDS);
    printf("spec.%s.ratio=%.3f\n", name, ratio);
    printf("spec.%s.range=%.3f..%.3f\n", name, ratios[0], ratios[ROUNDS - 1]);
    printf("spec.%s.guesses=%llu\n", name, (unsigned long long)(to.drafted_tokens - from.drafted_tokens));
    printf("spec.%s.right=%.3f\n", name,
           to.drafted_tokens > from.drafted_tokens
               ? (double)(to.accepted_tokens - from.accepted_tokens) / (double)(to.drafted_tokens - from.drafted_tokens)
               : 0.0);
    printf("spec.%s.of_predicted=%.3f\n", name, ratio / predict(plain, &from, &to, draft_us));
    ruvllm_engine_close(plain);
    ruvllm_engine_close(guessing);
}

int main(int argc, char **argv)
{
    if (argc < 3 || (strcmp(argv[2], "draft") == 0) != (argc == 4)) {
        fprintf(stderr, "usage: bench_spec MODEL copy|free\n       bench_spec MODEL draft DRAFT\n");
        return 2;
    }
    run(argv[1], argv[2], argc == 4 ? argv[3] : NULL);
    return 0;
}
