/*
 * Guessing ahead changes no answer. Here every guess that is found is computed (guess_all.c), so that as many as
 * possible are wrong.
 *
 * A difference is excused where the two best tokens are closer than what steps of more rows do to a log-probability:
 * see bed_compare.
 */
#include "engine/engine.h"
#include "serving_bed.h"
#include "support/adapter_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef RUVLLM_IS_SANITIZED
enum { N_PROMPTS = 2, N_ANSWER = 40, N_DRAWS = 200 };
#else
enum { N_PROMPTS = 12, N_ANSWER = 64, N_DRAWS = 10000 };
#endif

static ruvllm_engine *open_guessing(const char *name, bool speculates)
{
    struct ruvllm_engine_params params = ruvllm_engine_params_default();

    params.speculate = speculates;
    return bed_open(name, &params);
}

/* Texts that repeat themselves a little, some a lot. */
static void write_prompt(char *out, int i)
{
    snprintf(out, BED_MAX_PROMPT, "%s a dog. %s a cat, and %s a dog. Tom said: \"%s %d dogs.\" Tom said: \"%s",
             bed_beginnings[i % 8], bed_beginnings[(i / 8 + 1) % 8], bed_beginnings[i % 8], bed_beginnings[i % 5], i,
             bed_beginnings[i % 5]);
}

/* All prompts, on an engine that guesses and on one that does not; alone or together. Returns how many were wrong. */
static uint64_t compare_answers(const char *model, struct ruvllm_generate_params params, bool together)
{
    ruvllm_engine *plain = open_guessing(model, false), *guessing = open_guessing(model, true);
    struct ruvllm_engine_stats stats;
    uint64_t ids[N_PROMPTS];
    double noise = 1e-6;
    size_t n_different = 0;
    char text[BED_MAX_PROMPT];

    params.ignore_eos = true;
    for (int i = 0; i < N_PROMPTS; i++) {
        write_prompt(text, i);
        params.seed = (uint64_t)i + 1;
        ids[i] = bed_submit(guessing, text, NULL, &params);
        if (!together)
            bed_wait_until_idle(guessing);
    }
    for (int i = 0; i < N_PROMPTS; i++) {
        struct ruvllm_response *expected, *answer;

        write_prompt(text, i);
        params.seed = (uint64_t)i + 1;
        expected = bed_drain(plain, bed_submit(plain, text, NULL, &params));
        answer = bed_drain(guessing, ids[i]);
        assert_int_equal(expected->drafted_tokens, 0);
        assert_true(answer->accepted_tokens <= answer->drafted_tokens);
        n_different += bed_compare(expected, answer, &noise);
        ruvllm_response_free(expected);
        ruvllm_response_free(answer);
    }
    bed_wait_until_idle(guessing);
    stats = bed_stats(guessing);
    print_message("%s: %zu of %d answers differ; %d guesses, %d right; noise %.1e\n", model, n_different, N_PROMPTS,
                  (int)stats.drafted_tokens, (int)stats.accepted_tokens, noise);
    assert_true(stats.drafted_tokens > (uint64_t)N_PROMPTS);
    assert_true(stats.accepted_tokens > 0);
    assert_true(n_different <= (N_PROMPTS * N_ANSWER + 499) / 500);
    ruvllm_engine_close(plain);
    ruvllm_engine_close(guessing);
    return stats.drafted_tokens - stats.accepted_tokens;
}

static void the_likeliest_answers_are_the_same(void **state)
{
    (void)state;
    assert_true(compare_answers("models/stories260K.gguf", bed_greedy(N_ANSWER), false) > 0);
    assert_true(compare_answers("models/stories15M-f16.gguf", bed_greedy(N_ANSWER), false) > 0);
    (void)compare_answers("models/minimind2-26m-f16.gguf", bed_greedy(N_ANSWER),
                          false); // says the same again and again
}

static void so_they_are_in_a_crowd(void **state)
{
    (void)state;
    assert_true(compare_answers("models/stories15M-f16.gguf", bed_greedy(N_ANSWER), true) > 0);
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
    struct ruvllm_generate_params params = bed_greedy(200);
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
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct ruvllm_generate_params params = bed_greedy(N_ANSWER);
    ruvllm_engine *plain = open_guessing("models/stories15M-f16.gguf", false), *drafting;
    struct ruvllm_engine_stats stats;
    double noise = 1e-6;
    size_t n_different = 0;
    uint64_t ids[8];

    (void)state;
    params.ignore_eos = true;
    test_need_file(test_model("stories15M-q4_0.gguf"));
    wishes.draft_model = test_model("stories15M-q4_0.gguf");
    drafting = bed_open("models/stories15M-f16.gguf", &wishes);
    for (int i = 0; i < 8; i++)
        ids[i] = bed_submit(drafting, bed_beginnings[i], NULL, &params);
    for (int i = 0; i < 8; i++) {
        struct ruvllm_response *answer = bed_drain(drafting, ids[i]);
        struct ruvllm_response *expected = bed_drain(plain, bed_submit(plain, bed_beginnings[i], NULL, &params));

        n_different += bed_compare(expected, answer, &noise);
        assert_true(answer->accepted_tokens > N_ANSWER / 2);
        ruvllm_response_free(answer);
        ruvllm_response_free(expected);
    }
    bed_wait_until_idle(drafting);
    stats = bed_stats(drafting);
    print_message("%d guesses of a draft model, %d right\n", (int)stats.drafted_tokens, (int)stats.accepted_tokens);
    assert_true(stats.accepted_tokens < stats.drafted_tokens);
    assert_true(n_different <= (8 * N_ANSWER + 499) / 500);
    ruvllm_engine_close(plain);
    ruvllm_engine_close(drafting);
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

/* Adapters change what the large model says; guesses are held against that. */
static void adapters_go_with_guesses(void **state)
{
    struct ruvllm_generate_params params = bed_greedy(N_ANSWER);
    char text[BED_MAX_PROMPT];
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text};
    struct ruvllm_request request = bed_request(&input, NULL);
    struct ruvllm_response *answers[2];
    double noise = 1e-6;

    (void)state;
    params.ignore_eos = true;
    request.params = &params;
    request.adapter = "x";
    write_prompt(text, 3);
    input.text_len = strlen(text);
    for (int i = 0; i < 2; i++) {
        ruvllm_engine *engine = open_guessing("models/stories15M-f16.gguf", i == 1);
        struct adapter_fixture fixture = {.hparams = &engine->model->hparams,
                                          .manifest = &engine->model->manifest,
                                          .strength = 0.02f,
                                          .seed = 5,
                                          .rank = 4};
        struct rv_adapter *adapter = adapter_fixture_new(&fixture);
        int64_t generation;
        uint64_t id;

        assert_ok(rv_engine_adapters_publish(&engine->adapters, "x", -1, adapter, &generation, err));
        rv_adapter_unref(adapter);
        assert_ok(ruvllm_engine_submit(engine, &request, &id, err));
        answers[i] = bed_drain(engine, id);
        ruvllm_engine_close(engine);
    }
    assert_true(answers[1]->drafted_tokens > 0);
    assert_int_equal(answers[1]->adapter_generation, 1);
    assert_int_equal(bed_compare(answers[0], answers[1], &noise), 0);
    ruvllm_response_free(answers[0]);
    ruvllm_response_free(answers[1]);
}

enum { N_BINS = 512 }; // as many as the model has tokens

/* How often each token comes eighth, with or without guesses. */
static void draw_eighths(bool speculates, double *counts)
{
    ruvllm_engine *engine = open_guessing("models/stories260K.gguf", speculates);
    struct ruvllm_generate_params params = bed_greedy(8);
    const char *text = "One day, Lily went to the park. She was happy. One day, Lily went to the";
    uint64_t ids[50];

    params.temperature = 1;
    params.n_logprobs = -1;
    params.ignore_eos = true;
    params.has_seed = true;
    for (int i = 0; i < N_DRAWS; i += 50) {
        for (int k = 0; k < 50; k++) {
            params.seed = (uint64_t)(2 * (i + k)) + speculates;
            ids[k] = bed_submit(engine, text, NULL, &params);
        }
        for (int k = 0; k < 50; k++) {
            struct ruvllm_response *answer = bed_drain(engine, ids[k]);

            assert_int_equal(answer->n_tokens, 8);
            counts[answer->tokens[7]]++;
            ruvllm_response_free(answer);
        }
    }
    bed_wait_until_idle(engine);
    assert_true(!speculates || bed_stats(engine).drafted_tokens > (uint64_t)N_DRAWS);
    assert_true(!speculates || bed_stats(engine).accepted_tokens > (uint64_t)N_DRAWS / 50);
    ruvllm_engine_close(engine);
}

/* Two samples of one distribution: chi-square over the tokens that are seldom in neither. */
static void drawn_tokens_are_distributed_alike(void **state)
{
    static double with[N_BINS], without[N_BINS];
    double chi = 0, rare[2] = {0};
    int n = 0;

    (void)state;
    draw_eighths(true, with);
    draw_eighths(false, without);
    for (int i = 0; i < N_BINS; i++) {
        if (with[i] + without[i] < 20) {
            rare[0] += with[i];
            rare[1] += without[i];
            continue;
        }
        chi += (with[i] - without[i]) * (with[i] - without[i]) / (with[i] + without[i]);
        n++;
    }
    if (rare[0] + rare[1] > 0) {
        chi += (rare[0] - rare[1]) * (rare[0] - rare[1]) / (rare[0] + rare[1]);
        n++;
    }
    print_message("chi-square %.1f over %d kinds of tokens, %d draws each\n", chi, n, N_DRAWS);
    assert_true(n > 5);
    /* Mean n - 1, variance 2 (n - 1): four deviations above are one in thirty thousand. */
    assert_true(chi < (n - 1) + 4 * sqrt(2.0 * (n - 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_likeliest_answers_are_the_same), cmocka_unit_test(so_they_are_in_a_crowd),
        cmocka_unit_test(so_are_answers_that_are_drawn),      cmocka_unit_test(tiers_change_nothing),
        cmocka_unit_test(a_draft_model_changes_nothing),      cmocka_unit_test(another_vocabulary_cannot_guess),
        cmocka_unit_test(adapters_go_with_guesses),           cmocka_unit_test(drawn_tokens_are_distributed_alike),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
