/* Requests of the API: what is accepted, with which values, and that everything else is a 400 that names its field. */
#include "server/api/api_request.h"
#include "base/alloc.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define CHAT "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define COMPLETION "\"model\":\"m\",\"prompt\":\"hi\""
#define EMBEDDING "\"model\":\"m\",\"input\":\"hi\""
#define RESPONSE EMBEDDING
#define TEN(x) x x x x x x x x x x
#define NEST(x) TEN(x) TEN(x) TEN(x) TEN(x) TEN(x) TEN(x)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const least[] = {
    [RV_API_CHAT] = CHAT,           [RV_API_COMPLETION] = COMPLETION,
    [RV_API_EMBEDDING] = EMBEDDING, [RV_API_RESPONSE] = RESPONSE,
    [RV_API_TOKENIZE] = COMPLETION, [RV_API_DETOKENIZE] = "\"model\":\"m\",\"tokens\":[1,2]",
    [RV_API_TEMPLATE] = CHAT,
};

static struct rv_api_error err;

static struct rv_api_request *parse(enum rv_api_kind kind, const char *body, size_t len)
{
    struct rv_api_request *request = (void *)1;
    ruvllm_status rc;

    err = (struct rv_api_error){0};
    rc = rv_api_request_parse(kind, body, len, &request, &err);
    if (rc == RUVLLM_OK) {
        assert_non_null(request);
        rv_api_request_check(request);
        assert_int_equal(err.http_status, 0);
        return request;
    }
    assert_int_equal(rc, RUVLLM_INVALID);
    assert_null(request);
    assert_int_equal(err.http_status, 400);
    assert_string_equal(err.type, "invalid_request_error");
    assert_true(strlen(err.message) > 10 && strlen(err.code) > 0);
    return NULL;
}

static struct rv_api_request *parse_text(enum rv_api_kind kind, const char *body)
{
    return parse(kind, body, strlen(body));
}

/* The least request of a kind with more fields behind it. */
static struct rv_api_request *parse_with(enum rv_api_kind kind, const char *more)
{
    size_t size = strlen(least[kind]) + strlen(more) + 4;
    char *body = malloc(size);
    struct rv_api_request *request;

    assert_non_null(body);
    snprintf(body, size, "{%s%s%s}", least[kind], *more ? "," : "", more);
    request = parse_text(kind, body);
    free(body);
    return request;
}

static void assert_refused_with(enum rv_api_kind kind, const char *more, const char *param)
{
    struct rv_api_request *request = parse_with(kind, more);

    if (request)
        fail_msg("kind %d took %s", kind, more);
    if (strcmp(err.param, param) != 0)
        fail_msg("%s: param is '%s', not '%s' (%s)", more, err.param, param, err.message);
    if (*param && !strstr(err.message, param))
        fail_msg("%s: the message does not name '%s': %s", more, param, err.message);
}

static void assert_taken_with(enum rv_api_kind kind, const char *more)
{
    struct rv_api_request *request = parse_with(kind, more);

    if (!request)
        fail_msg("kind %d refused %s: %s", kind, more, err.message);
    rv_api_request_free(request);
}

static void assert_refused(enum rv_api_kind kind, const char *body, const char *param)
{
    if (parse_text(kind, body))
        fail_msg("kind %d took %s", kind, body);
    if (strcmp(err.param, param) != 0)
        fail_msg("%s: param is '%s', not '%s' (%s)", body, err.param, param, err.message);
}

/* ---- numbers ---------------------------------------------------------------------------------- */

struct number {
    enum rv_api_kind kind;
    const char *format; // of the field with its value
    const char *param;
    const char *below, *min, *max, *above;
    bool is_int;
    bool needs_value; // null is not "absent" here
};

#define SAMPLING(kind)                                                                                                 \
    {kind, "\"temperature\":%s", "temperature", "-1e-9", "0", "2", "2.0000000001", false, false},                      \
        {kind, "\"top_p\":%s", "top_p", "-0.001", "0", "1", "1.0000000001", false, false},                             \
        {kind, "\"top_k\":%s", "top_k", "-1", "0", "2147483647", "2147483648", true, false},                           \
        {kind, "\"min_p\":%s", "min_p", "-0.001", "0", "1", "1.001", false, false},                                    \
        {kind, "\"typical_p\":%s", "typical_p", "-0.001", "0", "1", "1.001", false, false},                            \
        {kind, "\"repetition_penalty\":%s", "repetition_penalty", "0.0099", "0.01", "100", "100.01", false, false},    \
        {kind, "\"frequency_penalty\":%s", "frequency_penalty", "-2.001", "-2", "2", "2.001", false, false},           \
        {kind, "\"presence_penalty\":%s", "presence_penalty", "-2.001", "-2", "2", "2.001", false, false},             \
        {kind, "\"penalty_window\":%s", "penalty_window", "-2", "-1", "1048576", "1048577", true, false},              \
        {kind,                                                                                                         \
         "\"seed\":%s",                                                                                                \
         "seed",                                                                                                       \
         "-9223372036854775809",                                                                                       \
         "-9223372036854775808",                                                                                       \
         "9223372036854775807",                                                                                        \
         "9223372036854775808",                                                                                        \
         true,                                                                                                         \
         false},                                                                                                       \
        {kind, "\"logit_bias\":{\"5\":%s}", "logit_bias.5", "-100.01", "-100", "100", "100.01", false, true},          \
        {kind, "\"priority\":%s", "priority", "-11", "-10", "10", "11", true, false},                                  \
        {kind, "\"kv\":{\"hot_tokens\":%s}", "kv.hot_tokens", "-1", "0", "16777216", "16777217", true, false},         \
    {                                                                                                                  \
        kind, "\"kv\":{\"warm_tokens\":%s}", "kv.warm_tokens", "-1", "0", "16777216", "16777217", true, false          \
    }

#define LENGTH(kind, name)                                                                                             \
    {                                                                                                                  \
        kind, "\"" name "\":%s", name, "-1", "0", "2147483647", "2147483648", true, false                              \
    }

static const struct number numbers[] = {
    SAMPLING(RV_API_CHAT),
    SAMPLING(RV_API_COMPLETION),
    SAMPLING(RV_API_RESPONSE),
    LENGTH(RV_API_CHAT, "max_tokens"),
    LENGTH(RV_API_CHAT, "max_completion_tokens"),
    LENGTH(RV_API_COMPLETION, "max_tokens"),
    LENGTH(RV_API_RESPONSE, "max_output_tokens"),
    {RV_API_CHAT, "\"n\":%s", "n", "0", "1", "8", "9", true, false},
    {RV_API_COMPLETION, "\"n\":%s", "n", "0", "1", "8", "9", true, false},
    {RV_API_COMPLETION, "\"n\":8,\"best_of\":%s", "best_of", "0", "8", "8", "9", true, false},
    {RV_API_CHAT, "\"logprobs\":true,\"top_logprobs\":%s", "top_logprobs", "-1", "0", "20", "21", true, false},
    {RV_API_RESPONSE, "\"top_logprobs\":%s", "top_logprobs", "-1", "0", "20", "21", true, false},
    {RV_API_COMPLETION, "\"logprobs\":%s", "logprobs", "-1", "0", "5", "6", true, false},
    {RV_API_EMBEDDING, "\"dimensions\":%s", "dimensions", "0", "1", "1048576", "1048577", true, false},
    {RV_API_EMBEDDING, "\"priority\":%s", "priority", "-11", "-10", "10", "11", true, false},
};

static const char *with_value(const struct number *row, const char *value)
{
    static char text[256];
    const char *hole = strstr(row->format, "%s");

    snprintf(text, sizeof(text), "%.*s%s%s", (int)(hole - row->format), row->format, value, hole + 2);
    return text;
}

static void every_number_is_held_to_its_range(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(numbers); i++) {
        const struct number *row = &numbers[i];

        assert_refused_with(row->kind, with_value(row, row->below), row->param);
        assert_non_null(strstr(err.message, "between"));
        assert_taken_with(row->kind, with_value(row, row->min));
        assert_taken_with(row->kind, with_value(row, row->max));
        assert_refused_with(row->kind, with_value(row, row->above), row->param);
        assert_refused_with(row->kind, with_value(row, "1e308"), row->param);
        assert_refused_with(row->kind, with_value(row, "-1e308"), row->param);
        assert_refused_with(row->kind, with_value(row, "18446744073709551616"), row->param);
    }
}

static void no_number_is_a_word_a_string_or_anything_else(void **state)
{
    static const char *const not_json[] = {"NaN", "Infinity", "-Infinity", "1e999", "-1e999", "nan",
                                           "+1",  "0x10",     "1.",        ".5",    "01",     "1_000"};
    static const char *const not_numbers[] = {"\"1\"", "\"\"", "true", "false", "[]", "[1]", "{}", "{\"a\":1}"};

    (void)state;
    for (size_t i = 0; i < COUNT(numbers); i++) {
        const struct number *row = &numbers[i];

        for (size_t k = 0; k < COUNT(not_json); k++)
            assert_refused_with(row->kind, with_value(row, not_json[k]), "");
        for (size_t k = 0; k < COUNT(not_numbers); k++)
            assert_refused_with(row->kind, with_value(row, not_numbers[k]), row->param);
    }
}

static void null_is_absent(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(numbers); i++) {
        if (numbers[i].needs_value)
            assert_refused_with(numbers[i].kind, with_value(&numbers[i], "null"), numbers[i].param);
        else
            assert_taken_with(numbers[i].kind, with_value(&numbers[i], "null"));
    }
    assert_taken_with(RV_API_CHAT, "\"stop\":null,\"stream\":null,\"tools\":null,\"kv\":null,\"user\":null,"
                                   "\"logit_bias\":null,\"stream_options\":null,\"audio\":null,\"session\":null");
}

static void an_integer_may_have_a_point_but_no_fraction(void **state)
{
    char value[64];

    (void)state;
    for (size_t i = 0; i < COUNT(numbers); i++) {
        const struct number *row = &numbers[i];

        if (!row->is_int || strcmp(row->param, "seed") == 0)
            continue;
        snprintf(value, sizeof(value), "%s.0", row->max);
        assert_taken_with(row->kind, with_value(row, value));
        snprintf(value, sizeof(value), "%s.5", row->min);
        assert_refused_with(row->kind, with_value(row, value), row->param);
    }
    assert_taken_with(RV_API_CHAT, "\"seed\":7.0");
    assert_refused_with(RV_API_CHAT, "\"seed\":1e17", "seed");
}

static void refusals_say_the_value_and_the_range(void **state)
{
    (void)state;
    assert_refused_with(RV_API_CHAT, "\"temperature\":3.5", "temperature");
    assert_string_equal(err.message, "'temperature' must be a number between 0 and 2, and is 3.5");
    assert_refused_with(RV_API_CHAT, "\"n\":-4", "n");
    assert_string_equal(err.message, "'n' must be an integer between 1 and 8, and is -4");
    assert_refused_with(RV_API_CHAT, "\"top_p\":\"0.5\"", "top_p");
    assert_string_equal(err.message, "'top_p' must be a number between 0 and 1, and is a string of 3 bytes");
    assert_refused_with(RV_API_CHAT, "\"n\":18446744073709551615", "n");
    assert_non_null(strstr(err.message, "18446744073709551615"));
}

/* ---- values ----------------------------------------------------------------------------------- */

static void absent_fields_have_the_defaults(void **state)
{
    struct ruvllm_generate_params wanted = ruvllm_generate_params_default();

    (void)state;
    for (int kind = RV_API_CHAT; kind <= RV_API_TEMPLATE; kind++) {
        struct rv_api_request *r = parse_with((enum rv_api_kind)kind, "");

        assert_non_null(r);
        assert_int_equal(r->kind, kind);
        assert_string_equal(r->model, "m");
        assert_int_equal(r->params.struct_size, sizeof(r->params));
        assert_int_equal(r->params.max_tokens, INT32_MAX);
        assert_true(r->params.temperature == wanted.temperature && r->params.top_p == wanted.top_p);
        assert_true(r->params.repetition_penalty == wanted.repetition_penalty);
        assert_int_equal(r->params.penalty_window, wanted.penalty_window);
        assert_int_equal(r->params.n_logprobs, -1);
        assert_false(r->has_max_tokens || r->params.has_seed || r->stream || r->include_usage || r->has_kv);
        assert_false(r->no_shared_prefix || r->params.ignore_eos || r->with_special || r->with_pieces);
        assert_int_equal(r->n, 1);
        assert_int_equal(r->n_inputs, 1);
        assert_null(r->user);
        rv_api_request_free(r);
    }
}

static void every_field_of_a_chat_arrives(void **state)
{
    struct rv_api_request *r = parse_with(
        RV_API_CHAT,
        "\"temperature\":0.25,\"top_p\":0.5,\"top_k\":40,\"min_p\":0.125,\"typical_p\":0.75,"
        "\"repetition_penalty\":1.5,\"frequency_penalty\":-0.5,\"presence_penalty\":0.5,\"penalty_window\":7,"
        "\"seed\":-3,\"stop\":[\"a\",\"bc\"],\"logit_bias\":{\"0\":-100,\"2147483647\":1.5},\"ignore_eos\":true,"
        "\"max_tokens\":11,\"max_completion_tokens\":11,\"n\":3,\"stream\":true,"
        "\"stream_options\":{\"include_usage\":true,\"include_obfuscation\":false},\"logprobs\":true,"
        "\"top_logprobs\":4,\"user\":\"ann\",\"session\":\"s-1\",\"priority\":-2,\"prompt_cache\":false,"
        "\"kv\":{\"hot_tokens\":64,\"warm_tokens\":0,\"cold\":\"q8\",\"keep_first\":false},"
        "\"metadata\":{\"k\":\"v\"}");
    const struct ruvllm_generate_params *p;

    (void)state;
    assert_non_null(r);
    p = &r->params;
    assert_true(p->temperature == 0.25f && p->top_p == 0.5f && p->min_p == 0.125f && p->typical_p == 0.75f);
    assert_true(p->repetition_penalty == 1.5f && p->frequency_penalty == -0.5f && p->presence_penalty == 0.5f);
    assert_true(p->top_k == 40 && p->penalty_window == 7 && p->ignore_eos && p->max_tokens == 11);
    assert_true(p->has_seed && p->seed == (uint64_t)-3 && p->n_logprobs == 4);
    assert_int_equal(p->n_stop, 2);
    assert_string_equal(p->stop[1], "bc");
    assert_int_equal(p->n_logit_bias, 2);
    assert_true(p->logit_bias[0].token == 0 && p->logit_bias[0].bias == -100.0f);
    assert_true(p->logit_bias[1].token == INT32_MAX && p->logit_bias[1].bias == 1.5f);
    assert_true(r->has_max_tokens && r->n == 3 && r->stream && r->include_usage);
    assert_string_equal(r->user, "ann");
    assert_string_equal(r->session, "s-1");
    assert_true(r->priority == -2 && r->no_shared_prefix && r->has_kv);
    assert_true(r->kv.hot_tokens == 64 && r->kv.warm_tokens == 0 && r->kv.cold == RUVLLM_PRECISION_Q8);
    assert_false(r->kv.keep_first);
    assert_int_equal(r->kv.struct_size, sizeof(r->kv));
    assert_int_equal(r->n_metadata, 1);
    assert_string_equal(r->metadata[0].value, "v");
    rv_api_request_free(r);
}

static void messages_keep_their_words(void **state)
{
    struct rv_api_request *r = parse_text(
        RV_API_CHAT, "{\"model\":\"m\",\"messages\":[{\"role\":\"developer\",\"content\":\"be \\u00e9\\ud83d\\ude00\"},"
                     "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":"
                     "\"\"},{\"type\":\"text\",\"text\":\"b\\nc\"}]},{\"role\":\"assistant\",\"content\":\"\","
                     "\"refusal\":null,\"tool_calls\":[],\"annotations\":[]},"
                     "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"one\"}]}]}");
    const struct ruvllm_message *m;

    (void)state;
    assert_non_null(r);
    assert_int_equal(r->inputs[0].n_messages, 4);
    m = r->inputs[0].messages;
    assert_string_equal(m[0].role, "system");
    assert_string_equal(m[0].content, "be \xc3\xa9\xf0\x9f\x98\x80");
    assert_string_equal(m[1].content, "ab\nc");
    assert_string_equal(m[2].role, "assistant");
    assert_string_equal(m[2].content, "");
    assert_string_equal(m[3].content, "one");
    rv_api_request_free(r);
}

static void wrong_messages_are_named(void **state)
{
    static const char *const rows[][2] = {
        {"[]", "messages"},
        {"\"hi\"", "messages"},
        {"[1]", "messages[0]"},
        {"[{\"content\":\"x\"}]", "messages[0].role"},
        {"[{\"role\":\"user\"}]", "messages[0].content"},
        {"[{\"role\":\"user\",\"content\":null}]", "messages[0].content"},
        {"[{\"role\":\"user\",\"content\":5}]", "messages[0].content"},
        {"[{\"role\":\"user\",\"content\":[]}]", "messages[0].content"},
        {"[{\"role\":\"user\",\"content\":\"a\\u0000b\"}]", "messages[0].content"},
        {"[{\"role\":\"king\",\"content\":\"x\"}]", "messages[0].role"},
        {"[{\"role\":1,\"content\":\"x\"}]", "messages[0].role"},
        {"[{\"role\":\"tool\",\"content\":\"x\",\"tool_call_id\":\"1\"}]", "messages[0].role"},
        {"[{\"role\":\"function\",\"content\":\"x\"}]", "messages[0].role"},
        {"[{\"role\":\"user\",\"content\":\"x\",\"name\":\"bob\"}]", "messages[0].name"},
        {"[{\"role\":\"user\",\"content\":\"x\",\"mood\":\"bad\"}]", "messages[0].mood"},
        {"[{\"role\":\"assistant\",\"content\":\"x\",\"tool_calls\":[{}]}]", "messages[0].tool_calls"},
        {"[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"user\",\"content\":[{\"type\":\"image_url\","
         "\"image_url\":{\"url\":\"x\"}}]}]",
         "messages[1].content[0].type"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"input_audio\",\"input_audio\":{}}]}]",
         "messages[0].content[0].type"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"file\",\"file\":{}}]}]", "messages[0].content[0].type"},
        {"[{\"role\":\"user\",\"content\":[{\"text\":\"x\"}]}]", "messages[0].content[0].type"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]", "messages[0].content[0].text"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"x\",\"x\":1}]}]", "messages[0].content[0].x"},
        {"[{\"role\":\"user\",\"content\":[\"x\"]}]", "messages[0].content[0]"},
        {"[{\"role\":\"user\",\"content\":\"x\",\"type\":\"message\"}]", "messages[0].type"},
    };
    char body[512];

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        snprintf(body, sizeof(body), "{\"model\":\"m\",\"messages\":%s}", rows[i][0]);
        assert_refused(RV_API_CHAT, body, rows[i][1]);
        assert_refused(RV_API_TEMPLATE, body, rows[i][1]);
    }
    assert_non_null(strstr(err.message, "messages[0].type"));
}

static void prompts_come_in_four_shapes(void **state)
{
    struct rv_api_request *r = parse_text(RV_API_COMPLETION, "{\"model\":\"m\",\"prompt\":[\"a\",\"\",\"bcd\"]}");

    (void)state;
    assert_non_null(r);
    assert_int_equal(r->n_inputs, 3);
    assert_string_equal(r->inputs[2].text, "bcd");
    assert_int_equal(r->inputs[2].text_len, 3);
    assert_int_equal(r->inputs[1].text_len, 0);
    rv_api_request_free(r);
    r = parse_text(RV_API_COMPLETION, "{\"model\":\"m\",\"prompt\":[5,0,2147483647,7.0]}");
    assert_non_null(r);
    assert_int_equal(r->n_inputs, 1);
    assert_int_equal(r->inputs[0].n_tokens, 4);
    assert_int_equal(r->inputs[0].tokens[2], INT32_MAX);
    assert_int_equal(r->inputs[0].tokens[3], 7);
    rv_api_request_free(r);
    r = parse_text(RV_API_EMBEDDING, "{\"model\":\"m\",\"input\":[[1,2],[3]],\"encoding_format\":\"base64\"}");
    assert_non_null(r);
    assert_int_equal(r->n_inputs, 2);
    assert_int_equal(r->inputs[1].tokens[0], 3);
    assert_int_equal(r->encoding, RV_API_BASE64);
    rv_api_request_free(r);
}

static void wrong_prompts_are_named(void **state)
{
    static const char *const rows[][2] = {
        {"[]", "prompt"},
        {"{}", "prompt"},
        {"5", "prompt"},
        {"null", "prompt"},
        {"[1,\"a\"]", "prompt[1]"},
        {"[\"a\",1]", "prompt[1]"},
        {"[\"a\",{}]", "prompt[1]"},
        {"[[1],[]]", "prompt[1]"},
        {"[[1,-1]]", "prompt[0][1]"},
        {"[-1]", "prompt[0]"},
        {"[1.5]", "prompt[0]"},
        {"[2147483648]", "prompt[0]"},
        {"[[[1]]]", "prompt[0][0]"},
        {"[null]", "prompt[0]"},
        {"[true]", "prompt[0]"},
        {"\"a\\u0000\"", "prompt"},
    };
    char body[256];

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        snprintf(body, sizeof(body), "{\"model\":\"m\",\"prompt\":%s}", rows[i][0]);
        assert_refused(RV_API_COMPLETION, body, rows[i][1]);
    }
    assert_refused(RV_API_EMBEDDING, "{\"model\":\"m\",\"input\":\"\"}", "input");
    assert_refused(RV_API_EMBEDDING, "{\"model\":\"m\",\"input\":[\"a\",\"\"]}", "input[1]");
    assert_refused(RV_API_COMPLETION, "{\"model\":\"m\"}", "prompt");
}

static void responses_are_conversations(void **state)
{
    struct rv_api_request *r = parse_text(
        RV_API_RESPONSE, "{\"model\":\"m\",\"input\":\"hi\",\"instructions\":\"be brief\",\"max_output_tokens\":5,"
                         "\"stream\":true,\"store\":false,\"truncation\":\"disabled\",\"background\":false,"
                         "\"text\":{\"format\":{\"type\":\"text\"}},\"include\":[\"message.output_text.logprobs\"],"
                         "\"tools\":[],\"tool_choice\":\"auto\",\"parallel_tool_calls\":true}");

    (void)state;
    assert_non_null(r);
    assert_int_equal(r->inputs[0].n_messages, 2);
    assert_string_equal(r->inputs[0].messages[0].role, "system");
    assert_string_equal(r->inputs[0].messages[0].content, "be brief");
    assert_string_equal(r->inputs[0].messages[1].content, "hi");
    assert_true(r->params.max_tokens == 5 && r->params.n_logprobs == 0 && r->stream);
    rv_api_request_free(r);
    r = parse_text(RV_API_RESPONSE,
                   "{\"model\":\"m\",\"input\":[{\"role\":\"user\",\"content\":\"a\"},{\"type\":\"message\",\"id\":"
                   "\"msg_1\",\"status\":\"completed\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\","
                   "\"text\":\"b\",\"annotations\":[],\"logprobs\":[]}]},{\"role\":\"user\",\"content\":[{\"type\":"
                   "\"input_text\",\"text\":\"c\"}]}]}");
    assert_non_null(r);
    assert_int_equal(r->inputs[0].n_messages, 3);
    assert_string_equal(r->inputs[0].messages[1].content, "b");
    rv_api_request_free(r);
    assert_refused(RV_API_RESPONSE, "{\"model\":\"m\",\"input\":[{\"type\":\"function_call_output\"}]}",
                   "input[0].type");
    assert_refused(RV_API_RESPONSE,
                   "{\"model\":\"m\",\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}]}",
                   "input[0].content[0].type");
}

static void text_requests_say_how_text_is_read(void **state)
{
    struct rv_api_request *r = parse_with(RV_API_TOKENIZE, "\"add_bos\":false,\"parse_special\":true,"
                                                           "\"with_pieces\":true");

    (void)state;
    assert_non_null(r);
    assert_true(r->inputs[0].no_bos && r->inputs[0].text_is_trusted && r->with_pieces);
    assert_string_equal(r->inputs[0].text, "hi");
    rv_api_request_free(r);
    r = parse_with(RV_API_DETOKENIZE, "\"with_special\":true");
    assert_non_null(r);
    assert_true(r->with_special && r->inputs[0].n_tokens == 2);
    rv_api_request_free(r);
    assert_refused(RV_API_TOKENIZE, "{" CHAT ",\"add_bos\":true}", "prompt");
    assert_refused(RV_API_TOKENIZE, "{" CHAT ",\"prompt\":\"x\"}", "messages");
    assert_refused(RV_API_TOKENIZE, "{\"model\":\"m\"}", "messages");
    assert_refused(RV_API_TOKENIZE, "{\"model\":\"m\",\"prompt\":5}", "prompt");
    assert_refused(RV_API_DETOKENIZE, "{\"model\":\"m\",\"tokens\":[]}", "tokens");
    assert_refused(RV_API_DETOKENIZE, "{\"model\":\"m\",\"tokens\":[-1]}", "tokens[0]");
}

static void a_session_is_a_plain_name(void **state)
{
    static const char *const bad[] = {"\"\"",     "\"..\"",     "\".a\"", "\"a/b\"", "\"a b\"", "\"\\u00e9\"",
                                      "\"a\\n\"", "\"a\\\\b\"", "5",      "[\"a\"]", "\"%2e\"", "\"a\\u0000\""};
    char more[128];

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        snprintf(more, sizeof(more), "\"session\":%s", bad[i]);
        assert_refused_with(RV_API_CHAT, more, "session");
    }
    snprintf(more, sizeof(more), "\"session\":\"%065d\"", 0);
    assert_refused_with(RV_API_CHAT, more, "session");
    snprintf(more, sizeof(more), "\"session\":\"%064d\"", 0);
    assert_taken_with(RV_API_CHAT, more);
}

static void settings_that_contradict_each_other_are_refused(void **state)
{
    (void)state;
    assert_refused_with(RV_API_CHAT, "\"max_tokens\":4,\"max_completion_tokens\":5", "max_completion_tokens");
    assert_refused_with(RV_API_CHAT, "\"top_logprobs\":4", "top_logprobs");
    assert_refused_with(RV_API_CHAT, "\"logprobs\":false,\"top_logprobs\":4", "top_logprobs");
    assert_refused_with(RV_API_CHAT, "\"stream_options\":{\"include_usage\":true}", "stream_options");
    assert_refused_with(RV_API_COMPLETION, "\"n\":2,\"best_of\":3", "best_of");
    assert_refused_with(RV_API_COMPLETION, "\"best_of\":2", "best_of");
    assert_refused_with(RV_API_CHAT, "\"kv\":{\"cold\":\"q2\"}", "kv.cold");
    assert_refused_with(RV_API_CHAT, "\"kv\":{\"cold\":4}", "kv.cold");
    assert_refused_with(RV_API_CHAT, "\"kv\":{\"tiers\":4}", "kv.tiers");
    assert_refused_with(RV_API_CHAT, "\"kv\":[]", "kv");
    assert_refused_with(RV_API_EMBEDDING, "\"encoding_format\":\"hex\"", "encoding_format");
    assert_refused_with(RV_API_CHAT, "\"stream\":1", "stream");
    assert_refused_with(RV_API_CHAT, "\"stream\":\"true\"", "stream");
    assert_refused_with(RV_API_CHAT, "\"logit_bias\":{\"05\":1}", "logit_bias");
    assert_refused_with(RV_API_CHAT, "\"logit_bias\":{\"-1\":1}", "logit_bias");
    assert_refused_with(RV_API_CHAT, "\"logit_bias\":{\"2147483648\":1}", "logit_bias");
    assert_refused_with(RV_API_CHAT, "\"logit_bias\":{\"\":1}", "logit_bias");
    assert_refused_with(RV_API_CHAT, "\"logit_bias\":[1]", "logit_bias");
    assert_refused_with(RV_API_CHAT, "\"metadata\":{\"a\":1}", "metadata");
}

/* ---- fields ----------------------------------------------------------------------------------- */

static void every_unsupported_field_is_named(void **state)
{
    static const struct {
        enum rv_api_kind kind;
        const char *field, *value;
    } rows[] = {
        {RV_API_CHAT, "tools", "[{\"type\":\"function\"}]"},
        {RV_API_CHAT, "tool_choice", "\"required\""},
        {RV_API_CHAT, "functions", "[{}]"},
        {RV_API_CHAT, "function_call", "{\"name\":\"f\"}"},
        {RV_API_CHAT, "response_format", "{\"type\":\"json_object\"}"},
        {RV_API_CHAT, "response_format", "{\"type\":\"text\",\"x\":1}"},
        {RV_API_CHAT, "modalities", "[\"text\",\"audio\"]"},
        {RV_API_CHAT, "audio", "{}"},
        {RV_API_CHAT, "prediction", "{}"},
        {RV_API_CHAT, "web_search_options", "{}"},
        {RV_API_CHAT, "reasoning_effort", "\"low\""},
        {RV_API_CHAT, "verbosity", "\"low\""},
        {RV_API_CHAT, "store", "true"},
        {RV_API_CHAT, "service_tier", "\"priority\""},
        {RV_API_CHAT, "moderation", "{}"},
        {RV_API_CHAT, "prompt_cache_retention", "\"24h\""},
        {RV_API_COMPLETION, "echo", "true"},
        {RV_API_COMPLETION, "suffix", "\"x\""},
        {RV_API_RESPONSE, "store", "true"},
        {RV_API_RESPONSE, "background", "true"},
        {RV_API_RESPONSE, "conversation", "\"c\""},
        {RV_API_RESPONSE, "previous_response_id", "\"r\""},
        {RV_API_RESPONSE, "prompt", "{}"},
        {RV_API_RESPONSE, "reasoning", "{}"},
        {RV_API_RESPONSE, "text", "{\"format\":{\"type\":\"json_schema\"}}"},
        {RV_API_RESPONSE, "tools", "[{}]"},
        {RV_API_RESPONSE, "truncation", "\"auto\""},
        {RV_API_RESPONSE, "include", "[\"file_search_call.results\"]"},
        {RV_API_RESPONSE, "max_tool_calls", "1"},
        {RV_API_RESPONSE, "context_management", "[]"},
    };
    char more[128];

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        snprintf(more, sizeof(more), "\"%s\":%s", rows[i].field, rows[i].value);
        assert_refused_with(rows[i].kind, more, rows[i].field);
        assert_string_equal(err.code, "unsupported_field");
    }
}

static void unknown_fields_are_named_in_every_kind(void **state)
{
    (void)state;
    for (int kind = RV_API_CHAT; kind <= RV_API_TEMPLATE; kind++) {
        assert_refused_with((enum rv_api_kind)kind, "\"temprature\":1", "temprature");
        assert_string_equal(err.code, "unknown_field");
        assert_refused_with((enum rv_api_kind)kind, "\"bad\\n\\u001bname\":1", "bad  name");
    }
    assert_refused_with(RV_API_EMBEDDING, "\"temperature\":1", "temperature");
    assert_refused_with(RV_API_RESPONSE, "\"max_tokens\":1", "max_tokens");
    assert_refused_with(RV_API_COMPLETION, "\"top_logprobs\":1", "top_logprobs");
}

static void harmless_fields_are_taken(void **state)
{
    (void)state;
    assert_taken_with(RV_API_CHAT,
                      "\"user\":\"u\",\"metadata\":{\"a\":\"b\"},\"store\":false,\"service_tier\":\"auto\","
                      "\"parallel_tool_calls\":true,\"safety_identifier\":\"s\",\"prompt_cache_key\":\"k\","
                      "\"prompt_cache_retention\":\"in_memory\",\"tools\":[],\"tool_choice\":\"none\",\"functions\":[],"
                      "\"response_format\":{\"type\":\"text\"},\"modalities\":[\"text\"],\"verbosity\":\"medium\"");
    assert_taken_with(RV_API_COMPLETION, "\"echo\":false,\"suffix\":\"\",\"best_of\":1,\"service_tier\":\"default\"");
}

static void a_model_must_be_named(void **state)
{
    char body[700];

    (void)state;
    assert_refused(RV_API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", "model");
    assert_refused(RV_API_CHAT, "{\"model\":\"\"}", "model");
    assert_refused(RV_API_CHAT, "{\"model\":5}", "model");
    snprintf(body, sizeof(body), "{\"model\":\"%0257d\"}", 0);
    assert_refused(RV_API_CHAT, body, "model");
}

/* ---- limits ----------------------------------------------------------------------------------- */

/* head, then n times item with commas between, then tail. */
static char *repeat(const char *head, const char *item, size_t n, const char *tail)
{
    struct rv_buf buf;

    rv_buf_init(&buf, (size_t)64 << 20);
    rv_buf_add_str(&buf, head);
    for (size_t i = 0; i < n; i++) {
        if (i)
            rv_buf_add_char(&buf, ',');
        rv_buf_add_str(&buf, item);
    }
    rv_buf_add_str(&buf, tail);
    assert_int_equal(buf.failed, RUVLLM_OK);
    return rv_buf_take(&buf, NULL);
}

static void assert_cap(enum rv_api_kind kind, const char *head, const char *item, size_t max, const char *tail,
                       const char *param)
{
    char *most = repeat(head, item, max, tail), *more = repeat(head, item, max + 1, tail);
    struct rv_api_request *request = parse_text(kind, most);

    if (!request)
        fail_msg("%zu of %s are refused: %s", max, param, err.message);
    rv_api_request_free(request);
    assert_refused(kind, more, param);
    rv_free(most);
    rv_free(more);
}

static void fan_out_is_capped(void **state)
{
    char *body;

    (void)state;
    assert_cap(RV_API_COMPLETION, "{\"model\":\"m\",\"prompt\":[", "\"a\"", RV_API_MAX_PROMPTS, "]}", "prompt");
    assert_cap(RV_API_COMPLETION, "{\"model\":\"m\",\"prompt\":[", "[1]", RV_API_MAX_PROMPTS, "]}", "prompt");
    assert_cap(RV_API_EMBEDDING, "{\"model\":\"m\",\"input\":[", "\"a\"", RV_API_MAX_PROMPTS, "]}", "input");
    assert_cap(RV_API_COMPLETION, "{\"model\":\"m\",\"n\":8,\"prompt\":[", "\"a\"", RV_API_MAX_CHOICES / 8, "]}", "n");
    assert_cap(RV_API_CHAT, "{\"model\":\"m\",\"messages\":[", "{\"role\":\"user\",\"content\":\"x\"}",
               RV_API_MAX_MESSAGES, "]}", "messages");
    assert_cap(RV_API_CHAT, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[",
               "{\"type\":\"text\",\"text\":\"x\"}", RV_API_MAX_PARTS, "]}]}", "messages[0].content");
    assert_cap(RV_API_CHAT, "{" CHAT ",\"stop\":[", "\"x\"", RV_API_MAX_STOPS, "]}", "stop");
    body = repeat("{" CHAT ",\"stop\":\"", "", 256, "\"}"); // 255 commas
    rv_api_request_free(parse_text(RV_API_CHAT, body));
    assert_int_equal(err.http_status, 0);
    rv_free(body);
    body = repeat("{" CHAT ",\"stop\":[\"a\",\"", "", 258, "\"]}"); // 257
    assert_refused(RV_API_CHAT, body, "stop[1]");
    rv_free(body);
    assert_refused_with(RV_API_CHAT, "\"stop\":\"\"", "stop");
    assert_refused_with(RV_API_CHAT, "\"stop\":[1]", "stop[0]");
}

/* {"0":1,"1":1,...} of n pairs. */
static char *numbered(const char *head, size_t n, const char *value, const char *tail)
{
    struct rv_buf buf;

    rv_buf_init(&buf, (size_t)64 << 20);
    rv_buf_add_str(&buf, head);
    for (size_t i = 0; i < n; i++)
        rv_buf_addf(&buf, "%s\"%zu\":%s", i ? "," : "", i, value);
    rv_buf_add_str(&buf, tail);
    return rv_buf_take(&buf, NULL);
}

static void long_objects_are_capped(void **state)
{
    static const struct {
        const char *head, *value, *param;
        size_t max;
    } rows[] = {
        {"{" CHAT ",\"logit_bias\":{", "1", "logit_bias", RV_API_MAX_LOGIT_BIAS},
        {"{" CHAT ",\"metadata\":{", "\"v\"", "metadata", RV_API_MAX_METADATA},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *most = numbered(rows[i].head, rows[i].max, rows[i].value, "}}");
        char *more = numbered(rows[i].head, rows[i].max + 1, rows[i].value, "}}");
        struct rv_api_request *request = parse_text(RV_API_CHAT, most);

        assert_non_null(request);
        rv_api_request_free(request);
        assert_refused(RV_API_CHAT, more, rows[i].param);
        rv_free(most);
        rv_free(more);
    }
}

static void a_key_given_twice_is_refused_at_any_depth(void **state)
{
    char *body = numbered("{" CHAT ",\"logit_bias\":{", 200, "1", ",\"77\":2}}");

    (void)state;
    assert_refused(RV_API_CHAT, body, "77");
    assert_string_equal(err.code, "duplicate_field");
    rv_free(body);
    assert_refused_with(RV_API_CHAT, "\"model\":\"n\"", "model");
    assert_string_equal(err.code, "duplicate_field");
    assert_refused_with(RV_API_CHAT, "\"n\":1,\"n\":1", "n");
    assert_refused_with(RV_API_CHAT, "\"kv\":{\"cold\":\"q4\",\"cold\":\"q8\"}", "cold");
    assert_refused_with(RV_API_CHAT, "\"n\":1,\"\\u006e\":2", "n"); // the same key, spelled otherwise
    assert_refused_with(RV_API_CHAT, "\"tools\":[[{\"a\":{\"b\":1,\"b\":1}}]]", "b");
}

static void depth_is_limited_and_refused_at_once(void **state)
{
    size_t len = 1000000;
    char *body = malloc(len + 1);
    struct timespec from, to;

    (void)state;
    memset(body, '[', len);
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int kind = RV_API_CHAT; kind <= RV_API_TEMPLATE; kind++)
        assert_null(parse((enum rv_api_kind)kind, body, len));
    clock_gettime(CLOCK_MONOTONIC, &to);
    assert_true((double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec) < 0.1);
    assert_string_equal(err.code, "invalid_json");
    free(body);
    assert_refused(RV_API_CHAT, "{" CHAT ",\"tools\":[" NEST("[") NEST("]") "]}", "tools");  // 62 levels: read
    assert_refused(RV_API_CHAT, "{" CHAT ",\"tools\":[[[[" NEST("[") NEST("]") "]]]]}", ""); // 65: not
}

static void bodies_that_are_no_json_objects_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        " ",
        "[]",
        "5",
        "null",
        "\"x\"",
        "{",
        "{}x",
        "{\"a\"}",
        "{a:1}",
        "{'a':1}",
        "{\"a\":1,}",
        "{\"a\":\"\xff\"}",
        "{\"a\":\"\xed\xa0\x80\"}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\xc0\xaf\"}",
        "{\"a\":\"\t\"}",
        "// x\n{}",
        "\xef\xbb\xbf{}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\",
        "{\"\xff\":1}",
    };

    (void)state;
    for (int kind = RV_API_CHAT; kind <= RV_API_TEMPLATE; kind++) {
        for (size_t i = 0; i < COUNT(bad); i++) {
            assert_null(parse_text((enum rv_api_kind)kind, bad[i]));
            assert_string_equal(err.code, "invalid_json");
        }
        assert_null(parse((enum rv_api_kind)kind, "{}\0", 3));
        assert_refused((enum rv_api_kind)kind, "{}", "model");
    }
}

static long max_rss_kib(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* The bodies that take the most memory for their size, at the server's limit of 8 MiB. */
static void memory_is_bounded_by_the_body(void **state)
{
    char *tokens = repeat("{\"model\":\"m\",\"prompt\":[", "1", RV_API_MAX_VALUES - 8, "]}");
    char *values = repeat("{\"model\":\"m\",\"prompt\":[", "1", 4000000, "]}");
    char *parts = repeat("{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[",
                         "{\"type\":\"text\",\"text\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}",
                         RV_API_MAX_PARTS, "]}]}");
    struct rv_api_request *request;
    long before;

    (void)state;
    before = max_rss_kib();
    assert_null(parse_text(RV_API_COMPLETION, values));
    assert_non_null(strstr(err.message, "values"));
    assert_true(max_rss_kib() - before < 1024); // refused before memory was taken
    request = parse_text(RV_API_COMPLETION, tokens);
    assert_non_null(request);
    assert_int_equal(request->inputs[0].n_tokens, RV_API_MAX_VALUES - 8);
    rv_api_request_free(request);
    request = parse_text(RV_API_CHAT, parts);
    assert_non_null(request);
    assert_int_equal(strlen(request->inputs[0].messages[0].content), 57 * RV_API_MAX_PARTS);
    rv_api_request_free(request);
    assert_true(max_rss_kib() - before < 16 * 1024);
    rv_free(tokens);
    rv_free(values);
    rv_free(parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_bounded_by_the_body),
        cmocka_unit_test(every_number_is_held_to_its_range),
        cmocka_unit_test(no_number_is_a_word_a_string_or_anything_else),
        cmocka_unit_test(null_is_absent),
        cmocka_unit_test(an_integer_may_have_a_point_but_no_fraction),
        cmocka_unit_test(refusals_say_the_value_and_the_range),
        cmocka_unit_test(absent_fields_have_the_defaults),
        cmocka_unit_test(every_field_of_a_chat_arrives),
        cmocka_unit_test(messages_keep_their_words),
        cmocka_unit_test(wrong_messages_are_named),
        cmocka_unit_test(prompts_come_in_four_shapes),
        cmocka_unit_test(wrong_prompts_are_named),
        cmocka_unit_test(responses_are_conversations),
        cmocka_unit_test(text_requests_say_how_text_is_read),
        cmocka_unit_test(a_session_is_a_plain_name),
        cmocka_unit_test(settings_that_contradict_each_other_are_refused),
        cmocka_unit_test(every_unsupported_field_is_named),
        cmocka_unit_test(unknown_fields_are_named_in_every_kind),
        cmocka_unit_test(harmless_fields_are_taken),
        cmocka_unit_test(a_model_must_be_named),
        cmocka_unit_test(fan_out_is_capped),
        cmocka_unit_test(long_objects_are_capped),
        cmocka_unit_test(a_key_given_twice_is_refused_at_any_depth),
        cmocka_unit_test(depth_is_limited_and_refused_at_once),
        cmocka_unit_test(bodies_that_are_no_json_objects_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
