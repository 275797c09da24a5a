/*
 * Adapters in an engine, from outside: keys and values of one layer content are never another's, while heads come and
 * go without touching a cache; and what is asked for is checked. Under load: test_adapters_load.c.
 */
#include "golden/adapter_bed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- caches --------------------------------------------------------------------------------------- */

/* As llama.cpp#26207: a prompt computed under one adapter, then asked again under another, under none, and back. */
static void a_cached_prefix_never_crosses_adapters(void **state)
{
    struct ruvllm_response *a = adapter_bed_fresh_answer(1, 0), *b = adapter_bed_fresh_answer(2, 0),
                           *none = adapter_bed_fresh_answer(0, 0);
    ruvllm_engine *engine = adapter_bed_open(NULL);

    (void)state;
    assert_false(adapter_bed_is_same(a, b));
    assert_false(adapter_bed_is_same(a, none));
    adapter_bed_publish(engine, "a", 1, 0);
    adapter_bed_publish(engine, "b", 2, 0);
    adapter_bed_check(engine, "a", 0, a, false);
    adapter_bed_check(engine, "b", 0, b, false);
    adapter_bed_check(engine, NULL, 0, none, false);
    adapter_bed_check(engine, "a", 0, a, true);
    adapter_bed_check(engine, "b", 0, b, true);
    adapter_bed_check(engine, NULL, 0, none, true);
    ruvllm_response_free(a);
    ruvllm_response_free(b);
    ruvllm_response_free(none);
    ruvllm_engine_close(engine);
}

/* As vllm#42125: the same name is loaded with other weights. */
static void a_name_that_is_loaded_anew_has_caches_of_its_own(void **state)
{
    struct ruvllm_response *old = adapter_bed_fresh_answer(1, 0), *new = adapter_bed_fresh_answer(2, 0);
    ruvllm_engine *engine = adapter_bed_open(NULL);
    const char *first = adapter_bed_write(engine, 1, 0), *second = adapter_bed_write(engine, 2, 0);
    int64_t generation;

    (void)state;
    assert_ok(ruvllm_engine_adapter_load(engine, "x", first, 0, &generation, err));
    assert_int_equal(generation, 1);
    adapter_bed_check(engine, "x", 0, old, false);
    adapter_bed_check(engine, "x", 0, old, true);
    assert_ok(ruvllm_engine_adapter_load(engine, "x", second, 1, &generation, err));
    assert_int_equal(generation, 2);
    adapter_bed_check(engine, "x", 0, new, false);
    adapter_bed_check(engine, "x", 1, old, true); // asked for by number
    assert_ok(ruvllm_engine_adapter_unload(engine, "x", 0, err));
    assert_ok(ruvllm_engine_adapter_load(engine, "x", first, 0, &generation, err));
    assert_int_equal(generation, 3);
    adapter_bed_check(engine, "x", 0, old, true); // the same weights, so the same cache
    ruvllm_response_free(old);
    ruvllm_response_free(new);
    ruvllm_engine_close(engine);
}

static void a_head_only_publish_keeps_every_cache(void **state)
{
    struct ruvllm_response *first = adapter_bed_fresh_answer(1, 5), *second = adapter_bed_fresh_answer(1, 6),
                           *head = adapter_bed_fresh_answer(0, 7);
    ruvllm_engine *engine = adapter_bed_open(NULL);
    struct ruvllm_response *plain;

    (void)state;
    assert_false(adapter_bed_is_same(first, second));
    adapter_bed_publish(engine, "x", 1, 5);
    adapter_bed_check(engine, "x", 0, first, false);
    for (int i = 0; i < 3; i++) { // votes
        adapter_bed_publish(engine, "x", 1, 6);
        adapter_bed_check(engine, "x", 0, second, true);
        adapter_bed_publish(engine, "x", 1, 5);
        adapter_bed_check(engine, "x", 0, first, true);
    }
    plain = adapter_bed_answer(engine, NULL, 0);
    assert_int_equal(plain->cached_tokens, 0);
    adapter_bed_publish(engine, "head", 0, 7);
    adapter_bed_check(engine, "head", 0, head, true); // what the bare model computed
    assert_false(adapter_bed_is_same(plain, head));
    ruvllm_response_free(plain);
    ruvllm_response_free(first);
    ruvllm_response_free(second);
    ruvllm_response_free(head);
    ruvllm_engine_close(engine);
}

static void a_session_belongs_to_its_layers(void **state)
{
    struct ruvllm_input input = {
        .struct_size = sizeof(input), .text = adapter_bed_text, .text_len = strlen(adapter_bed_text)};
    struct ruvllm_request request = {.struct_size = sizeof(request), .input = &input, .adapter = "x"};
    struct ruvllm_response *expected = adapter_bed_fresh_answer(1, 6);
    const char *path = test_temp_path(".session");
    ruvllm_engine *engine = adapter_bed_open(NULL);
    struct ruvllm_error error;
    int32_t n_tokens;

    (void)state;
    adapter_bed_publish(engine, "x", 1, 5);
    ruvllm_response_free(adapter_bed_answer(engine, "x", 0));
    assert_ok(ruvllm_engine_save_session(engine, &request, path, &n_tokens, err));
    assert_true(n_tokens >= 32);
    request.adapter = NULL;
    assert_fails(ruvllm_engine_save_session(engine, &request, path, &n_tokens, &error), RUVLLM_NOT_FOUND, error,
                 "nothing of this conversation");
    ruvllm_engine_close(engine);

    engine = adapter_bed_open(NULL);
    adapter_bed_publish(engine, "x", 2, 5); // the same name, other layers
    adapter_bed_publish(engine, "y", 1, 6); // another name and head, the same layers
    assert_fails(ruvllm_engine_load_session(engine, &request, path, &n_tokens, &error), RUVLLM_INVALID, error,
                 "adapter");
    request.adapter = "x";
    assert_fails(ruvllm_engine_load_session(engine, &request, path, &n_tokens, &error), RUVLLM_INVALID, error,
                 "adapter");
    request.adapter = "y";
    assert_ok(ruvllm_engine_load_session(engine, &request, path, &n_tokens, err));
    adapter_bed_check(engine, "y", 0, expected, true);
    ruvllm_response_free(expected);
    ruvllm_engine_close(engine);
}

/* ---- doors ------------------------------------------------------------------------------------------ */

static void what_a_request_asks_for_is_checked(void **state)
{
    struct ruvllm_adapter_use uses[5] = {{"x", 0, 1}, {"x", 0, 1}, {"x", 0, 1}, {"x", 0, 1}, {"x", 0, 1}};
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = "One", .text_len = 3};
    struct ruvllm_request request = {.struct_size = sizeof(request), .input = &input, .adapter = "nobody"};
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    ruvllm_engine *engine = adapter_bed_open(NULL), *other;
    struct ruvllm_error error;
    static float embedding[288];
    int32_t n_tokens;
    uint64_t id;

    (void)state;
    adapter_bed_publish(engine, "x", 0, 1);
    assert_fails(ruvllm_engine_submit(engine, &request, &id, &error), RUVLLM_NOT_FOUND, error, "no adapter 'nobody'");
    request.adapter = "x";
    request.adapter_generation = 2;
    assert_fails(ruvllm_engine_submit(engine, &request, &id, &error), RUVLLM_NOT_FOUND, error, "no generation 2");
    request.adapters = uses;
    request.n_adapters = 1;
    assert_fails(ruvllm_engine_submit(engine, &request, &id, &error), RUVLLM_INVALID, error, "not both");
    request.adapter = NULL;
    request.n_adapters = 5;
    assert_fails(ruvllm_engine_submit(engine, &request, &id, &error), RUVLLM_INVALID, error, "up to 4");
    request.n_adapters = 2;
    uses[1].weight = NAN;
    assert_fails(ruvllm_engine_submit(engine, &request, &id, &error), RUVLLM_INVALID, error, "weight");
    uses[1] = (struct ruvllm_adapter_use){0};
    assert_fails(ruvllm_engine_submit(engine, &request, &id, &error), RUVLLM_INVALID, error, "no id");
    request.n_adapters = 1;
    assert_fails(ruvllm_engine_embed(engine, &request, embedding, 288, &n_tokens, &error), RUVLLM_UNSUPPORTED, error,
                 "adapter");
    wishes.max_adapters = 3;
    assert_fails(ruvllm_engine_open(&other, test_data(adapter_bed_model), &wishes, &error), RUVLLM_INVALID, error,
                 "max_adapters");
    ruvllm_engine_close(engine);
}

static void a_folder_belongs_to_one_engine(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    ruvllm_engine *engine, *other;
    struct ruvllm_error error;
    char left[512];

    (void)state;
    wishes.adapter_dir = adapter_bed_folder();
    /* What an engine that was killed has left, and what is none of its business. */
    snprintf(left, sizeof(left), "%s/ab", wishes.adapter_dir);
    assert_int_equal(mkdir(left, 0700), 0);
    snprintf(left, sizeof(left), "%s/ab/%064d.gguf", wishes.adapter_dir, 7);
    test_write_file(left, "x", 1);
    engine = adapter_bed_open(&wishes);
    assert_int_not_equal(access(left, F_OK), 0);
    assert_fails(ruvllm_engine_open(&other, test_data(adapter_bed_model), &wishes, &error), RUVLLM_BUSY, error,
                 "another engine");
    ruvllm_engine_close(engine);
    adapter_bed_remove_folder(wishes.adapter_dir);
}

static void generations_are_listed_compared_and_exported(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct ruvllm_adapter_info *infos;
    const char *path, *out = test_temp_path(".gguf");
    char *before, *after;
    size_t n, n_before, n_after;
    struct ruvllm_error error;
    ruvllm_engine *engine;
    int64_t generation;
    double norm;

    (void)state;
    wishes.adapter_dir = adapter_bed_folder();
    engine = adapter_bed_open(&wishes);
    path = adapter_bed_write(engine, 1, 1);
    assert_ok(ruvllm_engine_adapter_load(engine, "x", path, 0, &generation, err));
    assert_fails(ruvllm_engine_adapter_load(engine, "x", path, 0, &generation, &error), RUVLLM_CONFLICT, error,
                 "generation of adapter 'x' is 1");
    assert_int_equal(adapter_bed_publish(engine, "x", 1, 2), 2);
    assert_ok(ruvllm_engine_adapter_list(engine, "x", &infos, &n, err));
    assert_int_equal(n, 2);
    assert_ok(ruvllm_engine_adapter_diff(engine, "x", 1, 1, &norm, err));
    assert_true(norm == 0);
    assert_ok(ruvllm_engine_adapter_diff(engine, "x", 1, 2, &norm, err));
    assert_true(norm > 0 && norm < infos[0].norm + infos[1].norm);
    ruvllm_free(infos);
    assert_ok(ruvllm_engine_adapter_export(engine, "x", 1, out, RUVLLM_ADAPTER_OWN, err));
    before = test_read_file(path, &n_before);
    after = test_read_file(out, &n_after);
    assert_int_equal(n_before, n_after);
    assert_memory_equal(before, after, n_before);
    free(before);
    free(after);
    assert_fails(ruvllm_engine_adapter_export(engine, "x", 3, out, RUVLLM_ADAPTER_OWN, &error), RUVLLM_NOT_FOUND, error,
                 "no generation 3");
    assert_fails(ruvllm_engine_adapter_load(engine, "x", test_data(adapter_bed_model), -1, &generation, &error),
                 error.status, error, "cannot load adapter 'x'");
    ruvllm_engine_close(engine);
    adapter_bed_remove_folder(wishes.adapter_dir);
}

static void mixes_add_up(void **state)
{
    struct ruvllm_adapter_use nothing[2] = {{"a", 0, 0}, {"head", 0, 0}}, half[2] = {{"a", 0, 0.5f}, {"a", 0, 0.5f}};
    struct ruvllm_generate_params params = adapter_bed_greedy(ADAPTER_BED_ANSWER);
    struct ruvllm_input input = {
        .struct_size = sizeof(input), .text = adapter_bed_text, .text_len = strlen(adapter_bed_text)};
    struct ruvllm_request request = {
        .struct_size = sizeof(request), .input = &input, .params = &params, .adapters = nothing, .n_adapters = 2};
    struct ruvllm_response *a = adapter_bed_fresh_answer(1, 0), *none = adapter_bed_fresh_answer(0, 0), *r;
    ruvllm_engine *engine = adapter_bed_open(NULL);
    uint64_t id;

    (void)state;
    adapter_bed_publish(engine, "a", 1, 0);
    adapter_bed_publish(engine, "head", 0, 1);
    assert_ok(ruvllm_engine_submit(engine, &request, &id, err));
    r = adapter_bed_drain(engine, id);
    assert_true(adapter_bed_is_same(r, none));
    ruvllm_response_free(r);
    request.adapters = half;
    assert_ok(ruvllm_engine_submit(engine, &request, &id, err));
    r = adapter_bed_drain(engine, id);
    assert_true(adapter_bed_is_same(r, a));
    assert_int_equal(r->cached_tokens, 0);
    assert_int_equal(r->adapter_generation, 1);
    ruvllm_response_free(r);
    ruvllm_response_free(a);
    ruvllm_response_free(none);
    ruvllm_engine_close(engine);
}

static void one_model_wears_one_adapter(void **state)
{
    struct ruvllm_model_params model_params = ruvllm_model_params_default();
    struct ruvllm_generate_params params = adapter_bed_greedy(ADAPTER_BED_ANSWER);
    struct ruvllm_input input = {
        .struct_size = sizeof(input), .text = adapter_bed_text, .text_len = strlen(adapter_bed_text)};
    struct ruvllm_response *worn = adapter_bed_fresh_answer(1, 5), *head = adapter_bed_fresh_answer(0, 6),
                           *none = adapter_bed_fresh_answer(0, 0), *r;
    ruvllm_engine *engine = adapter_bed_open(NULL);
    const char *both_path = adapter_bed_write(engine, 1, 5), *head_path = adapter_bed_write(engine, 0, 6);
    struct ruvllm_error error;
    ruvllm_model *model;

    (void)state;
    ruvllm_engine_close(engine);
    model_params.max_context = ADAPTER_BED_CONTEXT;
    model_params.n_threads = 1;
    assert_ok(ruvllm_model_open(&model, test_data(adapter_bed_model), &model_params, err));
    assert_ok(ruvllm_model_set_adapter(model, both_path, 1, err));
    assert_ok(ruvllm_generate(model, &input, &params, &r, err));
    assert_true(adapter_bed_is_same(r, worn));
    ruvllm_response_free(r);
    assert_ok(ruvllm_model_set_adapter(model, NULL, 0, err));
    assert_ok(ruvllm_generate(model, &input, &params, &r, err));
    assert_int_equal(r->cached_tokens, 0);
    assert_true(adapter_bed_is_same(r, none));
    ruvllm_response_free(r);
    assert_ok(ruvllm_model_set_adapter(model, head_path, 1, err));
    assert_ok(ruvllm_generate(model, &input, &params, &r, err));
    assert_int_equal(r->cached_tokens, r->prompt_tokens - 1); // no layer has changed
    assert_true(adapter_bed_is_same(r, head));
    ruvllm_response_free(r);
    assert_fails(ruvllm_model_set_adapter(model, head_path, NAN, &error), RUVLLM_INVALID, error, "weight");
    assert_fails(ruvllm_model_set_adapter(model, "no-such-file", 1, &error), RUVLLM_NOT_FOUND, error, "no-such-file");
    ruvllm_model_close(model);
    ruvllm_response_free(worn);
    ruvllm_response_free(head);
    ruvllm_response_free(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cached_prefix_never_crosses_adapters),
        cmocka_unit_test(a_name_that_is_loaded_anew_has_caches_of_its_own),
        cmocka_unit_test(a_head_only_publish_keeps_every_cache),
        cmocka_unit_test(a_session_belongs_to_its_layers),
        cmocka_unit_test(what_a_request_asks_for_is_checked),
        cmocka_unit_test(a_folder_belongs_to_one_engine),
        cmocka_unit_test(generations_are_listed_compared_and_exported),
        cmocka_unit_test(mixes_add_up),
        cmocka_unit_test(one_model_wears_one_adapter),
    };

    test_need_data();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
