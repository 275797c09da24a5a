/*
 * Corrections and pairs in an engine, from outside: asked the same again the model says what it was told, its tenant
 * alone; they can be taken back to the bit; with a store they are there after a restart, to the bit.
 */
#include "golden/learn_bed.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const TOLD = " red boat on the lake. It was called Zorbin.";

/* Texts are read in several pieces. */
static ruvllm_engine *open_engine(ruvllm_store *store)
{
    return learn_bed_open(&(struct learn_bed_wishes){.store = store, .prefill_tokens = 16});
}

static struct ruvllm_response *ask_at(ruvllm_engine *engine, const char *tenant, float temperature, uint64_t *id)
{
    return learn_bed_ask(
        engine,
        &(struct learn_bed_question){
            .tenant = tenant, .temperature = temperature, .top_p = 0.95f, .seed = 1, .n_tokens = 32, .may_end = true},
        id);
}

static struct ruvllm_response *ask(ruvllm_engine *engine, const char *tenant, uint64_t *id)
{
    return ask_at(engine, tenant, 0, id);
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
    after = ask_at(engine, "anna", 0.7f, NULL); // drawn, too
    assert_string_equal(after->text, TOLD);
    ruvllm_response_free(after);
    after = ask(engine, "bert", NULL);
    assert_true(learn_bed_same(other, after));
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
    store = learn_bed_open_store(path);
    engine = open_engine(store);
    base = ask(engine, "anna", NULL);
    assert_int_equal(correct(engine, "anna", TOLD), 1);
    taught = ask(engine, "anna", NULL);
    assert_string_equal(taught->text, TOLD);
    ruvllm_engine_close(engine);
    ruvllm_store_close(store);
    store = learn_bed_open_store(path);
    engine = open_engine(store);
    after = ask(engine, "anna", NULL);
    assert_int_equal(after->learned_generation, 1);
    assert_true(learn_bed_same(taught, after));
    ruvllm_response_free(after);
    assert_ok(ruvllm_engine_learn_rollback(engine, "anna", 0, &result, err));
    after = ask(engine, "anna", NULL);
    assert_true(learn_bed_same(base, after));
    ruvllm_response_free(after);
    assert_ok(ruvllm_engine_learn_rollback(engine, "anna", 1, &result, err));
    after = ask(engine, "anna", NULL);
    assert_true(learn_bed_same(taught, after));
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
