/*
 * The server: sockets that listen, the thread's loop, what other threads post, and the drain.
 *
 * Who runs what: the thread in rv_http_server_run owns the loop and everything in it. Any thread may post: the queue is
 * guarded by `lock`, held for a few pointers and never across a call, and the loop is woken by an eventfd. Any thread
 * and any signal handler may stop: an atomic and a write to the same eventfd.
 */
#include "server/http/http_server.h"

#include "base/alloc.h"
#include "server/http/http_connection.h"
#include "server/http/http_listen.h"
#include "server/http/http_loop.h"
#include "server/http/http_tls.h"

#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    EVERY_MAX = 8,
    ACCEPT_PAUSE_MS = 100,   // when the system has no descriptor or memory for another connection
    BACKLOG_MAX = 4096,      // connections that wait in the system when the drain begins
    REFUSED_MAX = 256,       // connections beyond the limit that are told so; more are just closed
    UNSENT_BYTES = 64 << 10, // of a connection, in the hands of the system
};

struct listener {
    struct rv_http_server *server;
    struct evconnlistener *handle;
    char *address; // NULL for an inherited one
    int port;
};

struct every {
    struct event *timer;
    void (*fn)(void *user);
    void *user;
};

struct rv_http_server {
    struct rv_http_loop loop;
    struct listener *listeners;
    size_t n_listeners;
    struct ssl_ctx_st *tls;
    struct event *wake;
    struct event *drain;        // the time for draining is over
    struct event *accept_again; // the pause after a failed accept is
    struct every every[EVERY_MAX];
    int32_t n_every;
    int wake_fd;
    pthread_mutex_t lock;
    struct rv_http_post *posts;     // guarded by lock
    struct rv_http_post *last_post; // guarded by lock
    /* Milliseconds to drain, asked for and not yet begun; -1: none. Relaxed: the eventfd orders it before its reader.
     */
    _Atomic int32_t stop_ms;
};

static struct timeval timeval_of(int32_t ms)
{
    return (struct timeval){.tv_sec = ms / 1000, .tv_usec = (ms % 1000) * 1000};
}

/* ---- accepting -------------------------------------------------------------------------------- */

static void set_socket_options(const struct rv_http_server *server, int fd)
{
    int on = 1, vanished_ms = server->loop.config.stall_ms < INT32_MAX / 2 ? 2 * server->loop.config.stall_ms : 0;
    int unsent = UNSENT_BYTES;

    /* These fail on unix sockets, where they mean nothing. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    /* A peer that vanished without a word is found by what it does not acknowledge. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &vanished_ms, sizeof(vanished_ms));
    /* Who does not read must not fill the system's buffers, which grow to megabytes, nor keep us busy doing so. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
}

static void on_accept(struct evconnlistener *handle, evutil_socket_t fd, struct sockaddr *peer, int peer_len, void *arg)
{
    struct rv_http_server *server = ((const struct listener *)arg)->server;
    struct rv_http_loop *loop = &server->loop;
    int32_t n_over = rv_http_server_n_connections(server) - loop->config.max_connections;
    struct rv_http_connection *connection;
    struct bufferevent *bev;

    (void)handle;
    (void)peer_len;
    if (n_over >= REFUSED_MAX || (n_over >= 0 && server->tls)) {
        evutil_closesocket(fd);
        return;
    }
    set_socket_options(server, fd);
    if (server->tls) {
        bev = rv_http_tls_accept(server->tls, loop->base, fd);
    } else {
        bev = bufferevent_socket_new(loop->base, fd, BEV_OPT_CLOSE_ON_FREE);
        if (!bev)
            evutil_closesocket(fd);
    }
    connection = bev ? rv_http_connection_new(loop, bev, fd, server->tls != NULL, peer) : NULL;
    if (connection && n_over >= 0)
        rv_http_connection_refuse(connection, 503, "too many connections are open; try again later");
}

/* Without a descriptor for the next connection, trying again at once would only burn the processor. */
static void on_accept_error(struct evconnlistener *handle, void *arg)
{
    struct rv_http_server *server = ((const struct listener *)arg)->server;
    struct timeval pause = timeval_of(ACCEPT_PAUSE_MS);

    evconnlistener_disable(handle);
    evtimer_add(server->accept_again, &pause);
}

static void on_accept_again(evutil_socket_t fd, short what, void *arg)
{
    struct rv_http_server *server = arg;

    (void)fd;
    (void)what;
    for (size_t i = 0; i < server->n_listeners; i++)
        if (server->listeners[i].handle)
            evconnlistener_enable(server->listeners[i].handle);
}

/*
 * Who was let in by the system and not yet by us would be reset when the socket closes. Where the socket is a service
 * manager's, it stays open and they wait there for our successor.
 */
static void accept_waiting(struct rv_http_server *server)
{
    for (size_t i = 0; i < server->n_listeners; i++) {
        struct listener *listener = &server->listeners[i];
        struct sockaddr_storage peer;
        socklen_t len = sizeof(peer);
        int fd = -1;

        for (int n = 0; listener->handle && listener->address && n < BACKLOG_MAX; n++, len = sizeof(peer)) {
            fd = accept(evconnlistener_get_fd(listener->handle), (struct sockaddr *)&peer, &len);
            if (fd < 0)
                break;
            evutil_make_socket_nonblocking(fd);
            evutil_make_socket_closeonexec(fd);
            on_accept(listener->handle, fd, (struct sockaddr *)&peer, (int)len, listener);
        }
    }
}

static void stop_listening(struct rv_http_server *server)
{
    for (size_t i = 0; i < server->n_listeners; i++) {
        struct listener *listener = &server->listeners[i];

        if (!listener->handle)
            continue;
        evconnlistener_free(listener->handle);
        listener->handle = NULL;
        if (listener->address)
            rv_http_listen_remove(listener->address);
    }
}

/* ---- posts and stopping ----------------------------------------------------------------------- */

/* Nothing is lost when the counter is full: it is not zero then. */
static void wake(struct rv_http_server *server)
{
    uint64_t one = 1;
    int saved = errno;
    ssize_t n = write(server->wake_fd, &one, sizeof(one));

    (void)n;
    errno = saved; // of whom a signal interrupted
}

void rv_http_server_post(struct rv_http_server *server, struct rv_http_post *post)
{
    bool was_empty = false;

    pthread_mutex_lock(&server->lock);
    if (!post->is_queued) {
        was_empty = !server->posts;
        post->is_queued = true;
        post->next = NULL;
        if (was_empty)
            server->posts = post;
        else
            server->last_post->next = post;
        server->last_post = post;
    }
    pthread_mutex_unlock(&server->lock);
    if (was_empty)
        wake(server);
}

/* Takes one post of a list that was taken off the queue; from then on it may be posted again. */
static struct rv_http_post *unqueue(struct rv_http_server *server, struct rv_http_post **list)
{
    struct rv_http_post *post = *list;

    pthread_mutex_lock(&server->lock);
    *list = post->next;
    post->is_queued = false;
    pthread_mutex_unlock(&server->lock);
    return post;
}

static void run_posts(struct rv_http_server *server)
{
    struct rv_http_post *list;

    pthread_mutex_lock(&server->lock);
    list = server->posts;
    server->posts = server->last_post = NULL;
    pthread_mutex_unlock(&server->lock);
    while (list) {
        const struct rv_http_post *post = unqueue(server, &list);
        void (*fn)(void *user) = post->fn;

        fn(post->user);
    }
}

void rv_http_server_stop(struct rv_http_server *server, int32_t drain_ms)
{
    atomic_store_explicit(&server->stop_ms, drain_ms > 0 ? drain_ms : 0, memory_order_relaxed);
    wake(server);
}

static void start_draining(struct rv_http_server *server, int32_t drain_ms)
{
    struct timeval wait = timeval_of(drain_ms);

    evtimer_del(server->accept_again);
    accept_waiting(server);
    stop_listening(server);
    evtimer_add(server->drain, &wait);
    rv_http_loop_drain(&server->loop);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    struct rv_http_server *server = arg;
    uint64_t n_wakes;
    ssize_t n = read((int)fd, &n_wakes, sizeof(n_wakes));
    int32_t drain_ms;

    (void)n; // before anything is looked at, so that what comes later wakes again
    (void)what;
    run_posts(server);
    drain_ms = atomic_exchange_explicit(&server->stop_ms, -1, memory_order_relaxed);
    if (drain_ms >= 0)
        start_draining(server, drain_ms);
}

static void on_drain_over(evutil_socket_t fd, short what, void *arg)
{
    struct rv_http_server *server = arg;

    (void)fd;
    (void)what;
    rv_http_loop_cut_off(&server->loop);
}

/* ---- timers of the caller --------------------------------------------------------------------- */

static void on_every(evutil_socket_t fd, short what, void *arg)
{
    const struct every *every = arg;

    (void)fd;
    (void)what;
    every->fn(every->user);
}

ruvllm_status rv_http_server_every(struct rv_http_server *server, int32_t period_ms, void (*fn)(void *user), void *user,
                                   struct ruvllm_error *err)
{
    struct every *every = &server->every[server->n_every];
    struct timeval period = timeval_of(period_ms);

    if (period_ms < 1)
        return rv_fail(err, RUVLLM_INVALID, "a timer needs a period of at least 1 ms");
    if (server->n_every == EVERY_MAX)
        return rv_fail(err, RUVLLM_TOO_LARGE, "a server has at most %d timers", EVERY_MAX);
    every->fn = fn;
    every->user = user;
    every->timer = event_new(server->loop.base, -1, EV_PERSIST, on_every, every);
    if (!every->timer)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot make a timer");
    server->n_every++; // from now on close frees it
    if (evtimer_add(every->timer, &period) != 0)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot start a timer");
    return RUVLLM_OK;
}

/* ---- opening, running, closing ---------------------------------------------------------------- */

static ruvllm_status check_config(const struct rv_http_config *config, struct ruvllm_error *err)
{
    if (config->n_addresses + config->n_inherited == 0)
        return rv_fail(err, RUVLLM_INVALID, "a server needs an address to listen at");
    if (!config->on_request)
        return rv_fail(err, RUVLLM_INVALID, "a server needs somebody who answers");
    if (config->max_header < 64 || config->max_header > 1 << 20 || config->max_body > (size_t)1 << 40 ||
        config->max_connections < 1)
        return rv_fail(err, RUVLLM_INVALID,
                       "headers of 64 bytes to 1 MiB, bodies up to 1 TiB and at least one connection can be served");
    if (config->header_ms < 1 || config->body_ms < 1 || config->stall_ms < 1 || config->idle_ms < 1 ||
        config->ping_ms < 0)
        return rv_fail(err, RUVLLM_INVALID, "deadlines are at least 1 ms");
    if (!config->tls_cert != !config->tls_key)
        return rv_fail(err, RUVLLM_INVALID, "TLS needs both a certificate and its key");
    return RUVLLM_OK;
}

/* Takes over the socket, also when it fails. */
static ruvllm_status add_listener(struct rv_http_server *server, int fd, const char *address, struct ruvllm_error *err)
{
    struct listener *listener = &server->listeners[server->n_listeners++];

    listener->server = server;
    listener->port = rv_http_listen_port(fd);
    listener->address = address ? rv_strdup(address) : NULL;
    /* Disabled until run; the socket listens already, so that nobody is turned away meanwhile. */
    listener->handle = evconnlistener_new(server->loop.base, on_accept, listener,
                                          LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_DISABLED, 0, fd);
    if (!listener->handle || (address && !listener->address)) {
        if (!listener->handle)
            close(fd);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot make a listener");
    }
    evconnlistener_set_error_cb(listener->handle, on_accept_error);
    return RUVLLM_OK;
}

static ruvllm_status open_listeners(struct rv_http_server *server, const struct rv_http_config *config,
                                    struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;
    int fd;

    server->listeners = rv_calloc(config->n_addresses + config->n_inherited, sizeof(server->listeners[0]));
    if (!server->listeners)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot make listeners");
    for (size_t i = 0; !rc && i < config->n_addresses; i++) {
        rc = rv_http_listen_open(&fd, config->addresses[i], err);
        if (!rc)
            rc = add_listener(server, fd, config->addresses[i], err);
    }
    for (size_t i = 0; !rc && i < config->n_inherited; i++) {
        rc = rv_http_listen_adopt(config->inherited[i], err);
        if (!rc)
            rc = add_listener(server, config->inherited[i], NULL, err);
    }
    return rc;
}

static ruvllm_status open_events(struct rv_http_server *server, struct ruvllm_error *err)
{
    server->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (server->wake_fd < 0)
        return rv_fail_errno(err, errno, "cannot make an eventfd");
    server->wake = event_new(server->loop.base, server->wake_fd, EV_READ | EV_PERSIST, on_wake, server);
    server->drain = evtimer_new(server->loop.base, on_drain_over, server);
    server->accept_again = evtimer_new(server->loop.base, on_accept_again, server);
    if (!server->wake || !server->drain || !server->accept_again || event_add(server->wake, NULL) != 0)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot make the server's events");
    return RUVLLM_OK;
}

ruvllm_status rv_http_server_open(struct rv_http_server **out, const struct rv_http_config *config,
                                  struct ruvllm_error *err)
{
    ruvllm_status rc = check_config(config, err);
    struct rv_http_server *server;

    *out = NULL;
    if (rc)
        return rc;
    server = rv_calloc(1, sizeof(*server));
    if (!server)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the server");
    server->wake_fd = -1;
    server->loop.watch_fd = -1;
    server->stop_ms = -1;
    pthread_mutex_init(&server->lock, NULL);
    rc = rv_http_loop_init(&server->loop, config, err);
    if (!rc)
        rc = open_events(server, err);
    if (!rc && config->tls_cert)
        rc = rv_http_tls_open(&server->tls, config->tls_cert, config->tls_key, err);
    if (!rc)
        rc = open_listeners(server, config, err);
    if (rc) {
        rv_http_server_close(server);
        return rc;
    }
    *out = server;
    return RUVLLM_OK;
}

/* Writing to a peer that has gone raises SIGPIPE in the writing thread; it waits there until we throw it away. */
static void block_sigpipe(sigset_t *before)
{
    sigset_t pipe_only;

    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_only, before);
}

static void unblock_sigpipe(const sigset_t *before)
{
    static const struct timespec at_once = {0, 0};
    sigset_t pipe_only;

    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    while (!sigismember(before, SIGPIPE) && sigtimedwait(&pipe_only, NULL, &at_once) == SIGPIPE)
        ;
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

ruvllm_status rv_http_server_run(struct rv_http_server *server, struct ruvllm_error *err)
{
    sigset_t before;
    int rc;

    block_sigpipe(&before);
    on_accept_again(-1, 0, server);
    rc = event_base_dispatch(server->loop.base);
    run_posts(server);
    unblock_sigpipe(&before);
    if (rc < 0)
        return rv_fail(err, RUVLLM_IO, "the event loop failed");
    return RUVLLM_OK;
}

void rv_http_server_close(struct rv_http_server *server)
{
    if (!server)
        return;
    stop_listening(server);
    for (size_t i = 0; i < server->n_listeners; i++)
        rv_free(server->listeners[i].address);
    rv_free(server->listeners);
    for (int32_t i = 0; i < server->n_every; i++)
        event_free(server->every[i].timer);
    if (server->wake)
        event_free(server->wake);
    if (server->drain)
        event_free(server->drain);
    if (server->accept_again)
        event_free(server->accept_again);
    rv_http_loop_release(&server->loop);
    rv_http_tls_close(server->tls);
    if (server->wake_fd >= 0)
        close(server->wake_fd);
    pthread_mutex_destroy(&server->lock);
    rv_free(server);
}

int rv_http_server_port(const struct rv_http_server *server, size_t i)
{
    return i < server->n_listeners ? server->listeners[i].port : 0;
}

int32_t rv_http_server_n_connections(const struct rv_http_server *server)
{
    return atomic_load_explicit(&server->loop.n_connections, memory_order_relaxed);
}
