/*
 * The engine from outside: many requests at once give what each gives alone; prefixes are shared exactly; what is
 * cancelled leaves nothing behind; limits are errors.
 */
#include "base/clock.h"
#include "base/rng.h"
#include "support/serving_bed.h"

#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Under a sanitizer, where a token costs twenty times as much, a smaller crowd does. */
enum {
    N_SEQUENCES = TEST_SANITIZED(16, 64),
    N_ANSWER = TEST_SANITIZED(24, 48),
    N_TIERED = N_SEQUENCES / TEST_SANITIZED(8, 4)
};
enum { N_TENANTS = 8 };

/* Every prompt alone and then all of them at once, of several tenants, on one engine. */
static void compare_crowd(ruvllm_engine *engine, char (*prompts)[BED_MAX_PROMPT], size_t n_prompts)
{
    struct ruvllm_generate_params params = bed_greedy(N_ANSWER);
    struct ruvllm_response *alone[N_SEQUENCES], *mixed;
    uint64_t ids[N_SEQUENCES];
    double noise = 1e-6;
    size_t n_different = 0;

    for (size_t i = 0; i < n_prompts; i++)
        alone[i] = bed_drain(engine, bed_submit(engine, prompts[i], NULL, &params));
    for (size_t i = 0; i < n_prompts; i++) {
        char tenant[16];

        snprintf(tenant, sizeof(tenant), "tenant %zu", i % N_TENANTS);
        ids[i] = bed_submit(engine, prompts[i], tenant, &params);
    }
    for (size_t i = 0; i < n_prompts; i++) {
        mixed = bed_drain(engine, ids[i]);
        n_different += bed_compare(alone[i], mixed, &noise);
        ruvllm_response_free(mixed);
        ruvllm_response_free(alone[i]);
    }
    print_message("%zu of %zu answers differ; noise of a log-probability %.2e\n", n_different, n_prompts, noise);
    assert_true(n_different <= (n_prompts * N_ANSWER + 499) / 500); // 0.2 % of the tokens, what follows one aside
    bed_wait_until_idle(engine);
    assert_int_equal(bed_stats(engine).kv_used, 0);
}

static void a_mixed_crowd_answers_as_each_alone(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    static char prompts[N_SEQUENCES][BED_MAX_PROMPT];
    ruvllm_engine *engine;

    (void)state;
    for (int i = 0; i < N_SEQUENCES; i++)
        snprintf(prompts[i], BED_MAX_PROMPT, "%s %d times, %s", bed_beginnings[i % 8], i,
                 bed_beginnings[(i / 8 + 3) % 8]);
    wishes.share_prefixes = false;
    engine = bed_open(TEST_SANITIZED("models/stories260K.gguf", "models/stories15M-f16.gguf"), &wishes);
    compare_crowd(engine, prompts, N_SEQUENCES);
    ruvllm_engine_close(engine);
}

/* Long enough for blocks to fall to eight and four bits, which must happen at the same places in a crowd. */
static void a_mixed_crowd_does_so_with_tiers_too(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct ruvllm_kv_policy tiers = ruvllm_kv_policy_default();
    static char prompts[N_TIERED][BED_MAX_PROMPT];
    ruvllm_engine *engine;

    (void)state;
    for (int i = 0; i < N_TIERED; i++) {
        char *end = prompts[i];

        for (int k = 0; k < 24 + i % 5; k++)
            end += snprintf(end, 96, "%s number %d was %d years old. ", bed_beginnings[(i + k) % 8], i, k * 7 + i);
    }
    tiers.hot_tokens = 32;
    tiers.warm_tokens = 32;
    wishes.kv = &tiers;
    wishes.share_prefixes = false;
    engine = bed_open("models/minimind2-26m-f16.gguf", &wishes);
    compare_crowd(engine, prompts, N_TIERED);
    print_message("%d blocks moved to another tier\n", (int)bed_stats(engine).blocks_migrated);
    assert_true(bed_stats(engine).blocks_migrated > 8 * N_TIERED);
    ruvllm_engine_close(engine);
}

static void a_shared_beginning_is_computed_once(void **state)
{
    struct ruvllm_generate_params params = bed_greedy(8);
    ruvllm_engine *engine = bed_open("models/stories15M-f16.gguf", NULL);
    struct ruvllm_response *first, *again, *other;
    char *text = bed_long_text(15);

    (void)state;
    first = bed_drain(engine, bed_submit(engine, text, "a", &params));
    assert_int_equal(first->cached_tokens, 0);
    again = bed_drain(engine, bed_submit(engine, text, "a", &params));
    /* All full blocks, but the last token is computed anew. */
    assert_int_equal(again->cached_tokens, (again->prompt_tokens - 1) / 32 * 32);
    assert_int_equal(again->n_tokens, first->n_tokens);
    other = bed_drain(engine, bed_submit(engine, text, "b", &params));
    assert_int_equal(other->cached_tokens, 0);
    assert_int_equal((int)bed_stats(engine).cached_tokens, again->cached_tokens);
    ruvllm_response_free(first);
    ruvllm_response_free(again);
    ruvllm_response_free(other);
    free(text);
    ruvllm_engine_close(engine);
}

static void a_running_request_shares_its_beginning(void **state)
{
    struct ruvllm_generate_params endless = bed_greedy(100), params = bed_greedy(4);
    ruvllm_engine *engine = bed_open("models/stories15M-f16.gguf", NULL);
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    struct ruvllm_response *second;
    char *text = bed_long_text(8);
    uint64_t running;

    (void)state;
    endless.ignore_eos = true;
    running = bed_submit(engine, text, NULL, &endless);
    assert_ok(ruvllm_engine_next_event(engine, running, 60000, &event, err));
    assert_int_equal(event.type, RUVLLM_EVENT_TEXT);
    second = bed_drain(engine, bed_submit(engine, text, NULL, &params));
    assert_int_equal(second->cached_tokens, (second->prompt_tokens - 1) / 32 * 32);
    ruvllm_response_free(second);
    assert_ok(ruvllm_engine_cancel(engine, running, err));
    free(text);
    ruvllm_engine_close(engine);
}

static void cancelling_leaves_nothing_behind(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct ruvllm_generate_params params = bed_greedy(400);
    struct ruvllm_error failure;
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    ruvllm_engine *engine;
    struct rv_rng rng;
    uint64_t ids[16];

    (void)state;
    wishes.share_prefixes = false;
    engine = bed_open("models/stories260K.gguf", &wishes);
    params.ignore_eos = true;
    rv_rng_init(&rng, 5);
    for (int round = 0; round < 60; round++) {
        const struct timespec pause = {.tv_nsec = (long)rv_rng_below(&rng, 2000000)};

        for (int i = 0; i < 16; i++)
            ids[i] = bed_submit(engine, bed_beginnings[i % 8], NULL, &params);
        nanosleep(&pause, NULL);
        for (int i = 0; i < 16; i++)
            assert_ok(ruvllm_engine_cancel(engine, ids[i], err));
    }
    assert_fails(ruvllm_engine_next_event(engine, ids[0], 0, &event, &failure), RUVLLM_NOT_FOUND, failure,
                 "no such request");
    assert_fails(ruvllm_engine_cancel(engine, ids[0], &failure), RUVLLM_NOT_FOUND, failure, "no such request");
    bed_wait_until_idle(engine);
    assert_int_equal(bed_stats(engine).kv_used, 0);
    ruvllm_engine_close(engine);
}

static void a_full_engine_is_busy(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct ruvllm_generate_params params = bed_greedy(400);
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = "One day", .text_len = 7};
    struct ruvllm_request request = {.struct_size = sizeof(request), .input = &input, .params = &params};
    struct ruvllm_error failure;
    ruvllm_engine *engine;
    uint64_t id;

    (void)state;
    wishes.max_sequences = 2;
    wishes.max_queue = 3;
    params.ignore_eos = true;
    engine = bed_open("models/stories260K.gguf", &wishes);
    for (int i = 0; i < 5; i++)
        (void)bed_submit(engine, "One day", NULL, &params);
    assert_fails(ruvllm_engine_submit(engine, &request, &id, &failure), RUVLLM_BUSY, failure, "try again");
    ruvllm_engine_close(engine); // ends them, running and waiting
}

static void what_cannot_fit_is_refused(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct ruvllm_generate_params params = bed_greedy(400);
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = "One day", .text_len = 7};
    struct ruvllm_request request = {.struct_size = sizeof(request), .input = &input, .params = &params};
    struct ruvllm_error failure;
    ruvllm_engine *engine;
    uint64_t id;

    (void)state;
    wishes.kv_bytes = 100 << 10; // a few blocks of this model
    engine = bed_open("models/stories260K.gguf", &wishes);
    assert_fails(ruvllm_engine_submit(engine, &request, &id, &failure), RUVLLM_TOO_LARGE, failure, "keys and values");
    params.max_tokens = 20;
    ruvllm_response_free(bed_drain(engine, bed_submit(engine, "One day", NULL, &params)));
    ruvllm_engine_close(engine);
}

static void two_models_run_in_one_process(void **state)
{
    struct ruvllm_generate_params params = bed_greedy(16);
    ruvllm_engine *small, *large;
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = "One day", .text_len = 7};
    uint64_t a, b;
    struct ruvllm_error failure;
    struct ruvllm_response *answer;

    (void)state;
    bed_n_threads = 2;
    small = bed_open("models/stories260K.gguf", NULL);
    large = bed_open("models/stories15M-f16.gguf", NULL);
    bed_n_threads = 1;
    a = bed_submit(small, "One day", NULL, &params);
    b = bed_submit(large, "One day", NULL, &params);
    answer = bed_drain(small, a);
    assert_true(answer->text_len > 0);
    ruvllm_response_free(answer);
    answer = bed_drain(large, b);
    assert_true(answer->text_len > 0);
    ruvllm_response_free(answer);
    assert_fails(
        ruvllm_generate((ruvllm_model *)(uintptr_t)ruvllm_engine_model(small), &input, NULL, &answer, &failure),
        RUVLLM_INVALID, failure, "served by an engine");
    ruvllm_engine_close(small);
    ruvllm_engine_close(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mixed_crowd_answers_as_each_alone), cmocka_unit_test(a_mixed_crowd_does_so_with_tiers_too),
        cmocka_unit_test(a_shared_beginning_is_computed_once), cmocka_unit_test(a_running_request_shares_its_beginning),
        cmocka_unit_test(cancelling_leaves_nothing_behind),    cmocka_unit_test(a_full_engine_is_busy),
        cmocka_unit_test(what_cannot_fit_is_refused),          cmocka_unit_test(two_models_run_in_one_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
