/* The life of a connection. Every end of it goes through settle(), the only place that frees. */
#include "server/http/http_connection.h"

#include "base/alloc.h"
#include "server/http/http_exchange.h"
#include "server/http/http_loop.h"
#include "server/http/http_request.h"
#include "server/http/http_tls.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

enum {
    PIPELINE_MAX = 4096, // bytes of later requests that are read while an answer is under way
    REFUSAL_MAX = 2048,
};

static struct evbuffer *input_of(const struct rv_http_connection *connection)
{
    return bufferevent_get_input(connection->bev);
}

static struct evbuffer *output_of(const struct rv_http_connection *connection)
{
    return bufferevent_get_output(connection->bev);
}

static void touch(struct rv_http_connection *connection)
{
    rv_http_loop_touch(connection->loop, connection);
}

static void set_deadline(struct rv_http_connection *connection, enum rv_http_deadline_kind kind)
{
    rv_http_deadline_set(&connection->loop->deadlines, &connection->deadline, kind);
}

static void clear_deadline(struct rv_http_connection *connection)
{
    rv_http_deadline_clear(&connection->loop->deadlines, &connection->deadline);
}

void rv_http_connection_break(struct rv_http_connection *connection, enum rv_http_end why)
{
    if (connection->is_broken)
        return;
    connection->is_broken = true;
    connection->broken_why = why;
    touch(connection);
}

/* ---- reading ---------------------------------------------------------------------------------- */

static void pause_reading(struct rv_http_connection *connection)
{
    if (connection->is_paused || connection->has_peer_closed)
        return;
    connection->is_paused = true;
    bufferevent_disable(connection->bev, EV_READ);
    if (connection->fd >= 0 && !rv_http_loop_watch(connection->loop, connection, connection->fd))
        rv_http_connection_break(connection, RV_HTTP_END_GONE);
}

static void resume_reading(struct rv_http_connection *connection)
{
    if (!connection->is_paused)
        return;
    connection->is_paused = false;
    if (connection->fd >= 0)
        rv_http_loop_unwatch(connection->loop, connection->fd);
    bufferevent_enable(connection->bev, EV_READ);
}

/* An answer of ours to what the routes never see. */
static void write_refusal(struct rv_http_connection *connection, int status, const char *why)
{
    const struct rv_http_config *config = &connection->loop->config;
    struct rv_http_answer answer = {
        .status = status, .content_type = "text/plain; charset=utf-8", .framing = RV_HTTP_ANSWER_LENGTH};
    static const char later[] = "retry-after: 1\r\n";
    struct evbuffer *out = output_of(connection);
    char body[REFUSAL_MAX];

    if (status == 503) {
        answer.extra = later;
        answer.extra_len = sizeof(later) - 1;
    }
    if (config->on_refusal) {
        answer.content_type = "application/json";
        answer.content_length = config->on_refusal(config->user, status, why, body, sizeof(body));
        RV_ASSERT(answer.content_length <= sizeof(body));
    } else {
        answer.content_length = (size_t)snprintf(body, sizeof(body), "%s\n", why);
    }
    if (!rv_http_answer_add_head(out, &answer) || evbuffer_add(out, body, answer.content_length) != 0)
        rv_http_connection_break(connection, RV_HTTP_END_GONE);
}

void rv_http_connection_refuse(struct rv_http_connection *connection, int status, const char *why)
{
    clear_deadline(connection);
    write_refusal(connection, status, why);
    connection->state = RV_HTTP_CONNECTION_CLOSING;
    if (connection->exchange) {
        connection->exchange->has_begun = true;
        connection->exchange->has_ended = true;
    }
    touch(connection);
}

static void start_request(struct rv_http_connection *connection)
{
    const struct rv_http_config *config = &connection->loop->config;

    connection->request = rv_http_request_new(config->max_header, config->max_body);
    connection->state = RV_HTTP_CONNECTION_HEAD;
    set_deadline(connection, RV_HTTP_DEADLINE_HEADER);
    if (!connection->request)
        rv_http_connection_break(connection, RV_HTTP_END_GONE);
}

/* The head is complete: asks whether to go on. */
static void on_head(struct rv_http_connection *connection)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    const struct rv_http_config *config = &connection->loop->config;
    struct rv_http_exchange *exchange = rv_http_exchange_new(connection, connection->request);
    int status;

    if (!exchange) {
        rv_http_connection_break(connection, RV_HTTP_END_GONE);
        return;
    }
    connection->exchange = exchange;
    connection->request = NULL;
    connection->state = RV_HTTP_CONNECTION_BODY;
    connection->must_feed = true;
    set_deadline(connection, RV_HTTP_DEADLINE_BODY);
    status = config->on_headers ? config->on_headers(config->user, exchange) : 0;
    if (exchange->has_begun) {
        connection->state = RV_HTTP_CONNECTION_ANSWER;
        clear_deadline(connection);
    } else if (status) {
        rv_http_connection_refuse(connection, status, "the request was refused");
    } else if (exchange->request->expects_continue) {
        evbuffer_add(output_of(connection), go_on, sizeof(go_on) - 1);
        touch(connection);
    }
}

static void on_complete(struct rv_http_connection *connection)
{
    const struct rv_http_config *config = &connection->loop->config;

    RV_ASSERT(connection->exchange); // a request is complete after its head
    connection->exchange->is_complete = true;
    connection->state = RV_HTTP_CONNECTION_ANSWER;
    clear_deadline(connection);
    config->on_request(config->user, connection->exchange);
}

/* Takes what lies in one piece of the input; false when there is nothing to do. */
static bool read_piece(struct rv_http_connection *connection)
{
    struct evbuffer *input = input_of(connection);
    size_t len = evbuffer_get_contiguous_space(input), used;
    struct rv_http_request *request;
    const char *data = len ? (const char *)evbuffer_pullup(input, (ev_ssize_t)len) : "";

    if (connection->is_broken || connection->state > RV_HTTP_CONNECTION_BODY || (len == 0 && !connection->must_feed))
        return false;
    if (connection->state == RV_HTTP_CONNECTION_IDLE) {
        start_request(connection);
        if (connection->is_broken)
            return false;
    }
    connection->must_feed = false;
    request = connection->exchange ? connection->exchange->request : connection->request;
    switch (rv_http_request_feed(request, data, len, &used)) {
    case RV_HTTP_REQUEST_MORE:
        break;
    case RV_HTTP_REQUEST_HEAD:
        on_head(connection);
        break;
    case RV_HTTP_REQUEST_COMPLETE:
        on_complete(connection);
        break;
    case RV_HTTP_REQUEST_REFUSED:
        rv_http_connection_refuse(connection, request->status, request->why);
        break;
    }
    evbuffer_drain(input, used);
    return true;
}

static void read_input(struct rv_http_connection *connection)
{
    while (read_piece(connection))
        ;
    if (connection->state == RV_HTTP_CONNECTION_LINGERING)
        evbuffer_drain(input_of(connection), evbuffer_get_length(input_of(connection)));
    if (evbuffer_get_length(input_of(connection)) >= PIPELINE_MAX)
        pause_reading(connection);
}

static void on_readable(struct bufferevent *bev, void *arg)
{
    (void)bev;
    read_input(arg);
}

/* ---- what else happens to it ------------------------------------------------------------------ */

static void on_writable(struct bufferevent *bev, void *arg)
{
    (void)bev;
    touch(arg);
}

/* A peer that has closed its side has gone, but what was answered before is still brought to it. */
void rv_http_connection_peer_closed(struct rv_http_connection *connection)
{
    bool is_answered =
        connection->state == RV_HTTP_CONNECTION_CLOSING || (connection->exchange && connection->exchange->has_ended);

    if (is_answered && connection->writes_itself)
        connection->has_peer_closed = true;
    else
        rv_http_connection_break(connection, RV_HTTP_END_GONE);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    struct rv_http_connection *connection = arg;

    (void)bev;
    if (what & BEV_EVENT_ERROR)
        rv_http_connection_break(connection, RV_HTTP_END_GONE);
    else if (what & BEV_EVENT_EOF)
        rv_http_connection_peer_closed(connection);
}

/* Bytes that are taken push the stall away. */
static void on_output(struct evbuffer *buffer, const struct evbuffer_cb_info *info, void *arg)
{
    struct rv_http_connection *connection = arg;

    (void)buffer;
    if (info->n_deleted > 0 && connection->deadline.kind == RV_HTTP_DEADLINE_STALL)
        set_deadline(connection, RV_HTTP_DEADLINE_STALL);
}

void rv_http_connection_deadline(void *owner)
{
    struct rv_http_connection *connection = owner;

    switch (connection->state) {
    case RV_HTTP_CONNECTION_HEAD:
        rv_http_connection_refuse(connection, 408, "the headers took too long to arrive");
        break;
    case RV_HTTP_CONNECTION_BODY:
        connection->exchange->why = RV_HTTP_END_DEADLINE;
        rv_http_connection_refuse(connection, 408, "the body took too long to arrive");
        break;
    default:
        rv_http_connection_break(connection, RV_HTTP_END_DEADLINE);
    }
}

/* Whether the system holds bytes that were not read yet: a request that came before we said that we end. */
static bool has_unread(const struct rv_http_connection *connection)
{
    int n = 0;

    return connection->fd >= 0 && ioctl(connection->fd, FIONREAD, &n) == 0 && n > 0;
}

/*
 * What has not sent a byte since it was accepted has a request on its way: closing it now would lose that one, so it
 * has a moment. What idles between requests was kept as a favour, and its peer must expect its end at any time.
 */
void rv_http_connection_drain(struct rv_http_connection *connection)
{
    if (connection->state != RV_HTTP_CONNECTION_IDLE || evbuffer_get_length(input_of(connection)) > 0)
        return;
    if (connection->deadline.kind == RV_HTTP_DEADLINE_HEADER)
        set_deadline(connection, RV_HTTP_DEADLINE_GRACE);
    else if (connection->deadline.kind != RV_HTTP_DEADLINE_GRACE && !has_unread(connection))
        rv_http_connection_break(connection, RV_HTTP_END_GONE);
}

/* ---- settling --------------------------------------------------------------------------------- */

/* Writes what waits; what the socket does not take waits for the loop. */
static void flush(struct rv_http_connection *connection)
{
    struct evbuffer *output = output_of(connection);
    int n = 1;

    if (!connection->writes_itself)
        return;
    if (bufferevent_get_enabled(connection->bev) & EV_WRITE) {
        if (evbuffer_get_length(output) == 0)
            bufferevent_disable(connection->bev, EV_WRITE);
        return;
    }
    evbuffer_unfreeze(output, 1);
    while (n > 0 && evbuffer_get_length(output) > 0) {
        n = evbuffer_write(output, connection->fd);
        if (n < 0 && errno == EINTR)
            n = 1;
    }
    evbuffer_freeze(output, 1);
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
        rv_http_connection_break(connection, RV_HTTP_END_GONE);
    else if (evbuffer_get_length(output) > 0)
        bufferevent_enable(connection->bev, EV_WRITE);
}

static void end_exchange(struct rv_http_connection *connection, enum rv_http_end why)
{
    const struct rv_http_config *config = &connection->loop->config;
    struct rv_http_exchange *exchange = connection->exchange;

    if (!exchange)
        return;
    if (config->on_end)
        config->on_end(config->user, exchange, why);
    connection->exchange = NULL;
    rv_http_exchange_free(exchange);
}

/*
 * Closes our side and reads on for a while: a socket that is closed with bytes unread resets, and the peer may lose the
 * answer.
 */
static void start_lingering(struct rv_http_connection *connection)
{
    if (connection->has_peer_closed) {
        rv_http_connection_break(connection, RV_HTTP_END_GONE);
        return;
    }
    connection->state = RV_HTTP_CONNECTION_LINGERING;
    connection->loop->n_lingering++;
    rv_http_request_free(connection->request);
    connection->request = NULL;
    if (connection->is_tls)
        rv_http_tls_say_goodbye(connection->bev);
    if (connection->fd >= 0)
        shutdown(connection->fd, SHUT_WR);
    else
        bufferevent_flush(connection->bev, EV_WRITE, BEV_FINISHED);
    set_deadline(connection, RV_HTTP_DEADLINE_LINGER);
    resume_reading(connection);
    read_input(connection);
}

/* The answer is sent: the next request, if there may be one. */
static void on_sent(struct rv_http_connection *connection)
{
    struct rv_http_exchange *exchange = connection->exchange;
    bool keeps_alive = connection->state == RV_HTTP_CONNECTION_ANSWER && exchange->keeps_alive &&
                       !connection->has_peer_closed && !connection->loop->is_draining;

    end_exchange(connection, exchange ? exchange->why : RV_HTTP_END_SENT);
    if (!keeps_alive) {
        start_lingering(connection);
        return;
    }
    connection->state = RV_HTTP_CONNECTION_IDLE;
    connection->must_feed = false;
    set_deadline(connection, RV_HTTP_DEADLINE_IDLE);
    resume_reading(connection);
    read_input(connection);
}

/* The deadline while an answer is under way is that something of it is taken. */
static void mind_stall(struct rv_http_connection *connection, size_t n_waiting)
{
    if (connection->state != RV_HTTP_CONNECTION_ANSWER && connection->state != RV_HTTP_CONNECTION_CLOSING)
        return;
    if (n_waiting == 0)
        clear_deadline(connection);
    else if (connection->deadline.kind != RV_HTTP_DEADLINE_STALL)
        set_deadline(connection, RV_HTTP_DEADLINE_STALL);
}

void rv_http_connection_settle(struct rv_http_connection *connection)
{
    struct rv_http_exchange *exchange = connection->exchange;
    size_t n_waiting;

    if (!connection->is_broken)
        flush(connection);
    if (!connection->is_broken && exchange)
        rv_http_exchange_settle(exchange, evbuffer_get_length(output_of(connection)));
    if (connection->is_broken) {
        if (connection->is_unsettled)
            return;                      // it broke just now and is in the list again: the next turn
        connection->is_unsettled = true; // nothing that on_end does may put it there
        end_exchange(connection, connection->broken_why);
        rv_http_connection_free(connection);
        return;
    }
    n_waiting = evbuffer_get_length(output_of(connection));
    mind_stall(connection, n_waiting);
    if (n_waiting > 0)
        return;
    if (connection->state == RV_HTTP_CONNECTION_CLOSING ||
        (connection->state == RV_HTTP_CONNECTION_ANSWER && exchange && exchange->has_ended))
        on_sent(connection);
}

/* ---- making and freeing ----------------------------------------------------------------------- */

static void link_in(struct rv_http_loop *loop, struct rv_http_connection *connection)
{
    connection->next = loop->connections;
    if (loop->connections)
        loop->connections->prev = connection;
    loop->connections = connection;
    atomic_fetch_add_explicit(&loop->n_connections, 1, memory_order_relaxed);
}

static void link_out(struct rv_http_loop *loop, struct rv_http_connection *connection)
{
    if (connection->prev)
        connection->prev->next = connection->next;
    else
        loop->connections = connection->next;
    if (connection->next)
        connection->next->prev = connection->prev;
    atomic_fetch_sub_explicit(&loop->n_connections, 1, memory_order_relaxed);
}

struct rv_http_connection *rv_http_connection_new(struct rv_http_loop *loop, struct bufferevent *bev, int fd,
                                                  bool is_tls, const struct sockaddr *peer)
{
    struct rv_http_connection *connection = rv_calloc(1, sizeof(*connection));

    if (!connection || !evbuffer_add_cb(bufferevent_get_output(bev), on_output, connection)) {
        bufferevent_free(bev);
        rv_free(connection);
        return NULL;
    }
    connection->loop = loop;
    connection->bev = bev;
    connection->fd = fd;
    connection->is_tls = is_tls;
    connection->writes_itself = fd >= 0 && !is_tls;
    connection->deadline.owner = connection;
    if (peer)
        connection->is_loopback = rv_http_listen_peer(peer, connection->peer);
    link_in(loop, connection);
    set_deadline(connection, RV_HTTP_DEADLINE_HEADER);
    bufferevent_setcb(bev, on_readable, on_writable, on_event, connection);
    bufferevent_setwatermark(bev, EV_WRITE, loop->config.max_buffered / 2, 0);
    if (connection->writes_itself)
        bufferevent_disable(bev, EV_WRITE);
    bufferevent_enable(bev, connection->writes_itself ? EV_READ : EV_READ | EV_WRITE);
    return connection;
}

void rv_http_connection_free(struct rv_http_connection *connection)
{
    struct rv_http_loop *loop = connection->loop;

    RV_ASSERT(!connection->exchange);
    clear_deadline(connection);
    if (connection->state == RV_HTTP_CONNECTION_LINGERING)
        loop->n_lingering--;
    if (connection->is_paused && connection->fd >= 0)
        rv_http_loop_unwatch(loop, connection->fd);
    link_out(loop, connection);
    rv_http_request_free(connection->request);
    bufferevent_free(connection->bev);
    rv_free(connection);
}
