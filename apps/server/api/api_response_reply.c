/*
 * Replies of /v1/responses: one object with a message of one text, then calls of tools, and the events that build it.
 * Every event has the number after the one before. Settings are told back as they were used.
 */
#include "server/api/api_json.h"
#include "server/api/api_logprobs.h"

#include <stdio.h>
#include <string.h>

enum progress { IN_PROGRESS, COMPLETED, INCOMPLETE, FAILED };

static const char *const progress_names[] = {"in_progress", "completed", "incomplete", "failed"};

static enum progress outcome(const struct rv_api_response *r)
{
    return strcmp(rv_api_reply_finish_reason(r->stop_reason), "length") == 0 ? INCOMPLETE : COMPLETED;
}

static void add_part(struct rv_buf *out, const char *key, const char *text, size_t text_len,
                     const struct rv_api_logprobs *logprobs)
{
    rv_api_json_begin(out, key, '{');
    rv_api_json_str(out, "type", "output_text");
    rv_api_json_text(out, "text", text, text_len);
    rv_api_json_raw(out, "annotations", "[]");
    rv_api_logprobs_rows(out, "logprobs", logprobs);
    rv_api_json_end(out, '}');
}

static void add_item(struct rv_buf *out, const char *key, const struct rv_api_response *r, enum progress progress)
{
    rv_api_json_begin(out, key, '{');
    rv_api_json_str(out, "id", r->item_id);
    rv_api_json_str(out, "type", "message");
    rv_api_json_str(out, "status", progress_names[progress]);
    rv_api_json_str(out, "role", "assistant");
    rv_api_json_begin(out, "content", '[');
    if (progress != IN_PROGRESS)
        add_part(out, NULL, r->text, r->text_len, r->logprobs);
    rv_api_json_end(out, ']');
    rv_api_json_end(out, '}');
}

/* "fc_..." for a call "call_...". */
static void add_call_id(struct rv_buf *out, const char *key, const struct rv_api_call *call)
{
    char id[RV_API_ID_SIZE];

    snprintf(id, sizeof(id), "fc_%s", call->id + strlen("call_"));
    rv_api_json_str(out, key, id);
}

static void add_call(struct rv_buf *out, const char *key, const struct rv_api_call *call, enum progress progress)
{
    rv_api_json_begin(out, key, '{');
    add_call_id(out, "id", call);
    rv_api_json_str(out, "type", "function_call");
    rv_api_json_str(out, "status", progress_names[progress]);
    rv_api_json_str(out, "call_id", call->id);
    rv_api_json_str(out, "name", call->name);
    rv_api_json_text(out, "arguments", call->arguments, progress == IN_PROGRESS ? 0 : call->arguments_len);
    rv_api_json_end(out, '}');
}

/* Whether a message is among its items: what calls a tool need not say anything. */
static bool has_message(const struct rv_api_response *r)
{
    return r->text_len > 0 || r->n_calls == 0;
}

/* What was cut off is its last item. */
static void add_output(struct rv_buf *out, const struct rv_api_response *r, enum progress progress)
{
    if (has_message(r))
        add_item(out, NULL, r, r->n_calls > 0 ? COMPLETED : progress);
    for (size_t i = 0; i < r->n_calls; i++)
        add_call(out, NULL, &r->calls[i], i + 1 < r->n_calls ? COMPLETED : progress);
}

static void add_usage(struct rv_buf *out, const struct rv_api_usage *usage)
{
    if (!usage) {
        rv_api_json_null(out, "usage");
        return;
    }
    rv_api_json_begin(out, "usage", '{');
    rv_api_json_int(out, "input_tokens", usage->prompt_tokens);
    rv_api_json_begin(out, "input_tokens_details", '{');
    rv_api_json_int(out, "cached_tokens", usage->cached_tokens);
    rv_api_json_end(out, '}');
    rv_api_json_int(out, "output_tokens", usage->completion_tokens);
    rv_api_json_begin(out, "output_tokens_details", '{');
    rv_api_json_int(out, "reasoning_tokens", 0);
    rv_api_json_end(out, '}');
    rv_api_json_int(out, "total_tokens", usage->prompt_tokens + usage->completion_tokens);
    rv_api_json_end(out, '}');
}

static void add_tools(struct rv_buf *out, const struct rv_api_request *request)
{
    bool has_tools = request->given_tools != NULL;
    const char *choice = request->given_tool_choice ? request->given_tool_choice : "\"auto\"";

    rv_api_json_raw(out, "tools", has_tools ? request->given_tools : "[]");
    rv_api_json_raw(out, "tool_choice", has_tools ? choice : "\"none\"");
    rv_api_json_bool(out, "parallel_tool_calls", has_tools && !request->params.one_tool_call);
}

static void add_settings(struct rv_buf *out, const struct rv_api_request *request)
{
    const struct ruvllm_generate_params *p = &request->params;

    rv_api_json_str(out, "instructions", request->instructions);
    if (request->has_max_tokens)
        rv_api_json_int(out, "max_output_tokens", p->max_tokens);
    else
        rv_api_json_null(out, "max_output_tokens");
    rv_api_json_float(out, "temperature", p->temperature);
    rv_api_json_float(out, "top_p", p->top_p);
    rv_api_json_int(out, "top_logprobs", p->n_logprobs > 0 ? p->n_logprobs : 0);
    rv_api_json_begin(out, "metadata", '{');
    for (size_t i = 0; i < request->n_metadata; i++)
        rv_api_json_str(out, request->metadata[i].key, request->metadata[i].value);
    rv_api_json_end(out, '}');
    rv_api_json_begin(out, "text", '{');
    rv_api_json_raw(out, "format", request->text_format ? request->text_format : "{\"type\":\"text\"}");
    rv_api_json_end(out, '}');
    add_tools(out, request);
    rv_api_json_bool(out, "store", false);
    rv_api_json_bool(out, "background", false);
    rv_api_json_null(out, "previous_response_id");
    rv_api_json_str(out, "truncation", "disabled");
    if (request->user)
        rv_api_json_str(out, "user", request->user);
}

static void add_error(struct rv_buf *out, const struct rv_api_error *err)
{
    if (!err) {
        rv_api_json_null(out, "error");
        return;
    }
    rv_api_json_begin(out, "error", '{');
    rv_api_json_str(out, "code", err->http_status == 429 ? "rate_limit_exceeded" : "server_error");
    rv_api_json_str(out, "message", err->message);
    rv_api_json_end(out, '}');
}

static void add_response(struct rv_buf *out, const char *key, const struct rv_api_response *r, enum progress progress,
                         const struct rv_api_error *err)
{
    rv_api_json_begin(out, key, '{');
    rv_api_json_str(out, "id", r->head.id);
    rv_api_json_str(out, "object", "response");
    rv_api_json_int(out, "created_at", r->head.created);
    rv_api_json_str(out, "status", progress_names[progress]);
    rv_api_json_str(out, "model", r->head.model);
    if (r->head.adapter_generation)
        rv_api_json_int(out, "adapter_generation", r->head.adapter_generation);
    if (r->head.has_learned)
        rv_api_json_int(out, "learned_generation", r->head.learned_generation);
    add_error(out, err);
    rv_api_json_raw(out, "incomplete_details", progress == INCOMPLETE ? "{\"reason\":\"max_output_tokens\"}" : "null");
    rv_api_json_begin(out, "output", '[');
    if (progress == COMPLETED || progress == INCOMPLETE)
        add_output(out, r, progress);
    rv_api_json_end(out, ']');
    add_settings(out, r->request);
    add_usage(out, progress == IN_PROGRESS || progress == FAILED ? NULL : r->usage);
    rv_api_json_end(out, '}');
}

void rv_api_reply_response(struct rv_buf *out, const struct rv_api_response *response)
{
    add_response(out, NULL, response, outcome(response), NULL);
}

/* ---- events ----------------------------------------------------------------------------------- */

static void begin_event(struct rv_buf *out, struct rv_api_response *r, const char *type)
{
    rv_buf_addf(out, "event: %s\ndata: ", type);
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_str(out, "type", type);
    rv_api_json_int(out, "sequence_number", r->sequence++);
}

static void end_event(struct rv_buf *out)
{
    rv_api_json_end(out, '}');
    rv_buf_add_str(out, "\n\n");
}

static void add_response_event(struct rv_buf *out, struct rv_api_response *r, const char *type, enum progress progress,
                               const struct rv_api_error *err)
{
    begin_event(out, r, type);
    add_response(out, "response", r, progress, err);
    end_event(out);
}

static void add_item_event(struct rv_buf *out, struct rv_api_response *r, const char *type, enum progress progress)
{
    begin_event(out, r, type);
    rv_api_json_int(out, "output_index", 0);
    add_item(out, "item", r, progress);
    end_event(out);
}

/* Where a piece of text belongs: there is one message with one text, and it comes first. */
static void add_place(struct rv_buf *out, const struct rv_api_response *r)
{
    rv_api_json_str(out, "item_id", r->item_id);
    rv_api_json_int(out, "output_index", 0);
    rv_api_json_int(out, "content_index", 0);
}

static void add_part_event(struct rv_buf *out, struct rv_api_response *r, const char *type, const char *text,
                           size_t text_len, const struct rv_api_logprobs *logprobs)
{
    begin_event(out, r, type);
    add_place(out, r);
    add_part(out, "part", text, text_len, logprobs);
    end_event(out);
}

static void open_message(struct rv_buf *out, struct rv_api_response *r)
{
    if (r->is_said)
        return;
    r->is_said = true;
    add_item_event(out, r, "response.output_item.added", IN_PROGRESS);
    add_part_event(out, r, "response.content_part.added", "", 0, NULL);
}

static void close_message(struct rv_buf *out, struct rv_api_response *r, enum progress progress)
{
    begin_event(out, r, "response.output_text.done");
    add_place(out, r);
    rv_api_json_text(out, "text", r->text, r->text_len);
    rv_api_logprobs_rows(out, "logprobs", r->logprobs);
    end_event(out);
    add_part_event(out, r, "response.content_part.done", r->text, r->text_len, r->logprobs);
    add_item_event(out, r, "response.output_item.done", progress);
}

static void begin_call_event(struct rv_buf *out, struct rv_api_response *r, const char *type, size_t i_call)
{
    begin_event(out, r, type);
    rv_api_json_int(out, "output_index", (int64_t)(i_call + r->is_said));
}

static void close_call(struct rv_buf *out, struct rv_api_response *r, enum progress progress)
{
    const struct rv_api_call *call = &r->calls[r->n_closed];

    begin_call_event(out, r, "response.function_call_arguments.done", r->n_closed);
    add_call_id(out, "item_id", call);
    rv_api_json_str(out, "name", call->name);
    rv_api_json_text(out, "arguments", call->arguments, call->arguments_len);
    end_event(out);
    begin_call_event(out, r, "response.output_item.done", r->n_closed);
    add_call(out, "item", call, progress);
    end_event(out);
    r->n_closed++;
}

void rv_api_reply_response_begin_event(struct rv_buf *out, struct rv_api_response *response)
{
    add_response_event(out, response, "response.created", IN_PROGRESS, NULL);
    add_response_event(out, response, "response.in_progress", IN_PROGRESS, NULL);
    if (!response->has_tools)
        open_message(out, response);
}

void rv_api_reply_response_delta_event(struct rv_buf *out, struct rv_api_response *response, const char *text,
                                       size_t text_len, const struct rv_api_logprobs *logprobs)
{
    if (text_len == 0 && (!logprobs || logprobs->n_rows == 0))
        return;
    open_message(out, response);
    begin_event(out, response, "response.output_text.delta");
    add_place(out, response);
    rv_api_json_text(out, "delta", text, text_len);
    rv_api_logprobs_rows(out, "logprobs", logprobs);
    end_event(out);
}

void rv_api_reply_response_call_event(struct rv_buf *out, struct rv_api_response *response)
{
    struct rv_api_response *r = response;

    if (r->n_calls > 1)
        close_call(out, r, COMPLETED);
    else if (r->is_said)
        close_message(out, r, COMPLETED);
    begin_call_event(out, r, "response.output_item.added", r->n_calls - 1);
    add_call(out, "item", &r->calls[r->n_calls - 1], IN_PROGRESS);
    end_event(out);
}

void rv_api_reply_response_arguments_event(struct rv_buf *out, struct rv_api_response *response, const char *text,
                                           size_t text_len)
{
    if (text_len == 0)
        return;
    begin_call_event(out, response, "response.function_call_arguments.delta", response->n_calls - 1);
    add_call_id(out, "item_id", &response->calls[response->n_calls - 1]);
    rv_api_json_text(out, "delta", text, text_len);
    end_event(out);
}

void rv_api_reply_response_end_event(struct rv_buf *out, struct rv_api_response *response)
{
    struct rv_api_response *r = response;
    enum progress progress = outcome(r);

    if (r->n_calls > 0) {
        close_call(out, r, progress);
    } else {
        if (r->has_tools)
            open_message(out, r);
        close_message(out, r, progress);
    }
    add_response_event(out, r, progress == COMPLETED ? "response.completed" : "response.incomplete", progress, NULL);
}

void rv_api_reply_response_failed_event(struct rv_buf *out, struct rv_api_response *response,
                                        const struct rv_api_error *err)
{
    add_response_event(out, response, "response.failed", FAILED, err);
}
