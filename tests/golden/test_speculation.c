/*
 * Guessing ahead changes no answer. Here every guess that is found is computed (guess_all.c), so that as many as
 * possible are wrong. What excuses a difference: see guess_fixture.h.
 */
#include "support/guess_fixture.h"
#include "support/serving_bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_PROMPTS = TEST_SANITIZED(2, 12), N_ANSWER = TEST_SANITIZED(40, 64) };

/* The smallest model is enough to see what memory is touched. */
static const char *const usual_model = TEST_SANITIZED("models/stories260K.gguf", "models/stories15M-f16.gguf");

/* Texts that repeat themselves a little, some a lot. */
static void write_prompt(char *out, int i)
{
    snprintf(out, BED_MAX_PROMPT, "%s a dog. %s a cat, and %s a dog. Tom said: \"%s %d dogs.\" Tom said: \"%s",
             bed_beginnings[i % 8], bed_beginnings[(i / 8 + 1) % 8], bed_beginnings[i % 8], bed_beginnings[i % 5], i,
             bed_beginnings[i % 5]);
}

/* All prompts, on an engine that guesses and on one that does not; alone or together. Returns how many were wrong. */
static int64_t compare_answers(const char *model, struct ruvllm_generate_params params, bool together)
{
    struct guess_question question = {.params = params};
    struct guess_tally tally = {0};
    struct guess_fixture f;
    uint64_t ids[N_PROMPTS];
    char text[BED_MAX_PROMPT];

    guess_fixture_open(&f, model, NULL);
    question.text = text;
    question.params.ignore_eos = true;
    for (int i = 0; i < N_PROMPTS; i++) {
        write_prompt(text, i);
        question.params.seed = (uint64_t)i + 1;
        ids[i] = guess_fixture_submit(f.guessing, &question);
        if (!together)
            bed_wait_until_idle(f.guessing);
    }
    for (int i = 0; i < N_PROMPTS; i++) {
        struct ruvllm_response *expected;

        write_prompt(text, i);
        question.params.seed = (uint64_t)i + 1;
        expected = bed_drain(f.plain, guess_fixture_submit(f.plain, &question));
        guess_tally_compare(&tally, expected, bed_drain(f.guessing, ids[i]));
    }
    print_message("%s: ", model);
    guess_tally_check(&tally);
    assert_true(tally.n_guessed > N_PROMPTS);
    guess_fixture_close(&f);
    return tally.n_guessed - tally.n_right;
}

static void the_likeliest_answers_are_the_same(void **state)
{
    (void)state;
    assert_true(compare_answers("models/stories260K.gguf", bed_greedy(N_ANSWER), false) > 0);
    if (TEST_SANITIZED(true, false))
        return;
    assert_true(compare_answers(usual_model, bed_greedy(N_ANSWER), false) > 0);
    (void)compare_answers("models/minimind2-26m-f16.gguf", bed_greedy(N_ANSWER),
                          false); // says the same again and again
}

static void so_they_are_in_a_crowd(void **state)
{
    (void)state;
    assert_true(compare_answers(usual_model, bed_greedy(N_ANSWER), true) > 0);
}

/* The same dice are thrown in the same order, so even drawn answers are the same. */
static void so_are_answers_that_are_drawn(void **state)
{
    struct ruvllm_generate_params params = bed_greedy(N_ANSWER);

    (void)state;
    params.temperature = 0.8f;
    params.top_p = 0.95f;
    params.has_seed = true;
    params.repetition_penalty = 1.05f;
    assert_true(compare_answers("models/stories260K.gguf", params, false) > 0);
}

/* Blocks change their tier at the same places: guesses never reach over one. */
static void tiers_change_nothing(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct ruvllm_kv_policy tiers = ruvllm_kv_policy_default();
    struct ruvllm_generate_params params = bed_greedy(TEST_SANITIZED(96, 200));
    char *text = bed_long_text(12);
    struct ruvllm_response *answers[2];
    double noise = 1e-6;

    (void)state;
    tiers.hot_tokens = 32;
    tiers.warm_tokens = 32;
    params.ignore_eos = true;
    wishes.kv = &tiers;
    for (int i = 0; i < 2; i++) {
        ruvllm_engine *engine;

        wishes.speculate = i == 1;
        engine = bed_open("models/minimind2-26m-f16.gguf", &wishes);
        answers[i] = bed_drain(engine, bed_submit(engine, text, NULL, &params));
        assert_true(bed_stats(engine).blocks_migrated > 0);
        ruvllm_engine_close(engine);
    }
    assert_true(answers[1]->drafted_tokens > 0);
    assert_true(bed_compare(answers[0], answers[1], &noise) <= 1);
    ruvllm_response_free(answers[0]);
    ruvllm_response_free(answers[1]);
    free(text);
}

/* The same with a small model's guesses; here it is the model itself in four bits, so that most of them hold. */
static void a_draft_model_changes_nothing(void **state)
{
    enum { N = TEST_SANITIZED(3, 8) };
    struct guess_question question = {.params = bed_greedy(N_ANSWER)};
    struct guess_tally tally = {0};
    struct guess_fixture f;
    uint64_t ids[N];

    (void)state;
    question.params.ignore_eos = true;
    guess_fixture_open(&f, "models/stories15M-f16.gguf", test_model("stories15M-q4_0.gguf"));
    for (int i = 0; i < N; i++) {
        question.text = bed_beginnings[i];
        ids[i] = guess_fixture_submit(f.guessing, &question);
    }
    for (int i = 0; i < N; i++) {
        struct ruvllm_response *answer = bed_drain(f.guessing, ids[i]);

        assert_true(answer->accepted_tokens > N_ANSWER / 2);
        question.text = bed_beginnings[i];
        guess_tally_compare(&tally, bed_drain(f.plain, guess_fixture_submit(f.plain, &question)), answer);
    }
    guess_tally_check(&tally);
    assert_true(tally.n_right < tally.n_guessed);
    guess_fixture_close(&f);
}

static void another_vocabulary_cannot_guess(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct ruvllm_error failure;
    ruvllm_engine *engine;

    (void)state;
    wishes.draft_model = test_data("models/stories260K.gguf");
    assert_fails(ruvllm_engine_open(&engine, test_data("models/stories15M-f16.gguf"), &wishes, &failure),
                 RUVLLM_INVALID, failure, "512 tokens and the model has 32000");
    wishes.draft_model = "/nowhere.gguf";
    assert_fails(ruvllm_engine_open(&engine, test_data("models/stories15M-f16.gguf"), &wishes, &failure),
                 RUVLLM_NOT_FOUND, failure, "draft model");
}

static struct ruvllm_response *answer(ruvllm_engine *engine, const struct guess_question *question)
{
    return bed_drain(engine, guess_fixture_submit(engine, question));
}

/* Adapters change what the large model says; guesses are held against that. */
static void adapters_go_with_guesses(void **state)
{
    struct guess_question question = {.params = bed_greedy(N_ANSWER)};
    struct guess_tally tally = {0};
    struct guess_fixture f;
    char text[BED_MAX_PROMPT];

    (void)state;
    guess_fixture_open(&f, "models/stories15M-f16.gguf", NULL);
    guess_fixture_publish(&f);
    question.params.ignore_eos = true;
    question.text = text;
    question.adapter = GUESS_FIXTURE_ADAPTER;
    for (int i = 3; i < 5; i++) {
        write_prompt(text, i);
        guess_fixture_ask(&f, &question, &tally);
    }
    guess_tally_check(&tally);
    guess_fixture_close(&f);
}

static const char lines[] = "root ::= line{2,9}\nline ::= \"- \" [A-Za-z ,]{4,40} \".\\n\"";
static const char people[] = "root ::= \"Tom\" (\" and \" name){1,6} \" saw \" (\"a dog\" | \"a cat\") \".\" root?\n"
                             "name ::= \"Lily\" | \"Mum\" | \"the dog\"";
static const char numbers[] = "root ::= \"[\" number (\", \" number){3,30} \"]\"\nnumber ::= [1-9] [0-9]{0,2}";
static const char *const shapes[] = {lines, people, numbers};

/*
 * An adapter and a grammar in one request, guesses from the text or of a draft model: the answer is the one without
 * guesses, and it is neither what the model says without the adapter nor what it says without the grammar.
 */
static void compare_with_both(const char *model, const char *draft, float temperature)
{
    struct guess_question question = {.params = bed_greedy(N_ANSWER), .adapter = GUESS_FIXTURE_ADAPTER};
    struct guess_tally tally = {0};
    struct guess_fixture f;
    int n_by_adapter = 0;

    guess_fixture_open(&f, model, draft);
    guess_fixture_publish(&f);
    question.params.temperature = temperature;
    question.params.has_seed = true;
    for (int i = 0; i < 6; i++) {
        struct guess_question without = question;
        struct ruvllm_response *one, *other;
        char text[BED_MAX_PROMPT];

        snprintf(text, sizeof(text), "- %s, Tom and Lily.\n- Tom and the dog saw a cat.\n[%d, 20, 30, 20]\n- Tom and",
                 bed_beginnings[i], i + 7);
        question.text = text;
        question.params.grammar = shapes[i % 3];
        question.params.seed = (uint64_t)i + 1;
        guess_fixture_ask(&f, &question, &tally);
        without = question;
        without.adapter = NULL;
        one = answer(f.guessing, &question);
        other = answer(f.guessing, &without);
        assert_int_equal(one->adapter_generation, 1);
        assert_int_equal(other->adapter_generation, 0);
        assert_true(one->text_len > 0 && one->text[0] == "-T["[i % 3]);
        n_by_adapter += strcmp(one->text, other->text) != 0;
        ruvllm_response_free(one);
        ruvllm_response_free(other);
    }
    print_message("%s, %s, at %.1f; the adapter changed %d answers: ", model, draft ? "drafted" : "from the text",
                  (double)temperature, n_by_adapter);
    guess_tally_check(&tally);
    assert_int_equal(tally.n, tally.n_identical);
    assert_true(n_by_adapter > 0);
    guess_fixture_close(&f);
}

static void adapters_and_shapes_at_once_go_with_guesses(void **state)
{
    (void)state;
    compare_with_both("models/stories260K.gguf", NULL, 0);
    compare_with_both("models/stories260K.gguf", NULL, 0.8f);
    compare_with_both("models/stories260K.gguf", test_data("models/stories260K.gguf"), 0);
    compare_with_both("models/stories260K.gguf", test_data("models/stories260K.gguf"), 0.8f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_likeliest_answers_are_the_same),
        cmocka_unit_test(so_they_are_in_a_crowd),
        cmocka_unit_test(so_are_answers_that_are_drawn),
        cmocka_unit_test(tiers_change_nothing),
        cmocka_unit_test(a_draft_model_changes_nothing),
        cmocka_unit_test(another_vocabulary_cannot_guess),
        cmocka_unit_test(adapters_go_with_guesses),
        cmocka_unit_test(adapters_and_shapes_at_once_go_with_guesses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
