/* The description of a file is JSON whatever the file holds, and tells what is wrong with it. */
#include "base/alloc.h"
#include "model/gguf_inspect.h"
#include "support/gguf_writer.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

static yyjson_doc *inspect_bytes(const char *bytes, size_t len)
{
    yyjson_doc *doc;
    char *json;

    assert_ok(rv_gguf_inspect_memory(bytes, len, &json, err));
    doc = yyjson_read(json, strlen(json), 0);
    if (!doc)
        fail_msg("not JSON: %s", json);
    rv_free(json);
    return doc;
}

static yyjson_doc *inspect(struct gguf_writer *w)
{
    size_t len;
    char *bytes = gguf_writer_finish(w, &len);
    yyjson_doc *doc = inspect_bytes(bytes, len);

    free(bytes);
    return doc;
}

/* The value of a metadata key. */
static yyjson_val *meta(yyjson_doc *doc, const char *key)
{
    yyjson_val *value = yyjson_obj_get(yyjson_obj_get(yyjson_doc_get_root(doc), "metadata"), key);

    if (!value)
        fail_msg("no metadata '%s'", key);
    return value;
}

static const char *error_of(yyjson_doc *doc)
{
    const char *text = yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(doc), "error"));

    return text ? text : "";
}

static void a_good_file_is_described_without_an_error(void **state)
{
    struct gguf_writer w;
    yyjson_val *root, *tensor;
    yyjson_doc *doc;

    (void)state;
    gguf_writer_init(&w);
    gguf_writer_u64(&w, "u64", UINT64_MAX);
    gguf_writer_i64(&w, "i64", INT64_MIN);
    gguf_writer_bool(&w, "bool", 1);
    gguf_writer_f32(&w, "f32", 1e-5f);
    gguf_writer_f64(&w, "nan", NAN);
    gguf_writer_f32(&w, "inf", -INFINITY);
    gguf_writer_str(&w, "text", "caf\xc3\xa9");
    gguf_writer_tensor(&w, "t", GGML_TYPE_Q8_0, 2, (int64_t[]){64, 3}, NULL);
    doc = inspect(&w);
    root = yyjson_doc_get_root(doc);
    assert_null(yyjson_obj_get(root, "error"));
    assert_int_equal(yyjson_get_uint(yyjson_obj_get(root, "version")), 3);
    assert_true(yyjson_get_uint(meta(doc, "u64")) == UINT64_MAX);
    assert_true(yyjson_get_sint(meta(doc, "i64")) == INT64_MIN);
    assert_true(yyjson_get_bool(meta(doc, "bool")));
    assert_true(yyjson_get_real(meta(doc, "f32")) == 1e-5);
    assert_string_equal(yyjson_get_str(meta(doc, "nan")), "nan");
    assert_string_equal(yyjson_get_str(meta(doc, "inf")), "-inf");
    assert_string_equal(yyjson_get_str(meta(doc, "text")), "caf\xc3\xa9");
    tensor = yyjson_arr_get(yyjson_obj_get(root, "tensors"), 0);
    assert_string_equal(yyjson_get_str(yyjson_obj_get(tensor, "name")), "t");
    assert_string_equal(yyjson_get_str(yyjson_obj_get(tensor, "type")), "q8_0");
    assert_int_equal(yyjson_arr_size(yyjson_obj_get(tensor, "shape")), 2);
    assert_int_equal(yyjson_get_uint(yyjson_obj_get(tensor, "n_bytes")), 204);
    assert_int_equal(yyjson_get_uint(yyjson_obj_get(tensor, "offset")) + 204,
                     yyjson_get_uint(yyjson_obj_get(root, "n_bytes")));
    yyjson_doc_free(doc);
}

static void long_arrays_and_strings_are_shortened_and_said_to_be(void **state)
{
    const char *words[9] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
    int32_t numbers[8] = {-1, 2, 3, 4, 5, 6, 7, 8};
    char *text = malloc(65537);
    struct gguf_writer w;
    yyjson_doc *doc;

    (void)state;
    memset(text, 'x', 65537);
    memcpy(text + 65534, "\xe2\x82\xac", 3); // the last character straddles the cut
    gguf_writer_init(&w);
    gguf_writer_array_str(&w, "words", words, 9);
    gguf_writer_array(&w, "numbers", RV_GGUF_I32, numbers, 8);
    gguf_writer_bytes(&w, "fits", text, 65536 - 2);
    gguf_writer_bytes(&w, "long", text, 65537);
    doc = inspect(&w);
    assert_string_equal(yyjson_get_str(yyjson_obj_get(meta(doc, "words"), "type")), "string");
    assert_int_equal(yyjson_get_uint(yyjson_obj_get(meta(doc, "words"), "n")), 9);
    assert_int_equal(yyjson_arr_size(yyjson_obj_get(meta(doc, "words"), "first")), 8);
    assert_int_equal(yyjson_arr_size(meta(doc, "numbers")), 8);
    assert_int_equal(yyjson_get_sint(yyjson_arr_get(meta(doc, "numbers"), 0)), -1);
    assert_int_equal(yyjson_get_len(meta(doc, "fits")), 65534);
    assert_int_equal(yyjson_get_uint(yyjson_obj_get(meta(doc, "long"), "n")), 65537);
    assert_int_equal(yyjson_get_len(yyjson_obj_get(meta(doc, "long"), "first")), 65534);
    yyjson_doc_free(doc);
    free(text);
}

static void bytes_that_are_not_utf8_are_replaced(void **state)
{
    struct gguf_writer w;
    yyjson_doc *doc;

    (void)state;
    gguf_writer_init(&w);
    gguf_writer_bytes(&w, "k\xff", "a\xc3(\xed\xa0\x80\xe2\x82", 8);
    gguf_writer_tensor(&w, "t\xfe", GGML_TYPE_F32, 1, (int64_t[]){1}, NULL);
    doc = inspect(&w);
    assert_string_equal(yyjson_get_str(meta(doc, "k\xEF\xBF\xBD")),
                        "a\xEF\xBF\xBD(\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    yyjson_doc_free(doc);
}

static void a_damaged_file_tells_the_damage_and_all_before_it(void **state)
{
    struct gguf_writer w;
    yyjson_val *root, *tensors;
    yyjson_doc *doc;

    (void)state;
    gguf_writer_init(&w);
    gguf_writer_str(&w, "general.name", "broken");
    gguf_writer_tensor(&w, "good", GGML_TYPE_F32, 1, (int64_t[]){8}, NULL);
    gguf_writer_raw_tensor(&w, "bad", 3, 1, (uint64_t[]){100}, GGML_TYPE_F32, 32);
    gguf_writer_raw_data(&w, "12345678", 8);
    doc = inspect(&w);
    root = yyjson_doc_get_root(doc);
    tensors = yyjson_obj_get(root, "tensors");
    assert_string_equal(error_of(doc), "tensor 'bad' ends beyond the end of the file");
    assert_string_equal(yyjson_get_str(meta(doc, "general.name")), "broken");
    assert_int_equal(yyjson_arr_size(tensors), 2);
    assert_null(yyjson_obj_get(yyjson_arr_get(tensors, 0), "offset"));
    yyjson_doc_free(doc);
    doc = inspect_bytes(NULL, 0);
    assert_non_null(strstr(error_of(doc), "not a GGUF file"));
    assert_null(yyjson_obj_get(yyjson_doc_get_root(doc), "version"));
    yyjson_doc_free(doc);
}

static void every_beginning_of_a_file_can_be_inspected(void **state)
{
    struct gguf_writer w;
    size_t len;
    char *bytes;

    (void)state;
    gguf_writer_init(&w);
    gguf_writer_array_str(&w, "tokens", (const char *const[]){"one", "two"}, 2);
    gguf_writer_f64(&w, "number", 1.5);
    gguf_writer_tensor(&w, "t", GGML_TYPE_F32, 1, (int64_t[]){4}, NULL);
    bytes = gguf_writer_finish(&w, &len);
    for (size_t cut = 0; cut <= len; cut++) {
        char *part = malloc(cut ? cut : 1);
        yyjson_doc *doc;

        memcpy(part, bytes, cut);
        doc = inspect_bytes(part, cut);
        assert_int_equal(strlen(error_of(doc)) > 0, cut < len);
        yyjson_doc_free(doc);
        free(part);
    }
    free(bytes);
}

static void the_public_call_checks_its_arguments(void **state)
{
    struct ruvllm_error err = {0};
    char *json = NULL;

    (void)state;
    assert_fails(ruvllm_inspect("x", NULL, &err), RUVLLM_INVALID, err, "json is NULL");
    assert_fails(ruvllm_inspect(NULL, &json, &err), RUVLLM_INVALID, err, "no path was given");
    assert_fails(ruvllm_inspect("", &json, &err), RUVLLM_INVALID, err, "no path was given");
    assert_fails(ruvllm_inspect("/nowhere/x.gguf", &json, &err), RUVLLM_NOT_FOUND, err,
                 "cannot inspect '/nowhere/x.gguf': cannot open the file: ");
    assert_fails(ruvllm_inspect("/", &json, &err), RUVLLM_INVALID, err, "cannot inspect '/': not a regular file");
    assert_null(json);
}

static void a_real_model_is_described(void **state)
{
    const char *path = test_data("models/stories260K.gguf");
    yyjson_doc *doc;
    char *json;

    (void)state;
    test_need_file(path);
    assert_ok(ruvllm_inspect(path, &json, err));
    doc = yyjson_read(json, strlen(json), 0);
    assert_non_null(doc);
    assert_string_equal(error_of(doc), "");
    assert_string_equal(yyjson_get_str(meta(doc, "general.architecture")), "llama");
    assert_int_equal(yyjson_get_uint(yyjson_obj_get(meta(doc, "tokenizer.ggml.tokens"), "n")), 512);
    yyjson_doc_free(doc);
    ruvllm_free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file_is_described_without_an_error),
        cmocka_unit_test(long_arrays_and_strings_are_shortened_and_said_to_be),
        cmocka_unit_test(bytes_that_are_not_utf8_are_replaced),
        cmocka_unit_test(a_damaged_file_tells_the_damage_and_all_before_it),
        cmocka_unit_test(every_beginning_of_a_file_can_be_inspected),
        cmocka_unit_test(the_public_call_checks_its_arguments),
        cmocka_unit_test(a_real_model_is_described),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
