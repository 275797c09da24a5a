/*
 * Replies of /v1/responses: one object with one message of one text, and the events that build it. Every event has the
 * number after the one before. Settings are told back as they were used.
 */
#include "server/api/api_json.h"
#include "server/api/api_logprobs.h"

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
    rv_api_json_raw(out, "text", "{\"format\":{\"type\":\"text\"}}");
    rv_api_json_raw(out, "tools", "[]");
    rv_api_json_str(out, "tool_choice", "none");
    rv_api_json_bool(out, "parallel_tool_calls", false);
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
        add_item(out, NULL, r, progress);
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

/* Where a piece of text belongs: there is one message with one text. */
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

void rv_api_reply_response_begin_event(struct rv_buf *out, struct rv_api_response *response)
{
    add_response_event(out, response, "response.created", IN_PROGRESS, NULL);
    add_response_event(out, response, "response.in_progress", IN_PROGRESS, NULL);
    add_item_event(out, response, "response.output_item.added", IN_PROGRESS);
    add_part_event(out, response, "response.content_part.added", "", 0, NULL);
}

void rv_api_reply_response_delta_event(struct rv_buf *out, struct rv_api_response *response, const char *text,
                                       size_t text_len, const struct rv_api_logprobs *logprobs)
{
    if (text_len == 0 && (!logprobs || logprobs->n_rows == 0))
        return;
    begin_event(out, response, "response.output_text.delta");
    add_place(out, response);
    rv_api_json_text(out, "delta", text, text_len);
    rv_api_logprobs_rows(out, "logprobs", logprobs);
    end_event(out);
}

void rv_api_reply_response_end_event(struct rv_buf *out, struct rv_api_response *response)
{
    struct rv_api_response *r = response;
    enum progress progress = outcome(r);

    begin_event(out, r, "response.output_text.done");
    add_place(out, r);
    rv_api_json_text(out, "text", r->text, r->text_len);
    rv_api_logprobs_rows(out, "logprobs", r->logprobs);
    end_event(out);
    add_part_event(out, r, "response.content_part.done", r->text, r->text_len, r->logprobs);
    add_item_event(out, r, "response.output_item.done", progress);
    add_response_event(out, r, progress == COMPLETED ? "response.completed" : "response.incomplete", progress, NULL);
}

void rv_api_reply_response_failed_event(struct rv_buf *out, struct rv_api_response *response,
                                        const struct rv_api_error *err)
{
    add_response_event(out, response, "response.failed", FAILED, err);
}
