/*
 * The background loop in an engine, from outside: votes are gone over again, what came of it outlives a restart to the
 * bit and can be taken back, and votes that become all alike pause learning.
 */
#include "ruvllm_learn.h"

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CONTEXT = 256, N_ANSWER = 32, N_LOGPROBS = 3 };

static const char *const MODEL = "models/stories260K.gguf";
static const char *const TEXT = "Once upon a time there was a little girl who lived in a small house";

static ruvllm_engine *open_engine_by(ruvllm_store *store, ruvllm_consolidation consolidation)
{
    struct ruvllm_engine_params params = ruvllm_engine_params_default();
    struct ruvllm_model_params model = ruvllm_model_params_default();
    struct ruvllm_learn_params learn = ruvllm_learn_params_default();
    ruvllm_engine *engine;

    test_need_file(test_data(MODEL));
    model.max_context = CONTEXT;
    model.n_threads = 1;
    params.model = &model;
    learn.store = store;
    assert_int_equal(learn.consolidation, RUVLLM_CONSOLIDATION_EWC_MERGE);
    learn.consolidation = consolidation;
    assert_ok(ruvllm_engine_open(&engine, test_data(MODEL), &params, err));
    assert_ok(ruvllm_engine_learn(engine, &learn, err));
    return engine;
}

static ruvllm_engine *open_engine(ruvllm_store *store)
{
    return open_engine_by(store, RUVLLM_CONSOLIDATION_EWC_MERGE);
}

static struct ruvllm_response *ask(ruvllm_engine *engine, float temperature, uint64_t seed, uint64_t *id)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = TEXT, .text_len = strlen(TEXT)};
    struct ruvllm_request request = {
        .struct_size = sizeof(request), .input = &input, .params = &params, .tenant = "anna"};
    struct ruvllm_event event = {.struct_size = sizeof(event)};

    params.temperature = temperature;
    params.max_tokens = N_ANSWER;
    params.repetition_penalty = 1;
    params.top_p = 1;
    params.n_logprobs = N_LOGPROBS;
    params.ignore_eos = true;
    params.has_seed = true;
    params.seed = seed;
    assert_ok(ruvllm_engine_submit(engine, &request, id, err));
    do {
        assert_ok(ruvllm_engine_next_event(engine, *id, -1, &event, err));
    } while (event.type != RUVLLM_EVENT_DONE);
    return event.response;
}

static bool same(const struct ruvllm_response *a, const struct ruvllm_response *b)
{
    return a->n_tokens == b->n_tokens && memcmp(a->tokens, b->tokens, a->n_tokens * sizeof(*a->tokens)) == 0 &&
           memcmp(a->logprobs, b->logprobs, a->n_tokens * a->logprobs_per_token * sizeof(*a->logprobs)) == 0;
}

static struct ruvllm_learned_info info_of(ruvllm_engine *engine)
{
    struct ruvllm_learned_info info = {.struct_size = sizeof(info)};

    assert_ok(ruvllm_engine_learned(engine, "anna", &info, err));
    return info;
}

/* Votes for answers with an even number of tokens below 300: as good a taste as any. */
static void vote(ruvllm_engine *engine, int n, uint64_t first_seed)
{
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};

    for (int i = 0; i < n; i++) {
        struct ruvllm_response *r;
        uint64_t id;
        int n_low = 0;

        r = ask(engine, 1, first_seed + (uint64_t)i, &id);
        for (size_t t = 0; t < r->n_tokens; t++)
            n_low += r->tokens[t] < 300;
        assert_ok(ruvllm_engine_feedback(engine, "anna", id, n_low % 2 ? 0 : 1, &result, err));
        ruvllm_response_free(r);
    }
}

static struct ruvllm_learned_info wait_for_ticks(ruvllm_engine *engine, int64_t n)
{
    struct ruvllm_learned_info info = info_of(engine);

    for (int i = 0; i < 3000 && info.n_ticks < n; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        info = info_of(engine);
    }
    return info;
}

static void ticks_come_and_outlive_a_restart_to_the_bit(void **state)
{
    const char *path = test_temp_path(".db");
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    struct ruvllm_learned_info info, later;
    struct ruvllm_response *base, *before, *after;
    ruvllm_engine *engine;
    ruvllm_store *store;
    uint64_t id;

    (void)state;
    (void)unlink(path);
    assert_ok(ruvllm_store_open(&store, path, NULL, err));
    engine = open_engine(store);
    base = ask(engine, 0, 1, &id);
    for (int i = 0; i < 8 && info_of(engine).n_ticks == 0; i++) {
        vote(engine, 8, (uint64_t)i * 100 + 1);
        wait_for_ticks(engine, i < 7 ? 0 : 1);
    }
    info = wait_for_ticks(engine, 1);
    assert_true(info.n_ticks >= 1 && info.anchor_kl > 0 && info.anchor_kl < 0.027);
    assert_true(info.kl_budget > 0.01 && info.kl_budget < 0.027); // nats: 1.4 % of 1.3 or so
    assert_true(info.anchor_kl <= info.kl_budget * 1.1);
    before = ask(engine, 0, 1, &id);
    ruvllm_engine_close(engine);
    ruvllm_store_close(store);
    assert_ok(ruvllm_store_open(&store, path, NULL, err));
    engine = open_engine(store);
    later = info_of(engine);
    assert_true(later.generation >= info.generation && later.n_ticks >= info.n_ticks);
    /* A tick may have come after the question: the generation that answered it is asked again. */
    assert_ok(ruvllm_engine_learn_rollback(engine, "anna", before->learned_generation, &result, err));
    after = ask(engine, 0, 1, &id);
    assert_true(same(before, after));
    ruvllm_response_free(after);
    assert_ok(ruvllm_engine_learn_rollback(engine, "anna", 0, &result, err));
    after = ask(engine, 0, 1, &id);
    assert_true(same(base, after));
    ruvllm_response_free(after);
    ruvllm_response_free(before);
    ruvllm_response_free(base);
    ruvllm_engine_close(engine);
    ruvllm_store_close(store);
    (void)unlink(path);
}

static void votes_that_become_all_alike_pause_learning(void **state)
{
    const char *path = test_temp_path(".db");
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    struct ruvllm_learned_info info;
    ruvllm_engine *engine;
    ruvllm_store *store;
    int n = 0;

    (void)state;
    (void)unlink(path);
    assert_ok(ruvllm_store_open(&store, path, NULL, err));
    engine = open_engine(store);
    vote(engine, 30, 1);
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    for (; n < 60 && info_of(engine).n_paused == 0; n++) {
        uint64_t id;

        ruvllm_response_free(ask(engine, 1, (uint64_t)n + 1000, &id));
        assert_ok(ruvllm_engine_feedback(engine, "anna", id, 0, &result, err));
    }
    assert_true(n >= 10 && n < 60);
    info = info_of(engine);
    assert_int_equal(info.n_paused, 64);
    assert_true(info.n_votes < 30 + n); // the flood's own are not in it
    ruvllm_engine_close(engine);
    engine = open_engine(store); // and that outlives a restart too
    assert_int_equal(info_of(engine).n_paused, 64);
    assert_ok(ruvllm_engine_learn_rollback(engine, "anna", 0, &result, err));
    assert_int_equal(info_of(engine).n_paused, 0); // who goes back by hand goes on
    ruvllm_engine_close(engine);
    ruvllm_store_close(store);
    (void)unlink(path);
}

/* What comes of each strategy is test_tick.c's; here it has to get there. */
static void the_strategy_that_is_asked_for_is_the_loops(void **state)
{
    static const char *const names[] = {"ewc_merge", "average", "quality_weighted", "best_only", "ensemble"};
    struct ruvllm_learn_params learn = ruvllm_learn_params_default();
    const char *path = test_temp_path(".db");
    ruvllm_engine *engine;
    ruvllm_store *store;
    struct ruvllm_error failure;

    (void)state;
    (void)unlink(path);
    assert_ok(ruvllm_store_open(&store, path, NULL, err));
    for (int i = 0; i < 5; i++) {
        engine = open_engine_by(store, (ruvllm_consolidation)i);
        assert_int_equal(info_of(engine).consolidation, i);
        assert_string_equal(ruvllm_consolidation_name(info_of(engine).consolidation), names[i]);
        ruvllm_engine_close(engine);
    }
    engine = open_engine_by(store, RUVLLM_CONSOLIDATION_ENSEMBLE);
    learn.consolidation = (ruvllm_consolidation)5;
    assert_fails(ruvllm_engine_learn(engine, &learn, &failure), RUVLLM_INVALID, failure, "consolidation");
    assert_string_equal(ruvllm_consolidation_name((ruvllm_consolidation)5), "unknown");
    ruvllm_engine_close(engine);
    ruvllm_store_close(store);
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_come_and_outlive_a_restart_to_the_bit),
        cmocka_unit_test(votes_that_become_all_alike_pause_learning),
        cmocka_unit_test(the_strategy_that_is_asked_for_is_the_loops),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
