/*
 * What was learned, from outside: it can be looked at, paused, forgotten piece by piece and taken along as a file. To
 * forget is as if it had never been said, to the bit.
 */
#include "ruvllm_learn_log.h"

#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONTEXT = 256, N_ANSWER = 24, N_LOGPROBS = 5, MAX_EVENTS = 16 };

static const char *const MODEL = "models/stories260K.gguf";
static const char *const TEXT = "Once upon a time there was a little girl who lived in a small house near the forest "
                                "with her mother and her old dog. One day she went out to play and saw a";

static ruvllm_engine *open_engine(ruvllm_store *store)
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
    assert_ok(ruvllm_engine_open(&engine, test_data(MODEL), &params, err));
    assert_ok(ruvllm_engine_learn(engine, &learn, err));
    return engine;
}

static ruvllm_store *open_store(const char *path)
{
    ruvllm_store *store;

    assert_ok(ruvllm_store_open(&store, path, NULL, err));
    return store;
}

static struct ruvllm_response *ask(ruvllm_engine *engine, const char *tenant, const char *adapter, uint64_t *id)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = TEXT, .text_len = strlen(TEXT)};
    struct ruvllm_request request = {
        .struct_size = sizeof(request), .input = &input, .params = &params, .tenant = tenant, .adapter = adapter};
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    uint64_t mine;

    params.temperature = 0;
    params.max_tokens = N_ANSWER;
    params.repetition_penalty = 1;
    params.n_logprobs = N_LOGPROBS;
    params.ignore_eos = true;
    id = id ? id : &mine;
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

/* Whether the tenant's answer is now this one, digit by digit. */
static bool answers(ruvllm_engine *engine, const struct ruvllm_response *expected)
{
    struct ruvllm_response *now = ask(engine, "anna", NULL, NULL);
    bool is_same = same(now, expected);

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
    ruvllm_store *store = open_store(test_temp_path(".db"));
    ruvllm_engine *engine = open_engine(store);
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

/* The mean of log p of the answer's tokens rises by about what is told; the estimate is of first order. */
static void the_gain_that_is_told_is_about_what_is_measured(void **state)
{
    ruvllm_store *store = open_store(test_temp_path(".db"));
    ruvllm_engine *engine = open_engine(store);
    struct ruvllm_response *before, *after;
    double measured = 0, told;
    uint64_t id;

    (void)state;
    before = ask(engine, "anna", NULL, &id);
    assert_ok(ruvllm_engine_feedback(engine, "anna", id, 1, NULL, err));
    after = ask(engine, "anna", NULL, NULL);
    assert_memory_equal(before->tokens, after->tokens, N_ANSWER * sizeof(int32_t));
    for (size_t i = 0; i < N_ANSWER; i++)
        measured += (double)(after->logprobs[i * after->logprobs_per_token].logprob -
                             before->logprobs[i * before->logprobs_per_token].logprob) /
                    N_ANSWER;
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
    ruvllm_store *store = open_store(path);
    ruvllm_engine *engine = open_engine(store);
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
    store = open_store(path);
    engine = open_engine(store);
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
    ruvllm_store *store = open_store(path);
    ruvllm_engine *engine = open_engine(store);
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
    assert_false(same(without, states[2]) || same(without, states[0]));
    ruvllm_engine_close(engine);
    ruvllm_store_close(store);
    store = open_store(path);
    engine = open_engine(store);
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
    ruvllm_engine *engine = open_engine(NULL), *other;
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
    other = open_engine(NULL);
    assert_ok(ruvllm_engine_adapter_load(other, "learned", path, -1, &generation, err));
    loaded = ask(other, "carl", "learned", NULL);
    assert_true(same(taught, loaded));
    ruvllm_response_free(taught);
    ruvllm_response_free(loaded);
    ruvllm_engine_close(other);
    ruvllm_engine_close(engine);
}

static void without_a_store_there_is_no_log(void **state)
{
    ruvllm_engine *engine = open_engine(NULL);
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
        cmocka_unit_test(the_gain_that_is_told_is_about_what_is_measured),
        cmocka_unit_test(while_paused_nothing_is_learned_also_after_a_restart),
        cmocka_unit_test(what_is_forgotten_was_never_said),
        cmocka_unit_test(what_was_learned_goes_along_as_a_file),
        cmocka_unit_test(without_a_store_there_is_no_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
