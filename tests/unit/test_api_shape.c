/* response_format, grammar and regex out of bodies: what the engine is told, and what is refused where. */
#include "support/api_bodies.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

static struct rv_api_request *read_chat(const char *more)
{
    struct rv_api_request *request;
    struct rv_api_error err;
    char body[1024];

    snprintf(body, sizeof(body), "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],%s}", more);
    if (rv_api_request_parse(RV_API_CHAT, body, strlen(body), &request, &err))
        fail_msg("%s: %s", more, err.message);
    return request;
}

static void formats_become_the_engines_parameters(void **state)
{
    struct rv_api_request *r = read_chat("\"response_format\":{\"type\":\"text\"}");

    (void)state;
    assert_null(r->shape_param);
    assert_false(r->params.json_object);
    rv_api_request_free(r);
    r = read_chat("\"response_format\":{\"type\":\"json_object\"}");
    assert_true(r->params.json_object);
    assert_string_equal(r->shape_param, "response_format");
    rv_api_request_free(r);
    r = read_chat("\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"strict\":true,"
                  "\"schema\":{\"type\": \"object\"}}}");
    assert_string_equal(r->params.json_schema, "{\"type\":\"object\"}");
    assert_string_equal(r->shape_param, "response_format.json_schema.schema");
    rv_api_request_free(r);
    r = read_chat("\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\"}}");
    assert_true(r->params.json_object);
    rv_api_request_free(r);
    r = read_chat("\"grammar\":\"root ::= \\\"a\\\"\",\"regex\":null");
    assert_string_equal(r->params.grammar, "root ::= \"a\"");
    assert_string_equal(r->shape_param, "grammar");
    rv_api_request_free(r);
    r = read_chat("\"regex\":\"a+\"");
    assert_string_equal(r->params.regex, "a+");
    rv_api_request_free(r);
}

static void wrong_formats_are_named(void **state)
{
    (void)state;
    body_refused_with(RV_API_CHAT, "\"response_format\":{\"type\":\"xml\"}", "response_format.type");
    body_refused_with(RV_API_CHAT, "\"response_format\":{}", "response_format.type");
    body_refused_with(RV_API_CHAT, "\"response_format\":\"json\"", "response_format");
    body_refused_with(RV_API_CHAT, "\"response_format\":{\"type\":\"text\",\"x\":1}", "response_format.x");
    body_refused_with(RV_API_CHAT, "\"response_format\":{\"type\":\"json_schema\"}", "response_format.json_schema");
    body_refused_with(RV_API_CHAT, "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{}}",
                      "response_format.json_schema.name");
    body_refused_with(RV_API_CHAT, "\"response_format\":{\"type\":\"json_object\"},\"regex\":\"a\"", "regex");
    body_refused_with(RV_API_COMPLETION, "\"grammar\":\"x\",\"regex\":\"a\"", "regex");
    body_refused_with(RV_API_CHAT, "\"regex\":\"\"", "regex");
    body_refused_with(RV_API_CHAT, "\"grammar\":1", "grammar");
    body_refused_with(RV_API_RESPONSE, "\"text\":{\"format\":{\"type\":\"json_schema\"}}", "text.format.name");
    body_taken_with(RV_API_RESPONSE, "\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\",\"schema\":{}}}");
    body_taken_with(RV_API_RESPONSE, "\"text\":{\"format\":null,\"verbosity\":\"medium\"}");
    body_taken_with(RV_API_COMPLETION, "\"response_format\":{\"type\":\"json_object\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_become_the_engines_parameters),
        cmocka_unit_test(wrong_formats_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
