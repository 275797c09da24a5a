/*
 * Shows what the API's functions do to a test in another language.
 *
 *     print_replies replies         one line for each reply: the name of its schema, a tab, the JSON
 *     print_replies parse KIND      reads bodies, one a line; prints "ok" or the message of the refusal for each
 */
#include "server/api/api_adapter.h"
#include "server/api/api_deep.h"
#include "server/api/api_learning.h"
#include "server/api/api_patterns.h"
#include "server/api/api_learning_log.h"
#include "server/api/api_reply.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print(const char *schema, struct rv_buf *out)
{
    RV_ASSERT(out->failed == RUVLLM_OK);
    printf("%s\t%s\n", schema, out->data);
    rv_buf_clear(out);
}

/* Each event of a stream as a line of its own. */
static void print_events(const char *schema, struct rv_buf *out)
{
    for (char *at = strstr(out->data, "data: "); at;
         at = strstr(at, "\n\n") ? strstr(strstr(at, "\n\n"), "data: ") : NULL)
        printf("%s\t%.*s\n", schema, (int)strcspn(at + 6, "\n"), at + 6);
    rv_buf_clear(out);
}

static const struct rv_api_token tokens[] = {{"a", 1, -0.5f}, {"b", 1, -1.5f}, {"\xc3", 1, -9.0f}, {"c", 1, -0.1f}};
static const struct rv_api_logprobs logprobs = {.tokens = tokens, .n_rows = 2, .n_top = 1};
static const struct rv_api_usage usage = {.prompt_tokens = 3, .cached_tokens = 1, .completion_tokens = 2};

static void print_texts(struct rv_buf *out)
{
    struct rv_api_head head = {.id = "x-1", .created = 1, .model = "m", .fingerprint = "f", .has_usage_chunk = true};
    struct rv_api_choice choice = {
        .text = "a\n", .text_len = 2, .is_finished = true, .stop_reason = RUVLLM_STOP_LENGTH, .logprobs = &logprobs};

    for (int i = 0; i < 2; i++) {
        rv_api_reply_chat(out, &head, &choice, 1, &usage);
        print("ChatCompletion", out);
        rv_api_reply_completion(out, &head, &choice, 1, &usage);
        print("Completion", out);
        rv_api_reply_chat_role(out, &head, 0);
        rv_api_reply_chat_chunk(out, &head, &choice);
        rv_api_reply_chat_usage(out, &head, &usage);
        print_events("ChatCompletionChunk", out);
        rv_api_reply_completion_chunk(out, &head, &choice);
        rv_api_reply_completion_usage(out, &head, &usage);
        print_events("Completion", out);
        head.fingerprint = NULL;
        head.has_usage_chunk = false;
        head.adapter_generation = 3;
        head.has_learned = true;
        choice.logprobs = NULL;
        choice.stop_reason = RUVLLM_STOP_EOS;
    }
}

static void print_responses(struct rv_buf *out)
{
    static const char body[] =
        "{\"model\":\"m\",\"input\":\"x\",\"metadata\":{\"k\":\"v\"},\"user\":\"u\",\"text\":{\"format\":{\"type\":"
        "\"json_schema\",\"name\":\"s\",\"schema\":{\"type\":\"object\"},\"strict\":true}}}";
    struct rv_api_response response = {.head = {.id = "resp_1", .created = 1, .model = "m"},
                                       .item_id = "msg_1",
                                       .text = "a",
                                       .text_len = 1,
                                       .logprobs = &logprobs,
                                       .usage = &usage};
    struct rv_api_request *request;
    struct rv_api_error err;

    if (rv_api_request_parse(RV_API_RESPONSE, body, strlen(body), &request, &err))
        abort();
    response.request = request;
    rv_api_reply_response(out, &response);
    print("Response", out);
    response.stop_reason = RUVLLM_STOP_CONTEXT;
    rv_api_reply_response(out, &response);
    print("Response", out);
    rv_api_reply_response_begin_event(out, &response);
    rv_api_reply_response_delta_event(out, &response, "a", 1, &logprobs);
    rv_api_reply_response_end_event(out, &response);
    rv_api_error_http(&err, 429, NULL);
    rv_api_reply_response_failed_event(out, &response, &err);
    print_events("ResponseEvent", out);
    rv_api_request_free(request);
}

/* One that says something and calls two tools, whole and as it comes. */
static void print_calling_response(struct rv_buf *out)
{
    static const char body[] =
        "{\"model\":\"m\",\"input\":\"x\",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{\"type\":"
        "\"object\"},\"strict\":true}],\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"}}";
    static const struct rv_api_call calls[] = {{"call_1", "f", "{}", 2}, {"call_2", "f", "{\"a\":1}", 7}};
    struct rv_api_response response = {.head = {.id = "resp_1", .created = 1, .model = "m"},
                                       .item_id = "msg_1",
                                       .text = "a",
                                       .text_len = 1,
                                       .usage = &usage,
                                       .has_tools = true,
                                       .calls = calls};
    struct rv_api_request *request;
    struct rv_api_error err;

    if (rv_api_request_parse(RV_API_RESPONSE, body, strlen(body), &request, &err))
        abort();
    response.request = request;
    rv_api_reply_response_begin_event(out, &response);
    rv_api_reply_response_delta_event(out, &response, "a", 1, NULL);
    for (response.n_calls = 1; response.n_calls <= 2; response.n_calls++) {
        rv_api_reply_response_call_event(out, &response);
        rv_api_reply_response_arguments_event(out, &response, "{", 1);
    }
    response.n_calls = 2;
    rv_api_reply_response_end_event(out, &response);
    print_events("ResponseEvent", out);
    rv_api_reply_response(out, &response);
    print("Response", out);
    rv_api_request_free(request);
}

static void print_lists(struct rv_buf *out)
{
    static const float vectors[] = {0.5f, -0.25f};
    static const int32_t ids[] = {1, 2};
    const struct rv_api_model models[] = {{.id = "a", .is_loaded = true, .backend = "native"},
                                          {.id = "b:c", .parent = "b"}};
    struct rv_api_error err;

    rv_api_reply_embeddings(out, "m", vectors, 2, 1, RV_API_FLOAT, 2);
    print("Embeddings", out);
    rv_api_reply_embeddings(out, "m", vectors, 1, 2, RV_API_BASE64, 2);
    print("Embeddings", out);
    rv_api_reply_model(out, &models[0]);
    print("Model", out);
    rv_api_reply_models(out, models, 2);
    print("ModelList", out);
    rv_api_reply_session_deleted(out, "s");
    print("SessionDeleted", out);
    rv_api_reply_tokenize(out, "m", ids, 2, tokens);
    print("Tokens", out);
    rv_api_reply_tokenize(out, "m", ids, 0, NULL);
    print("Tokens", out);
    rv_api_reply_detokenize(out, "m", "x", 1);
    print("Text", out);
    rv_api_reply_template(out, "m", "x", 1);
    print("Prompt", out);
    for (int status = 400; status < 504; status++) {
        rv_api_error_http(&err, status, NULL);
        rv_api_error_json(&err, out);
        print("Error", out);
    }
}

static void print_adapters(struct rv_buf *out)
{
    const struct ruvllm_adapter_info info = {
        .id = "acme/a", .generation = 2, .hash = "00ff", .max_rank = 8, .n_pairs = 7, .n_bytes = 1, .norm = 0.5};

    rv_api_adapter_reply(out, "m", &info);
    print("Adapter", out);
    rv_api_adapter_reply_deleted(out, "acme/a");
    print("AdapterDeleted", out);
    rv_api_adapter_reply_diff(out, "a", 1, 2, 1.25);
    print("AdapterDiff", out);
    rv_api_adapter_reply_diff(out, "a", 1, 2, (double)INFINITY);
    print("AdapterDiff", out);
}

static void print_learning(struct rv_buf *out)
{
    const struct ruvllm_learned_info info = {.generation = 3, .n_votes = 2, .mean_score = 0.25, .oldest_generation = 1};
    struct ruvllm_feedback_result result = {.generation = 3, .sequence = 7, .advantage = -1.5, .kl = 0.01};

    rv_api_learning_reply_feedback(out, "cmpl-1", &result);
    print("Feedback", out);
    result.kl = (double)NAN;
    rv_api_learning_reply_feedback(out, "cmpl-1", &result);
    print("Feedback", out);
    rv_api_learning_reply_rollback(out, "m", &result);
    print("Rollback", out);
    rv_api_learning_reply(out, "m", &info);
    print("Learning", out);
    rv_api_learning_reply(out, "m", NULL);
    print("Learning", out);
}

static void print_learning_log(struct rv_buf *out)
{
    struct ruvllm_learned_event event = {.sequence = 7,
                                         .time_us = 1700000000000000,
                                         .generation = 5,
                                         .about = 4,
                                         .kind = RUVLLM_LEARNED_CORRECTION,
                                         .score = 1,
                                         .advantage = 1.5,
                                         .kl = 0.01,
                                         .gain = 0.2,
                                         .prompt = "a",
                                         .answer = "b",
                                         .correction = "c",
                                         .reason = "d"};
    const struct ruvllm_feedback_result result = {.generation = 3, .sequence = 7};

    rv_api_learning_log_reply_event(out, &event);
    print("LearningEvent", out);
    event = (struct ruvllm_learned_event){.sequence = 1,
                                          .generation = -1,
                                          .kind = RUVLLM_LEARNED_ROLLBACK,
                                          .is_forgotten = true,
                                          .advantage = (double)NAN,
                                          .kl = (double)NAN,
                                          .gain = (double)NAN,
                                          .prompt = "",
                                          .answer = "",
                                          .correction = "",
                                          .reason = ""};
    rv_api_learning_log_reply_event(out, &event);
    print("LearningEvent", out);
    rv_api_learning_log_reply_pause(out, "m", true);
    print("LearningPause", out);
    rv_api_learning_log_reply_forget(out, "m", &result);
    print("LearningForget", out);
}

static void print_deep(struct rv_buf *out)
{
    struct ruvllm_train_progress progress = {.loss = (double)NAN, .held_out = (double)NAN, .held_out_before = 2};
    struct ruvllm_deep_report report = {.generation = 7, .forgetting = 0.01, .train = {.was_written = true}};
    struct ruvllm_error failure = {.status = RUVLLM_INVALID, .message = "there is too little to learn from"};
    struct rv_api_deep_run run = {.model = "m", .status = "running", .started = 1700000000, .progress = &progress};

    rv_api_deep_reply(out, &run);
    print("LearningDeep", out);
    run.status = "done";
    run.report = &report;
    rv_api_deep_reply(out, &run);
    print("LearningDeep", out);
    run.status = "failed";
    run.report = NULL;
    run.failure = &failure;
    rv_api_deep_reply(out, &run);
    print("LearningDeep", out);
}

static void print_patterns(struct rv_buf *out)
{
    const struct ruvllm_pattern pattern = {
        .sequence = 7, .time_us = 1700000000000000, .quality = 0.25, .verdict = RUVLLM_VERDICT_BAD, .n_used = 1};

    rv_api_patterns_reply(out, "m", &pattern);
    print("Pattern", out);
    rv_api_patterns_reply_deleted(out);
    print("PatternsDeleted", out);
}

/* The message of a refusal, or "ok". */
static const char *judge(const char *kind, const char *line, size_t len, struct rv_api_error *err)
{
    static const char *const kinds[] = {"chat",     "completion", "embedding", "response",
                                        "tokenize", "detokenize", "template"};
    struct rv_api_adapter_load load;
    struct rv_api_feedback feedback;
    struct rv_api_rollback rollback;
    struct rv_api_learning_wish wish;
    struct rv_api_deep_wish deep;
    struct rv_api_request *request;
    size_t i = 0;
    ruvllm_status rc;

    if (strcmp(kind, "adapter") == 0)
        return rv_api_adapter_load_parse(line, len, &load, err) ? err->message : "ok";
    if (strcmp(kind, "feedback") == 0) {
        rc = rv_api_learning_parse_feedback(line, len, &feedback, err);
        rv_api_learning_release_feedback(&feedback);
        return rc ? err->message : "ok";
    }
    if (strcmp(kind, "rollback") == 0)
        return rv_api_learning_parse_rollback(line, len, &rollback, err) ? err->message : "ok";
    if (strcmp(kind, "pause") == 0)
        return rv_api_learning_log_parse_pause(line, len, &wish, err) ? err->message : "ok";
    if (strcmp(kind, "deep") == 0)
        return rv_api_deep_parse(line, len, &deep, err) ? err->message : "ok";
    if (strcmp(kind, "forget") == 0)
        return rv_api_learning_log_parse_forget(line, len, &wish, err) ? err->message : "ok";
    while (i < sizeof(kinds) / sizeof(kinds[0]) && strcmp(kinds[i], kind) != 0)
        i++;
    if (i == sizeof(kinds) / sizeof(kinds[0]))
        exit(2);
    rc = rv_api_request_parse((enum rv_api_kind)i, line, len, &request, err);
    rv_api_request_free(request);
    return rc ? err->message : "ok";
}

static int parse_lines(const char *kind)
{
    static char line[1 << 16];
    struct rv_api_error err;

    while (fgets(line, sizeof(line), stdin))
        puts(judge(kind, line, strcspn(line, "\n"), &err));
    return 0;
}

int main(int argc, char **argv)
{
    struct rv_buf out;

    if (argc == 3 && strcmp(argv[1], "parse") == 0)
        return parse_lines(argv[2]);
    if (argc != 2 || strcmp(argv[1], "replies") != 0) {
        fprintf(stderr, "usage: %s replies | parse KIND\n", argv[0]);
        return 2;
    }
    rv_buf_init(&out, 1 << 20);
    print_texts(&out);
    print_responses(&out);
    print_calling_response(&out);
    print_lists(&out);
    print_adapters(&out);
    print_learning(&out);
    print_patterns(&out);
    print_learning_log(&out);
    print_deep(&out);
    rv_buf_release(&out);
    return 0;
}
