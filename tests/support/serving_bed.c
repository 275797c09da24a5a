#include "support/serving_bed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int32_t bed_n_threads = 1;
const char *const bed_beginnings[BED_N_BEGINNINGS] = {
    "Once upon a time",       "The little dog", "Lily and Tom went to", "In the big forest there",
    "One day, a small robot", "Mum said that",  "The sun was hot and",  "A cat sat on the",
};

ruvllm_engine *bed_open(const char *name, const struct ruvllm_engine_params *wishes)
{
    struct ruvllm_model_params model = ruvllm_model_params_default();
    struct ruvllm_engine_params params = wishes ? *wishes : ruvllm_engine_params_default();
    ruvllm_engine *engine;

    test_need_file(test_data(name));
    model.max_context = BED_CONTEXT;
    model.n_threads = bed_n_threads;
    params.model = &model;
    assert_ok(ruvllm_engine_open(&engine, test_data(name), &params, err));
    return engine;
}

struct ruvllm_generate_params bed_greedy(int32_t max_tokens)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();

    params.temperature = 0;
    params.repetition_penalty = 1;
    params.max_tokens = max_tokens;
    params.n_logprobs = 2;
    return params;
}

uint64_t bed_submit(ruvllm_engine *engine, const char *text, const char *tenant,
                    const struct ruvllm_generate_params *params)
{
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text, .text_len = strlen(text)};
    struct ruvllm_request request = {
        .struct_size = sizeof(request), .input = &input, .params = params, .tenant = tenant};
    uint64_t id;

    assert_ok(ruvllm_engine_submit(engine, &request, &id, err));
    return id;
}

struct ruvllm_response *bed_drain(ruvllm_engine *engine, uint64_t id)
{
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    size_t text_len = 0, n_tokens = 0;

    do {
        assert_ok(ruvllm_engine_next_event(engine, id, 60000, &event, err));
        assert_int_not_equal(event.type, RUVLLM_EVENT_NONE);
        assert_int_equal(strlen(event.text), event.text_len);
        text_len += event.text_len;
        n_tokens += event.n_tokens;
    } while (event.type != RUVLLM_EVENT_DONE);
    assert_int_equal(text_len, event.response->text_len);
    assert_int_equal(n_tokens, event.response->n_tokens);
    return event.response;
}

struct ruvllm_engine_stats bed_stats(ruvllm_engine *engine)
{
    struct ruvllm_engine_stats stats = {.struct_size = sizeof(stats)};

    assert_ok(ruvllm_engine_stats_get(engine, &stats, err));
    return stats;
}

void bed_wait_until_idle(ruvllm_engine *engine)
{
    const struct timespec moment = {.tv_nsec = 1000000};

    for (int i = 0; i < 5000 && bed_stats(engine).running + bed_stats(engine).waiting > 0; i++)
        nanosleep(&moment, NULL);
    assert_int_equal(bed_stats(engine).running + bed_stats(engine).waiting, 0);
}

/* How far the second best is behind in token i. */
static float gap(const struct ruvllm_response *r, size_t i)
{
    const struct ruvllm_token_logprob *row = r->logprobs + i * r->logprobs_per_token;

    return row[1].logprob - row[2].logprob;
}

size_t bed_compare(const struct ruvllm_response *alone, const struct ruvllm_response *mixed, double *noise)
{
    size_t n = alone->n_tokens < mixed->n_tokens ? alone->n_tokens : mixed->n_tokens;

    for (size_t i = 0; i < n; i++) {
        const struct ruvllm_token_logprob *a = alone->logprobs + i * alone->logprobs_per_token;
        const struct ruvllm_token_logprob *b = mixed->logprobs + i * mixed->logprobs_per_token;

        if (alone->tokens[i] != mixed->tokens[i]) {
            print_message("differs at token %zu: gap %.2e, noise so far %.2e\n", i, (double)gap(alone, i), *noise);
            assert_true((double)gap(alone, i) <= 2 * *noise);
            return 1;
        }
        if (fabs((double)(a->logprob - b->logprob)) > *noise)
            *noise = fabs((double)(a->logprob - b->logprob));
    }
    return alone->n_tokens != mixed->n_tokens;
}

char *bed_long_text(int n_sentences)
{
    char *text = calloc((size_t)n_sentences + 1, 64), *end = text;

    assert_non_null(text);
    for (int i = 0; i < n_sentences; i++)
        end += snprintf(end, 64, "%s number %d was happy. ", bed_beginnings[i % 8], i);
    return text;
}
struct ruvllm_request bed_request(const struct ruvllm_input *input, const char *tenant)
{
    return (struct ruvllm_request){.struct_size = sizeof(struct ruvllm_request), .input = input, .tenant = tenant};
}
