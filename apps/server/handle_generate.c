/* /v1/chat/completions, /v1/completions and /v1/responses: the three shapes of an answer, and what only they check. */
#include "server/handlers.h"

#include "server/generation.h"

#include <string.h>

/* ---- chat ---------------------------------------------------------------------------------------- */

static void chat_begin(struct rv_call *call, struct rv_generation_choice *choice, struct rv_buf *out)
{
    rv_api_reply_chat_role(out, &call->generation->head, choice->index);
}

static void chat_piece(struct rv_call *call, const struct rv_api_choice *piece, struct rv_buf *out)
{
    rv_api_reply_chat_chunk(out, &call->generation->head, piece);
}

static void chat_parts(struct rv_call *call, struct rv_chat_parts *parts, const struct rv_api_choice *piece,
                       struct rv_buf *out)
{
    rv_chat_parts_piece(parts, &call->generation->head, piece, out);
}

static void chat_end(struct rv_call *call, struct rv_buf *out)
{
    if (call->request->include_usage)
        rv_api_reply_chat_usage(out, &call->generation->head, &call->generation->usage);
    rv_api_reply_done(out);
}

static void event_failed(struct rv_call *call, const struct rv_api_error *err, struct rv_buf *out)
{
    (void)call;
    rv_api_error_event(err, out);
}

static void chat_whole(struct rv_call *call, const struct rv_api_choice *choices, size_t n_choices, struct rv_buf *out)
{
    rv_api_reply_chat(out, &call->generation->head, choices, n_choices, &call->generation->usage);
}

static const struct rv_generation_style chat_style = {
    .id_prefix = "chatcmpl",
    .begin = chat_begin,
    .piece = chat_piece,
    .parts = chat_parts,
    .end = chat_end,
    .failed = event_failed,
    .whole = chat_whole,
};

/* ---- completions ----------------------------------------------------------------------------------- */

static void completion_piece(struct rv_call *call, const struct rv_api_choice *piece, struct rv_buf *out)
{
    rv_api_reply_completion_chunk(out, &call->generation->head, piece);
}

static void completion_end(struct rv_call *call, struct rv_buf *out)
{
    if (call->request->include_usage)
        rv_api_reply_completion_usage(out, &call->generation->head, &call->generation->usage);
    rv_api_reply_done(out);
}

static void completion_whole(struct rv_call *call, const struct rv_api_choice *choices, size_t n_choices,
                             struct rv_buf *out)
{
    rv_api_reply_completion(out, &call->generation->head, choices, n_choices, &call->generation->usage);
}

static const struct rv_generation_style completion_style = {
    .id_prefix = "cmpl",
    .piece = completion_piece,
    .end = completion_end,
    .failed = event_failed,
    .whole = completion_whole,
};

/* ---- responses ------------------------------------------------------------------------------------- */

static struct rv_api_response *response_of(struct rv_call *call)
{
    struct rv_generation *g = call->generation;

    g->response.head = g->head;
    g->response.item_id = g->item_id;
    g->response.request = call->request;
    g->response.has_tools = g->choices[0].parts != NULL;
    if (!g->response.has_tools) { // else its parts say what it has so far
        g->response.text = g->text.data ? g->text.data : "";
        g->response.text_len = g->text.len;
    }
    return &g->response;
}

static void response_begin(struct rv_call *call, struct rv_generation_choice *choice, struct rv_buf *out)
{
    (void)choice;
    rv_api_reply_response_begin_event(out, response_of(call));
}

static void response_piece(struct rv_call *call, const struct rv_api_choice *piece, struct rv_buf *out)
{
    struct rv_generation *g = call->generation;

    rv_buf_add(&g->text, piece->text, piece->text_len);
    rv_api_reply_response_delta_event(out, response_of(call), piece->text, piece->text_len, piece->logprobs);
}

static void response_parts(struct rv_call *call, struct rv_chat_parts *parts, const struct rv_api_choice *piece,
                           struct rv_buf *out)
{
    if (!rv_chat_parts_response(parts, response_of(call), piece, out))
        out->failed = RUVLLM_NO_MEMORY;
}

/* Fills in what is known when the answer is over; released by the caller. */
static void complete(struct rv_call *call, struct rv_api_response *response, struct rv_api_logprobs *logprobs)
{
    struct rv_generation *g = call->generation;
    const struct ruvllm_response *r = g->choices[0].response;

    if (!response->has_tools) {
        response->text = r->text;
        response->text_len = r->text_len;
    }
    response->stop_reason = r->stop_reason;
    response->usage = &g->usage;
    response->logprobs = NULL;
    if (r->logprobs && rv_generation_logprobs_init(logprobs, ruvllm_engine_model(call->engine), r->logprobs,
                                                   r->n_tokens, r->logprobs_per_token))
        response->logprobs = logprobs;
}

static void response_end(struct rv_call *call, struct rv_buf *out)
{
    struct rv_api_response *response = response_of(call);
    struct rv_api_logprobs logprobs = {0};

    complete(call, response, &logprobs);
    rv_api_reply_response_end_event(out, response);
    rv_generation_logprobs_release(&logprobs);
}

static void response_failed(struct rv_call *call, const struct rv_api_error *err, struct rv_buf *out)
{
    rv_api_reply_response_failed_event(out, response_of(call), err);
}

static void response_whole(struct rv_call *call, const struct rv_api_choice *choices, size_t n_choices,
                           struct rv_buf *out)
{
    struct rv_api_response *response = response_of(call);
    struct rv_api_logprobs logprobs = {0};

    (void)n_choices;
    if (response->has_tools) {
        response->text = choices[0].text;
        response->text_len = choices[0].text_len;
        response->calls = choices[0].calls;
        response->n_calls = choices[0].n_calls;
    }
    complete(call, response, &logprobs);
    rv_api_reply_response(out, response);
    rv_generation_logprobs_release(&logprobs);
}

static const struct rv_generation_style response_style = {
    .id_prefix = "resp",
    .begin = response_begin,
    .piece = response_piece,
    .parts = response_parts,
    .end = response_end,
    .failed = response_failed,
    .whole = response_whole,
};

/* ---- the handlers ------------------------------------------------------------------------------------ */

/* What a session needs; false: the reply says what is wrong. */
static bool check_session(struct rv_call *call)
{
    struct rv_api_error err;

    if (!call->request->session)
        return true;
    if (!call->server->store) {
        rv_api_error_set(&err, 501, "no_store", "session",
                         "this server keeps no sessions: it was started with --store none; leave 'session' out");
    } else if (!call->request->inputs[0].messages) {
        rv_api_error_set(&err, 400, "invalid_value", "session",
                         "a session is a conversation: use /v1/chat/completions, or leave 'session' out");
    } else if (call->request->n != 1 || call->request->n_inputs != 1) {
        rv_api_error_set(&err, 400, "invalid_value", "n", "a session goes on with one answer: leave 'n' out");
    } else {
        return true;
    }
    rv_call_fail(call, &err);
    return false;
}

static bool generate(struct rv_call *call, enum rv_api_kind kind, const struct rv_generation_style *style)
{
    switch (rv_call_prepare(call, kind)) {
    case RV_CALL_WAITS:
        return false;
    case RV_CALL_FAILED:
        return true;
    case RV_CALL_READY:
        break;
    }
    if (check_session(call))
        rv_generation_start(call, style);
    return true;
}

bool rv_handle_chat(struct rv_call *call)
{
    return generate(call, RV_API_CHAT, &chat_style);
}

bool rv_handle_completions(struct rv_call *call)
{
    return generate(call, RV_API_COMPLETION, &completion_style);
}

bool rv_handle_responses(struct rv_call *call)
{
    return generate(call, RV_API_RESPONSE, &response_style);
}
