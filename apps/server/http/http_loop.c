/* The loop's shared state: settling, watching, draining. Everything here runs on the thread of the server. */
#include "server/http/http_loop.h"

#include "server/http/http_connection.h"
#include "server/http/http_exchange.h"

#include <errno.h>
#include <event2/event.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { LINGER_MS = 5000, GRACE_MS = 250, WATCH_BATCH = 64 };

static void break_when_quiet(struct rv_http_loop *loop)
{
    if (loop->is_draining && atomic_load_explicit(&loop->n_connections, memory_order_relaxed) <= loop->n_lingering)
        event_base_loopbreak(loop->base);
}

/* What is touched meanwhile waits for the next turn, so that one connection cannot hold up the others. */
static void on_settle(evutil_socket_t fd, short what, void *arg)
{
    struct rv_http_loop *loop = arg;
    struct rv_http_connection *connection = loop->unsettled, *next;

    (void)fd;
    (void)what;
    loop->unsettled = loop->unsettled_last = NULL;
    loop->is_settling = true;
    for (; connection; connection = next) {
        next = connection->next_unsettled;
        connection->is_unsettled = false;
        rv_http_connection_settle(connection);
    }
    loop->is_settling = false;
    break_when_quiet(loop);
}

void rv_http_loop_touch(struct rv_http_loop *loop, struct rv_http_connection *connection)
{
    static const struct timeval at_once = {0, 0};

    if (connection->is_unsettled)
        return;
    connection->is_unsettled = true;
    connection->next_unsettled = NULL;
    if (loop->unsettled_last) {
        loop->unsettled_last->next_unsettled = connection;
    } else {
        loop->unsettled = connection;
        if (loop->is_settling)
            evtimer_add(loop->settle, &at_once); // behind what the network has for us
        else
            event_active(loop->settle, EV_TIMEOUT, 0);
    }
    loop->unsettled_last = connection;
}

static void on_watch(evutil_socket_t fd, short what, void *arg)
{
    struct epoll_event events[WATCH_BATCH];
    int n = epoll_wait((int)fd, events, WATCH_BATCH, 0);

    (void)what;
    (void)arg;
    for (int i = 0; i < n; i++)
        rv_http_connection_peer_closed(events[i].data.ptr);
}

/*
 * A socket of which nothing is read is not in libevent's own set: there, a reset would be reported to nobody for ever.
 * It is told once, by the edge; the connection is ended or has nothing more to hear.
 */
bool rv_http_loop_watch(struct rv_http_loop *loop, struct rv_http_connection *connection, int fd)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = connection};

    return epoll_ctl(loop->watch_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

void rv_http_loop_unwatch(struct rv_http_loop *loop, int fd)
{
    epoll_ctl(loop->watch_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void set_queue(struct rv_http_loop *loop, enum rv_http_deadline_kind kind, int32_t ms, void (*fn)(void *owner))
{
    loop->deadlines.queues[kind].ms = ms;
    loop->deadlines.queues[kind].fn = fn;
}

ruvllm_status rv_http_loop_init(struct rv_http_loop *loop, const struct rv_http_config *config,
                                struct ruvllm_error *err)
{
    *loop = (struct rv_http_loop){.config = *config, .watch_fd = -1};
    loop->base = event_base_new();
    if (!loop->base || !rv_http_deadlines_init(&loop->deadlines, loop->base))
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot make the event loop");
    loop->watch_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->watch_fd < 0)
        return rv_fail_errno(err, errno, "cannot make the event loop");
    loop->settle = event_new(loop->base, -1, 0, on_settle, loop);
    loop->watch = event_new(loop->base, loop->watch_fd, EV_READ | EV_PERSIST, on_watch, loop);
    if (!loop->settle || !loop->watch || event_add(loop->watch, NULL) != 0)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot make the event loop");
    set_queue(loop, RV_HTTP_DEADLINE_HEADER, config->header_ms, rv_http_connection_deadline);
    set_queue(loop, RV_HTTP_DEADLINE_BODY, config->body_ms, rv_http_connection_deadline);
    set_queue(loop, RV_HTTP_DEADLINE_STALL, config->stall_ms, rv_http_connection_deadline);
    set_queue(loop, RV_HTTP_DEADLINE_IDLE, config->idle_ms, rv_http_connection_deadline);
    set_queue(loop, RV_HTTP_DEADLINE_LINGER, LINGER_MS, rv_http_connection_deadline);
    set_queue(loop, RV_HTTP_DEADLINE_GRACE, GRACE_MS, rv_http_connection_deadline);
    set_queue(loop, RV_HTTP_DEADLINE_PING, config->ping_ms, rv_http_exchange_ping);
    return RUVLLM_OK;
}

void rv_http_loop_release(struct rv_http_loop *loop)
{
    while (loop->connections)
        rv_http_connection_free(loop->connections);
    if (loop->settle)
        event_free(loop->settle);
    if (loop->watch)
        event_free(loop->watch);
    rv_http_deadlines_release(&loop->deadlines);
    if (loop->base) {
        event_base_free(loop->base);
        close(loop->watch_fd);
    }
    *loop = (struct rv_http_loop){.watch_fd = -1};
}

void rv_http_loop_drain(struct rv_http_loop *loop)
{
    loop->is_draining = true;
    for (struct rv_http_connection *c = loop->connections; c; c = c->next)
        rv_http_connection_drain(c);
    break_when_quiet(loop);
}

void rv_http_loop_cut_off(struct rv_http_loop *loop)
{
    for (struct rv_http_connection *c = loop->connections; c; c = c->next)
        rv_http_connection_break(c, RV_HTTP_END_DEADLINE);
}
