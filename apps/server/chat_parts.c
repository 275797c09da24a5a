/* Ids of calls are made from the answer's own, so that a stream and a whole answer would agree about them. */
#include "server/chat_parts.h"

#include "base/alloc.h"
#include "base/sha256.h"

#include <stdio.h>
#include <string.h>

enum { MAX_CALLS = 128, MAX_TEXT = 64 << 20 };

/* A call of a whole answer, as offsets: its texts move while they grow. */
struct made_call {
    char id[RV_API_ID_SIZE];
    char name[RV_ANSWER_PARTS_NAME + 1];
    size_t first, len; // in `arguments`
};

struct rv_chat_parts {
    struct rv_answer_parts parts;
    char answer_id[RV_API_ID_SIZE];
    int32_t index;

    /* Streaming. */
    const struct rv_api_head *head;
    struct rv_buf *out;

    /* Whole, and responses. */
    struct rv_api_response *response;
    struct rv_buf thought, said, arguments;
    struct made_call made[MAX_CALLS];
    struct rv_api_call calls[MAX_CALLS];
    size_t n_calls;
};

struct rv_chat_parts *rv_chat_parts_new(const struct ruvllm_tool_style *style, ruvllm_thought thought,
                                        const char *answer_id, int32_t index)
{
    struct rv_chat_parts *parts = rv_calloc(1, sizeof(*parts));

    if (!parts)
        return NULL;
    rv_answer_parts_init(&parts->parts, style, thought == RUVLLM_THOUGHT_ALLOWED, thought == RUVLLM_THOUGHT_OPEN);
    snprintf(parts->answer_id, sizeof(parts->answer_id), "%s", answer_id);
    parts->index = index;
    rv_buf_init(&parts->thought, MAX_TEXT);
    rv_buf_init(&parts->said, MAX_TEXT);
    rv_buf_init(&parts->arguments, MAX_TEXT);
    return parts;
}

void rv_chat_parts_free(struct rv_chat_parts *parts)
{
    if (!parts)
        return;
    rv_buf_release(&parts->thought);
    rv_buf_release(&parts->said);
    rv_buf_release(&parts->arguments);
    rv_free(parts);
}

static void make_id(const struct rv_chat_parts *p, int32_t i_call, char out[RV_API_ID_SIZE])
{
    char what[RV_API_ID_SIZE + 32], hex[RV_SHA256_HEX_LEN + 1];
    uint8_t random[16];
    int len = snprintf(what, sizeof(what), "%s %d %d", p->answer_id, (int)p->index, (int)i_call);

    rv_sha256_hex(what, (size_t)len, hex);
    memcpy(random, hex, sizeof(random)); // 64 bits of digits: enough to tell the calls of one answer apart
    rv_api_reply_id(out, "call", random);
}

/* ---- streaming ------------------------------------------------------------------------------------- */

static void stream_thought(void *user, const char *text, size_t len)
{
    struct rv_chat_parts *p = user;

    rv_api_reply_chat_thought(p->out, p->head, p->index, text, len);
}

static void stream_said(void *user, const char *text, size_t len)
{
    struct rv_chat_parts *p = user;
    struct rv_api_choice piece = {.index = p->index, .text = text, .text_len = len};

    rv_api_reply_chat_chunk(p->out, p->head, &piece);
}

static void stream_called(void *user, int32_t i_call, const char *name)
{
    struct rv_chat_parts *p = user;
    char id[RV_API_ID_SIZE];
    struct rv_api_call call = {.id = id, .name = name};

    make_id(p, i_call, id);
    rv_api_reply_chat_call(p->out, p->head, p->index, i_call, &call);
}

static void stream_arguments(void *user, int32_t i_call, const char *text, size_t len)
{
    struct rv_chat_parts *p = user;

    rv_api_reply_chat_arguments(p->out, p->head, p->index, i_call, text, len);
}

void rv_chat_parts_piece(struct rv_chat_parts *parts, const struct rv_api_head *head, const struct rv_api_choice *piece,
                         struct rv_buf *out)
{
    struct rv_answer_parts_sink sink = {.thought = stream_thought,
                                        .said = stream_said,
                                        .called = stream_called,
                                        .arguments = stream_arguments,
                                        .user = parts};

    parts->head = head;
    parts->out = out;
    rv_answer_parts_add(&parts->parts, piece->text, piece->text_len, &sink);
    if (piece->is_finished) {
        struct rv_api_choice last = {.index = piece->index,
                                     .text = "",
                                     .is_finished = true,
                                     .stop_reason = piece->stop_reason,
                                     .n_calls = (size_t)parts->parts.n_calls};

        rv_answer_parts_end(&parts->parts, &sink);
        rv_api_reply_chat_chunk(out, head, &last);
    }
}

/* ---- whole -------------------------------------------------------------------------------------------- */

static void keep_thought(void *user, const char *text, size_t len)
{
    rv_buf_add(&((struct rv_chat_parts *)user)->thought, text, len);
}

static void keep_said(void *user, const char *text, size_t len)
{
    rv_buf_add(&((struct rv_chat_parts *)user)->said, text, len);
}

static void keep_called(void *user, int32_t i_call, const char *name)
{
    struct rv_chat_parts *p = user;
    struct made_call *made;

    if (i_call >= MAX_CALLS)
        return;
    made = &p->made[i_call];
    make_id(p, i_call, made->id);
    snprintf(made->name, sizeof(made->name), "%s", name);
    made->first = p->arguments.len;
    p->n_calls = (size_t)i_call + 1;
}

static void keep_arguments(void *user, int32_t i_call, const char *text, size_t len)
{
    struct rv_chat_parts *p = user;

    if (i_call >= MAX_CALLS)
        return;
    rv_buf_add(&p->arguments, text, len);
    p->made[i_call].len = p->arguments.len - p->made[i_call].first;
}

/* The calls as they are now: their texts have moved. */
static void list_calls(struct rv_chat_parts *p)
{
    for (size_t i = 0; i < p->n_calls; i++)
        p->calls[i] = (struct rv_api_call){.id = p->made[i].id,
                                           .name = p->made[i].name,
                                           .arguments = p->arguments.data ? p->arguments.data + p->made[i].first : "",
                                           .arguments_len = p->made[i].len};
}

static bool has_failed(const struct rv_chat_parts *p)
{
    return p->thought.failed || p->said.failed || p->arguments.failed;
}

bool rv_chat_parts_whole(struct rv_chat_parts *parts, const char *text, size_t len, struct rv_api_choice *choice)
{
    struct rv_answer_parts_sink sink = {
        .thought = keep_thought, .said = keep_said, .called = keep_called, .arguments = keep_arguments, .user = parts};

    rv_answer_parts_add(&parts->parts, text, len, &sink);
    rv_answer_parts_end(&parts->parts, &sink);
    list_calls(parts);
    choice->text = parts->said.data ? parts->said.data : "";
    choice->text_len = parts->said.len;
    choice->thought = parts->thought.data;
    choice->thought_len = parts->thought.len;
    choice->calls = parts->calls;
    choice->n_calls = parts->n_calls;
    return !has_failed(parts);
}

/* ---- responses: both at once ---------------------------------------------------------------------------- */

static void bring_up_to_date(struct rv_chat_parts *p)
{
    list_calls(p);
    p->response->text = p->said.data ? p->said.data : "";
    p->response->text_len = p->said.len;
    p->response->calls = p->calls;
    p->response->n_calls = p->n_calls;
}

static void respond_said(void *user, const char *text, size_t len)
{
    struct rv_chat_parts *p = user;

    keep_said(p, text, len);
    bring_up_to_date(p);
    rv_api_reply_response_delta_event(p->out, p->response, text, len, NULL);
}

static void respond_called(void *user, int32_t i_call, const char *name)
{
    struct rv_chat_parts *p = user;

    if (i_call >= MAX_CALLS)
        return;
    keep_called(p, i_call, name);
    bring_up_to_date(p);
    rv_api_reply_response_call_event(p->out, p->response);
}

static void respond_arguments(void *user, int32_t i_call, const char *text, size_t len)
{
    struct rv_chat_parts *p = user;

    if (i_call >= MAX_CALLS)
        return;
    keep_arguments(p, i_call, text, len);
    bring_up_to_date(p);
    rv_api_reply_response_arguments_event(p->out, p->response, text, len);
}

bool rv_chat_parts_response(struct rv_chat_parts *parts, struct rv_api_response *response,
                            const struct rv_api_choice *piece, struct rv_buf *out)
{
    struct rv_answer_parts_sink sink = {.thought = keep_thought,
                                        .said = respond_said,
                                        .called = respond_called,
                                        .arguments = respond_arguments,
                                        .user = parts};

    parts->out = out;
    parts->response = response;
    rv_answer_parts_add(&parts->parts, piece->text, piece->text_len, &sink);
    if (piece->is_finished)
        rv_answer_parts_end(&parts->parts, &sink);
    bring_up_to_date(parts);
    return !has_failed(parts);
}
