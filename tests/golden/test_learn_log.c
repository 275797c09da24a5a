/*
 * What was learned, from outside: it can be looked at, paused, forgotten piece by piece and taken along as a file. To
 * forget is as if it had never been said, to the bit.
 */
#include "ruvllm_learn_log.h"

#include "golden/learn_bed.h"

#include <math.h>
#include <string.h>

enum { MAX_EVENTS = 16 };

static struct ruvllm_response *ask(ruvllm_engine *engine, const char *tenant, const char *adapter, uint64_t *id)
{
    return learn_bed_ask(engine, &(struct learn_bed_question){.tenant = tenant, .adapter = adapter}, id);
}

/* Whether the tenant's answer is now this one, digit by digit. */
static bool answers(ruvllm_engine *engine, const struct ruvllm_response *expected)
{
    struct ruvllm_response *now = ask(engine, "anna", NULL, NULL);
    bool is_same = learn_bed_same(now, expected);

    ruvllm_response_free(now);
    return is_same;
}

static void vote(ruvllm_engine *engine, const char *tenant, double score)
{
    uint64_t id;

    ruvllm_response_free(ask(engine, tenant, NULL, &id));
    assert_ok(ruvllm_engine_feedback(engine, tenant, id, score, NULL, err));
}

struct list {
    struct ruvllm_learned_event events[MAX_EVENTS];
    size_t n;
};

static bool on_event(void *user, const struct ruvllm_learned_event *event)
{
    struct list *list = user;

    assert_true(list->n < MAX_EVENTS);
    assert_int_equal(event->struct_size, sizeof(*event));
    assert_true(event->prompt && event->answer && event->correction && event->reason);
    list->events[list->n++] = *event;
    return true;
}

static struct list history(ruvllm_engine *engine, const char *tenant)
{
    struct list list = {.n = 0};
    int64_t next = -1;

    assert_ok(ruvllm_engine_learn_history(engine, tenant, 0, 1000, on_event, &list, &next, err));
    assert_int_equal(next, 0);
    return list;
}

static void what_was_said_is_listed_with_what_came_of_it(void **state)
{
    ruvllm_store *store = learn_bed_open_store(test_temp_path(".db"));
    ruvllm_engine *engine = learn_bed_open_with(store);
    struct list list;
    int64_t next = 0;

    (void)state;
    assert_int_equal(history(engine, "anna").n, 0);
    vote(engine, "anna", 1);
    vote(engine, "anna", 0);
    vote(engine, "bert", 1);
    assert_ok(ruvllm_engine_learn_rollback(engine, "anna", 1, NULL, err));
    list = history(engine, "anna");
    assert_int_equal(list.n, 3);
    assert_int_equal(list.events[0].kind, RUVLLM_LEARNED_ROLLBACK);
    assert_true(list.events[0].generation == 3 && list.events[0].about == 1 && list.events[0].sequence == 3);
    assert_true(list.events[1].generation == 2 && list.events[1].about == 1 && list.events[1].score == 0.0);
    assert_true(list.events[1].advantage < 0 && list.events[1].kl > 0 && list.events[1].gain > 0);
    assert_true(list.events[2].generation == 1 && list.events[2].about == 0 && list.events[2].score == 1.0);
    assert_true(list.events[2].advantage > 0 && list.events[2].kl > 0 && list.events[2].gain > list.events[2].kl);
    assert_true(list.events[2].time_us > 0 && list.events[0].time_us >= list.events[2].time_us);
    assert_int_equal(history(engine, "bert").n, 1);
    list.n = 0;
    assert_ok(ruvllm_engine_learn_history(engine, "anna", 0, 2, on_event, &list, &next, err));
    assert_true(list.n == 2 && next == 2);
    assert_ok(ruvllm_engine_learn_history(engine, "anna", next, 2, on_event, &list, &next, err));
    assert_true(list.n == 3 && next == 0 && list.events[2].sequence == 1);
    ruvllm_engine_close(engine);
    ruvllm_store_close(store);
}

/* What was not judged by a number has none. */
static void corrections_and_returns_have_no_score(void **state)
{
    ruvllm_store *store = learn_bed_open_store(test_temp_path(".db"));
    ruvllm_engine *engine = learn_bed_open_with(store);
    struct ruvllm_feedback feedback = {.struct_size = sizeof(feedback), .correction = " cat."};
    struct list list;

    (void)state;
    ruvllm_response_free(ask(engine, "anna", NULL, &feedback.id));
    assert_ok(ruvllm_engine_give_feedback(engine, "anna", &feedback, NULL, err));
    assert_ok(ruvllm_engine_learn_rollback(engine, "anna", 0, NULL, err));
    list = history(engine, "anna");
    assert_true(list.n == 2 && list.events[1].kind == RUVLLM_LEARNED_CORRECTION);
    assert_true(isnan(list.events[0].score) && isnan(list.events[1].score));
    ruvllm_engine_close(engine);
    ruvllm_store_close(store);
}

/* The mean of log p of the answer's tokens rises by about what is told; the estimate is of first order. */
static void the_gain_that_is_told_is_about_what_is_measured(void **state)
{
    ruvllm_store *store = learn_bed_open_store(test_temp_path(".db"));
    ruvllm_engine *engine = learn_bed_open_with(store);
    struct ruvllm_response *before, *after;
    double measured = 0, told;
    uint64_t id;

    (void)state;
    before = ask(engine, "anna", NULL, &id);
    assert_ok(ruvllm_engine_feedback(engine, "anna", id, 1, NULL, err));
    after = ask(engine, "anna", NULL, NULL);
    assert_memory_equal(before->tokens, after->tokens, before->n_tokens * sizeof(int32_t));
    for (size_t i = 0; i < before->n_tokens; i++)
        measured += (double)(after->logprobs[i * after->logprobs_per_token].logprob -
                             before->logprobs[i * before->logprobs_per_token].logprob) /
                    (double)before->n_tokens;
    told = history(engine, "anna").events[0].gain;
    if (!(told > measured / 2 && told < measured * 2))
        fail_msg("told %g, measured %g", told, measured);
    ruvllm_response_free(before);
    ruvllm_response_free(after);
    ruvllm_engine_close(engine);
    ruvllm_store_close(store);
}

static void while_paused_nothing_is_learned_also_after_a_restart(void **state)
{
    const char *path = test_temp_path(".db");
    ruvllm_store *store = learn_bed_open_store(path);
    ruvllm_engine *engine = learn_bed_open_with(store);
    struct ruvllm_learned_info info = {.struct_size = sizeof(info)};
    struct ruvllm_error failure = {0};
    struct ruvllm_response *taught;
    uint64_t id;

    (void)state;
    vote(engine, "anna", 0);
    taught = ask(engine, "anna", NULL, &id);
    assert_ok(ruvllm_engine_learn_pause(engine, "anna", true, err));
    assert_fails(ruvllm_engine_feedback(engine, "anna", id, 0, NULL, &failure), RUVLLM_CONFLICT, failure, "paused");
    assert_true(answers(engine, taught));
    vote(engine, "bert", 0); // nobody else is
    ruvllm_engine_close(engine);
    ruvllm_store_close(store);
    store = learn_bed_open_store(path);
    engine = learn_bed_open_with(store);
    assert_ok(ruvllm_engine_learned(engine, "anna", &info, err));
    assert_true(info.is_paused && info.generation == 1);
    assert_true(answers(engine, taught));
    ruvllm_response_free(ask(engine, "anna", NULL, &id));
    assert_fails(ruvllm_engine_feedback(engine, "anna", id, 0, NULL, &failure), RUVLLM_CONFLICT, failure, "paused");
    assert_ok(ruvllm_engine_learn_rollback(engine, "anna", 0, NULL, err)); // that is no feedback
    assert_ok(ruvllm_engine_learn_pause(engine, "anna", false, err));
    assert_ok(ruvllm_engine_feedback(engine, "anna", id, 0, NULL, err));
    assert_ok(ruvllm_engine_learned(engine, "anna", &info, err));
    assert_true(!info.is_paused && info.generation == 3);
    ruvllm_response_free(taught);
    ruvllm_engine_close(engine);
    ruvllm_store_close(store);
}

static void what_is_forgotten_was_never_said(void **state)
{
    const char *path = test_temp_path(".db");
    ruvllm_store *store = learn_bed_open_store(path);
    ruvllm_engine *engine = learn_bed_open_with(store);
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    struct ruvllm_error failure = {0};
    struct ruvllm_response *states[4], *without;
    struct list list;

    (void)state;
    for (int i = 0; i < 4; i++) {
        if (i > 0)
            vote(engine, "anna", i == 2 ? 1 : 0);
        states[i] = ask(engine, "anna", NULL, NULL);
    }
    /* The last one: as before it. */
    assert_ok(ruvllm_engine_learn_forget(engine, "anna", 3, &result, err));
    assert_true(result.generation == 3 && result.sequence == 3);
    assert_true(answers(engine, states[2]) && !answers(engine, states[3]));
    assert_fails(ruvllm_engine_learn_forget(engine, "anna", 3, &result, &failure), RUVLLM_NOT_FOUND, failure,
                 "event 3");
    assert_fails(ruvllm_engine_learn_forget(engine, "bert", 1, &result, &failure), RUVLLM_NOT_FOUND, failure,
                 "event 1");
    assert_fails(ruvllm_engine_learn_forget(engine, "anna", 0, &result, &failure), RUVLLM_NOT_FOUND, failure,
                 "event 0");
    /* One in the middle: as the log says that is read from its beginning. */
    assert_ok(ruvllm_engine_learn_forget(engine, "anna", 1, &result, err));
    without = ask(engine, "anna", NULL, NULL);
    assert_int_equal(without->learned_generation, 3);
    assert_false(learn_bed_same(without, states[2]) || learn_bed_same(without, states[0]));
    ruvllm_engine_close(engine);
    ruvllm_store_close(store);
    store = learn_bed_open_store(path);
    engine = learn_bed_open_with(store);
    assert_true(answers(engine, without));
    list = history(engine, "anna");
    assert_true(list.n == 3 && list.events[0].is_forgotten && !list.events[1].is_forgotten);
    assert_true(list.events[2].is_forgotten && list.events[2].generation == -1 && isnan(list.events[2].kl));
    /* Numbers stay what they were: generation 1 is now as if nothing had been said. */
    assert_ok(ruvllm_engine_learn_rollback(engine, "anna", 1, &result, err));
    assert_int_equal(result.generation, 4);
    assert_true(answers(engine, states[0]));
    assert_fails(ruvllm_engine_learn_forget(engine, "anna", 4, &result, &failure), RUVLLM_INVALID, failure,
                 "no feedback");
    assert_ok(ruvllm_engine_learn_rollback(engine, "anna", 3, &result, err));
    assert_true(answers(engine, without));
    /* All of them: as the model came, though the way back is still in the log. */
    assert_ok(ruvllm_engine_learn_forget(engine, "anna", 2, &result, err));
    assert_int_equal(result.generation, 5);
    assert_true(answers(engine, states[0]));
    for (int i = 0; i < 4; i++)
        ruvllm_response_free(states[i]);
    ruvllm_response_free(without);
    ruvllm_engine_close(engine);
    ruvllm_store_close(store);
}

/* In another engine, which never learned: the same answers, to the bit. */
static void what_was_learned_goes_along_as_a_file(void **state)
{
    const char *path = test_temp_path(".gguf");
    ruvllm_engine *engine = learn_bed_open_with(NULL), *other;
    struct ruvllm_error failure = {0};
    struct ruvllm_response *taught, *loaded;
    int64_t generation;

    (void)state;
    assert_fails(ruvllm_engine_learn_export(engine, "anna", path, RUVLLM_ADAPTER_OWN, &failure), RUVLLM_NOT_FOUND,
                 failure, "nothing was learned");
    vote(engine, "anna", 1); // a bad one would also be remembered, which no file has a place for
    vote(engine, "anna", 1);
    taught = ask(engine, "anna", NULL, NULL);
    assert_ok(ruvllm_engine_learn_export(engine, "anna", path, RUVLLM_ADAPTER_OWN, err));
    assert_fails(ruvllm_engine_learn_export(engine, "bert", path, RUVLLM_ADAPTER_OWN, &failure), RUVLLM_NOT_FOUND,
                 failure, "nothing was learned");
    assert_fails(ruvllm_engine_learn_export(engine, "anna", path, RUVLLM_ADAPTER_PEFT, &failure), RUVLLM_UNSUPPORTED,
                 failure, "cannot export");
    other = learn_bed_open_with(NULL);
    assert_ok(ruvllm_engine_adapter_load(other, "learned", path, -1, &generation, err));
    loaded = ask(other, "carl", "learned", NULL);
    assert_true(learn_bed_same(taught, loaded));
    ruvllm_response_free(taught);
    ruvllm_response_free(loaded);
    ruvllm_engine_close(other);
    ruvllm_engine_close(engine);
}

static void without_a_store_there_is_no_log(void **state)
{
    ruvllm_engine *engine = learn_bed_open_with(NULL);
    struct ruvllm_error failure = {0};
    struct list list = {.n = 0};
    uint64_t id;

    (void)state;
    vote(engine, "anna", 0);
    assert_fails(ruvllm_engine_learn_history(engine, "anna", 0, 10, on_event, &list, NULL, &failure),
                 RUVLLM_UNSUPPORTED, failure, "without a store");
    assert_fails(ruvllm_engine_learn_forget(engine, "anna", 1, NULL, &failure), RUVLLM_UNSUPPORTED, failure,
                 "without a store");
    assert_ok(ruvllm_engine_learn_pause(engine, "anna", true, err));
    ruvllm_response_free(ask(engine, "anna", NULL, &id));
    assert_fails(ruvllm_engine_feedback(engine, "anna", id, 0, NULL, &failure), RUVLLM_CONFLICT, failure, "paused");
    ruvllm_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_said_is_listed_with_what_came_of_it),
        cmocka_unit_test(corrections_and_returns_have_no_score),
        cmocka_unit_test(the_gain_that_is_told_is_about_what_is_measured),
        cmocka_unit_test(while_paused_nothing_is_learned_also_after_a_restart),
        cmocka_unit_test(what_is_forgotten_was_never_said),
        cmocka_unit_test(what_was_learned_goes_along_as_a_file),
        cmocka_unit_test(without_a_store_there_is_no_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
