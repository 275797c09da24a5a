/*
 * What the routes do with a request: read it, and write its answer into the connection's buffer. Nothing is sent from
 * here and nothing ends here: the connection is touched, and settled when the caller has returned.
 */
#include "server/http/http_exchange.h"

#include "base/alloc.h"
#include "server/http/http_connection.h"
#include "server/http/http_loop.h"
#include "server/http/http_request.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <string.h>

enum { EXTRA_MAX = 16 << 10 };

static const char event_stream[] = "text/event-stream";

struct rv_http_exchange *rv_http_exchange_new(struct rv_http_connection *connection, struct rv_http_request *request)
{
    struct rv_http_exchange *exchange = rv_calloc(1, sizeof(*exchange));

    if (!exchange)
        return NULL;
    exchange->connection = connection;
    exchange->request = request;
    exchange->ping.owner = exchange;
    exchange->why = RV_HTTP_END_SENT;
    rv_buf_init(&exchange->extra, EXTRA_MAX);
    return exchange;
}

void rv_http_exchange_free(struct rv_http_exchange *exchange)
{
    rv_http_deadline_clear(&exchange->connection->loop->deadlines, &exchange->ping);
    rv_http_request_free(exchange->request);
    rv_buf_release(&exchange->extra);
    rv_free(exchange);
}

/* ---- the request ------------------------------------------------------------------------------ */

enum rv_http_method rv_http_exchange_method(const struct rv_http_exchange *exchange)
{
    return exchange->request->method;
}

const char *rv_http_exchange_path(const struct rv_http_exchange *exchange)
{
    return exchange->request->path;
}

const char *rv_http_exchange_query(const struct rv_http_exchange *exchange)
{
    return exchange->request->query;
}

const char *rv_http_exchange_header(const struct rv_http_exchange *exchange, const char *name)
{
    return rv_http_headers_find(&exchange->request->headers, name);
}

const char *rv_http_exchange_body(const struct rv_http_exchange *exchange, size_t *len)
{
    const struct rv_buf *body = &exchange->request->body;

    *len = body->len;
    return body->data ? body->data : "";
}

const char *rv_http_exchange_peer(const struct rv_http_exchange *exchange)
{
    return exchange->connection->peer;
}

bool rv_http_exchange_is_loopback(const struct rv_http_exchange *exchange)
{
    return exchange->connection->is_loopback;
}

void rv_http_exchange_set_user(struct rv_http_exchange *exchange, void *user)
{
    exchange->user = user;
}

void *rv_http_exchange_user(const struct rv_http_exchange *exchange)
{
    return exchange->user;
}

/* ---- the answer ------------------------------------------------------------------------------- */

static struct evbuffer *output_of(const struct rv_http_exchange *exchange)
{
    return bufferevent_get_output(exchange->connection->bev);
}

/* A half-written answer cannot go on. */
static void touch(struct rv_http_exchange *exchange, bool is_written)
{
    if (is_written)
        rv_http_loop_touch(exchange->connection->loop, exchange->connection);
    else
        rv_http_connection_break(exchange->connection, RV_HTTP_END_GONE);
}

void rv_http_exchange_add_header(struct rv_http_exchange *exchange, const char *name, const char *value)
{
    RV_ASSERT(!exchange->has_begun);
    RV_ASSERT(rv_http_headers_is_name(name) && rv_http_headers_is_value(value, strlen(value)));
    rv_buf_addf(&exchange->extra, "%s: %s\r\n", name, value);
}

static bool add_head(struct rv_http_exchange *exchange, int status, const char *content_type, size_t content_length)
{
    const struct rv_http_request *request = exchange->request;
    struct rv_http_answer answer = {.status = status,
                                    .content_type = content_type,
                                    .extra = exchange->extra.data,
                                    .extra_len = exchange->extra.len,
                                    .framing = exchange->framing,
                                    .content_length = content_length,
                                    .is_http10 = request->is_http10};

    RV_ASSERT(!content_type || rv_http_headers_is_value(content_type, strlen(content_type)));
    /* What was not read of the request would be taken for the next one. */
    exchange->keeps_alive = request->can_keep_alive && (exchange->is_complete || !request->has_body) &&
                            exchange->framing != RV_HTTP_ANSWER_UNTIL_CLOSE &&
                            !exchange->connection->loop->is_draining && !exchange->connection->has_peer_closed;
    answer.keeps_alive = exchange->keeps_alive;
    exchange->has_begun = true;
    return !exchange->extra.failed && rv_http_answer_add_head(output_of(exchange), &answer);
}

void rv_http_exchange_reply(struct rv_http_exchange *exchange, int status, const char *content_type, const void *body,
                            size_t len)
{
    bool is_written;

    RV_ASSERT(!exchange->has_begun && status >= 200 && status <= 599);
    exchange->framing = rv_http_answer_has_body(status) ? RV_HTTP_ANSWER_LENGTH : RV_HTTP_ANSWER_NONE;
    is_written = add_head(exchange, status, content_type, len);
    if (is_written && len > 0 && exchange->framing == RV_HTTP_ANSWER_LENGTH &&
        exchange->request->method != RV_HTTP_HEAD)
        is_written = evbuffer_add(output_of(exchange), body, len) == 0;
    exchange->has_ended = true;
    touch(exchange, is_written);
}

static void expect_silence(struct rv_http_exchange *exchange)
{
    struct rv_http_loop *loop = exchange->connection->loop;

    if (exchange->is_event_stream && loop->config.ping_ms > 0)
        rv_http_deadline_set(&loop->deadlines, &exchange->ping, RV_HTTP_DEADLINE_PING);
}

void rv_http_exchange_begin(struct rv_http_exchange *exchange, int status, const char *content_type)
{
    RV_ASSERT(!exchange->has_begun && status >= 200 && status <= 599);
    exchange->framing = !rv_http_answer_has_body(status) ? RV_HTTP_ANSWER_NONE
                        : exchange->request->is_http10   ? RV_HTTP_ANSWER_UNTIL_CLOSE
                                                         : RV_HTTP_ANSWER_CHUNKED;
    exchange->is_event_stream = content_type && strncmp(content_type, event_stream, sizeof(event_stream) - 1) == 0;
    touch(exchange, add_head(exchange, status, content_type, 0));
    expect_silence(exchange);
}

/* A piece of the body in its framing; nothing for an answer that has none. */
static bool add_piece(struct rv_http_exchange *exchange, const void *data, size_t len)
{
    if (exchange->request->method == RV_HTTP_HEAD || len == 0)
        return true;
    if (exchange->framing == RV_HTTP_ANSWER_CHUNKED)
        return rv_http_answer_add_chunk(output_of(exchange), data, len);
    if (exchange->framing == RV_HTTP_ANSWER_UNTIL_CLOSE)
        return evbuffer_add(output_of(exchange), data, len) == 0;
    return true;
}

bool rv_http_exchange_write(struct rv_http_exchange *exchange, const void *data, size_t len)
{
    struct rv_http_connection *connection = exchange->connection;

    RV_ASSERT(exchange->has_begun && !exchange->has_ended);
    if (connection->is_broken)
        return true; // its end is told in a moment
    touch(exchange, add_piece(exchange, data, len));
    expect_silence(exchange);
    if (evbuffer_get_length(output_of(exchange)) > connection->loop->config.max_buffered)
        exchange->is_blocked = true;
    return !exchange->is_blocked;
}

void rv_http_exchange_on_room(struct rv_http_exchange *exchange, void (*fn)(void *user), void *user)
{
    exchange->room_fn = fn;
    exchange->room_user = user;
}

void rv_http_exchange_end(struct rv_http_exchange *exchange)
{
    bool is_written = true;

    RV_ASSERT(exchange->has_begun && !exchange->has_ended);
    if (exchange->framing == RV_HTTP_ANSWER_CHUNKED && exchange->request->method != RV_HTTP_HEAD)
        is_written = rv_http_answer_add_last_chunk(output_of(exchange));
    exchange->has_ended = true;
    exchange->is_blocked = false;
    rv_http_deadline_clear(&exchange->connection->loop->deadlines, &exchange->ping);
    touch(exchange, is_written);
}

bool rv_http_exchange_has_begun(const struct rv_http_exchange *exchange)
{
    return exchange->has_begun;
}

void rv_http_exchange_settle(struct rv_http_exchange *exchange, size_t n_waiting)
{
    if (!exchange->is_blocked || n_waiting > exchange->connection->loop->config.max_buffered / 2)
        return;
    exchange->is_blocked = false;
    if (exchange->room_fn)
        exchange->room_fn(exchange->room_user);
}

void rv_http_exchange_ping(void *owner)
{
    static const char ping[] = ": ping\n\n";
    struct rv_http_exchange *exchange = owner;

    /* A reader that lags is not silent for lack of bytes. */
    if (!exchange->connection->is_broken && evbuffer_get_length(output_of(exchange)) == 0)
        touch(exchange, add_piece(exchange, ping, sizeof(ping) - 1));
    expect_silence(exchange);
}
