/*
 * The engine from outside: many requests at once give what each gives alone; prefixes are shared exactly; what is
 * cancelled leaves nothing behind; limits are errors.
 */
#include "base/clock.h"
#include "base/rng.h"
#include "support/test.h"

#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_SEQUENCES = 64, N_TENANTS = 8, N_ANSWER = 48, CONTEXT = 512, MAX_PROMPT = 2048 };

static const char *const beginnings[] = {
    "Once upon a time",       "The little dog", "Lily and Tom went to", "In the big forest there",
    "One day, a small robot", "Mum said that",  "The sun was hot and",  "A cat sat on the",
};

/* Two threads where threads matter; on models this small one is as fast, and a busy machine does not slow it down. */
static int32_t n_threads = 1;

static ruvllm_engine *open_engine(const char *name, const struct ruvllm_engine_params *wishes)
{
    struct ruvllm_model_params model = ruvllm_model_params_default();
    struct ruvllm_engine_params params = wishes ? *wishes : ruvllm_engine_params_default();
    ruvllm_engine *engine;

    test_need_file(test_data(name));
    model.max_context = CONTEXT;
    model.n_threads = n_threads;
    params.model = &model;
    assert_ok(ruvllm_engine_open(&engine, test_data(name), &params, err));
    return engine;
}

static struct ruvllm_generate_params greedy(int32_t max_tokens)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();

    params.temperature = 0;
    params.repetition_penalty = 1;
    params.max_tokens = max_tokens;
    params.n_logprobs = 2;
    return params;
}

static uint64_t submit(ruvllm_engine *engine, const char *text, const char *tenant,
                       const struct ruvllm_generate_params *params)
{
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text, .text_len = strlen(text)};
    struct ruvllm_request request = {
        .struct_size = sizeof(request), .input = &input, .params = params, .tenant = tenant};
    uint64_t id;

    assert_ok(ruvllm_engine_submit(engine, &request, &id, err));
    return id;
}

/* Reads to the end; the pieces must add up to the answer. */
static struct ruvllm_response *drain(ruvllm_engine *engine, uint64_t id)
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

static struct ruvllm_engine_stats stats_of(ruvllm_engine *engine)
{
    struct ruvllm_engine_stats stats = {.struct_size = sizeof(stats)};

    assert_ok(ruvllm_engine_stats_get(engine, &stats, err));
    return stats;
}

/* Statistics are copied after each step, so they may lag behind the last event by a moment. */
static void wait_until_idle(ruvllm_engine *engine)
{
    const struct timespec moment = {.tv_nsec = 1000000};

    for (int i = 0; i < 5000 && stats_of(engine).running + stats_of(engine).waiting > 0; i++)
        nanosleep(&moment, NULL);
    assert_int_equal(stats_of(engine).running + stats_of(engine).waiting, 0);
}

/* How far the second best is behind in token i. */
static float gap(const struct ruvllm_response *r, size_t i)
{
    const struct ruvllm_token_logprob *row = r->logprobs + i * r->logprobs_per_token;

    return row[1].logprob - row[2].logprob;
}

/*
 * Compares answers token by token up to a first difference, which only a near tie excuses: ggml multiplies one row and
 * many with different kernels, and what that does to a log-probability is the noise, measured on the tokens that agree.
 */
static size_t compare(const struct ruvllm_response *alone, const struct ruvllm_response *mixed, double *noise)
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

/* Every prompt alone and then all of them at once, of several tenants, on one engine. */
static void compare_crowd(ruvllm_engine *engine, char (*prompts)[MAX_PROMPT], size_t n_prompts)
{
    struct ruvllm_generate_params params = greedy(N_ANSWER);
    struct ruvllm_response *alone[N_SEQUENCES], *mixed;
    uint64_t ids[N_SEQUENCES];
    double noise = 1e-6;
    size_t n_different = 0;

    for (size_t i = 0; i < n_prompts; i++)
        alone[i] = drain(engine, submit(engine, prompts[i], NULL, &params));
    for (size_t i = 0; i < n_prompts; i++) {
        char tenant[16];

        snprintf(tenant, sizeof(tenant), "tenant %zu", i % N_TENANTS);
        ids[i] = submit(engine, prompts[i], tenant, &params);
    }
    for (size_t i = 0; i < n_prompts; i++) {
        mixed = drain(engine, ids[i]);
        n_different += compare(alone[i], mixed, &noise);
        ruvllm_response_free(mixed);
        ruvllm_response_free(alone[i]);
    }
    print_message("%zu of %zu answers differ; noise of a log-probability %.2e\n", n_different, n_prompts, noise);
    assert_true(n_different <= n_prompts * N_ANSWER / 500); // 0.2 % of the tokens; what follows one is its consequence
    wait_until_idle(engine);
    assert_int_equal(stats_of(engine).kv_used, 0);
}

static void a_mixed_crowd_answers_as_each_alone(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    static char prompts[N_SEQUENCES][MAX_PROMPT];
    ruvllm_engine *engine;

    (void)state;
    for (int i = 0; i < N_SEQUENCES; i++)
        snprintf(prompts[i], MAX_PROMPT, "%s %d times, %s", beginnings[i % 8], i, beginnings[(i / 8 + 3) % 8]);
    wishes.share_prefixes = false;
    engine = open_engine("models/stories15M-f16.gguf", &wishes);
    compare_crowd(engine, prompts, N_SEQUENCES);
    ruvllm_engine_close(engine);
}

/* Long enough for blocks to fall to eight and four bits, which must happen at the same places in a crowd. */
static void a_mixed_crowd_does_so_with_tiers_too(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct ruvllm_kv_policy tiers = ruvllm_kv_policy_default();
    static char prompts[N_SEQUENCES / 4][MAX_PROMPT];
    ruvllm_engine *engine;

    (void)state;
    for (int i = 0; i < N_SEQUENCES / 4; i++) {
        char *end = prompts[i];

        for (int k = 0; k < 24 + i % 5; k++)
            end += snprintf(end, 96, "%s number %d was %d years old. ", beginnings[(i + k) % 8], i, k * 7 + i);
    }
    tiers.hot_tokens = 32;
    tiers.warm_tokens = 32;
    wishes.kv = &tiers;
    wishes.share_prefixes = false;
    engine = open_engine("models/minimind2-26m-f16.gguf", &wishes);
    compare_crowd(engine, prompts, N_SEQUENCES / 4);
    print_message("%d blocks moved to another tier\n", (int)stats_of(engine).blocks_migrated);
    assert_true(stats_of(engine).blocks_migrated > 2 * N_SEQUENCES);
    ruvllm_engine_close(engine);
}

/* A text of about n tokens. */
static char *long_text(int n_sentences)
{
    char *text = calloc((size_t)n_sentences + 1, 64), *end = text;

    assert_non_null(text);
    for (int i = 0; i < n_sentences; i++)
        end += snprintf(end, 64, "%s number %d was happy. ", beginnings[i % 8], i);
    return text;
}

static void a_shared_beginning_is_computed_once(void **state)
{
    struct ruvllm_generate_params params = greedy(8);
    ruvllm_engine *engine = open_engine("models/stories15M-f16.gguf", NULL);
    struct ruvllm_response *first, *again, *other;
    char *text = long_text(15);

    (void)state;
    first = drain(engine, submit(engine, text, "a", &params));
    assert_int_equal(first->cached_tokens, 0);
    again = drain(engine, submit(engine, text, "a", &params));
    /* All full blocks, but the last token is computed anew. */
    assert_int_equal(again->cached_tokens, (again->prompt_tokens - 1) / 32 * 32);
    assert_int_equal(again->n_tokens, first->n_tokens);
    other = drain(engine, submit(engine, text, "b", &params));
    assert_int_equal(other->cached_tokens, 0);
    assert_int_equal((int)stats_of(engine).cached_tokens, again->cached_tokens);
    ruvllm_response_free(first);
    ruvllm_response_free(again);
    ruvllm_response_free(other);
    free(text);
    ruvllm_engine_close(engine);
}

static void a_running_request_shares_its_beginning(void **state)
{
    struct ruvllm_generate_params endless = greedy(100), params = greedy(4);
    ruvllm_engine *engine = open_engine("models/stories15M-f16.gguf", NULL);
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    struct ruvllm_response *second;
    char *text = long_text(8);
    uint64_t running;

    (void)state;
    endless.ignore_eos = true;
    running = submit(engine, text, NULL, &endless);
    assert_ok(ruvllm_engine_next_event(engine, running, 60000, &event, err));
    assert_int_equal(event.type, RUVLLM_EVENT_TEXT);
    second = drain(engine, submit(engine, text, NULL, &params));
    assert_int_equal(second->cached_tokens, (second->prompt_tokens - 1) / 32 * 32);
    ruvllm_response_free(second);
    assert_ok(ruvllm_engine_cancel(engine, running, err));
    free(text);
    ruvllm_engine_close(engine);
}

static void cancelling_leaves_nothing_behind(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct ruvllm_generate_params params = greedy(400);
    struct ruvllm_error failure;
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    ruvllm_engine *engine;
    struct rv_rng rng;
    uint64_t ids[16];

    (void)state;
    wishes.share_prefixes = false;
    engine = open_engine("models/stories260K.gguf", &wishes);
    params.ignore_eos = true;
    rv_rng_init(&rng, 5);
    for (int round = 0; round < 60; round++) {
        const struct timespec pause = {.tv_nsec = (long)rv_rng_below(&rng, 2000000)};

        for (int i = 0; i < 16; i++)
            ids[i] = submit(engine, beginnings[i % 8], NULL, &params);
        nanosleep(&pause, NULL);
        for (int i = 0; i < 16; i++)
            assert_ok(ruvllm_engine_cancel(engine, ids[i], err));
    }
    assert_fails(ruvllm_engine_next_event(engine, ids[0], 0, &event, &failure), RUVLLM_NOT_FOUND, failure,
                 "no such request");
    assert_fails(ruvllm_engine_cancel(engine, ids[0], &failure), RUVLLM_NOT_FOUND, failure, "no such request");
    wait_until_idle(engine);
    assert_int_equal(stats_of(engine).kv_used, 0);
    ruvllm_engine_close(engine);
}

static void a_full_engine_is_busy(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct ruvllm_generate_params params = greedy(400);
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = "One day", .text_len = 7};
    struct ruvllm_request request = {.struct_size = sizeof(request), .input = &input, .params = &params};
    struct ruvllm_error failure;
    ruvllm_engine *engine;
    uint64_t id;

    (void)state;
    wishes.max_sequences = 2;
    wishes.max_queue = 3;
    params.ignore_eos = true;
    engine = open_engine("models/stories260K.gguf", &wishes);
    for (int i = 0; i < 5; i++)
        (void)submit(engine, "One day", NULL, &params);
    assert_fails(ruvllm_engine_submit(engine, &request, &id, &failure), RUVLLM_BUSY, failure, "try again");
    ruvllm_engine_close(engine); // ends them, running and waiting
}

static void what_cannot_fit_is_refused(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct ruvllm_generate_params params = greedy(400);
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = "One day", .text_len = 7};
    struct ruvllm_request request = {.struct_size = sizeof(request), .input = &input, .params = &params};
    struct ruvllm_error failure;
    ruvllm_engine *engine;
    uint64_t id;

    (void)state;
    wishes.kv_bytes = 100 << 10; // a few blocks of this model
    engine = open_engine("models/stories260K.gguf", &wishes);
    assert_fails(ruvllm_engine_submit(engine, &request, &id, &failure), RUVLLM_TOO_LARGE, failure, "keys and values");
    params.max_tokens = 20;
    ruvllm_response_free(drain(engine, submit(engine, "One day", NULL, &params)));
    ruvllm_engine_close(engine);
}

static void two_models_run_in_one_process(void **state)
{
    struct ruvllm_generate_params params = greedy(16);
    ruvllm_engine *small, *large;
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = "One day", .text_len = 7};
    uint64_t a, b;
    struct ruvllm_error failure;
    struct ruvllm_response *answer;

    (void)state;
    n_threads = 2;
    small = open_engine("models/stories260K.gguf", NULL);
    large = open_engine("models/stories15M-f16.gguf", NULL);
    n_threads = 1;
    a = submit(small, "One day", NULL, &params);
    b = submit(large, "One day", NULL, &params);
    answer = drain(small, a);
    assert_true(answer->text_len > 0);
    ruvllm_response_free(answer);
    answer = drain(large, b);
    assert_true(answer->text_len > 0);
    ruvllm_response_free(answer);
    assert_fails(
        ruvllm_generate((ruvllm_model *)(uintptr_t)ruvllm_engine_model(small), &input, NULL, &answer, &failure),
        RUVLLM_INVALID, failure, "served by an engine");
    ruvllm_engine_close(small);
    ruvllm_engine_close(large);
}

/* Memory for four sequences, and twelve that want it: all answers come, and they are the ones of an engine with room.
 */
static struct ruvllm_engine_stats compare_pressed(struct ruvllm_engine_params tight)
{
    struct ruvllm_kv_policy f16 = ruvllm_kv_policy_default();
    struct ruvllm_engine_params roomy = ruvllm_engine_params_default();
    struct ruvllm_generate_params params = greedy(200);
    struct ruvllm_response *expected[12], *answer;
    struct ruvllm_engine_stats stats;
    ruvllm_engine *engine;
    double noise = 1e-6;
    uint64_t ids[12];
    size_t n_different = 0;

    f16.cold = RUVLLM_PRECISION_FP16;
    roomy.kv = tight.kv = &f16;
    params.ignore_eos = true;
    engine = open_engine("models/stories260K.gguf", &roomy);
    for (int i = 0; i < 12; i++)
        expected[i] = drain(engine, submit(engine, beginnings[i % 8], i % 2 ? "a" : "b", &params));
    ruvllm_engine_close(engine);
    tight.kv_bytes = 28 * 24 * 1024; // 28 blocks; one sequence takes seven
    engine = open_engine("models/stories260K.gguf", &tight);
    for (int i = 0; i < 12; i++)
        ids[i] = submit(engine, beginnings[i % 8], i % 2 ? "a" : "b", &params);
    for (int i = 0; i < 12; i++) {
        answer = drain(engine, ids[i]);
        n_different += compare(expected[i], answer, &noise);
        ruvllm_response_free(answer);
        ruvllm_response_free(expected[i]);
    }
    wait_until_idle(engine);
    stats = stats_of(engine);
    print_message("%d preemptions, %d blocks spilled, %d restored, %zu answers differ\n", (int)stats.preempted,
                  (int)stats.blocks_spilled, (int)stats.blocks_restored, n_different);
    assert_true(stats.preempted > 0);
    assert_true(n_different <= 1);
    ruvllm_engine_close(engine);
    return stats;
}

static void pressure_changes_no_answer_in_f16(void **state)
{
    (void)state;
    assert_int_equal(compare_pressed(ruvllm_engine_params_default()).blocks_spilled, 0);
}

/* Without the tree, so that what comes back comes from the file. */
static void pressure_changes_no_answer_where_blocks_are_spilled(void **state)
{
    struct ruvllm_engine_params spilling = ruvllm_engine_params_default();
    struct ruvllm_engine_stats stats;

    (void)state;
    spilling.share_prefixes = false;
    spilling.spill_dir = "/tmp";
    spilling.spill_bytes = 16 << 20;
    stats = compare_pressed(spilling);
    assert_true(stats.blocks_restored > 0);
    assert_int_equal(stats.blocks_restored, stats.blocks_spilled);
    assert_int_equal(stats.spill_failures, 0);
}

static uint64_t submit_urgent(ruvllm_engine *engine, const char *text, const struct ruvllm_generate_params *params)
{
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text, .text_len = strlen(text)};
    struct ruvllm_request request = {
        .struct_size = sizeof(request), .input = &input, .params = params, .priority = 100};
    uint64_t id;

    assert_ok(ruvllm_engine_submit(engine, &request, &id, err));
    return id;
}

/*
 * One place, and others who take it again and again. What was interrupted lies in the file in three precisions; when it
 * goes on, nothing is computed twice, so there is not even noise: the answer is that of an engine that never stopped.
 */
static void an_interrupted_answer_is_the_same_to_the_bit(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct ruvllm_kv_policy tiers = ruvllm_kv_policy_default();
    struct ruvllm_generate_params params = greedy(120), brief = greedy(4);
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    struct ruvllm_response *expected, *answer;
    struct ruvllm_engine_stats stats;
    char *text = long_text(22);
    ruvllm_engine *engine;
    uint64_t id;

    (void)state;
    tiers.hot_tokens = 32;
    tiers.warm_tokens = 64;
    params.ignore_eos = true;
    wishes.kv = &tiers;
    wishes.max_sequences = 1;
    wishes.share_prefixes = false;
    wishes.spill_dir = "/tmp";
    wishes.spill_bytes = 64 << 20;
    engine = open_engine("models/minimind2-26m-f16.gguf", &wishes);
    expected = drain(engine, submit(engine, text, NULL, &params));
    assert_int_equal(stats_of(engine).blocks_spilled, 0);
    id = submit(engine, text, NULL, &params);
    for (int i = 0; i < 4; i++) {
        assert_ok(ruvllm_engine_next_event(engine, id, 60000, &event, err));
        assert_int_equal(event.type, RUVLLM_EVENT_TEXT);
        ruvllm_response_free(drain(engine, submit_urgent(engine, beginnings[i], &brief)));
    }
    do
        assert_ok(ruvllm_engine_next_event(engine, id, 60000, &event, err));
    while (event.type != RUVLLM_EVENT_DONE);
    answer = event.response;
    assert_int_equal(answer->n_tokens, expected->n_tokens);
    assert_memory_equal(answer->tokens, expected->tokens, answer->n_tokens * sizeof(*answer->tokens));
    for (size_t i = 0; i < answer->n_tokens * answer->logprobs_per_token; i++)
        assert_true(answer->logprobs[i].logprob == expected->logprobs[i].logprob);
    wait_until_idle(engine);
    stats = stats_of(engine);
    print_message("%d preemptions, %d blocks spilled, %d restored\n", (int)stats.preempted, (int)stats.blocks_spilled,
                  (int)stats.blocks_restored);
    assert_true(stats.preempted >= 2 && stats.blocks_restored > 16);
    assert_int_equal(stats.blocks_squeezed, 0);
    ruvllm_response_free(expected);
    ruvllm_response_free(answer);
    ruvllm_engine_close(engine);
    free(text);
}

static void a_spill_folder_that_is_not_there_is_an_error(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct ruvllm_error failure;
    ruvllm_engine *engine;

    (void)state;
    test_need_file(test_data("models/stories260K.gguf"));
    wishes.spill_dir = "/tmp/there/is/no/such/folder";
    wishes.spill_bytes = 1 << 20;
    assert_fails(ruvllm_engine_open(&engine, test_data("models/stories260K.gguf"), &wishes, &failure), RUVLLM_NOT_FOUND,
                 failure, "cannot make a spill file");
    wishes.spill_dir = "/tmp";
    wishes.spill_bytes = 1;
    assert_fails(ruvllm_engine_open(&engine, test_data("models/stories260K.gguf"), &wishes, &failure), RUVLLM_INVALID,
                 failure, "no room for a block");
}

/* A request for what a session is about. */
static struct ruvllm_request request_of(const struct ruvllm_input *input, const char *tenant)
{
    return (struct ruvllm_request){.struct_size = sizeof(struct ruvllm_request), .input = input, .tenant = tenant};
}

static void a_session_outlives_its_engine(void **state)
{
    struct ruvllm_generate_params params = greedy(8);
    const char *path = test_temp_path(".session");
    char *text = long_text(15);
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text, .text_len = strlen(text)};
    struct ruvllm_request mine = request_of(&input, "a"), theirs = request_of(&input, "b");
    struct ruvllm_response *first, *again;
    struct ruvllm_error failure;
    ruvllm_engine *engine;
    int32_t n_saved, n_loaded;

    (void)state;
    engine = open_engine("models/minimind2-26m-f16.gguf", NULL);
    assert_fails(ruvllm_engine_save_session(engine, &mine, path, &n_saved, &failure), RUVLLM_NOT_FOUND, failure,
                 "nothing of this conversation");
    first = drain(engine, submit(engine, text, "a", &params));
    assert_ok(ruvllm_engine_save_session(engine, &mine, path, &n_saved, err));
    assert_true(n_saved >= first->prompt_tokens / 32 * 32);
    ruvllm_engine_close(engine);

    engine = open_engine("models/minimind2-26m-f16.gguf", NULL);
    assert_fails(ruvllm_engine_load_session(engine, &theirs, path, &n_loaded, &failure), RUVLLM_INVALID, failure,
                 "another tenant");
    assert_ok(ruvllm_engine_load_session(engine, &mine, path, &n_loaded, err));
    assert_int_equal(n_loaded, n_saved);
    again = drain(engine, submit(engine, text, "a", &params));
    assert_int_equal(again->cached_tokens, (again->prompt_tokens - 1) / 32 * 32);
    assert_int_equal(again->n_tokens, first->n_tokens);
    assert_memory_equal(again->tokens, first->tokens, first->n_tokens * sizeof(*first->tokens));
    ruvllm_engine_close(engine);

    engine = open_engine("models/stories15M-f16.gguf", NULL);
    assert_fails(ruvllm_engine_load_session(engine, &mine, path, &n_loaded, &failure), RUVLLM_INVALID, failure,
                 "another model");
    ruvllm_engine_close(engine);
    ruvllm_response_free(first);
    ruvllm_response_free(again);
    free(text);
}

static void count_event(void *user, uint64_t id)
{
    (void)id;
    atomic_fetch_add((atomic_int *)user, 1);
}

static void listeners_are_called_and_slow_readers_miss_nothing(void **state)
{
    struct ruvllm_generate_params params = greedy(40);
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = "One day", .text_len = 7};
    struct ruvllm_request request = request_of(&input, NULL);
    const struct timespec moment = {.tv_nsec = 1000000};
    ruvllm_engine *engine = open_engine("models/stories260K.gguf", NULL);
    struct ruvllm_response *answer;
    atomic_int n_events = 0;
    uint64_t id;

    (void)state;
    params.ignore_eos = true;
    request.params = &params;
    request.on_event = count_event;
    request.user = &n_events;
    assert_ok(ruvllm_engine_submit(engine, &request, &id, err));
    for (int i = 0; i < 10000 && atomic_load(&n_events) < 41; i++)
        nanosleep(&moment, NULL);
    assert_true(atomic_load(&n_events) >= 40); // one a token, and the end
    answer = drain(engine, id);                // all of it at once
    assert_int_equal(answer->n_tokens, 40);
    ruvllm_response_free(answer);
    ruvllm_engine_close(engine);
}

enum { EMBED_CAP = 1024 };

static double similarity(const float *a, const float *b, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* Long enough for several pieces, while somebody else's answer goes on. */
static void embeddings_are_made_beside_what_runs(void **state)
{
    struct ruvllm_generate_params params = greedy(200);
    struct ruvllm_model_params own = ruvllm_model_params_default();
    static char text[MAX_PROMPT];
    static float alone[EMBED_CAP], beside[EMBED_CAP];
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text};
    struct ruvllm_request request = request_of(&input, NULL);
    ruvllm_engine *engine = open_engine("models/stories15M-f16.gguf", NULL);
    struct ruvllm_error failure;
    ruvllm_model *model;
    int32_t n_tokens;
    uint64_t id;

    (void)state;
    for (int i = 0; i < 24; i++)
        input.text_len += (size_t)snprintf(text + input.text_len, 64, "%s number %d. ", beginnings[i % 8], i);
    own.max_context = CONTEXT;
    own.n_threads = n_threads;
    assert_ok(ruvllm_model_open(&model, test_data("models/stories15M-f16.gguf"), &own, err));
    assert_ok(ruvllm_embed(model, &input, alone, EMBED_CAP, err));
    params.ignore_eos = true;
    id = submit(engine, "One day", NULL, &params);
    assert_ok(ruvllm_engine_embed(engine, &request, beside, EMBED_CAP, &n_tokens, err));
    assert_in_range(n_tokens, 129, 256);
    assert_true(fabs(similarity(beside, beside, 288) - 1) < 1e-4);
    assert_true(similarity(alone, beside, 288) > 0.9999);
    ruvllm_response_free(drain(engine, id));
    wait_until_idle(engine);
    assert_int_equal(stats_of(engine).kv_blocks_f16, stats_of(engine).kv_blocks_idle); // nothing is held
    assert_fails(ruvllm_engine_embed(engine, &request, beside, 7, &n_tokens, &failure), RUVLLM_INVALID, failure,
                 "room");
    input.text_len = 0;
    input.no_bos = true;
    assert_fails(ruvllm_engine_embed(engine, &request, beside, EMBED_CAP, &n_tokens, &failure), RUVLLM_INVALID, failure,
                 "nothing to embed");
    ruvllm_model_close(model);
    ruvllm_engine_close(engine);
}

/* One of a tenant's requests that always wait; resubmitted when it is done. */
static uint64_t submit_weighted(ruvllm_engine *engine, int i, float share)
{
    struct ruvllm_generate_params params = greedy(16);
    char text[128];
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text};
    struct ruvllm_request request = request_of(&input, share > 1 ? "three" : "one");
    uint64_t id;

    params.ignore_eos = true;
    input.text_len = (size_t)snprintf(text, sizeof(text), "%s %d and then they went home", beginnings[i % 8], i);
    request.params = &params;
    request.share = share;
    assert_ok(ruvllm_engine_submit(engine, &request, &id, err));
    return id;
}

static void who_has_three_shares_is_served_three_times_as_much(void **state)
{
    enum { N_WAITING = 16, N_DONE = 320 };
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    static const float shares[2] = {1, 3};
    const struct timespec moment = {.tv_nsec = 100000};
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    uint64_t ids[2 * N_WAITING];
    int n_done[2] = {0};
    ruvllm_engine *engine;

    (void)state;
    wishes.max_sequences = 4;
    wishes.prefill_tokens = 16; // shares are compared in steps of eight times as much
    wishes.share_prefixes = false;
    engine = open_engine("models/stories260K.gguf", &wishes);
    for (int i = 0; i < 2 * N_WAITING; i++)
        ids[i] = submit_weighted(engine, i, shares[i % 2]);
    for (int i = 0; n_done[0] + n_done[1] < N_DONE; i = (i + 1) % (2 * N_WAITING)) {
        if (i == 0)
            nanosleep(&moment, NULL);
        assert_ok(ruvllm_engine_next_event(engine, ids[i], 0, &event, err));
        if (event.type != RUVLLM_EVENT_DONE)
            continue;
        ruvllm_response_free(event.response);
        n_done[i % 2]++;
        ids[i] = submit_weighted(engine, i, shares[i % 2]);
    }
    print_message("%d answers for share 3, %d for share 1\n", n_done[1], n_done[0]);
    assert_in_range(100 * n_done[1] / n_done[0], 250, 360);
    ruvllm_engine_close(engine);
}

static void a_share_that_is_none_is_refused(void **state)
{
    static const float wrong[] = {-1, 1001, NAN, INFINITY};
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = "a", .text_len = 1};
    struct ruvllm_request request = request_of(&input, NULL);
    ruvllm_engine *engine = open_engine("models/stories260K.gguf", NULL);
    struct ruvllm_error failure;
    uint64_t id;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        request.share = wrong[i];
        assert_fails(ruvllm_engine_submit(engine, &request, &id, &failure), RUVLLM_INVALID, failure, "share");
    }
    request.share = 3;
    request.struct_size = offsetof(struct ruvllm_request, share); // a caller that does not know it
    assert_ok(ruvllm_engine_submit(engine, &request, &id, err));
    ruvllm_response_free(drain(engine, id));
    ruvllm_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mixed_crowd_answers_as_each_alone),
        cmocka_unit_test(a_mixed_crowd_does_so_with_tiers_too),
        cmocka_unit_test(a_shared_beginning_is_computed_once),
        cmocka_unit_test(a_running_request_shares_its_beginning),
        cmocka_unit_test(cancelling_leaves_nothing_behind),
        cmocka_unit_test(a_full_engine_is_busy),
        cmocka_unit_test(what_cannot_fit_is_refused),
        cmocka_unit_test(two_models_run_in_one_process),
        cmocka_unit_test(pressure_changes_no_answer_in_f16),
        cmocka_unit_test(pressure_changes_no_answer_where_blocks_are_spilled),
        cmocka_unit_test(an_interrupted_answer_is_the_same_to_the_bit),
        cmocka_unit_test(a_spill_folder_that_is_not_there_is_an_error),
        cmocka_unit_test(a_session_outlives_its_engine),
        cmocka_unit_test(listeners_are_called_and_slow_readers_miss_nothing),
        cmocka_unit_test(embeddings_are_made_beside_what_runs),
        cmocka_unit_test(who_has_three_shares_is_served_three_times_as_much),
        cmocka_unit_test(a_share_that_is_none_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
