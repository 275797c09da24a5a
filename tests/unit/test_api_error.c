/* Errors of the API: which status a failure becomes, and what never reaches a client. */
#include "server/api/api_error.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include <yyjson.h>

static struct rv_api_error from(ruvllm_status status, ruvllm_error_kind kind, const char *message)
{
    struct ruvllm_error cause = {.status = status, .kind = kind};
    struct rv_api_error err = {0};

    snprintf(cause.message, sizeof(cause.message), "%s", message);
    rv_api_error_from(&err, &cause);
    return err;
}

static void every_status_has_its_http_status(void **state)
{
    static const struct {
        ruvllm_status status;
        int http;
        const char *type;
    } rows[] = {
        {RUVLLM_INVALID, 400, "invalid_request_error"},
        {RUVLLM_NOT_FOUND, 404, "invalid_request_error"},
        {RUVLLM_TOO_LARGE, 413, "invalid_request_error"},
        {RUVLLM_BUSY, 429, "rate_limit_error"},
        {RUVLLM_CANCELLED, 499, "invalid_request_error"},
        {RUVLLM_NO_MEMORY, 503, "server_error"},
        {RUVLLM_UNSUPPORTED, 501, "invalid_request_error"},
        {RUVLLM_IO, 500, "server_error"},
        {RUVLLM_FORMAT, 500, "server_error"},
        {RUVLLM_BACKEND, 500, "server_error"},
        {RUVLLM_INTERNAL, 500, "server_error"},
        {RUVLLM_CONFLICT, 409, "invalid_request_error"},
        {RUVLLM_NO_SPACE, 507, "server_error"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rv_api_error err = from(rows[i].status, RUVLLM_ERROR_INVALID_OPERATION, "why");

        assert_int_equal(err.http_status, rows[i].http);
        assert_string_equal(err.type, rows[i].type);
        assert_true(err.message[0] != '\0' && err.code[0] != '\0');
    }
}

static void a_prompt_too_long_is_a_400_with_its_numbers(void **state)
{
    struct rv_api_error err =
        from(RUVLLM_TOO_LARGE, RUVLLM_ERROR_KV_CACHE, "the input has 5000 tokens, the context holds 4096");

    (void)state;
    assert_int_equal(err.http_status, 400);
    assert_string_equal(err.code, "context_length_exceeded");
    assert_non_null(strstr(err.message, "5000"));
    assert_non_null(strstr(err.message, "4096"));
    err = from(RUVLLM_TOO_LARGE, RUVLLM_ERROR_GENERATION, "the prompt has 5000 tokens, the context holds 4096");
    assert_string_equal(err.code, "context_length_exceeded");
}

static void a_model_that_is_not_served_is_named(void **state)
{
    struct rv_api_error err;

    (void)state;
    rv_api_error_model(&err, "gpt\n\x1b[31m-9");
    assert_int_equal(err.http_status, 404);
    assert_string_equal(err.code, "model_not_found");
    assert_string_equal(err.param, "model");
    assert_non_null(strstr(err.message, "'gpt  [31m-9'"));
    assert_string_equal(from(RUVLLM_NOT_FOUND, RUVLLM_ERROR_MODEL, "no").code, "model_not_found");
}

static void inner_failures_are_not_described(void **state)
{
    static const ruvllm_status inner[] = {RUVLLM_IO, RUVLLM_FORMAT, RUVLLM_BACKEND, RUVLLM_INTERNAL};

    (void)state;
    for (size_t i = 0; i < 4; i++)
        assert_null(strstr(from(inner[i], RUVLLM_ERROR_IO, "canary").message, "canary"));
}

static void a_store_that_is_away_is_worth_another_try(void **state)
{
    struct rv_api_error err = from(RUVLLM_IO, RUVLLM_ERROR_STORAGE, "cannot read: the database 'canary' is away");

    (void)state;
    assert_int_equal(err.http_status, 503); // with which Retry-After goes
    assert_string_equal(err.code, "store_unavailable");
    assert_non_null(strstr(err.message, "ry again"));
    assert_null(strstr(err.message, "canary"));
    assert_int_equal(from(RUVLLM_FORMAT, RUVLLM_ERROR_STORAGE, "damaged").http_status, 500); // that one stays so
}

static void addresses_paths_and_control_characters_never_appear(void **state)
{
    struct rv_api_error err =
        from(RUVLLM_INVALID, RUVLLM_ERROR_CONFIG, "bad '/srv/models/a.gguf': at 0x7ffd1234abcd\r\n\x01 \xff end");

    (void)state;
    assert_string_equal(err.message, "bad '(file)': at (address)    ? end");
    rv_api_error_set(&err, 400, "c\n", "p\x02\xc2\x85q", "0x12 stays, %s goes", "0XDEADBEEF00");
    assert_string_equal(err.message, "0x12 stays, (address) goes");
    assert_string_equal(err.param, "p  q");
    assert_string_equal(err.code, "c ");
}

static void a_long_message_is_cut_between_characters(void **state)
{
    char text[2000];
    struct rv_api_error err;

    (void)state;
    for (size_t i = 0; i + 2 < sizeof(text); i += 2)
        memcpy(text + i, "\xc3\xa9", 3);
    rv_api_error_set(&err, 400, NULL, text, "x%s", text);
    assert_true(strlen(err.message) < sizeof(err.message));
    assert_true(strlen(err.param) < sizeof(err.param));
    assert_int_equal(strlen(err.param) % 2, 0);
    for (size_t i = 1; err.message[i]; i++)
        assert_true((unsigned char)err.message[i] >= 0x80 || err.message[i] == '?');
}

static void the_body_is_what_clients_parse(void **state)
{
    struct rv_api_error err;
    struct rv_buf out;
    yyjson_val *error;
    yyjson_doc *doc;

    (void)state;
    rv_buf_init(&out, 4096);
    rv_api_error_set(&err, 400, "invalid_value", "n", "'n' is \"9\"");
    rv_api_error_json(&err, &out);
    doc = yyjson_read(out.data, out.len, 0);
    error = yyjson_obj_get(yyjson_doc_get_root(doc), "error");
    assert_int_equal(yyjson_obj_size(error), 4);
    assert_string_equal(yyjson_get_str(yyjson_obj_get(error, "message")), "'n' is \"9\"");
    assert_string_equal(yyjson_get_str(yyjson_obj_get(error, "type")), "invalid_request_error");
    assert_string_equal(yyjson_get_str(yyjson_obj_get(error, "param")), "n");
    assert_string_equal(yyjson_get_str(yyjson_obj_get(error, "code")), "invalid_value");
    yyjson_doc_free(doc);
    rv_buf_clear(&out);
    rv_api_error_http(&err, 401, NULL);
    rv_api_error_event(&err, &out);
    assert_memory_equal(out.data, "data: {\"error\":", 15);
    assert_non_null(strstr(out.data, "\"param\":null"));
    assert_string_equal(out.data + out.len - 4, "}}\n\n");
    rv_buf_release(&out);
}

static void refusals_of_the_transport_have_sentences(void **state)
{
    static const int statuses[] = {400, 401, 403, 404, 405, 408, 409, 413, 415, 429, 431, 500, 503, 418};
    struct rv_api_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        rv_api_error_http(&err, statuses[i], NULL);
        assert_int_equal(err.http_status, statuses[i]);
        assert_true(strlen(err.message) > 10 && err.code[0]);
        rv_api_error_http(&err, statuses[i], "because");
        assert_string_equal(err.message, "because");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_its_http_status),
        cmocka_unit_test(a_prompt_too_long_is_a_400_with_its_numbers),
        cmocka_unit_test(a_model_that_is_not_served_is_named),
        cmocka_unit_test(inner_failures_are_not_described),
        cmocka_unit_test(a_store_that_is_away_is_worth_another_try),
        cmocka_unit_test(addresses_paths_and_control_characters_never_appear),
        cmocka_unit_test(a_long_message_is_cut_between_characters),
        cmocka_unit_test(the_body_is_what_clients_parse),
        cmocka_unit_test(refusals_of_the_transport_have_sentences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
