/*
 * Guessing ahead where the answer has a shape: the answer stays the same, drawn or not; what the shape forbids is not
 * computed; and a draft model keeps nothing of what did not hold. Every guess that is found is computed (guess_all.c).
 */
#include "engine/draft.h"
#include "engine/engine.h"
#include "guess_all.h"
#include "sched/speculate.h"
#include "support/guess_fixture.h"
#include "support/serving_bed.h"

#include <stdio.h>
#include <string.h>

/* A draft model is asked for eight guesses a token. */
enum { N_ANSWERS = TEST_SANITIZED(3, 16), N_TOKENS = TEST_SANITIZED(24, 64), N_DRAFTED = 3 };

static const char people[] =
    "{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":12}"
    ","
    "\"age\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":99}},\"required\":[\"name\",\"age\"],"
    "\"additionalProperties\":false},\"minItems\":3}";
static const char lines[] = "root ::= line{2,9}\nline ::= \"- \" [A-Za-z ,]{4,40} \".\\n\"";
static const char words[] = "(The (dog|cat) (ran|sat|saw a (dog|cat))\\. ){2,9}";

static struct ruvllm_generate_params shaped(int i, float temperature)
{
    struct ruvllm_generate_params params = bed_greedy(N_TOKENS);

    params.temperature = temperature;
    params.top_p = 0.95f;
    params.has_seed = true;
    params.seed = (uint64_t)i + 1;
    if (i % 3 == 0)
        params.json_schema = people;
    else if (i % 3 == 1)
        params.grammar = lines;
    else
        params.regex = words;
    return params;
}

static void write_prompt(char *out, int i)
{
    snprintf(out, BED_MAX_PROMPT,
             "%s dog. The cat sat. The dog ran. - A dog, a cat.\n- %s cat.\n[{\"name\":\"Tom\",\"age\":%d},"
             "{\"name\":\"Lily\",\"age\":7},{\"name\":\"",
             bed_beginnings[i % 8], bed_beginnings[(i + 3) % 8], i + 5);
}

/* All answers at once from an engine that guesses, each alone from one that does not; how many differ. */
static int compare_answers(const char *model, const char *draft, float temperature)
{
    struct guess_tally tally = {0};
    struct guess_fixture f;
    uint64_t ids[N_ANSWERS];
    int n = draft ? N_DRAFTED : N_ANSWERS;
    char text[BED_MAX_PROMPT];

    guess_fixture_open(&f, model, draft);
    for (int i = 0; i < n; i++) {
        struct guess_question question = {.text = text, .params = shaped(i, temperature)};

        write_prompt(text, i);
        ids[i] = guess_fixture_submit(f.guessing, &question);
    }
    for (int i = 0; i < n; i++) {
        struct guess_question question = {.text = text, .params = shaped(i, temperature)};
        struct ruvllm_response *expected;

        write_prompt(text, i);
        expected = bed_drain(f.plain, guess_fixture_submit(f.plain, &question));
        guess_tally_compare(&tally, expected, bed_drain(f.guessing, ids[i]));
    }
    print_message("%s at %.1f: ", model, (double)temperature);
    guess_tally_check(&tally);
    assert_true(tally.n_guessed > tally.n_right || draft);
    guess_fixture_close(&f);
    return tally.n - tally.n_identical;
}

/* The same dice in the same order: a guess that did not hold has thrown none. */
static void drawn_answers_with_a_shape_are_the_same(void **state)
{
    (void)state;
    assert_int_equal(compare_answers("models/stories260K.gguf", NULL, 0.8f), 0);
    assert_int_equal(compare_answers("models/stories260K.gguf", NULL, 0), 0);
}

static void a_draft_model_guesses_for_shapes(void **state)
{
    (void)state;
    test_need_file(test_model("stories15M-q4_0.gguf"));
    assert_int_equal(compare_answers("models/stories15M-f16.gguf", test_model("stories15M-q4_0.gguf"), 0), 0);
    /* Drawn, where rounding is small beside what a draw takes: the model guesses for itself. */
    assert_int_equal(compare_answers("models/stories260K.gguf", test_data("models/stories260K.gguf"), 0.8f), 0);
}

/* The text says what follows, and the shape wants something else there: nothing but what it allows is computed. */
static void what_a_shape_forbids_is_not_computed(void **state)
{
    struct ruvllm_generate_params params = bed_greedy(96);
    const char *text = "a b c d 9 8 7 6 5 4 3. a b c d 9 8 7 6 5 4 3. a b c d 9 8 7 6 5 4 3.";
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct ruvllm_response *free_answer, *answer;
    ruvllm_engine *engine;

    (void)state;
    wishes.speculate = true;
    engine = bed_open("models/stories260K.gguf", &wishes);
    params.regex = "( a b c d x y z\\.){4}";
    answer = bed_drain(engine, bed_submit(engine, text, NULL, &params));
    assert_string_equal(answer->text, " a b c d x y z. a b c d x y z. a b c d x y z. a b c d x y z.");
    print_message("%d guesses, %d right\n", answer->drafted_tokens, answer->accepted_tokens);
    assert_true(answer->accepted_tokens > 8); // within " a b c d", and the second time all of it
    assert_true(answer->drafted_tokens - answer->accepted_tokens <= 1); // a word can be spelled in two ways
    params.regex = NULL;
    free_answer = bed_drain(engine, bed_submit(engine, text, NULL, &params));
    assert_true(free_answer->drafted_tokens > free_answer->accepted_tokens);
    ruvllm_response_free(answer);
    ruvllm_response_free(free_answer);
    ruvllm_engine_close(engine);
}

/* ---- what a draft model remembers -------------------------------------------------------------- */

static size_t read_text(ruvllm_engine *engine, const char *text, int32_t *out, size_t max)
{
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text, .text_len = strlen(text)};
    int32_t *tokens;
    size_t n;

    assert_ok(ruvllm_tokenize(ruvllm_engine_model(engine), &input, &tokens, &n, err));
    assert_true(n <= max);
    memcpy(out, tokens, n * sizeof(*out));
    ruvllm_free(tokens);
    return n;
}

static void ask(struct rv_draft *draft, const int32_t *tokens, size_t n, int32_t *out)
{
    struct rv_draft_wish wish = {
        .owner = 7, .tokens = tokens, .n_tokens = (int32_t)n, .n_wanted = RV_SPECULATE_MAX, .out = out};

    assert_true(rv_draft_guess(draft, &wish, 1).guess_us > 0);
    assert_int_equal(wish.n_given, RV_SPECULATE_MAX);
}

/* The sequence goes on otherwise, and nobody asks for a while: what was guessed then must not be taken for its text. */
static void a_draft_forgets_what_did_not_hold(void **state)
{
    ruvllm_engine *engine = bed_open("models/stories15M-f16.gguf", NULL);
    struct rv_draft_config config = {
        .path = test_model("stories15M-q4_0.gguf"), .target = engine->model, .n_threads = 1, .n_slots = 1};
    int32_t tokens[128], first[RV_SPECULATE_MAX], again[RV_SPECULATE_MAX], fresh[RV_SPECULATE_MAX];
    size_t n_begun = read_text(engine, "Once upon a time", tokens, 128), n;
    struct rv_draft *draft, *other;

    (void)state;
    test_need_file(config.path);
    assert_ok(rv_draft_open(&draft, &config, err));
    assert_ok(rv_draft_open(&other, &config, err));
    assert_int_equal(rv_draft_n_behind(draft, 0, 7, tokens, (int32_t)n_begun), n_begun);
    ask(draft, tokens, n_begun, first);
    n = read_text(engine, "Once upon a time the old grey wolf of the mountain ate a", tokens, 128);
    assert_true(n > n_begun + RV_SPECULATE_MAX);
    assert_int_not_equal(tokens[n_begun], first[0]);
    assert_int_equal(rv_draft_n_behind(draft, 0, 7, tokens, (int32_t)n), n - n_begun);
    assert_int_equal(rv_draft_n_behind(draft, 0, 8, tokens, (int32_t)n), n);
    ask(draft, tokens, n, again);
    ask(other, tokens, n, fresh);
    assert_memory_equal(again, fresh, sizeof(again));
    /* What held stays: all but the last, which was never computed. */
    memcpy(tokens + n, again, sizeof(again));
    assert_int_equal(rv_draft_n_behind(draft, 0, 7, tokens, (int32_t)n + RV_SPECULATE_MAX), 1);
    rv_draft_close(draft);
    rv_draft_close(other);
    ruvllm_engine_close(engine);
}

static void guesses_after_a_pause_are_as_good(void **state)
{
    (void)state;
    guess_all_pause = 11;
    test_need_file(test_model("stories15M-q4_0.gguf"));
    assert_int_equal(compare_answers("models/stories15M-f16.gguf", test_model("stories15M-q4_0.gguf"), 0), 0);
    guess_all_pause = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_answers_with_a_shape_are_the_same), cmocka_unit_test(a_draft_model_guesses_for_shapes),
        cmocka_unit_test(what_a_shape_forbids_is_not_computed),    cmocka_unit_test(a_draft_forgets_what_did_not_hold),
        cmocka_unit_test(guesses_after_a_pause_are_as_good),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
