/*
 * Corrections and pairs in an engine, from outside: asked the same again the model says what it was told, its tenant
 * alone; they can be taken back to the bit; with a store they are there after a restart, to the bit.
 */
#include "ruvllm_learn.h"

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONTEXT = 256, N_ANSWER = 32, N_LOGPROBS = 5 };

static const char *const MODEL = "models/stories260K.gguf";
static const char *const TEXT = "Once upon a time there was a little girl who lived in a small house near the forest "
                                "with her mother and her old dog. One day she went out to play and saw a";
static const char *const TOLD = " red boat on the lake. It was called Zorbin.";

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
    params.prefill_tokens = 16; // so that texts are read in several pieces
    learn.store = store;
    assert_ok(ruvllm_engine_open(&engine, test_data(MODEL), &params, err));
    assert_ok(ruvllm_engine_learn(engine, &learn, err));
    return engine;
}

static struct ruvllm_response *ask_for(ruvllm_engine *engine, const char *tenant, const char *text, float temperature,
                                       uint64_t *id)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text, .text_len = strlen(text)};
    struct ruvllm_request request = {
        .struct_size = sizeof(request), .input = &input, .params = &params, .tenant = tenant};
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    uint64_t mine;

    params.temperature = temperature;
    params.max_tokens = N_ANSWER;
    params.repetition_penalty = 1;
    params.top_p = 0.95f;
    params.n_logprobs = N_LOGPROBS;
    params.has_seed = true;
    params.seed = 1;
    id = id ? id : &mine;
    assert_ok(ruvllm_engine_submit(engine, &request, id, err));
    do {
        assert_ok(ruvllm_engine_next_event(engine, *id, -1, &event, err));
    } while (event.type != RUVLLM_EVENT_DONE);
    return event.response;
}

static struct ruvllm_response *ask(ruvllm_engine *engine, const char *tenant, uint64_t *id)
{
    return ask_for(engine, tenant, TEXT, 0, id);
}

static bool same(const struct ruvllm_response *a, const struct ruvllm_response *b)
{
    return a->n_tokens == b->n_tokens && memcmp(a->tokens, b->tokens, a->n_tokens * sizeof(*a->tokens)) == 0 &&
           memcmp(a->logprobs, b->logprobs, a->n_tokens * a->logprobs_per_token * sizeof(*a->logprobs)) == 0;
}

/* Asks and says what it should have been; the generation that comes of it. */
static int64_t correct(ruvllm_engine *engine, const char *tenant, const char *told)
{
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    struct ruvllm_feedback feedback = {.struct_size = sizeof(feedback), .correction = told, .reason = "wrong"};

    ruvllm_response_free(ask(engine, tenant, &feedback.id));
    assert_ok(ruvllm_engine_give_feedback(engine, tenant, &feedback, &result, err));
    assert_true(result.read_us > 0 && result.compute_us > 0 && result.kl > 0);
    return result.generation;
}

static void a_correction_is_said_the_next_time_to_its_tenant_alone(void **state)
{
    ruvllm_engine *engine = open_engine(NULL);
    struct ruvllm_response *before = ask(engine, "anna", NULL), *other = ask(engine, "bert", NULL), *after;
    struct ruvllm_learned_info info = {.struct_size = sizeof(info)};

    (void)state;
    assert_string_not_equal(before->text, TOLD);
    assert_int_equal(correct(engine, "anna", TOLD), 1);
    after = ask(engine, "anna", NULL);
    assert_string_equal(after->text, TOLD);
    assert_int_equal(after->stop_reason, RUVLLM_STOP_EOS);
    assert_int_equal(after->learned_generation, 1);
    assert_true(after->cached_tokens > 0);
    ruvllm_response_free(after);
    after = ask_for(engine, "anna", TEXT, 0.7f, NULL); // drawn, too
    assert_string_equal(after->text, TOLD);
    ruvllm_response_free(after);
    after = ask(engine, "bert", NULL);
    assert_true(same(other, after));
    ruvllm_response_free(after);
    assert_ok(ruvllm_engine_learned(engine, "anna", &info, err));
    assert_true(info.n_votes == 0 && info.n_lessons == 1 && info.n_keys > 0);
    /* Another correction of the same takes its place. */
    assert_int_equal(correct(engine, "anna", " big cat."), 2);
    after = ask(engine, "anna", NULL);
    assert_string_equal(after->text, " big cat.");
    ruvllm_response_free(after);
    ruvllm_response_free(before);
    ruvllm_response_free(other);
    ruvllm_engine_close(engine);
}

static void a_correction_is_taken_back_to_the_bit_and_outlives_a_restart(void **state)
{
    const char *path = test_temp_path(".db");
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    struct ruvllm_response *base, *taught, *after;
    ruvllm_engine *engine;
    ruvllm_store *store;

    (void)state;
    (void)unlink(path);
    assert_ok(ruvllm_store_open(&store, path, NULL, err));
    engine = open_engine(store);
    base = ask(engine, "anna", NULL);
    assert_int_equal(correct(engine, "anna", TOLD), 1);
    taught = ask(engine, "anna", NULL);
    assert_string_equal(taught->text, TOLD);
    ruvllm_engine_close(engine);
    ruvllm_store_close(store);
    assert_ok(ruvllm_store_open(&store, path, NULL, err));
    engine = open_engine(store);
    after = ask(engine, "anna", NULL);
    assert_int_equal(after->learned_generation, 1);
    assert_true(same(taught, after));
    ruvllm_response_free(after);
    assert_ok(ruvllm_engine_learn_rollback(engine, "anna", 0, &result, err));
    after = ask(engine, "anna", NULL);
    assert_true(same(base, after));
    ruvllm_response_free(after);
    assert_ok(ruvllm_engine_learn_rollback(engine, "anna", 1, &result, err));
    after = ask(engine, "anna", NULL);
    assert_true(same(taught, after));
    ruvllm_response_free(after);
    ruvllm_response_free(taught);
    ruvllm_response_free(base);
    ruvllm_engine_close(engine);
    ruvllm_store_close(store);
    (void)unlink(path);
}

/* What is preferred is said; what was answered before is not. */
static void a_pair_moves_the_answer(void **state)
{
    ruvllm_engine *engine = open_engine(NULL);
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    struct ruvllm_feedback feedback = {.struct_size = sizeof(feedback), .preferred = " big red bird."};
    struct ruvllm_response *before = ask(engine, "anna", &feedback.id), *after;

    (void)state;
    assert_ok(ruvllm_engine_give_feedback(engine, "anna", &feedback, &result, err));
    assert_int_equal(result.generation, 1);
    after = ask(engine, "anna", NULL);
    assert_string_equal(after->text, " big red bird.");
    ruvllm_response_free(after);
    /* The other way round: what is rejected is not said again, whatever is. */
    feedback =
        (struct ruvllm_feedback){.struct_size = sizeof(feedback), .preferred = " dog.", .rejected = before->text};
    ruvllm_response_free(ask(engine, "bert", &feedback.id));
    assert_ok(ruvllm_engine_give_feedback(engine, "bert", &feedback, &result, err));
    after = ask(engine, "bert", NULL);
    assert_string_not_equal(after->text, before->text);
    ruvllm_response_free(after);
    ruvllm_response_free(before);
    ruvllm_engine_close(engine);
}

static ruvllm_status give(ruvllm_engine *engine, const char *tenant, const struct ruvllm_feedback *feedback)
{
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    struct ruvllm_error err = {0};
    struct ruvllm_feedback whole = *feedback;
    ruvllm_status rc;

    whole.struct_size = sizeof(whole);
    rc = ruvllm_engine_give_feedback(engine, tenant, &whole, &result, &err);
    assert_true(!rc || err.message[0]);
    return rc;
}

static void what_is_no_feedback_is_refused(void **state)
{
    ruvllm_engine *engine = open_engine(NULL);
    struct ruvllm_learned_info info = {.struct_size = sizeof(info)};
    char *long_text = malloc(300000);
    uint64_t id;

    (void)state;
    assert_non_null(long_text);
    memset(long_text, 'a', 299999);
    long_text[299999] = '\0';
    ruvllm_response_free(ask(engine, "anna", &id));
    assert_int_equal(give(engine, "anna", &(struct ruvllm_feedback){.id = id}), RUVLLM_INVALID);
    assert_int_equal(give(engine, "anna", &(struct ruvllm_feedback){.id = id, .has_score = true, .correction = "a"}),
                     RUVLLM_INVALID);
    assert_int_equal(give(engine, "anna", &(struct ruvllm_feedback){.id = id, .preferred = "b", .correction = "a"}),
                     RUVLLM_INVALID);
    assert_int_equal(give(engine, "anna", &(struct ruvllm_feedback){.id = id, .has_score = true, .score = 2}),
                     RUVLLM_INVALID);
    assert_int_equal(give(engine, "anna", &(struct ruvllm_feedback){.id = id, .correction = "\xff"}), RUVLLM_INVALID);
    assert_int_equal(give(engine, "anna", &(struct ruvllm_feedback){.id = id, .correction = long_text}),
                     RUVLLM_TOO_LARGE);
    long_text[4000] = '\0'; // beyond the context
    assert_int_equal(give(engine, "anna", &(struct ruvllm_feedback){.id = id, .correction = long_text}),
                     RUVLLM_TOO_LARGE);
    assert_int_equal(give(engine, "bert", &(struct ruvllm_feedback){.id = id, .correction = "a"}), RUVLLM_NOT_FOUND);
    assert_int_equal(give(engine, "anna", &(struct ruvllm_feedback){.id = id + 1, .correction = "a"}),
                     RUVLLM_NOT_FOUND);
    assert_ok(ruvllm_engine_learned(engine, "anna", &info, err));
    assert_int_equal(info.generation, 0);
    assert_int_equal(give(engine, "anna", &(struct ruvllm_feedback){.id = id, .has_score = true, .score = 1}),
                     RUVLLM_OK);
    free(long_text);
    ruvllm_engine_close(engine);
}

/* An answer that was told may be told again, and a bad vote takes back what it says. */
static void a_told_answer_can_be_voted_on(void **state)
{
    ruvllm_engine *engine = open_engine(NULL);
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    struct ruvllm_response *told, *after;
    uint64_t id;

    (void)state;
    correct(engine, "anna", TOLD);
    told = ask(engine, "anna", &id);
    assert_ok(ruvllm_engine_feedback(engine, "anna", id, 1, &result, err));
    after = ask(engine, "anna", NULL);
    assert_string_equal(after->text, TOLD);
    assert_int_equal(after->learned_generation, 2);
    ruvllm_response_free(after);
    assert_ok(ruvllm_engine_feedback(engine, "anna", id, 0, &result, err));
    after = ask(engine, "anna", NULL);
    assert_string_not_equal(after->text, TOLD);
    ruvllm_response_free(after);
    ruvllm_response_free(told);
    ruvllm_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_correction_is_said_the_next_time_to_its_tenant_alone),
        cmocka_unit_test(a_correction_is_taken_back_to_the_bit_and_outlives_a_restart),
        cmocka_unit_test(a_pair_moves_the_answer),
        cmocka_unit_test(what_is_no_feedback_is_refused),
        cmocka_unit_test(a_told_answer_can_be_voted_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
