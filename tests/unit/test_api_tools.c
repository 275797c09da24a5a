/* Tools out of bodies: what the engine and the template are told, and what is refused where. */
#include "base/buf.h"
#include "support/api_bodies.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#define TOOL "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}}"

static struct rv_api_request *read_chat(const char *messages, const char *more)
{
    struct rv_api_request *request;
    struct rv_api_error err;
    char body[2048];

    snprintf(body, sizeof(body), "{\"model\":\"m\",\"messages\":[%s]%s}", messages, more);
    if (rv_api_request_parse(RV_API_CHAT, body, strlen(body), &request, &err))
        fail_msg("%s: %s", body, err.message);
    rv_api_request_check(request);
    return request;
}

#define USER "{\"role\":\"user\",\"content\":\"x\"}"

static void choices_become_the_engines_parameters(void **state)
{
    struct rv_api_request *r = read_chat(USER, ",\"tools\":[" TOOL "]");

    (void)state;
    assert_non_null(strstr(r->params.tools, "\"name\":\"f\""));
    assert_false(r->params.must_call_tool || r->params.one_tool_call || r->params.tool_name);
    assert_string_equal(r->shape_param, "tools");
    assert_non_null(strstr(r->conversation, "\"tools\":[{\"type\":\"function\""));
    rv_api_request_free(r);
    r = read_chat(USER, ",\"tools\":[" TOOL "],\"tool_choice\":\"required\",\"parallel_tool_calls\":false");
    assert_true(r->params.must_call_tool && r->params.one_tool_call);
    rv_api_request_free(r);
    r = read_chat(USER, ",\"tools\":[" TOOL "],\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}");
    assert_string_equal(r->params.tool_name, "f");
    rv_api_request_free(r);
    r = read_chat(USER, ",\"tools\":[" TOOL "],\"tool_choice\":\"none\"");
    assert_null(r->params.tools);
    assert_null(r->conversation);
    rv_api_request_free(r);
    r = read_chat(USER, ",\"tools\":[]");
    assert_null(r->params.tools);
    rv_api_request_free(r);
}

static void calls_and_results_are_handed_to_the_template(void **state)
{
    struct rv_api_request *r =
        read_chat(USER ",{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\","
                       "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": [1]}\"}}]},"
                       "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"18\"}",
                  "");

    (void)state;
    assert_null(r->params.tools);
    assert_string_equal(r->conversation,
                        "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"\","
                        "\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"arguments\":{\"a\":[1]},"
                        "\"name\":\"f\"}}]},{\"role\":\"tool\",\"content\":\"18\",\"tool_call_id\":\"c1\"}]}");
    assert_int_equal(r->conversation_len, strlen(r->conversation));
    rv_api_request_free(r);
}

/* A conversation is handed on whole or not at all. */
static void calls_are_counted_not_cut(void **state)
{
    static const char call[] = "{\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}";
    struct rv_buf body;

    (void)state;
    for (int n = 128; n <= 129; n++) {
        rv_buf_init(&body, 1 << 20);
        rv_buf_add_str(&body, "{\"model\":\"m\",\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[");
        for (int i = 0; i < n; i++)
            rv_buf_addf(&body, "%s%s", i ? "," : "", call);
        rv_buf_add_str(&body, "]}]}");
        if (n == 128) {
            struct rv_api_request *r;
            struct rv_api_error err;

            assert_int_equal(rv_api_request_parse(RV_API_CHAT, body.data, body.len, &r, &err), RUVLLM_OK);
            assert_true(r->conversation_len > 128 * 40);
            rv_api_request_free(r);
        } else {
            body_refused(RV_API_CHAT, body.data, "messages[0].tool_calls");
        }
        rv_buf_release(&body);
    }
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    body_refused_with(RV_API_CHAT, "\"tools\":[{\"type\":\"function\"}]", "tools[0].function");
    body_refused_with(RV_API_CHAT, "\"tools\":[{\"type\":\"web\"}]", "tools[0].type");
    body_refused_with(RV_API_CHAT, "\"tools\":[{\"type\":\"function\",\"function\":{}}]", "tools[0].function.name");
    body_refused_with(RV_API_CHAT, "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":1}}]",
                      "tools[0].function.parameters");
    body_refused_with(RV_API_CHAT, "\"tools\":[" TOOL ",1]", "tools[1]");
    body_refused_with(RV_API_CHAT, "\"tool_choice\":\"required\"", "tool_choice");
    body_refused_with(RV_API_CHAT, "\"tools\":[" TOOL "],\"tool_choice\":\"any\"", "tool_choice");
    body_refused_with(RV_API_CHAT, "\"tools\":[" TOOL "],\"tool_choice\":{\"type\":\"function\"}",
                      "tool_choice.function");
    body_refused_with(RV_API_CHAT, "\"tools\":[" TOOL "],\"regex\":\"a\"", "tools");
    body_refused_with(RV_API_CHAT, "\"tools\":[" TOOL "],\"logprobs\":true", "logprobs");
    body_refused_with(RV_API_CHAT, "\"tools\":[" TOOL "],\"session\":\"s\"", "session");
    body_refused(RV_API_CHAT, "{\"model\":\"m\",\"messages\":[{\"role\":\"tool\",\"content\":\"x\"}]}",
                 "messages[0].tool_call_id");
    body_refused(RV_API_TEMPLATE, "{\"model\":\"m\",\"messages\":[{\"role\":\"tool\",\"content\":\"x\"}]}",
                 "messages[0].role");
    body_refused(RV_API_CHAT,
                 "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"tool_call_id\":\"1\"}]}",
                 "messages[0].tool_call_id");
    body_refused(RV_API_CHAT,
                 "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"tool_calls\":[{}]}]}",
                 "messages[0].tool_calls");
    body_refused(RV_API_CHAT,
                 "{\"model\":\"m\",\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c\",\"function\":"
                 "{\"name\":\"f\",\"arguments\":\"[1]\"}}]}]}",
                 "messages[0].tool_calls[0].function.arguments");
}

/* ---- responses ----------------------------------------------------------------------------------- */

#define FLAT "{\"type\":\"function\",\"name\":\"f\",\"parameters\":{\"type\":\"object\"},\"strict\":true}"

static struct rv_api_request *read_response(const char *input, const char *more)
{
    struct rv_api_request *request;
    struct rv_api_error err;
    char body[2048];

    snprintf(body, sizeof(body), "{\"model\":\"m\",\"input\":%s%s}", input, more);
    if (rv_api_request_parse(RV_API_RESPONSE, body, strlen(body), &request, &err))
        fail_msg("%s: %s", body, err.message);
    rv_api_request_check(request);
    return request;
}

static void responses_say_the_same_in_other_words(void **state)
{
    struct rv_api_request *r = read_response("\"hi\"", ",\"instructions\":\"be brief\",\"tools\":[" FLAT "]");

    (void)state;
    assert_string_equal(r->params.tools, "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":"
                                         "{\"type\":\"object\"},\"strict\":true}}]");
    assert_string_equal(
        r->conversation,
        "{\"messages\":[{\"role\":\"system\",\"content\":\"be brief\"},{\"role\":\"user\",\"content\":"
        "\"hi\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":"
        "\"object\"},\"strict\":true}}]}");
    assert_string_equal(r->given_tools, "[" FLAT "]");
    assert_null(r->given_tool_choice);
    rv_api_request_free(r);
    r = read_response("\"hi\"", ",\"tools\":[" FLAT "],\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"}");
    assert_string_equal(r->params.tool_name, "f");
    assert_string_equal(r->given_tool_choice, "{\"type\":\"function\",\"name\":\"f\"}");
    rv_api_request_free(r);
    r = read_response("\"hi\"", ",\"tools\":[" FLAT "],\"tool_choice\":\"none\"");
    assert_null(r->params.tools);
    assert_null(r->conversation);
    assert_non_null(r->given_tools);
    rv_api_request_free(r);
}

/* Calls join the words before them, as one message of the assistant's. */
static void items_become_messages(void **state)
{
    struct rv_api_request *r = read_response(
        "[{\"role\":\"user\",\"content\":\"x\"},"
        "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"wait\"}]},"
        "{\"type\":\"function_call\",\"id\":\"fc_1\",\"call_id\":\"c1\",\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\","
        "\"status\":\"completed\"},"
        "{\"type\":\"function_call\",\"call_id\":\"c2\",\"name\":\"g\",\"arguments\":\"{}\"},"
        "{\"type\":\"function_call_output\",\"call_id\":\"c1\",\"output\":\"18\"},"
        "{\"type\":\"function_call_output\",\"call_id\":\"c2\",\"output\":[{\"type\":\"input_text\",\"text\":\"19\"}]},"
        "{\"type\":\"function_call\",\"call_id\":\"c3\",\"name\":\"f\",\"arguments\":\"{}\"}]",
        "");

    (void)state;
    assert_string_equal(
        r->conversation,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"wait\",\"tool_"
        "calls\":["
        "{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"arguments\":{\"a\":1},\"name\":\"f\"}},"
        "{\"id\":\"c2\",\"type\":\"function\",\"function\":{\"arguments\":{},\"name\":\"g\"}}]},"
        "{\"role\":\"tool\",\"content\":\"18\",\"tool_call_id\":\"c1\"},"
        "{\"role\":\"tool\",\"content\":\"19\",\"tool_call_id\":\"c2\"},"
        "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"c3\",\"type\":\"function\",\"function\":"
        "{\"arguments\":{},\"name\":\"f\"}}]}]}");
    assert_null(r->params.tools);
    rv_api_request_free(r);
}

static void what_is_wrong_with_a_response_is_named(void **state)
{
    static const char *const items[][2] = {
        {"{\"type\":\"function_call\"}", "input[0].call_id"},
        {"{\"type\":\"function_call\",\"call_id\":\"c\"}", "input[0].name"},
        {"{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\"}", "input[0].arguments"},
        {"{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"[1]\"}", "input[0].arguments"},
        {"{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\",\"x\":1}", "input[0].x"},
        {"{\"type\":\"function_call_output\",\"call_id\":\"c\"}", "input[0].output"},
        {"{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":[{\"type\":\"input_image\"}]}",
         "input[0].output[0].type"},
        {"{\"type\":\"reasoning\",\"summary\":[]}", "input[0].type"},
        {"{\"role\":\"user\",\"content\":\"x\",\"call_id\":\"c\"}", "input[0].call_id"},
    };
    char body[512];

    (void)state;
    for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++) {
        snprintf(body, sizeof(body), "{\"model\":\"m\",\"input\":[%s]}", items[i][0]);
        body_refused(RV_API_RESPONSE, body, items[i][1]);
    }
    body_refused_with(RV_API_RESPONSE, "\"tools\":[" TOOL "]", "tools[0].function");
    body_refused_with(RV_API_RESPONSE, "\"tools\":[{\"type\":\"web_search\"}]", "tools[0].type");
    body_refused_with(RV_API_RESPONSE, "\"tools\":[{\"type\":\"function\"}]", "tools[0].name");
    body_refused_with(RV_API_RESPONSE, "\"tool_choice\":\"required\"", "tool_choice");
    body_refused_with(RV_API_RESPONSE, "\"tools\":[" FLAT "],\"tool_choice\":{\"type\":\"function\"}",
                      "tool_choice.name");
    body_refused_with(RV_API_RESPONSE, "\"tools\":[" FLAT "],\"regex\":\"a\"", "tools");
    body_refused_with(RV_API_RESPONSE, "\"tools\":[" FLAT "],\"top_logprobs\":1", "top_logprobs");
    body_refused_with(RV_API_RESPONSE, "\"tools\":[" FLAT "],\"session\":\"s\"", "session");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_become_the_engines_parameters),        cmocka_unit_test(calls_are_counted_not_cut),
        cmocka_unit_test(calls_and_results_are_handed_to_the_template), cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(responses_say_the_same_in_other_words),        cmocka_unit_test(items_become_messages),
        cmocka_unit_test(what_is_wrong_with_a_response_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
