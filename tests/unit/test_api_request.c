/* Requests of the API: what is accepted, with which values, and which fields are refused by name. */
#include "support/api_bodies.h"

#include <stdio.h>
#include <string.h>

/* ---- values ----------------------------------------------------------------------------------- */

static void absent_fields_have_the_defaults(void **state)
{
    struct ruvllm_generate_params wanted = ruvllm_generate_params_default();

    (void)state;
    for (int kind = RV_API_CHAT; kind <= RV_API_TEMPLATE; kind++) {
        struct rv_api_request *r = body_parse_with((enum rv_api_kind)kind, "");

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
    struct rv_api_request *r = body_parse_with(
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
    struct rv_api_request *r = body_parse_text(
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
        {"[{\"role\":\"function\",\"content\":\"x\"}]", "messages[0].role"},
        {"[{\"role\":\"function\",\"content\":\"x\"}]", "messages[0].role"},
        {"[{\"role\":\"user\",\"content\":\"x\",\"name\":\"bob\"}]", "messages[0].name"},
        {"[{\"role\":\"user\",\"content\":\"x\",\"mood\":\"bad\"}]", "messages[0].mood"},
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
    for (size_t i = 0; i < BODY_COUNT(rows); i++) {
        snprintf(body, sizeof(body), "{\"model\":\"m\",\"messages\":%s}", rows[i][0]);
        body_refused(RV_API_CHAT, body, rows[i][1]);
        body_refused(RV_API_TEMPLATE, body, rows[i][1]);
    }
    assert_non_null(strstr(body_error.message, "messages[0].type"));
}

static void prompts_come_in_four_shapes(void **state)
{
    struct rv_api_request *r = body_parse_text(RV_API_COMPLETION, "{\"model\":\"m\",\"prompt\":[\"a\",\"\",\"bcd\"]}");

    (void)state;
    assert_non_null(r);
    assert_int_equal(r->n_inputs, 3);
    assert_string_equal(r->inputs[2].text, "bcd");
    assert_int_equal(r->inputs[2].text_len, 3);
    assert_int_equal(r->inputs[1].text_len, 0);
    rv_api_request_free(r);
    r = body_parse_text(RV_API_COMPLETION, "{\"model\":\"m\",\"prompt\":[5,0,2147483647,7.0]}");
    assert_non_null(r);
    assert_int_equal(r->n_inputs, 1);
    assert_int_equal(r->inputs[0].n_tokens, 4);
    assert_int_equal(r->inputs[0].tokens[2], INT32_MAX);
    assert_int_equal(r->inputs[0].tokens[3], 7);
    rv_api_request_free(r);
    r = body_parse_text(RV_API_EMBEDDING, "{\"model\":\"m\",\"input\":[[1,2],[3]],\"encoding_format\":\"base64\"}");
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
    for (size_t i = 0; i < BODY_COUNT(rows); i++) {
        snprintf(body, sizeof(body), "{\"model\":\"m\",\"prompt\":%s}", rows[i][0]);
        body_refused(RV_API_COMPLETION, body, rows[i][1]);
    }
    body_refused(RV_API_EMBEDDING, "{\"model\":\"m\",\"input\":\"\"}", "input");
    body_refused(RV_API_EMBEDDING, "{\"model\":\"m\",\"input\":[\"a\",\"\"]}", "input[1]");
    body_refused(RV_API_COMPLETION, "{\"model\":\"m\"}", "prompt");
}

static void responses_are_conversations(void **state)
{
    struct rv_api_request *r = body_parse_text(
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
    r = body_parse_text(
        RV_API_RESPONSE,
        "{\"model\":\"m\",\"input\":[{\"role\":\"user\",\"content\":\"a\"},{\"type\":\"message\",\"id\":"
        "\"msg_1\",\"status\":\"completed\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\","
        "\"text\":\"b\",\"annotations\":[],\"logprobs\":[]}]},{\"role\":\"user\",\"content\":[{\"type\":"
        "\"input_text\",\"text\":\"c\"}]}]}");
    assert_non_null(r);
    assert_int_equal(r->inputs[0].n_messages, 3);
    assert_string_equal(r->inputs[0].messages[1].content, "b");
    rv_api_request_free(r);
    body_refused(RV_API_RESPONSE, "{\"model\":\"m\",\"input\":[{\"type\":\"reasoning\"}]}", "input[0].type");
    body_refused(RV_API_RESPONSE,
                 "{\"model\":\"m\",\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}]}",
                 "input[0].content[0].type");
}

static void text_requests_say_how_text_is_read(void **state)
{
    struct rv_api_request *r = body_parse_with(RV_API_TOKENIZE, "\"add_bos\":false,\"parse_special\":true,"
                                                                "\"with_pieces\":true");

    (void)state;
    assert_non_null(r);
    assert_true(r->inputs[0].no_bos && r->inputs[0].text_is_trusted && r->with_pieces);
    assert_string_equal(r->inputs[0].text, "hi");
    rv_api_request_free(r);
    r = body_parse_with(RV_API_DETOKENIZE, "\"with_special\":true");
    assert_non_null(r);
    assert_true(r->with_special && r->inputs[0].n_tokens == 2);
    rv_api_request_free(r);
    body_refused(RV_API_TOKENIZE, "{" BODY_CHAT ",\"add_bos\":true}", "prompt");
    body_refused(RV_API_TOKENIZE, "{" BODY_CHAT ",\"prompt\":\"x\"}", "messages");
    body_refused(RV_API_TOKENIZE, "{\"model\":\"m\"}", "messages");
    body_refused(RV_API_TOKENIZE, "{\"model\":\"m\",\"prompt\":5}", "prompt");
    body_refused(RV_API_DETOKENIZE, "{\"model\":\"m\",\"tokens\":[]}", "tokens");
    body_refused(RV_API_DETOKENIZE, "{\"model\":\"m\",\"tokens\":[-1]}", "tokens[0]");
}

static void a_session_is_a_plain_name(void **state)
{
    static const char *const bad[] = {"\"\"",     "\"..\"",     "\".a\"", "\"a/b\"", "\"a b\"", "\"\\u00e9\"",
                                      "\"a\\n\"", "\"a\\\\b\"", "5",      "[\"a\"]", "\"%2e\"", "\"a\\u0000\""};
    char more[128];

    (void)state;
    for (size_t i = 0; i < BODY_COUNT(bad); i++) {
        snprintf(more, sizeof(more), "\"session\":%s", bad[i]);
        body_refused_with(RV_API_CHAT, more, "session");
    }
    snprintf(more, sizeof(more), "\"session\":\"%065d\"", 0);
    body_refused_with(RV_API_CHAT, more, "session");
    snprintf(more, sizeof(more), "\"session\":\"%064d\"", 0);
    body_taken_with(RV_API_CHAT, more);
}

static void settings_that_contradict_each_other_are_refused(void **state)
{
    (void)state;
    body_refused_with(RV_API_CHAT, "\"max_tokens\":4,\"max_completion_tokens\":5", "max_completion_tokens");
    body_refused_with(RV_API_CHAT, "\"top_logprobs\":4", "top_logprobs");
    body_refused_with(RV_API_CHAT, "\"logprobs\":false,\"top_logprobs\":4", "top_logprobs");
    body_refused_with(RV_API_CHAT, "\"stream_options\":{\"include_usage\":true}", "stream_options");
    body_refused_with(RV_API_COMPLETION, "\"n\":2,\"best_of\":3", "best_of");
    body_refused_with(RV_API_COMPLETION, "\"best_of\":2", "best_of");
    body_refused_with(RV_API_CHAT, "\"kv\":{\"cold\":\"q2\"}", "kv.cold");
    body_refused_with(RV_API_CHAT, "\"kv\":{\"cold\":4}", "kv.cold");
    body_refused_with(RV_API_CHAT, "\"kv\":{\"tiers\":4}", "kv.tiers");
    body_refused_with(RV_API_CHAT, "\"kv\":[]", "kv");
    body_refused_with(RV_API_EMBEDDING, "\"encoding_format\":\"hex\"", "encoding_format");
    body_refused_with(RV_API_CHAT, "\"stream\":1", "stream");
    body_refused_with(RV_API_CHAT, "\"stream\":\"true\"", "stream");
    body_refused_with(RV_API_CHAT, "\"logit_bias\":{\"05\":1}", "logit_bias");
    body_refused_with(RV_API_CHAT, "\"logit_bias\":{\"-1\":1}", "logit_bias");
    body_refused_with(RV_API_CHAT, "\"logit_bias\":{\"2147483648\":1}", "logit_bias");
    body_refused_with(RV_API_CHAT, "\"logit_bias\":{\"\":1}", "logit_bias");
    body_refused_with(RV_API_CHAT, "\"logit_bias\":[1]", "logit_bias");
    body_refused_with(RV_API_CHAT, "\"metadata\":{\"a\":1}", "metadata");
}

/* ---- fields ----------------------------------------------------------------------------------- */

static void every_unsupported_field_is_named(void **state)
{
    static const struct {
        enum rv_api_kind kind;
        const char *field, *value;
    } rows[] = {
        {RV_API_COMPLETION, "tools", "[{\"type\":\"function\"}]"},
        {RV_API_COMPLETION, "tool_choice", "\"required\""},
        {RV_API_CHAT, "functions", "[{}]"},
        {RV_API_CHAT, "function_call", "{\"name\":\"f\"}"},
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
        {RV_API_RESPONSE, "truncation", "\"auto\""},
        {RV_API_RESPONSE, "include", "[\"file_search_call.results\"]"},
        {RV_API_RESPONSE, "max_tool_calls", "1"},
        {RV_API_RESPONSE, "context_management", "[]"},
    };
    char more[128];

    (void)state;
    for (size_t i = 0; i < BODY_COUNT(rows); i++) {
        snprintf(more, sizeof(more), "\"%s\":%s", rows[i].field, rows[i].value);
        body_refused_with(rows[i].kind, more, rows[i].field);
        assert_string_equal(body_error.code, "unsupported_field");
    }
}

static void unknown_fields_are_named_in_every_kind(void **state)
{
    (void)state;
    for (int kind = RV_API_CHAT; kind <= RV_API_TEMPLATE; kind++) {
        body_refused_with((enum rv_api_kind)kind, "\"temprature\":1", "temprature");
        assert_string_equal(body_error.code, "unknown_field");
        body_refused_with((enum rv_api_kind)kind, "\"bad\\n\\u001bname\":1", "bad  name");
    }
    body_refused_with(RV_API_EMBEDDING, "\"temperature\":1", "temperature");
    body_refused_with(RV_API_RESPONSE, "\"max_tokens\":1", "max_tokens");
    body_refused_with(RV_API_COMPLETION, "\"top_logprobs\":1", "top_logprobs");
}

static void harmless_fields_are_taken(void **state)
{
    (void)state;
    body_taken_with(RV_API_CHAT,
                    "\"user\":\"u\",\"metadata\":{\"a\":\"b\"},\"store\":false,\"service_tier\":\"auto\","
                    "\"parallel_tool_calls\":true,\"safety_identifier\":\"s\",\"prompt_cache_key\":\"k\","
                    "\"prompt_cache_retention\":\"in_memory\",\"tools\":[],\"tool_choice\":\"none\",\"functions\":[],"
                    "\"response_format\":{\"type\":\"text\"},\"modalities\":[\"text\"],\"verbosity\":\"medium\"");
    body_taken_with(RV_API_COMPLETION, "\"echo\":false,\"suffix\":\"\",\"best_of\":1,\"service_tier\":\"default\"");
}

static void a_model_must_be_named(void **state)
{
    char body[700];

    (void)state;
    body_refused(RV_API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", "model");
    body_refused(RV_API_CHAT, "{\"model\":\"\"}", "model");
    body_refused(RV_API_CHAT, "{\"model\":5}", "model");
    snprintf(body, sizeof(body), "{\"model\":\"%0257d\"}", 0);
    body_refused(RV_API_CHAT, body, "model");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
