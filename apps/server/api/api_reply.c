/* Replies of chat completions and completions, and what they share with the others. */
#include "server/api/api_reply.h"

#include "base/utf8.h"
#include "server/api/api_json.h"
#include "server/api/api_logprobs.h"

#include <stdio.h>
#include <string.h>

void rv_api_reply_id(char out[RV_API_ID_SIZE], const char *prefix, const uint8_t random[16])
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    bool is_underscored = strcmp(prefix, "resp") == 0 || strcmp(prefix, "msg") == 0 || strcmp(prefix, "call") == 0;
    char name[25];
    uint64_t half[2];

    memcpy(half, random, sizeof(half));
    for (size_t i = 0; i < sizeof(name) - 1; i++) { // 12 digits of base 62 a half: 71 bits of room for 64
        name[i] = letters[half[i / 12] % 62];
        half[i / 12] /= 62;
    }
    name[sizeof(name) - 1] = '\0';
    snprintf(out, RV_API_ID_SIZE, "%s%c%s", prefix, is_underscored ? '_' : '-', name);
}

const char *rv_api_reply_finish_reason(ruvllm_stop_reason reason)
{
    return reason == RUVLLM_STOP_LENGTH || reason == RUVLLM_STOP_CONTEXT ? "length" : "stop";
}

/* ---- parts ------------------------------------------------------------------------------------ */

static void begin_document(struct rv_buf *out, const struct rv_api_head *head, const char *object)
{
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_str(out, "id", head->id);
    rv_api_json_str(out, "object", object);
    rv_api_json_int(out, "created", head->created);
    rv_api_json_str(out, "model", head->model);
    if (head->fingerprint)
        rv_api_json_str(out, "system_fingerprint", head->fingerprint);
    if (head->adapter_generation)
        rv_api_json_int(out, "adapter_generation", head->adapter_generation);
    if (head->has_learned)
        rv_api_json_int(out, "learned_generation", head->learned_generation);
}

static void add_usage(struct rv_buf *out, const struct rv_api_usage *usage)
{
    rv_api_json_begin(out, "usage", '{');
    rv_api_json_int(out, "prompt_tokens", usage->prompt_tokens);
    rv_api_json_int(out, "completion_tokens", usage->completion_tokens);
    rv_api_json_int(out, "total_tokens", usage->prompt_tokens + usage->completion_tokens);
    rv_api_json_begin(out, "prompt_tokens_details", '{');
    rv_api_json_int(out, "cached_tokens", usage->cached_tokens);
    rv_api_json_end(out, '}');
    rv_api_json_begin(out, "completion_tokens_details", '{');
    rv_api_json_int(out, "accepted_prediction_tokens", usage->accepted_tokens);
    rv_api_json_int(out, "rejected_prediction_tokens", usage->rejected_tokens);
    rv_api_json_end(out, '}');
    rv_api_json_end(out, '}');
}

static void add_finish_reason(struct rv_buf *out, const struct rv_api_choice *choice, bool is_finished)
{
    const char *reason = is_finished ? rv_api_reply_finish_reason(choice->stop_reason) : NULL;

    if (reason && choice->n_calls > 0 && strcmp(reason, "stop") == 0)
        reason = "tool_calls";
    rv_api_json_str(out, "finish_reason", reason);
}

static void begin_event(struct rv_buf *out, const struct rv_api_head *head, const char *object)
{
    rv_buf_add_str(out, "data: ");
    begin_document(out, head, object);
    rv_api_json_begin(out, "choices", '[');
}

static void end_event(struct rv_buf *out, const struct rv_api_head *head, const struct rv_api_usage *usage)
{
    rv_api_json_end(out, ']');
    if (usage)
        add_usage(out, usage);
    else if (head->has_usage_chunk)
        rv_api_json_null(out, "usage");
    rv_api_json_end(out, '}');
    rv_buf_add_str(out, "\n\n");
}

void rv_api_reply_done(struct rv_buf *out)
{
    rv_buf_add_str(out, "data: [DONE]\n\n");
}

/* ---- chat completions ------------------------------------------------------------------------- */

static void add_function(struct rv_buf *out, const char *name, const char *arguments, size_t len)
{
    rv_api_json_begin(out, "function", '{');
    if (name)
        rv_api_json_str(out, "name", name);
    rv_api_json_text(out, "arguments", arguments, len);
    rv_api_json_end(out, '}');
}

static void add_calls(struct rv_buf *out, const struct rv_api_choice *choice)
{
    rv_api_json_begin(out, "tool_calls", '[');
    for (size_t i = 0; i < choice->n_calls; i++) {
        const struct rv_api_call *call = &choice->calls[i];

        rv_api_json_begin(out, NULL, '{');
        rv_api_json_str(out, "id", call->id);
        rv_api_json_str(out, "type", "function");
        add_function(out, call->name, call->arguments, call->arguments_len);
        rv_api_json_end(out, '}');
    }
    rv_api_json_end(out, ']');
}

static void add_chat_choice(struct rv_buf *out, const struct rv_api_choice *choice)
{
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_int(out, "index", choice->index);
    rv_api_json_begin(out, "message", '{');
    rv_api_json_str(out, "role", "assistant");
    if (choice->n_calls > 0 && choice->text_len == 0)
        rv_api_json_null(out, "content");
    else
        rv_api_json_text(out, "content", choice->text, choice->text_len);
    rv_api_json_null(out, "refusal");
    if (choice->thought)
        rv_api_json_text(out, "reasoning_content", choice->thought, choice->thought_len);
    if (choice->n_calls > 0)
        add_calls(out, choice);
    rv_api_json_end(out, '}');
    rv_api_logprobs_chat(out, "logprobs", choice->logprobs);
    add_finish_reason(out, choice, true);
    rv_api_json_end(out, '}');
}

void rv_api_reply_chat(struct rv_buf *out, const struct rv_api_head *head, const struct rv_api_choice *choices,
                       size_t n_choices, const struct rv_api_usage *usage)
{
    begin_document(out, head, "chat.completion");
    rv_api_json_begin(out, "choices", '[');
    for (size_t i = 0; i < n_choices; i++)
        add_chat_choice(out, &choices[i]);
    rv_api_json_end(out, ']');
    add_usage(out, usage);
    rv_api_json_end(out, '}');
}

void rv_api_reply_chat_role(struct rv_buf *out, const struct rv_api_head *head, int32_t index)
{
    begin_event(out, head, "chat.completion.chunk");
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_int(out, "index", index);
    rv_api_json_begin(out, "delta", '{');
    rv_api_json_str(out, "role", "assistant");
    rv_api_json_str(out, "content", "");
    rv_api_json_end(out, '}');
    rv_api_json_null(out, "logprobs");
    rv_api_json_null(out, "finish_reason");
    rv_api_json_end(out, '}');
    end_event(out, head, NULL);
}

static void add_chat_delta(struct rv_buf *out, const struct rv_api_head *head, const struct rv_api_choice *choice)
{
    begin_event(out, head, "chat.completion.chunk");
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_int(out, "index", choice->index);
    rv_api_json_begin(out, "delta", '{');
    rv_api_json_text(out, "content", choice->text, choice->text_len);
    rv_api_json_end(out, '}');
    rv_api_logprobs_chat(out, "logprobs", choice->logprobs);
    rv_api_json_null(out, "finish_reason");
    rv_api_json_end(out, '}');
    end_event(out, head, NULL);
}

/* A chunk up to the inside of its delta, and from there on. */
static void begin_delta(struct rv_buf *out, const struct rv_api_head *head, int32_t index)
{
    begin_event(out, head, "chat.completion.chunk");
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_int(out, "index", index);
    rv_api_json_begin(out, "delta", '{');
}

static void end_delta(struct rv_buf *out, const struct rv_api_head *head)
{
    rv_api_json_end(out, '}');
    rv_api_json_null(out, "logprobs");
    rv_api_json_null(out, "finish_reason");
    rv_api_json_end(out, '}');
    end_event(out, head, NULL);
}

void rv_api_reply_chat_thought(struct rv_buf *out, const struct rv_api_head *head, int32_t index, const char *text,
                               size_t len)
{
    begin_delta(out, head, index);
    rv_api_json_text(out, "reasoning_content", text, len);
    end_delta(out, head);
}

void rv_api_reply_chat_call(struct rv_buf *out, const struct rv_api_head *head, int32_t index, int32_t i_call,
                            const struct rv_api_call *call)
{
    begin_delta(out, head, index);
    rv_api_json_begin(out, "tool_calls", '[');
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_int(out, "index", i_call);
    rv_api_json_str(out, "id", call->id);
    rv_api_json_str(out, "type", "function");
    add_function(out, call->name, "", 0);
    rv_api_json_end(out, '}');
    rv_api_json_end(out, ']');
    end_delta(out, head);
}

void rv_api_reply_chat_arguments(struct rv_buf *out, const struct rv_api_head *head, int32_t index, int32_t i_call,
                                 const char *text, size_t len)
{
    begin_delta(out, head, index);
    rv_api_json_begin(out, "tool_calls", '[');
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_int(out, "index", i_call);
    add_function(out, NULL, text, len);
    rv_api_json_end(out, '}');
    rv_api_json_end(out, ']');
    end_delta(out, head);
}

static void add_chat_finish(struct rv_buf *out, const struct rv_api_head *head, const struct rv_api_choice *choice)
{
    begin_event(out, head, "chat.completion.chunk");
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_int(out, "index", choice->index);
    rv_api_json_begin(out, "delta", '{');
    rv_api_json_end(out, '}');
    rv_api_json_null(out, "logprobs");
    add_finish_reason(out, choice, true);
    rv_api_json_end(out, '}');
    end_event(out, head, NULL);
}

static bool has_news(const struct rv_api_choice *choice)
{
    return choice->text_len > 0 || (choice->logprobs && choice->logprobs->n_rows > 0);
}

void rv_api_reply_chat_chunk(struct rv_buf *out, const struct rv_api_head *head, const struct rv_api_choice *choice)
{
    if (has_news(choice))
        add_chat_delta(out, head, choice);
    if (choice->is_finished)
        add_chat_finish(out, head, choice);
}

void rv_api_reply_chat_usage(struct rv_buf *out, const struct rv_api_head *head, const struct rv_api_usage *usage)
{
    begin_event(out, head, "chat.completion.chunk");
    end_event(out, head, usage);
}

/* ---- completions ------------------------------------------------------------------------------ */

static void add_text_choice(struct rv_buf *out, const struct rv_api_choice *choice, bool is_finished)
{
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_int(out, "index", choice->index);
    rv_api_json_text(out, "text", choice->text, choice->text_len);
    rv_api_logprobs_completion(out, "logprobs", choice->logprobs);
    add_finish_reason(out, choice, is_finished);
    rv_api_json_end(out, '}');
}

void rv_api_reply_completion(struct rv_buf *out, const struct rv_api_head *head, const struct rv_api_choice *choices,
                             size_t n_choices, const struct rv_api_usage *usage)
{
    begin_document(out, head, "text_completion");
    rv_api_json_begin(out, "choices", '[');
    for (size_t i = 0; i < n_choices; i++)
        add_text_choice(out, &choices[i], true);
    rv_api_json_end(out, ']');
    add_usage(out, usage);
    rv_api_json_end(out, '}');
}

void rv_api_reply_completion_chunk(struct rv_buf *out, const struct rv_api_head *head,
                                   const struct rv_api_choice *choice)
{
    if (!has_news(choice) && !choice->is_finished)
        return;
    begin_event(out, head, "text_completion");
    add_text_choice(out, choice, choice->is_finished);
    end_event(out, head, NULL);
}

void rv_api_reply_completion_usage(struct rv_buf *out, const struct rv_api_head *head, const struct rv_api_usage *usage)
{
    begin_event(out, head, "text_completion");
    end_event(out, head, usage);
}
