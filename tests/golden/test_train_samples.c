/* Examples to tokens and weights, on a model that talks and one that only tells stories. */
#include "engine/train_samples.h"
#include "support/test.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

static struct ruvllm_model *open_model(const char *name)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();
    struct ruvllm_model *model;

    params.vocab_only = true;
    assert_ok(rv_model_open(&model, test_data(name), &params, false, err));
    return model;
}

static struct ruvllm_train_sample text_sample(const char *prompt, const char *response, float score)
{
    return (struct ruvllm_train_sample){
        .struct_size = sizeof(struct ruvllm_train_sample), .prompt = prompt, .response = response, .score = score};
}

/* The text of the tokens with a weight, for the caller to free. */
static char *learned_text(const struct ruvllm_model *model, const struct rv_deep_sample *s)
{
    int32_t first = 1;
    size_t len;
    char *text;

    while (first < s->n && s->weights[first] == 0.0f)
        first++;
    for (int32_t i = first; i < s->n; i++)
        assert_true(s->weights[i] != 0.0f);
    assert_ok(ruvllm_detokenize(model, s->tokens + first, (size_t)(s->n - first), false, &text, &len, err));
    return text;
}

static void every_answer_of_a_conversation_is_learned_and_nothing_else(void **state)
{
    struct ruvllm_model *model = open_model("models/minimind2-26m-f16.gguf");
    const struct ruvllm_message messages[] = {
        {"system", "Be short."}, {"user", "Hi"}, {"assistant", "Hello there."}, {"user", "Bye"}, {"assistant", "Go."}};
    struct ruvllm_train_sample sample = {
        .struct_size = sizeof(sample), .messages = messages, .n_messages = 5, .score = NAN};
    struct rv_train_samples out;
    char *first, *second;

    (void)state;
    assert_ok(rv_train_samples_init(&out, model, &sample, 1, 512, err));
    assert_int_equal(out.n_items, 2);
    first = learned_text(model, &out.items[0]);
    second = learned_text(model, &out.items[1]);
    assert_string_equal(first, "Hello there.");
    assert_string_equal(second, "Go.");
    assert_true(out.items[0].episode == out.items[1].episode && !out.items[0].is_vote);
    assert_int_equal(out.items[1].tokens[out.items[1].n - 1], rv_vocab_eos(model->vocab));
    ruvllm_free(first);
    ruvllm_free(second);
    rv_train_samples_release(&out);
    rv_model_close(model);
}

static void a_text_is_learned_from_where_its_prompt_ends(void **state)
{
    struct ruvllm_model *model = open_model("models/stories260K.gguf");
    struct ruvllm_train_sample samples[] = {text_sample("Once upon a time", ", there was a girl.", NAN),
                                            text_sample(NULL, "The end.", NAN)};
    struct rv_train_samples out;
    char *text;

    (void)state;
    samples[1].is_anchor = true;
    assert_ok(rv_train_samples_init(&out, model, samples, 2, 512, err));
    assert_int_equal(out.n_items, 2);
    text = learned_text(model, &out.items[0]);
    assert_string_equal(text, ", there was a girl.");
    ruvllm_free(text);
    assert_true(out.items[1].is_anchor && out.n_tokens > 0);
    for (int32_t i = 0; i < out.items[1].n; i++)
        assert_true(out.items[1].weights[i] == 0.0f);
    rv_train_samples_release(&out);
    rv_model_close(model);
}

static void scores_count_by_how_they_compare(void **state)
{
    struct ruvllm_model *model = open_model("models/stories260K.gguf");
    struct ruvllm_train_sample samples[] = {text_sample("a", " good one.", 1.0f), text_sample("a", " bad one.", 0.0f),
                                            text_sample("a", " middling one.", 0.5f)};
    struct rv_train_samples out;

    (void)state;
    assert_ok(rv_train_samples_init(&out, model, samples, 3, 512, err));
    assert_int_equal(out.n_items, 2); // the one at the mean says nothing
    assert_true(out.items[0].is_vote && out.items[0].weights[out.items[0].n - 1] > 1.0f);
    assert_true(out.items[1].is_vote && out.items[1].weights[out.items[1].n - 1] < -1.0f);
    rv_train_samples_release(&out);
    samples[1].score = samples[2].score = 1.0f;
    assert_ok(rv_train_samples_init(&out, model, samples, 3, 512, err));
    assert_int_equal(out.n_items, 3);
    assert_true(!out.items[1].is_vote && out.items[1].weights[out.items[1].n - 1] == 1.0f);
    rv_train_samples_release(&out);
    rv_model_close(model);
}

static void long_examples_are_cut_and_useless_ones_named(void **state)
{
    struct ruvllm_model *model = open_model("models/stories260K.gguf");
    struct ruvllm_train_sample samples[] = {text_sample("One day", " a boy went out to play with his dog.", NAN),
                                            text_sample("Once upon a time there was a little girl", "x", NAN)};
    struct ruvllm_error error;
    struct rv_train_samples out;

    (void)state;
    assert_ok(rv_train_samples_init(&out, model, samples, 1, 8, err));
    assert_true(out.n_cut == 1 && out.items[0].n == 8);
    rv_train_samples_release(&out);
    assert_fails(rv_train_samples_init(&out, model, samples, 2, 8, &error), RUVLLM_INVALID, error, "example 2");
    samples[0].score = 1.5f;
    assert_fails(rv_train_samples_init(&out, model, samples, 1, 8, &error), RUVLLM_INVALID, error, "score");
    samples[0] = text_sample("a", NULL, NAN);
    assert_fails(rv_train_samples_init(&out, model, samples, 1, 8, &error), RUVLLM_INVALID, error, "either messages");
    rv_model_close(model);
}

static void wishes_that_make_no_sense_are_refused_by_the_door(void **state)
{
    struct ruvllm_model *model = open_model("models/stories260K.gguf");
    struct ruvllm_train_params params = ruvllm_train_params_default();
    struct ruvllm_train_sample sample = text_sample("a", " b c d.", NAN);
    struct ruvllm_error error;
    const char *path = test_temp_path(".gguf");

    (void)state;
    assert_fails(ruvllm_train(NULL, &sample, 1, &params, path, NULL, &error), RUVLLM_INVALID, error, "model");
    params.modules = "q,nose";
    assert_fails(ruvllm_train(model, &sample, 1, &params, path, NULL, &error), RUVLLM_INVALID, error, "'nose'");
    params = ruvllm_train_params_default();
    params.rank = 0;
    assert_fails(ruvllm_train(model, &sample, 1, &params, path, NULL, &error), RUVLLM_INVALID, error, "rank 0");
    params = ruvllm_train_params_default();
    assert_fails(ruvllm_train(model, &sample, 0, &params, path, NULL, &error), RUVLLM_INVALID, error,
                 "nothing to train");
    params.step_size = NAN;
    params.held_out = 0;
    assert_fails(ruvllm_train(model, &sample, 1, &params, path, NULL, &error), RUVLLM_INVALID, error, "'step'");
    rv_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_answer_of_a_conversation_is_learned_and_nothing_else),
        cmocka_unit_test(a_text_is_learned_from_where_its_prompt_ends),
        cmocka_unit_test(scores_count_by_how_they_compare),
        cmocka_unit_test(long_examples_are_cut_and_useless_ones_named),
        cmocka_unit_test(wishes_that_make_no_sense_are_refused_by_the_door),
    };

    test_need_data();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
