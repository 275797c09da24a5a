/*
 * The background loop in an engine, from outside: votes are gone over again, what came of it outlives a restart to the
 * bit and can be taken back, and votes that become all alike pause learning.
 */
#include "golden/learn_bed.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const TEXT = "Once upon a time there was a little girl who lived in a small house";

static struct ruvllm_response *ask(ruvllm_engine *engine, float temperature, uint64_t seed, uint64_t *id)
{
    return learn_bed_ask(engine,
                         &(struct learn_bed_question){
                             .tenant = "anna", .temperature = temperature, .seed = seed, .n_tokens = 32, .text = TEXT},
                         id);
}

static struct ruvllm_learned_info info_of(ruvllm_engine *engine)
{
    struct ruvllm_learned_info info = {.struct_size = sizeof(info)};

    assert_ok(ruvllm_engine_learned(engine, "anna", &info, err));
    return info;
}

static void ask_and_vote(ruvllm_engine *engine, uint64_t seed, float score)
{
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    uint64_t id;

    ruvllm_response_free(ask(engine, 1, seed, &id));
    assert_ok(ruvllm_engine_feedback(engine, "anna", id, score, &result, err));
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
    store = learn_bed_open_store(path);
    engine = learn_bed_open_with(store);
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
    store = learn_bed_open_store(path);
    engine = learn_bed_open_with(store);
    later = info_of(engine);
    assert_true(later.generation >= info.generation && later.n_ticks >= info.n_ticks);
    /* A tick may have come after the question: the generation that answered it is asked again. */
    assert_ok(ruvllm_engine_learn_rollback(engine, "anna", before->learned_generation, &result, err));
    after = ask(engine, 0, 1, &id);
    assert_true(learn_bed_same(before, after));
    ruvllm_response_free(after);
    assert_ok(ruvllm_engine_learn_rollback(engine, "anna", 0, &result, err));
    after = ask(engine, 0, 1, &id);
    assert_true(learn_bed_same(base, after));
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
    store = learn_bed_open_store(path);
    engine = learn_bed_open_with(store);
    for (int i = 0; i < 30; i++) // as many of each kind, whatever ticks make of the answers
        ask_and_vote(engine, (uint64_t)i + 1, (float)(i % 2));
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    for (; n < 60 && info_of(engine).n_paused == 0; n++)
        ask_and_vote(engine, (uint64_t)n + 1000, 0);
    assert_true(n >= 10 && n < 60);
    info = info_of(engine);
    assert_int_equal(info.n_paused, 64);
    assert_true(info.n_votes < 30 + n); // the flood's own are not in it
    ruvllm_engine_close(engine);
    engine = learn_bed_open_with(store); // and that outlives a restart too
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
        engine = learn_bed_open(&(struct learn_bed_wishes){.store = store, .consolidation = (ruvllm_consolidation)i});
        assert_int_equal(info_of(engine).consolidation, i);
        assert_string_equal(ruvllm_consolidation_name(info_of(engine).consolidation), names[i]);
        ruvllm_engine_close(engine);
    }
    engine = learn_bed_open(&(struct learn_bed_wishes){.store = store, .consolidation = RUVLLM_CONSOLIDATION_ENSEMBLE});
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
