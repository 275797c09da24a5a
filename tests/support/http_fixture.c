/* The server of the HTTP tests, and their client. */
#include "support/http_fixture.h"

#include "base/clock.h"
#include "base/rng.h"
#include "support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* ---- the routes ------------------------------------------------------------------------------- */

/* What a route keeps with its exchange. */
struct route {
    struct http_fixture *f;
    struct rv_http_exchange *exchange;
    struct rv_http_post post;
    pthread_t thread;
    bool has_thread;
    size_t n_sent;
};

static struct route *route_new(struct http_fixture *f, struct rv_http_exchange *exchange)
{
    struct route *route = calloc(1, sizeof(*route));

    if (!route)
        abort();
    route->f = f;
    route->exchange = exchange;
    rv_http_exchange_set_user(exchange, route);
    return route;
}

static void echo(struct rv_http_exchange *exchange)
{
    static const char *const methods[] = {"GET", "POST", "DELETE", "HEAD", "OPTIONS", "OTHER"};
    const char *seen = rv_http_exchange_header(exchange, "x-seen");
    size_t len, at;
    const char *body = rv_http_exchange_body(exchange, &len);
    char *text = malloc(len + 32768);

    if (!text || body[len] != '\0')
        abort();
    at = (size_t)snprintf(text, 32768, "%s %s?%s\nseen=%s\n", methods[rv_http_exchange_method(exchange)],
                          rv_http_exchange_path(exchange), rv_http_exchange_query(exchange), seen ? seen : "-");
    memcpy(text + at, body, len);
    rv_http_exchange_reply(exchange, 200, "text/plain", text, at + len);
    free(text);
}

static void flood(void *user)
{
    static const char piece[16384];
    struct route *route = user;

    if (route->n_sent > 0)
        route->f->n_rooms++;
    while (route->n_sent < HTTP_FIXTURE_FLOOD) {
        route->n_sent += sizeof(piece);
        if (!rv_http_exchange_write(route->exchange, piece, sizeof(piece)))
            return;
    }
    rv_http_exchange_end(route->exchange);
}

static void answer_post(void *user)
{
    rv_http_exchange_reply(((struct route *)user)->exchange, 200, "text/plain", "posted", 6);
}

static void *post_back(void *user)
{
    struct route *route = user;

    rv_http_server_post(route->f->server, &route->post);
    return NULL;
}

static int on_headers(void *user, struct rv_http_exchange *exchange)
{
    struct http_fixture *f = user;

    f->n_headers++;
    if (strcmp(rv_http_exchange_path(exchange), "/refuse") != 0)
        return 0;
    rv_http_exchange_add_header(exchange, "www-authenticate", "Bearer");
    rv_http_exchange_reply(exchange, 401, "text/plain", "no", 2);
    return 401;
}

static void on_request(void *user, struct rv_http_exchange *exchange)
{
    struct http_fixture *f = user;
    const char *path = rv_http_exchange_path(exchange);
    struct route *route;

    f->n_requests++;
    if (strcmp(path, "/hold") == 0)
        return;
    if (strncmp(path, "/status/", 8) == 0) {
        rv_http_exchange_reply(exchange, (int)strtol(path + 8, NULL, 10), "text/plain", "body", 4);
    } else if (strcmp(path, "/stream") == 0) {
        rv_http_exchange_begin(exchange, 200, "text/event-stream");
        rv_http_exchange_write(exchange, "data: 1\n\n", 9);
    } else if (strcmp(path, "/flood") == 0) {
        route = route_new(f, exchange);
        rv_http_exchange_begin(exchange, 200, "application/octet-stream");
        rv_http_exchange_on_room(exchange, flood, route);
        flood(route);
    } else if (strcmp(path, "/post") == 0) {
        route = route_new(f, exchange);
        route->post = (struct rv_http_post){.fn = answer_post, .user = route};
        route->has_thread = pthread_create(&route->thread, NULL, post_back, route) == 0;
    } else {
        echo(exchange);
    }
}

static size_t on_refusal(void *user, int status, const char *why, char *body, size_t body_cap)
{
    (void)user;
    return (size_t)snprintf(body, body_cap, "{\"status\":%d,\"why\":\"%s\"}", status, why);
}

static void on_end(void *user, struct rv_http_exchange *exchange, enum rv_http_end why)
{
    struct http_fixture *f = user;
    struct route *route = rv_http_exchange_user(exchange);

    if (route && route->has_thread)
        pthread_join(route->thread, NULL);
    free(route);
    f->ended_us = rv_clock_us();
    f->n_ends[why]++;
}

/* ---- the server ------------------------------------------------------------------------------- */

void http_fixture_init(struct http_fixture *f)
{
    memset(f, 0, sizeof(*f));
    f->config = rv_http_config_default();
    f->config.on_headers = on_headers;
    f->config.on_request = on_request;
    f->config.on_refusal = on_refusal;
    f->config.on_end = on_end;
    f->config.user = f;
}

int http_fixture_set_up(void **state)
{
    struct http_fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    http_fixture_init(f);
    *state = f;
    return 0;
}

int http_fixture_tear_down(void **state)
{
    free(*state);
    return 0;
}

static void *serve(void *arg)
{
    struct http_fixture *f = arg;
    struct ruvllm_error err = {0};

    if (rv_http_server_run(f->server, &err) != RUVLLM_OK)
        fprintf(stderr, "the server failed: %s\n", err.message);
    f->has_returned = true;
    return NULL;
}

void http_fixture_start(struct http_fixture *f)
{
    static const char *const loopback[] = {"127.0.0.1:0"};

    if (f->config.n_addresses + f->config.n_inherited == 0) {
        f->config.addresses = loopback;
        f->config.n_addresses = 1;
    }
    assert_ok(rv_http_server_open(&f->server, &f->config, err));
    if (f->every_5ms)
        assert_ok(rv_http_server_every(f->server, 5, f->every_5ms, f->every_user, err));
    f->port = rv_http_server_port(f->server, 0);
    assert_int_equal(pthread_create(&f->thread, NULL, serve, f), 0);
}

void http_fixture_stop(struct http_fixture *f, int32_t drain_ms)
{
    rv_http_server_stop(f->server, drain_ms);
    pthread_join(f->thread, NULL);
    rv_http_server_close(f->server);
    assert_int_equal(f->n_headers, f->n_ends[0] + f->n_ends[1] + f->n_ends[2]);
}

/* ---- the client ------------------------------------------------------------------------------- */

int http_fixture_connect(const struct http_fixture *f)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)f->port)};
    struct timeval patience = {.tv_sec = 10};
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

bool http_fixture_send_bytes(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

        if (n <= 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

void http_fixture_send(int fd, const char *text)
{
    assert_true(http_fixture_send_bytes(fd, text, strlen(text)));
}

size_t http_fixture_read(int fd, char *out, size_t cap, int quiet_ms, bool *is_closed)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    size_t len = 0;
    ssize_t n = 1;

    *is_closed = false;
    while (len + 1 < cap && poll(&readable, 1, quiet_ms) == 1) {
        n = recv(fd, out + len, cap - 1 - len, 0);
        if (n <= 0) {
            *is_closed = true;
            break;
        }
        len += (size_t)n;
    }
    out[len] = '\0';
    return len;
}

size_t http_fixture_read_answer(int fd, char *out, size_t cap)
{
    size_t len = 0, want = cap;
    const char *length, *end;

    while (len < want && len + 1 < cap) {
        ssize_t n = recv(fd, out + len, want == cap ? 1 : want - len, 0);

        if (n <= 0)
            break;
        len += (size_t)n;
        out[len] = '\0';
        end = want == cap ? strstr(out, "\r\n\r\n") : NULL;
        if (end) {
            length = strstr(out, "content-length: ");
            want = (size_t)(end + 4 - out) + (length ? strtoul(length + 16, NULL, 10) : 0);
        }
    }
    out[len] = '\0';
    return len;
}

bool http_fixture_begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

void http_fixture_ask(int fd)
{
    char answer[4096];

    http_fixture_send(fd, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    http_fixture_read_answer(fd, answer, sizeof(answer));
    assert_true(http_fixture_begins_with(answer, "HTTP/1.1 200 "));
}

int http_fixture_wait(_Atomic int *counter, int n, int ms)
{
    int64_t until_us = rv_clock_us() + (int64_t)ms * 1000;

    while (*counter < n && rv_clock_us() < until_us)
        poll(NULL, 0, 1);
    return *counter;
}

size_t http_fixture_talk(const struct http_fixture *f, const char *data, size_t len, uint64_t seed, char *out,
                         size_t cap, bool *is_closed)
{
    int fd = http_fixture_connect(f);
    struct rv_rng rng;
    size_t n, out_len;

    rv_rng_init(&rng, seed);
    for (size_t at = 0; at < len; at += n) {
        n = seed == 0 ? len : seed == 1 ? 1 : 1 + (size_t)rv_rng_below(&rng, 40);
        n = n < len - at ? n : len - at;
        if (!http_fixture_send_bytes(fd, data + at, n))
            break;
        if (seed > 1 && rv_rng_below(&rng, 8) == 0)
            poll(NULL, 0, 1); // let the server see the piece alone
    }
    out_len = http_fixture_read(fd, out, cap, 5000, is_closed);
    close(fd);
    return out_len;
}
