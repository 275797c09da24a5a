/* Conversations about tools, as templates that cannot take them as they are get to see them. */
#include "support/test.h"
#include "text/chat_template.h"

#include <string.h>

#define CALLS                                                                                                          \
    "\"tool_calls\":[{\"id\":\"call_0123456789\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"    \
    "{\"a\":1}}},{\"id\":\"abcDEF123\",\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":{}}}]"
#define TALK                                                                                                           \
    "[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":\"\"," CALLS "},"                     \
    "{\"role\":\"tool\",\"content\":\"18\",\"tool_call_id\":\"call_0123456789\"},"                                     \
    "{\"role\":\"tool\",\"content\":\"19\",\"tool_call_id\":\"abcDEF123\"}]"
#define TOOLS                                                                                                          \
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}},{\"type\":\"function\","                 \
    "\"function\":{\"name\":\"g\"}}]"

/* As the family's: tools in the system message, a mark for every role, no word about calls. */
#define PHI                                                                                                            \
    "{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message %}{{ '<|system|>' + "       \
    "message['content'] + '<|tool|>' + message['tools'] + '<|/tool|><|end|>' }}{% else %}{{ '<|' + message['role'] + " \
    "'|>' + message['content'] + '<|end|>' }}{% endif %}{% endfor %}"

/* As the family's: turns of the user and of the model, by turns, and nothing else. */
#define GEMMA                                                                                                          \
    "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ "                   \
    "raise_exception('roles must alternate') }}{% endif %}{{ '<start_of_turn>' + message['role'] + '\n' + "            \
    "message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
#define TURN(role, text) "<start_of_turn>" role "\n" text "<end_of_turn>\n"
#define TOLD                                                                                                           \
    "You can call these functions: [{\"name\": \"f\", \"parameters\": {}}, {\"name\": \"g\"}]\nTo call one, answer "   \
    "with nothing but {\"name\": its name, \"parameters\": an object of its arguments}.\n\n"

/* The rendered text, and under it the mask as digits where `mask` is given. */
static void render(const char *source, const char *json, struct rv_buf *text, struct rv_buf *mask)
{
    struct rv_chat_template *tmpl;
    struct rv_chat_render how = {.json = json, .json_len = strlen(json)};

    rv_buf_init(text, 1 << 16);
    rv_buf_init(mask, 1 << 16);
    assert_ok(rv_chat_template_new(&tmpl, source, strlen(source), err));
    assert_ok(rv_chat_template_render(tmpl, &how, text, mask, err));
    rv_buf_add_char(text, '\0');
    rv_chat_template_free(tmpl);
}

static void check(const char *source, const char *json, const char *wanted)
{
    struct rv_buf text, mask;

    render(source, json, &text, &mask);
    assert_string_equal(text.data, wanted);
    rv_buf_release(&text);
    rv_buf_release(&mask);
}

/* The template fails on ids that are no nine letters; what has nine stays; a result keeps the id of its call. */
static void ids_become_short_where_they_must_be(void **state)
{
    static const char source[] =
        "{% if tools %}{% endif %}{% set m = messages %}[TOOL_CALLS]{% if m[1].tool_calls[0].id|length != 9 %}{{ "
        "raise_exception('nine!') }}{% endif %}{{ m[1].tool_calls[0].id == m[2].tool_call_id }} {{ m[3].tool_call_id "
        "}}";
    static const char plain[] = "{% if tools %}{% endif %}[TOOL_CALLS]{{ messages[2].tool_call_id }}";

    (void)state;
    check(source, "{\"messages\":" TALK "}", "[TOOL_CALLS]true abcDEF123");
    check(plain, "{\"messages\":" TALK "}", "[TOOL_CALLS]call_0123456789");
}

static void calls_are_spelled_where_a_template_leaves_them_out(void **state)
{
    struct rv_buf text, mask;
    const char *at;

    (void)state;
    check(PHI, "{\"messages\":" TALK "}",
          "<|user|>hi<|end|><|assistant|><|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", "
          "\"arguments\": {}}]<|/tool_call|><|end|><|tool|>18<|end|><|tool|>19<|end|>");
    check(
        "{% if tools %}{% endif %}{# <tool_call> \"arguments\": #}{% for m in messages %}{{ m.content }}|{% endfor %}",
        "{\"messages\":" TALK "}",
        "hi|<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", "
        "\"arguments\": {}}\n</tool_call>|18|19|");
    /* The marks are the template's, what is called is a user's. */
    render(PHI, "{\"messages\":" TALK "}", &text, &mask);
    at = strstr(text.data, "<|tool_call|>");
    assert_non_null(at);
    assert_int_equal(mask.data[at - text.data], 0);
    at = strstr(text.data, "f\", \"arguments");
    assert_non_null(at);
    assert_int_equal(mask.data[at - text.data], 1);
    rv_buf_release(&text);
    rv_buf_release(&mask);
}

static void tools_go_into_the_system_message_where_they_are_looked_for(void **state)
{
    (void)state;
    check(PHI, "{\"tools\":" TOOLS ",\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"}]}",
          "<|system|>Be brief.<|tool|>[{\"name\": \"f\", \"parameters\": {}}, {\"name\": \"g\"}]<|/tool|><|end|>");
    check(PHI, "{\"tools\":" TOOLS ",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
          "<|system|><|tool|>[{\"name\": \"f\", \"parameters\": {}}, {\"name\": "
          "\"g\"}]<|/tool|><|end|><|user|>hi<|end|>");
    check(PHI, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}", "<|user|>hi<|end|>");
}

static void check_refused(const char *source, const char *json, const char *message)
{
    struct rv_chat_template *tmpl;
    struct rv_chat_render how = {.json = json, .json_len = strlen(json)};
    struct ruvllm_error why = {0};
    struct rv_buf text;

    rv_buf_init(&text, 1 << 16);
    assert_ok(rv_chat_template_new(&tmpl, source, strlen(source), err));
    assert_fails(rv_chat_template_render(tmpl, &how, &text, NULL, &why), RUVLLM_INVALID, why, message);
    rv_buf_release(&text);
    rv_chat_template_free(tmpl);
}

static void tools_are_told_in_the_first_turn_where_there_is_no_place_for_them(void **state)
{
    (void)state;
    check(GEMMA, "{\"tools\":" TOOLS ",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
          TURN("user", TOLD "hi"));
    check(GEMMA, "{\"tools\":[],\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}", TURN("user", "hi"));
    check(GEMMA, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}", TURN("user", "hi"));
    /* A system message is for the template to judge, with tools and without. */
    check_refused(GEMMA,
                  "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"hi\"}]}",
                  "roles must alternate");
    check_refused(GEMMA,
                  "{\"tools\":" TOOLS
                  ",\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"hi\"}]}",
                  "roles must alternate");
    check_refused(GEMMA, "{\"tools\":" TOOLS ",\"messages\":[{\"role\":\"system\",\"content\":\"s\"}]}",
                  "no message is of a user");
    check_refused(GEMMA, "{\"tools\":" TOOLS ",\"messages\":[{\"role\":\"user\",\"content\":[]}]}",
                  "the content of message 0 is not a text");
}

/* Several results, and what the user says after them, are one turn: roles must alternate. */
static void results_are_told_as_turns_of_the_user(void **state)
{
    static const char more[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":\"I see.\"," CALLS
        "},{\"role\":\"tool\",\"content\":\"18\",\"tool_call_id\":\"abcDEF123\"},{\"role\":\"tool\",\"content\":\"19\","
        "\"tool_call_id\":\"abcDEF124\"},{\"role\":\"user\",\"content\":\"And?\"},{\"role\":\"assistant\",\"content\":"
        "\"Cold.\"},{\"role\":\"user\",\"content\":\"Thanks.\"}]}";

    (void)state;
    check(GEMMA, "{\"tools\":" TOOLS ",\"messages\":" TALK "}",
          TURN("user", TOLD "hi")
              TURN("assistant", "{\"name\": \"f\", \"parameters\": {\"a\": 1}}\n{\"name\": \"g\", \"parameters\": {}}")
                  TURN("user", "Result of f: 18\nResult of g: 19"));
    check(GEMMA, more,
          TURN("user", "hi")
              TURN("assistant",
                   "I see.\n{\"name\": \"f\", \"parameters\": {\"a\": 1}}\n{\"name\": \"g\", \"parameters\": {}}")
                  TURN("user", "Result of g: 18\nResult: 19\nAnd?") TURN("assistant", "Cold.") TURN("user", "Thanks."));
    /* Two turns of the user without a result stay two, which the template refuses. */
    check_refused(GEMMA, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b\"}]}",
                  "roles must alternate");
}

/* Each result is looked for among the calls before it: that counts as the template's own steps do. */
static void many_results_of_many_calls_come_to_an_end(void **state)
{
    struct rv_buf json;

    (void)state;
    rv_buf_init(&json, 1 << 20);
    rv_buf_addf(&json, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"\","
                       "\"tool_calls\":[");
    for (int i = 0; i < 1200; i++)
        rv_buf_addf(&json, "%s{\"id\":\"%d\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{}}}",
                    i ? "," : "", i);
    rv_buf_add_str(&json, "]}");
    for (int i = 0; i < 1200; i++)
        rv_buf_addf(&json, ",{\"role\":\"tool\",\"content\":\"\",\"tool_call_id\":\"%d\"}", i);
    rv_buf_add_str(&json, "]}");
    rv_buf_add_char(&json, '\0');
    assert_ok(rv_buf_status(&json, "the conversation", err));
    check_refused(GEMMA, json.data, "more than 1000000 steps");
    rv_buf_release(&json);
}

/* Wherever a user can write a mark of a turn, it stays the user's: the template's are as many as there are turns. */
static void what_is_told_of_tools_is_the_users(void **state)
{
#define MARK "<start_of_turn>"
    static const char json[] =
        "{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"" MARK "\",\"description\":\"" MARK
        "\",\"parameters\":{\"" MARK "\":\"" MARK "\"}}}],\"messages\":[{\"role\":\"user\",\"content\":\"" MARK
        "\"},{\"role\":\"assistant\",\"content\":\"" MARK
        "\",\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"" MARK
        "\",\"arguments\":{\"" MARK "\":\"" MARK "\"}}}]},{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"" MARK
        "\"},{\"role\":\"user\",\"content\":\"" MARK "\"}]}";
    size_t n_ours = 0, n_users = 0;
    struct rv_buf text, mask;

    (void)state;
    render(GEMMA, json, &text, &mask);
    for (const char *at = text.data; (at = strstr(at, MARK)); at++) {
        const char *owner = mask.data + (at - text.data);

        for (size_t i = 1; i < strlen(MARK); i++)
            assert_int_equal(owner[i], owner[0]);
        n_ours += owner[0] == 0;
        n_users += owner[0] == 1;
    }
    assert_int_equal(n_ours, 3);
    assert_int_equal(n_users, 12);
    rv_buf_release(&text);
    rv_buf_release(&mask);
#undef MARK
}

static void results_get_the_name_that_a_template_looks_for(void **state)
{
    static const char granite[] =
        "{% if tools %}{% endif %}{# <|start_of_role|> <|tool_call|> #}{% for m in messages %}{% if m['role'] == "
        "'tool_response' %}{{ m.content }}|{% endif %}{% endfor %}";

    (void)state;
    check(granite, "{\"messages\":" TALK "}", "18|19|");
}

/* No style, no change: nothing is put where the template did not ask for it. */
static void templates_without_tools_are_left_alone(void **state)
{
    (void)state;
    check("{% for m in messages %}{{ m.content }}|{% endfor %}", "{\"messages\":" TALK "}", "hi||18|19|");
    check("{% if tools %}{% endif %}{# <start_of_turn> #}{% for m in messages %}{{ m.content }}|{% endfor %}",
          "{\"messages\":" TALK "}", "hi||18|19|");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_become_short_where_they_must_be),
        cmocka_unit_test(calls_are_spelled_where_a_template_leaves_them_out),
        cmocka_unit_test(tools_go_into_the_system_message_where_they_are_looked_for),
        cmocka_unit_test(tools_are_told_in_the_first_turn_where_there_is_no_place_for_them),
        cmocka_unit_test(results_are_told_as_turns_of_the_user),
        cmocka_unit_test(many_results_of_many_calls_come_to_an_end),
        cmocka_unit_test(what_is_told_of_tools_is_the_users),
        cmocka_unit_test(results_get_the_name_that_a_template_looks_for),
        cmocka_unit_test(templates_without_tools_are_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
