/* Shapes on real models: every answer that ends is whole, alone and with 64 in one batch. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include <yyjson.h>

enum { N = 64 };

static const char schema[] =
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":12},\"age\":{\"type\":"
    "\"integer\","
    "\"minimum\":1,\"maximum\":99},\"tags\":{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"b\"]},\"maxItems\":2}},"
    "\"required\":[\"name\",\"age\",\"tags\"],\"additionalProperties\":false}";

static const struct ruvllm_input input = {
    .struct_size = sizeof(input), .text = "Once upon a time", .text_len = sizeof("Once upon a time") - 1};

/* One thread: the model is tiny. */
static struct ruvllm_model_params small_params(void)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();

    params.n_threads = 1;
    return params;
}

static ruvllm_model *open_small(void)
{
    struct ruvllm_model_params params = small_params();
    ruvllm_model *model;

    test_need_file(test_data("models/stories260K.gguf"));
    assert_ok(ruvllm_model_open(&model, test_data("models/stories260K.gguf"), &params, err));
    return model;
}

static struct ruvllm_generate_params hot_params(uint64_t seed)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();

    params.temperature = 1;
    params.top_p = 1;
    params.repetition_penalty = 1;
    params.max_tokens = 200;
    params.has_seed = true;
    params.seed = seed;
    return params;
}

static void check_person(const struct ruvllm_response *r)
{
    yyjson_doc *doc = yyjson_read(r->text, r->text_len, 0);
    yyjson_val *root = yyjson_doc_get_root(doc);

    if (!doc || r->stop_reason != RUVLLM_STOP_EOS)
        fail_msg("'%s' ended by %s", r->text, ruvllm_stop_reason_name(r->stop_reason));
    assert_int_equal(yyjson_obj_size(root), 3);
    assert_true(yyjson_is_str(yyjson_obj_get(root, "name")));
    assert_in_range(yyjson_get_uint(yyjson_obj_get(root, "age")), 1, 99);
    assert_true(yyjson_arr_size(yyjson_obj_get(root, "tags")) <= 2);
    yyjson_doc_free(doc);
}

static void answers_of_a_model_keep_their_shape(void **state)
{
    ruvllm_model *model;

    (void)state;
    model = open_small();
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct ruvllm_generate_params params = hot_params(seed);
        struct ruvllm_response *r;

        params.json_schema = schema;
        assert_ok(ruvllm_generate(model, &input, &params, &r, err));
        check_person(r);
        ruvllm_response_free(r);
        params.json_schema = NULL;
        params.regex = "[a-z]{4}( [a-z]{1,4}){2}\\.";
        params.temperature = 0;
        assert_ok(ruvllm_generate(model, &input, &params, &r, err));
        assert_int_equal(r->text[r->text_len - 1], '.');
        assert_int_equal(r->stop_reason, RUVLLM_STOP_EOS);
        ruvllm_response_free(r);
    }
    ruvllm_model_close(model);
}

static void what_is_cut_off_is_a_beginning(void **state)
{
    struct ruvllm_generate_params params = hot_params(3);
    struct ruvllm_response *r;
    ruvllm_model *model;

    (void)state;
    model = open_small();
    params.grammar = "root ::= \"ab\"{500}";
    params.max_tokens = 7;
    assert_ok(ruvllm_generate(model, &input, &params, &r, err));
    assert_int_equal(r->stop_reason, RUVLLM_STOP_LENGTH);
    assert_int_equal(r->n_tokens, 7);
    assert_memory_equal(r->text, "abababababababab", r->text_len < 16 ? r->text_len : 16);
    ruvllm_response_free(r);
    ruvllm_model_close(model);
}

static void wishes_that_cannot_be_are_refused(void **state)
{
    struct ruvllm_generate_params params = hot_params(1);
    struct ruvllm_error why = {0};
    struct ruvllm_response *r;
    ruvllm_model *model;

    (void)state;
    model = open_small();
    params.regex = "a";
    params.json_object = true;
    assert_fails(ruvllm_generate(model, &input, &params, &r, &why), RUVLLM_INVALID, why, "'regex' and 'json_object'");
    params.json_object = false;
    params.regex = "(?=a)";
    assert_fails(ruvllm_generate(model, &input, &params, &r, &why), RUVLLM_INVALID, why, "cannot use 'regex'");
    assert_fails(ruvllm_shape_check(model, &params, &why), RUVLLM_INVALID, why, "look-around");
    params.regex = NULL;
    params.tools = "[]";
    assert_fails(ruvllm_shape_check(model, &params, &why), RUVLLM_UNSUPPORTED, why, "no place for tools");
    ruvllm_model_close(model);
}

/* Half of them share a schema, the others have one each: compiled by this thread, followed by the engine's. */
static void sixty_four_shapes_in_one_batch(void **state)
{
    struct ruvllm_engine_params params = ruvllm_engine_params_default();
    struct ruvllm_model_params small = small_params();
    static char own[N][80];
    ruvllm_engine *engine;
    uint64_t ids[N];

    (void)state;
    test_need_file(test_data("models/stories260K.gguf"));
    params.max_sequences = N;
    params.model = &small;
    assert_ok(ruvllm_engine_open(&engine, test_data("models/stories260K.gguf"), &params, err));
    for (int i = 0; i < N; i++) {
        struct ruvllm_generate_params generate = hot_params((uint64_t)i);
        struct ruvllm_request request = {.struct_size = sizeof(request), .input = &input, .params = &generate};

        snprintf(own[i], sizeof(own[i]), "root ::= \"<%d>\" [a-z ]{3,%d} \"!\"", i, 5 + i);
        generate.json_schema = i % 2 ? schema : NULL;
        generate.grammar = i % 2 ? NULL : own[i];
        assert_ok(ruvllm_engine_submit(engine, &request, &ids[i], err));
    }
    for (int i = 0; i < N; i++) {
        struct ruvllm_event event = {.struct_size = sizeof(event)};
        char begin[16];

        do
            assert_ok(ruvllm_engine_next_event(engine, ids[i], -1, &event, err));
        while (event.type != RUVLLM_EVENT_DONE);
        snprintf(begin, sizeof(begin), "<%d>", i);
        if (i % 2)
            check_person(event.response);
        else
            assert_memory_equal(event.response->text, begin, strlen(begin));
        ruvllm_response_free(event.response);
    }
    ruvllm_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_of_a_model_keep_their_shape),
        cmocka_unit_test(what_is_cut_off_is_a_beginning),
        cmocka_unit_test(wishes_that_cannot_be_are_refused),
        cmocka_unit_test(sixty_four_shapes_in_one_batch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
