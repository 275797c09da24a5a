/* Replies of the API, read back: what clients get out of them is what was put in. */
#include "server/api/api_json.h"
#include "server/api/api_reply.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <yyjson.h>

#define MAX_EVENTS 32

static const struct rv_api_head head = {
    .id = "chatcmpl-1", .created = 1700000000, .model = "m\"1", .fingerprint = "fp"};
static const struct rv_api_usage usage = {
    .prompt_tokens = 7, .cached_tokens = 3, .completion_tokens = 5, .accepted_tokens = 2, .rejected_tokens = 1};
static struct rv_buf out;
static yyjson_doc *docs[MAX_EVENTS];
static size_t n_docs;

static int clear(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_docs; i++)
        yyjson_doc_free(docs[i]);
    n_docs = 0;
    rv_buf_release(&out);
    rv_buf_init(&out, (size_t)4 << 20);
    return 0;
}

static int finish(void **state)
{
    clear(state);
    rv_buf_release(&out);
    return 0;
}

static yyjson_val *read_json(const char *text, size_t len)
{
    yyjson_doc *doc = yyjson_read(text, len, 0);

    if (!doc)
        fail_msg("not JSON: %.*s", (int)len, text);
    assert_true(n_docs < MAX_EVENTS);
    docs[n_docs++] = doc;
    return yyjson_doc_get_root(doc);
}

static yyjson_val *reply(void)
{
    assert_int_equal(out.failed, RUVLLM_OK);
    return read_json(out.data, out.len);
}

/* The value at a path of keys and indices such as "choices/0/delta". */
static yyjson_val *at(yyjson_val *root, const char *path)
{
    char key[64];

    while (*path) {
        size_t len = strcspn(path, "/");

        snprintf(key, sizeof(key), "%.*s", (int)len, path);
        root = yyjson_is_arr(root) ? yyjson_arr_get(root, (size_t)(key[0] - '0')) : yyjson_obj_get(root, key);
        path += len + (path[len] == '/');
    }
    return root;
}

static void assert_text(yyjson_val *root, const char *path, const char *wanted)
{
    const char *text = yyjson_get_str(at(root, path));

    if (!text || strcmp(text, wanted) != 0)
        fail_msg("%s is '%s', not '%s'", path, text ? text : "no string", wanted);
}

static void assert_number(yyjson_val *root, const char *path, double wanted)
{
    if (!yyjson_is_num(at(root, path)) || yyjson_get_num(at(root, path)) != wanted)
        fail_msg("%s is not %g", path, wanted);
}

static void assert_null_at(yyjson_val *root, const char *path)
{
    if (!yyjson_is_null(at(root, path)))
        fail_msg("%s is not null", path);
}

/* Splits a stream into its events; each must be "data: JSON" with "event: <type>" before it where it has one. */
static size_t events(yyjson_val *found[MAX_EVENTS])
{
    const char *text = out.data;
    size_t n = 0;

    assert_int_equal(out.failed, RUVLLM_OK);
    while (*text) {
        const char *end = strstr(text, "\n\n"), *data = text, *type = NULL;

        assert_non_null(end);
        if (strncmp(text, "event: ", 7) == 0) {
            type = text + 7;
            data = strchr(text, '\n') + 1;
        }
        assert_int_equal(strncmp(data, "data: ", 6), 0);
        assert_null(memchr(data, '\n', (size_t)(end - data)));
        assert_true(n < MAX_EVENTS);
        found[n] = read_json(data + 6, (size_t)(end - data) - 6);
        if (type) {
            const char *name = yyjson_get_str(yyjson_obj_get(found[n], "type"));

            assert_int_equal(strncmp(type, name, strlen(name)), 0);
            assert_int_equal(type[strlen(name)], '\n');
        }
        n++;
        text = end + 2;
    }
    return n;
}

static struct rv_api_choice choice_of(int32_t index, const char *text)
{
    return (struct rv_api_choice){.index = index, .text = text, .text_len = strlen(text)};
}

/* ---- chat ------------------------------------------------------------------------------------- */

static void a_chat_completion_has_what_clients_read(void **state)
{
    struct rv_api_choice choices[2] = {choice_of(0, "hi"), choice_of(1, "")};
    yyjson_val *root;

    (void)state;
    choices[0].stop_reason = RUVLLM_STOP_EOS;
    choices[1].stop_reason = RUVLLM_STOP_CONTEXT;
    rv_api_reply_chat(&out, &head, choices, 2, &usage);
    root = reply();
    assert_text(root, "id", "chatcmpl-1");
    assert_text(root, "object", "chat.completion");
    assert_number(root, "created", 1700000000);
    assert_text(root, "model", "m\"1");
    assert_text(root, "system_fingerprint", "fp");
    assert_int_equal(yyjson_arr_size(at(root, "choices")), 2);
    assert_number(root, "choices/1/index", 1);
    assert_text(root, "choices/0/message/role", "assistant");
    assert_text(root, "choices/0/message/content", "hi");
    assert_text(root, "choices/1/message/content", "");
    assert_null_at(root, "choices/0/message/refusal");
    assert_null_at(root, "choices/0/logprobs");
    assert_text(root, "choices/0/finish_reason", "stop");
    assert_text(root, "choices/1/finish_reason", "length");
    assert_number(root, "usage/prompt_tokens", 7);
    assert_number(root, "usage/completion_tokens", 5);
    assert_number(root, "usage/total_tokens", 12);
    assert_number(root, "usage/prompt_tokens_details/cached_tokens", 3);
    assert_number(root, "usage/completion_tokens_details/accepted_prediction_tokens", 2);
    assert_number(root, "usage/completion_tokens_details/rejected_prediction_tokens", 1);
}

static void a_chat_stream_begins_with_the_role_and_ends_with_usage(void **state)
{
    struct rv_api_head streamed = head;
    struct rv_api_choice choice = choice_of(0, "a\nb");
    yyjson_val *found[MAX_EVENTS];

    (void)state;
    streamed.has_usage_chunk = true;
    rv_api_reply_chat_role(&out, &streamed, 0);
    rv_api_reply_chat_chunk(&out, &streamed, &choice);
    choice.text_len = 0;
    rv_api_reply_chat_chunk(&out, &streamed, &choice); // nothing new, nothing said
    choice = choice_of(0, "c");
    choice.is_finished = true;
    choice.stop_reason = RUVLLM_STOP_LENGTH;
    rv_api_reply_chat_chunk(&out, &streamed, &choice);
    rv_api_reply_chat_usage(&out, &streamed, &usage);
    assert_int_equal(events(found), 5);
    for (size_t i = 0; i < 5; i++) {
        assert_text(found[i], "object", "chat.completion.chunk");
        assert_text(found[i], "id", "chatcmpl-1");
    }
    assert_text(found[0], "choices/0/delta/role", "assistant");
    assert_text(found[0], "choices/0/delta/content", "");
    assert_null_at(found[0], "choices/0/finish_reason");
    assert_null_at(found[0], "usage");
    assert_text(found[1], "choices/0/delta/content", "a\nb");
    assert_null(at(found[1], "choices/0/delta/role"));
    assert_text(found[2], "choices/0/delta/content", "c");
    assert_null_at(found[2], "choices/0/finish_reason");
    assert_int_equal(yyjson_obj_size(at(found[3], "choices/0/delta")), 0);
    assert_text(found[3], "choices/0/finish_reason", "length");
    assert_int_equal(yyjson_arr_size(at(found[4], "choices")), 0);
    assert_number(found[4], "usage/total_tokens", 12);
    rv_buf_clear(&out);
    rv_api_reply_done(&out);
    assert_string_equal(out.data, "data: [DONE]\n\n");
}

static void usage_is_not_mentioned_in_streams_that_did_not_ask(void **state)
{
    struct rv_api_choice choice = choice_of(0, "x");
    yyjson_val *found[MAX_EVENTS];

    (void)state;
    rv_api_reply_chat_role(&out, &head, 0);
    rv_api_reply_chat_chunk(&out, &head, &choice);
    rv_api_reply_completion_chunk(&out, &head, &choice);
    assert_int_equal(events(found), 3);
    for (size_t i = 0; i < 3; i++)
        assert_null(at(found[i], "usage"));
}

static void finish_reasons_are_exact(void **state)
{
    (void)state;
    assert_string_equal(rv_api_reply_finish_reason(RUVLLM_STOP_EOS), "stop");
    assert_string_equal(rv_api_reply_finish_reason(RUVLLM_STOP_STRING), "stop");
    assert_string_equal(rv_api_reply_finish_reason(RUVLLM_STOP_CALLBACK), "stop");
    assert_string_equal(rv_api_reply_finish_reason(RUVLLM_STOP_LENGTH), "length");
    assert_string_equal(rv_api_reply_finish_reason(RUVLLM_STOP_CONTEXT), "length");
}

/* ---- log-probabilities ------------------------------------------------------------------------ */

/* Two rows of two alternatives: a character in two halves, and a row shorter than asked for. */
static const struct rv_api_token token_rows[] = {
    {"\xc3", 1, -0.5f},   {"\xc3", 1, -0.5f}, {"\xe2", 1, -1.5f},          // both look alike as text
    {"\xa9z", 2, -0.25f}, {"q", 1, -0.125f},  {NULL, 0, (float)-INFINITY}, // no second alternative
};

static void chat_logprobs_tell_text_and_bytes(void **state)
{
    struct rv_api_logprobs logprobs = {.tokens = token_rows, .n_rows = 2, .n_top = 2};
    struct rv_api_choice choice = choice_of(0, "\xc3\xa9z");
    yyjson_val *root;

    (void)state;
    choice.logprobs = &logprobs;
    rv_api_reply_chat(&out, &head, &choice, 1, &usage);
    root = reply();
    assert_text(root, "choices/0/message/content", "\xc3\xa9z");
    assert_int_equal(yyjson_arr_size(at(root, "choices/0/logprobs/content")), 2);
    assert_text(root, "choices/0/logprobs/content/0/token", "\xef\xbf\xbd");
    assert_number(root, "choices/0/logprobs/content/0/bytes/0", 0xc3);
    assert_number(root, "choices/0/logprobs/content/0/logprob", -0.5);
    assert_int_equal(yyjson_arr_size(at(root, "choices/0/logprobs/content/0/top_logprobs")), 2);
    assert_number(root, "choices/0/logprobs/content/0/top_logprobs/1/bytes/0", 0xe2);
    assert_text(root, "choices/0/logprobs/content/1/token", "\xef\xbf\xbdz");
    assert_int_equal(yyjson_arr_size(at(root, "choices/0/logprobs/content/1/top_logprobs")), 1);
    assert_null_at(root, "choices/0/logprobs/refusal");
}

static void completion_logprobs_are_four_lists(void **state)
{
    struct rv_api_logprobs logprobs = {.tokens = token_rows, .n_rows = 2, .n_top = 2, .text_offset = 10};
    struct rv_api_choice choice = choice_of(0, "\xc3\xa9z");
    yyjson_val *root, *lists;

    (void)state;
    choice.logprobs = &logprobs;
    rv_api_reply_completion(&out, &head, &choice, 1, &usage);
    root = reply();
    lists = at(root, "choices/0/logprobs");
    assert_int_equal(yyjson_arr_size(at(lists, "tokens")), 2);
    assert_number(lists, "token_logprobs/1", -0.25);
    assert_number(lists, "top_logprobs/1/q", -0.125);
    assert_int_equal(yyjson_obj_size(at(lists, "top_logprobs/0")), 1); // no key twice; the likelier stays
    assert_number(lists, "top_logprobs/0/\xef\xbf\xbd", -0.5);
    assert_number(lists, "text_offset/0", 10);
    assert_number(lists, "text_offset/1", 11);
    assert_int_equal(rv_api_reply_n_chars(&logprobs), 2);
}

static void no_chance_is_a_number_json_can_say(void **state)
{
    struct rv_api_token token = {"x", 1, (float)-INFINITY};
    struct rv_api_logprobs logprobs = {.tokens = &token, .n_rows = 1};
    struct rv_api_choice choice = choice_of(0, "x");

    (void)state;
    choice.logprobs = &logprobs;
    rv_api_reply_completion(&out, &head, &choice, 1, &usage);
    assert_number(reply(), "choices/0/logprobs/token_logprobs/0", -9999);
}

/* ---- completions ------------------------------------------------------------------------------ */

static void completions_stream_text(void **state)
{
    struct rv_api_choice choice = choice_of(3, "ab");
    yyjson_val *found[MAX_EVENTS];

    (void)state;
    rv_api_reply_completion_chunk(&out, &head, &choice);
    choice = choice_of(3, "");
    rv_api_reply_completion_chunk(&out, &head, &choice);
    choice.is_finished = true;
    choice.stop_reason = RUVLLM_STOP_STRING;
    rv_api_reply_completion_chunk(&out, &head, &choice);
    rv_api_reply_completion_usage(&out, &head, &usage);
    assert_int_equal(events(found), 3);
    assert_text(found[0], "object", "text_completion");
    assert_text(found[0], "choices/0/text", "ab");
    assert_number(found[0], "choices/0/index", 3);
    assert_null_at(found[0], "choices/0/finish_reason");
    assert_text(found[1], "choices/0/text", "");
    assert_text(found[1], "choices/0/finish_reason", "stop");
    assert_int_equal(yyjson_arr_size(at(found[2], "choices")), 0);
    assert_number(found[2], "usage/prompt_tokens", 7);
}

/* ---- responses -------------------------------------------------------------------------------- */

static struct rv_api_request *response_request(void)
{
    static const char body[] = "{\"model\":\"m\",\"input\":\"x\",\"instructions\":\"i\",\"temperature\":0.5,"
                               "\"metadata\":{\"a b\":\"c\"}}";
    struct rv_api_request *request;
    struct rv_api_error err;

    assert_int_equal(rv_api_request_parse(RV_API_RESPONSE, body, strlen(body), &request, &err), RUVLLM_OK);
    return request;
}

static void a_response_tells_its_settings_back(void **state)
{
    struct rv_api_request *request = response_request();
    struct rv_api_response r = {.head = head,
                                .item_id = "msg_1",
                                .request = request,
                                .text = "yes",
                                .text_len = 3,
                                .usage = &usage,
                                .stop_reason = RUVLLM_STOP_EOS};
    yyjson_val *root;

    (void)state;
    rv_api_reply_response(&out, &r);
    root = reply();
    assert_text(root, "object", "response");
    assert_text(root, "status", "completed");
    assert_text(root, "output/0/type", "message");
    assert_text(root, "output/0/id", "msg_1");
    assert_text(root, "output/0/status", "completed");
    assert_text(root, "output/0/content/0/type", "output_text");
    assert_text(root, "output/0/content/0/text", "yes");
    assert_true(yyjson_is_arr(at(root, "output/0/content/0/annotations")));
    assert_text(root, "instructions", "i");
    assert_number(root, "temperature", 0.5);
    assert_text(root, "metadata/a b", "c");
    assert_null_at(root, "max_output_tokens");
    assert_null_at(root, "error");
    assert_null_at(root, "incomplete_details");
    assert_number(root, "usage/input_tokens", 7);
    assert_number(root, "usage/input_tokens_details/cached_tokens", 3);
    assert_number(root, "usage/output_tokens", 5);
    rv_buf_clear(&out);
    r.stop_reason = RUVLLM_STOP_LENGTH;
    rv_api_reply_response(&out, &r);
    root = reply();
    assert_text(root, "status", "incomplete");
    assert_text(root, "incomplete_details/reason", "max_output_tokens");
    rv_api_request_free(request);
}

static void the_events_of_a_response_build_it(void **state)
{
    static const char *const types[] = {"response.created",           "response.in_progress",
                                        "response.output_item.added", "response.content_part.added",
                                        "response.output_text.delta", "response.output_text.done",
                                        "response.content_part.done", "response.output_item.done",
                                        "response.completed"};
    struct rv_api_request *request = response_request();
    struct rv_api_response r = {.head = head, .item_id = "msg_1", .request = request, .text = ""};
    yyjson_val *found[MAX_EVENTS];

    (void)state;
    rv_api_reply_response_begin_event(&out, &r);
    rv_api_reply_response_delta_event(&out, &r, "", 0, NULL);
    rv_api_reply_response_delta_event(&out, &r, "yes", 3, NULL);
    r.text = "yes";
    r.text_len = 3;
    r.usage = &usage;
    rv_api_reply_response_end_event(&out, &r);
    assert_int_equal(events(found), 9);
    for (size_t i = 0; i < 9; i++) {
        assert_text(found[i], "type", types[i]);
        assert_number(found[i], "sequence_number", (double)i);
    }
    assert_text(found[0], "response/status", "in_progress");
    assert_null_at(found[0], "response/usage");
    assert_int_equal(yyjson_arr_size(at(found[0], "response/output")), 0);
    assert_int_equal(yyjson_arr_size(at(found[2], "item/content")), 0);
    assert_text(found[3], "part/text", "");
    assert_text(found[4], "delta", "yes");
    assert_text(found[4], "item_id", "msg_1");
    assert_true(yyjson_is_arr(at(found[4], "logprobs")));
    assert_text(found[5], "text", "yes");
    assert_text(found[6], "part/text", "yes");
    assert_text(found[7], "item/content/0/text", "yes");
    assert_text(found[8], "response/output/0/content/0/text", "yes");
    assert_number(found[8], "response/usage/total_tokens", 12);
    rv_api_request_free(request);
}

/* Something is said, then two calls: each item begins when it is there, and ends before the next. */
static void the_items_of_a_response_come_one_after_the_other(void **state)
{
    static const char *const types[] = {"created",
                                        "in_progress",
                                        "output_item.added",
                                        "content_part.added",
                                        "output_text.delta",
                                        "output_text.done",
                                        "content_part.done",
                                        "output_item.done",
                                        "output_item.added",
                                        "function_call_arguments.delta",
                                        "function_call_arguments.done",
                                        "output_item.done",
                                        "output_item.added",
                                        "function_call_arguments.done",
                                        "output_item.done",
                                        "incomplete"};
    const struct rv_api_call calls[] = {{"call_1", "f", "{}", 2}, {"call_2", "g", "", 0}};
    struct rv_api_request *request = response_request();
    struct rv_api_response r = {
        .head = head, .item_id = "msg_1", .request = request, .text = "", .has_tools = true, .calls = calls};
    yyjson_val *found[MAX_EVENTS];

    (void)state;
    rv_api_reply_response_begin_event(&out, &r);
    r.text = "yes";
    r.text_len = 3;
    rv_api_reply_response_delta_event(&out, &r, "yes", 3, NULL);
    r.n_calls = 1;
    rv_api_reply_response_call_event(&out, &r);
    rv_api_reply_response_arguments_event(&out, &r, "{}", 2);
    r.n_calls = 2;
    rv_api_reply_response_call_event(&out, &r);
    rv_api_reply_response_arguments_event(&out, &r, "", 0);
    r.usage = &usage;
    r.stop_reason = RUVLLM_STOP_LENGTH;
    rv_api_reply_response_end_event(&out, &r);
    assert_int_equal(events(found), 16);
    for (size_t i = 0; i < 16; i++) {
        assert_string_equal(yyjson_get_str(at(found[i], "type")) + strlen("response."), types[i]);
        assert_number(found[i], "sequence_number", (double)i);
    }
    assert_number(found[8], "output_index", 1);
    assert_text(found[8], "item/status", "in_progress");
    assert_text(found[8], "item/arguments", "");
    assert_text(found[9], "item_id", "fc_1");
    assert_text(found[9], "delta", "{}");
    assert_text(found[11], "item/arguments", "{}");
    assert_text(found[11], "item/status", "completed");
    assert_number(found[12], "output_index", 2);
    assert_text(found[14], "item/status", "incomplete");
    assert_text(found[15], "response/output/0/content/0/text", "yes");
    assert_text(found[15], "response/output/0/status", "completed");
    assert_text(found[15], "response/output/1/call_id", "call_1");
    assert_text(found[15], "response/output/2/name", "g");
    assert_text(found[15], "response/output/2/status", "incomplete");
    rv_api_request_free(request);
}

static void a_response_that_breaks_or_is_cut_says_so(void **state)
{
    struct rv_api_request *request = response_request();
    struct rv_api_response r = {.head = head,
                                .item_id = "msg_1",
                                .request = request,
                                .text = "y",
                                .text_len = 1,
                                .usage = &usage,
                                .stop_reason = RUVLLM_STOP_CONTEXT,
                                .sequence = 5};
    yyjson_val *found[MAX_EVENTS];
    struct rv_api_error err;

    (void)state;
    rv_api_reply_response_end_event(&out, &r);
    rv_api_error_http(&err, 503, NULL);
    rv_api_reply_response_failed_event(&out, &r, &err);
    assert_int_equal(events(found), 5);
    assert_text(found[2], "item/status", "incomplete");
    assert_text(found[3], "type", "response.incomplete");
    assert_text(found[4], "type", "response.failed");
    assert_text(found[4], "response/status", "failed");
    assert_text(found[4], "response/error/code", "server_error");
    assert_number(found[4], "sequence_number", 9);
    rv_api_request_free(request);
}

/* ---- the others ------------------------------------------------------------------------------- */

static void embeddings_read_back_bit_for_bit(void **state)
{
    static const float vectors[] = {0.1f, -1e-30f, 3.4028235e38f, 0.0f, 1.0f / 3, -0.7071068f};
    yyjson_val *root;

    (void)state;
    rv_api_reply_embeddings(&out, "m", vectors, 2, 3, RV_API_FLOAT, 9);
    root = reply();
    assert_text(root, "object", "list");
    for (size_t i = 0; i < 6; i++)
        assert_true((float)yyjson_get_num(yyjson_arr_get(at(root, i < 3 ? "data/0/embedding" : "data/1/embedding"),
                                                         i % 3)) == vectors[i]);
    assert_number(root, "data/1/index", 1);
    assert_text(root, "data/1/object", "embedding");
    assert_number(root, "usage/prompt_tokens", 9);
    assert_number(root, "usage/total_tokens", 9);
}

static void base64_is_little_endian_floats(void **state)
{
    static const float one[] = {1.0f}, two[] = {1.0f, -2.0f}, three[] = {0.5f, 0.25f, 0.125f};

    (void)state;
    rv_api_reply_embeddings(&out, "m", one, 1, 1, RV_API_BASE64, 1);
    assert_text(reply(), "data/0/embedding", "AACAPw==");
    rv_buf_clear(&out);
    rv_api_reply_embeddings(&out, "m", two, 1, 2, RV_API_BASE64, 1);
    assert_text(reply(), "data/0/embedding", "AACAPwAAAMA=");
    rv_buf_clear(&out);
    rv_api_reply_embeddings(&out, "m", three, 1, 3, RV_API_BASE64, 1);
    assert_text(reply(), "data/0/embedding", "AAAAPwAAgD4AAAA+");
}

static void models_are_a_list(void **state)
{
    const struct rv_api_model models[] = {
        {.id = "a", .created = 1, .is_loaded = true, .architecture = "llama", .backend = "native", .n_params = 5},
        {.id = "b", .created = 2, .owned_by = "me"},
    };
    yyjson_val *root;

    (void)state;
    rv_api_reply_models(&out, models, 2);
    root = reply();
    assert_text(root, "data/0/id", "a");
    assert_text(root, "data/0/owned_by", "ruvllm");
    assert_text(root, "data/0/architecture", "llama");
    assert_null_at(root, "data/0/quantization");
    assert_text(root, "data/1/owned_by", "me");
    assert_null(at(root, "data/1/architecture"));
    assert_true(yyjson_is_false(at(root, "data/1/loaded")));
    rv_buf_clear(&out);
    rv_api_reply_models(&out, NULL, 0);
    assert_int_equal(yyjson_arr_size(at(reply(), "data")), 0);
    rv_buf_clear(&out);
    rv_api_reply_session_deleted(&out, "s");
    assert_true(yyjson_is_true(at(reply(), "deleted")));
}

static void tokens_and_text_go_both_ways(void **state)
{
    static const int32_t tokens[] = {5, 0};
    static const struct rv_api_token pieces[] = {{"a", 1, 0}, {"\xff", 1, 0}};
    yyjson_val *root;

    (void)state;
    rv_api_reply_tokenize(&out, "m", tokens, 2, pieces);
    root = reply();
    assert_number(root, "count", 2);
    assert_number(root, "tokens/0", 5);
    assert_text(root, "pieces/1/text", "\xef\xbf\xbd");
    assert_number(root, "pieces/1/bytes/0", 255);
    rv_buf_clear(&out);
    rv_api_reply_tokenize(&out, "m", tokens, 2, NULL);
    assert_null(at(reply(), "pieces"));
    rv_buf_clear(&out);
    rv_api_reply_detokenize(&out, "m", "x\0y", 3);
    assert_int_equal(yyjson_get_len(at(reply(), "text")), 3);
    rv_buf_clear(&out);
    rv_api_reply_template(&out, "m", "<s>", 3);
    assert_text(reply(), "prompt", "<s>");
}

static void any_bytes_make_valid_json(void **state)
{
    char text[256 * 3];

    (void)state;
    for (size_t i = 0; i < 256; i++) { // each byte alone, before a letter, and after a lead byte
        text[3 * i] = (char)i;
        text[3 * i + 1] = 'x';
        text[3 * i + 2] = '\xe2';
    }
    for (size_t len = 0; len <= sizeof(text); len += 7) {
        struct rv_api_choice choice = {.text = text, .text_len = len};
        yyjson_val *found[MAX_EVENTS];

        clear(NULL);
        rv_api_reply_chat(&out, &head, &choice, 1, &usage);
        assert_non_null(reply());
        rv_buf_clear(&out);
        rv_api_reply_chat_chunk(&out, &head, &choice);
        if (len)
            assert_int_equal(events(found), 1);
    }
    rv_buf_clear(&out);
    rv_api_reply_detokenize(&out, "m", "\"\\/\b\f\n\r\t\x7f\xc2\xa0\xf0\x9f\x98\x80\xed\xa0\x80", 19);
    assert_text(reply(), "text", "\"\\/\b\f\n\r\t\x7f\xc2\xa0\xf0\x9f\x98\x80\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

static void integers_are_written_to_their_ends(void **state)
{
    static const int64_t numbers[] = {0, 7, -1, 10, INT32_MIN, INT64_MAX, INT64_MIN};
    static const char wanted[] = "[0,7,-1,10,-2147483648,9223372036854775807,-9223372036854775808]";
    struct rv_buf text;

    (void)state;
    rv_buf_init(&text, 1 << 10);
    rv_api_json_begin(&text, NULL, '[');
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        rv_api_json_int(&text, NULL, numbers[i]);
    rv_api_json_end(&text, ']');
    assert_string_equal(text.data, wanted);
    rv_buf_release(&text);
}

static void ids_are_letters_and_digits(void **state)
{
    uint8_t random[16] = {0};
    char first[RV_API_ID_SIZE], second[RV_API_ID_SIZE];

    (void)state;
    rv_api_reply_id(first, "chatcmpl", random);
    assert_string_equal(first, "chatcmpl-000000000000000000000000");
    random[15] = 1;
    rv_api_reply_id(second, "chatcmpl", random);
    assert_string_not_equal(first, second);
    memset(random, 0xff, sizeof(random));
    rv_api_reply_id(second, "resp", random);
    assert_int_equal(strlen(second), 5 + 24);
    assert_int_equal(strncmp(second, "resp_", 5), 0);
}

static void a_full_buffer_is_told_once_at_the_end(void **state)
{
    struct rv_api_choice choice = choice_of(0, "0123456789012345678901234567890123456789");
    struct rv_buf small;
    struct ruvllm_error err;

    (void)state;
    rv_buf_init(&small, 64);
    rv_api_reply_chat(&small, &head, &choice, 1, &usage);
    assert_fails(rv_buf_status(&small, "a reply", &err), RUVLLM_TOO_LARGE, err, "a reply");
    rv_buf_release(&small);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, clear, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_chat_completion_has_what_clients_read),
        CASE(a_chat_stream_begins_with_the_role_and_ends_with_usage),
        CASE(usage_is_not_mentioned_in_streams_that_did_not_ask),
        CASE(finish_reasons_are_exact),
        CASE(chat_logprobs_tell_text_and_bytes),
        CASE(completion_logprobs_are_four_lists),
        CASE(no_chance_is_a_number_json_can_say),
        CASE(completions_stream_text),
        CASE(a_response_tells_its_settings_back),
        CASE(the_events_of_a_response_build_it),
        CASE(the_items_of_a_response_come_one_after_the_other),
        CASE(a_response_that_breaks_or_is_cut_says_so),
        CASE(embeddings_read_back_bit_for_bit),
        CASE(base64_is_little_endian_floats),
        CASE(models_are_a_list),
        CASE(tokens_and_text_go_both_ways),
        CASE(any_bytes_make_valid_json),
        CASE(integers_are_written_to_their_ends),
        CASE(ids_are_letters_and_digits),
        CASE(a_full_buffer_is_told_once_at_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
