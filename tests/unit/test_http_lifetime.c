/* The HTTP layer over time: deadlines, back-pressure, peers that go, posts, drain, and where it listens. */
#include "server/http/http_server.h"
#include "support/http_fixture.h"
#include "support/test.h"

#include "base/clock.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_MAX = 64 << 10 };

/* ---- deadlines -------------------------------------------------------------------------------- */

/* Sends a byte every 5 ms until the server closes; what it said, and after how long. */
static int64_t drip(int fd, const char *text, char *answer, size_t cap)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    int64_t start_us = rv_clock_us();
    bool is_closed;

    while (*text && poll(&readable, 1, 5) == 0)
        if (!http_fixture_send_bytes(fd, text++, 1))
            break;
    http_fixture_read(fd, answer, cap, 2000, &is_closed);
    assert_true(is_closed);
    return (rv_clock_us() - start_us) / 1000;
}

static void a_slow_header_is_408_at_its_deadline(void **state)
{
    struct http_fixture *f = *state;
    char answer[ANSWER_MAX], text[2048] = "GET /a HTTP/1.1\r\nHost: x\r\nX: ";
    int64_t ms;
    int fd;

    f->config.header_ms = 100;
    http_fixture_start(f);
    fd = http_fixture_connect(f);
    memset(text + strlen(text), 'y', 2000);
    ms = drip(fd, text, answer, sizeof(answer));
    assert_true(http_fixture_begins_with(answer, "HTTP/1.1 408 "));
    assert_in_range(ms, 95, 1000);
    close(fd);
    http_fixture_stop(f, 100);
    assert_int_equal(f->n_headers, 0);
}

static void a_slow_body_is_408_at_its_deadline(void **state)
{
    struct http_fixture *f = *state;
    char answer[ANSWER_MAX], text[2048] = {0};
    int64_t ms;
    int fd;

    f->config.body_ms = 100;
    http_fixture_start(f);
    fd = http_fixture_connect(f);
    http_fixture_send(fd, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n");
    memset(text, 'x', 2000);
    ms = drip(fd, text, answer, sizeof(answer));
    assert_true(http_fixture_begins_with(answer, "HTTP/1.1 408 "));
    assert_in_range(ms, 95, 1000);
    close(fd);
    http_fixture_stop(f, 100);
    assert_int_equal(f->n_requests, 0);
    assert_int_equal(f->n_ends[RV_HTTP_END_DEADLINE], 1);
}

static void connections_that_idle_are_closed_without_a_word(void **state)
{
    struct http_fixture *f = *state;
    char answer[ANSWER_MAX];
    bool is_closed;
    int fresh, used;

    f->config.header_ms = 100;
    f->config.idle_ms = 150;
    http_fixture_start(f);
    fresh = http_fixture_connect(f);
    used = http_fixture_connect(f);
    http_fixture_ask(used);
    assert_int_equal(http_fixture_read(fresh, answer, sizeof(answer), 2000, &is_closed), 0);
    assert_true(is_closed);
    assert_int_equal(http_fixture_read(used, answer, sizeof(answer), 2000, &is_closed), 0);
    assert_true(is_closed);
    close(fresh);
    close(used);
    http_fixture_stop(f, 100);
}

static void a_reader_that_takes_nothing_is_closed(void **state)
{
    struct http_fixture *f = *state;
    int fd;

    f->config.stall_ms = 200;
    http_fixture_start(f);
    fd = http_fixture_connect(f);
    http_fixture_send(fd, "GET /flood HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(http_fixture_wait(&f->n_ends[RV_HTTP_END_DEADLINE], 1, 3000), 1);
    close(fd);
    http_fixture_stop(f, 100);
}

static void a_reader_that_takes_its_time_but_takes_is_not_closed(void **state)
{
    struct http_fixture *f = *state;
    static char piece[128 << 10];
    int64_t start_us = rv_clock_us();
    size_t total = 0;
    ssize_t n;
    int fd;

    f->config.stall_ms = 500;
    http_fixture_start(f);
    fd = http_fixture_connect(f);
    http_fixture_send(fd, "GET /flood HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    while ((n = recv(fd, piece, sizeof(piece), MSG_WAITALL)) > 0) {
        total += (size_t)n;
        poll(NULL, 0, 20);
    }
    assert_true(total > HTTP_FIXTURE_FLOOD);
    assert_true(rv_clock_us() - start_us > 2 * 500 * 1000); // much longer than a stall may last
    close(fd);
    http_fixture_stop(f, 1000);
    assert_int_equal(f->n_ends[RV_HTTP_END_SENT], 1);
}

static void a_writer_is_told_to_wait_and_told_when_there_is_room(void **state)
{
    struct http_fixture *f = *state;
    size_t total = 0;
    char *piece = malloc(1 << 20);
    ssize_t n;
    int fd;

    assert_non_null(piece);
    http_fixture_start(f);
    fd = http_fixture_connect(f);
    http_fixture_send(fd, "GET /flood HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    poll(NULL, 0, 100);
    assert_int_equal(f->n_ends[RV_HTTP_END_SENT], 0);
    while ((n = recv(fd, piece, 1 << 20, 0)) > 0)
        total += (size_t)n;
    assert_int_equal(n, 0);
    assert_true(total > HTTP_FIXTURE_FLOOD && total < HTTP_FIXTURE_FLOOD + HTTP_FIXTURE_FLOOD / 16);
    assert_true(f->n_rooms > 4);
    close(fd);
    free(piece);
    http_fixture_stop(f, 1000);
    assert_int_equal(f->n_ends[RV_HTTP_END_SENT], 1);
}

static void silent_event_streams_are_pinged(void **state)
{
    struct http_fixture *f = *state;
    char answer[ANSWER_MAX];
    bool is_closed;
    int fd;

    f->config.ping_ms = 50;
    http_fixture_start(f);
    fd = http_fixture_connect(f);
    http_fixture_send(fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    poll(NULL, 0, 180);
    http_fixture_read(fd, answer, sizeof(answer), 10, &is_closed);
    assert_false(is_closed);
    assert_non_null(strstr(answer, "9\r\ndata: 1\n\n\r\n8\r\n: ping\n\n\r\n8\r\n: ping\n\n\r\n"));
    close(fd);
    http_fixture_stop(f, 1000);
}

/* ---- the peer's end --------------------------------------------------------------------------- */

static void check_gone(struct http_fixture *f, const char *path, size_t n_pipelined, bool is_half)
{
    char request[256], answer[ANSWER_MAX], more[8192];
    int fd = http_fixture_connect(f), n_before = f->n_ends[RV_HTTP_END_GONE], n_requests = f->n_requests;
    int64_t start_us;
    bool is_closed;

    snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
    http_fixture_send(fd, request);
    http_fixture_wait(&f->n_requests, n_requests + 1, 1000);
    memset(more, 'x', sizeof(more));
    assert_true(http_fixture_send_bytes(fd, more, n_pipelined));
    http_fixture_read(fd, answer, sizeof(answer), 30, &is_closed);
    start_us = rv_clock_us();
    if (is_half)
        shutdown(fd, SHUT_WR);
    else
        close(fd);
    assert_int_equal(http_fixture_wait(&f->n_ends[RV_HTTP_END_GONE], n_before + 1, 1000), n_before + 1);
    assert_in_range(f->ended_us - start_us, 0, 50000);
    if (is_half)
        close(fd);
}

static void a_peer_that_goes_is_noticed_at_once(void **state)
{
    struct http_fixture *f = *state;
    struct linger reset = {.l_onoff = 1};
    int fd;

    http_fixture_start(f);
    check_gone(f, "/hold", 0, false);
    check_gone(f, "/hold", 0, true);
    check_gone(f, "/stream", 0, false);
    check_gone(f, "/hold", 8192, false); // more than is read of later requests
    check_gone(f, "/hold", 8192, true);
    fd = http_fixture_connect(f);
    http_fixture_send(fd, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
    http_fixture_wait(&f->n_requests, 6, 1000);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(fd); // resets
    assert_int_equal(http_fixture_wait(&f->n_ends[RV_HTTP_END_GONE], 6, 1000), 6);
    http_fixture_stop(f, 100);
}

static void a_peer_that_has_said_all_still_gets_a_complete_answer(void **state)
{
    struct http_fixture *f = *state;
    char answer[ANSWER_MAX];
    bool is_closed;
    int fd;

    http_fixture_start(f);
    for (int i = 0; i < 50; i++) {
        fd = http_fixture_connect(f);
        http_fixture_send(fd, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
        shutdown(fd, SHUT_WR);
        http_fixture_read(fd, answer, sizeof(answer), 2000, &is_closed);
        assert_true(is_closed && http_fixture_begins_with(answer, "HTTP/1.1 200 "));
        close(fd);
    }
    http_fixture_stop(f, 100);
}

static void a_peer_that_resets_in_the_middle_of_an_answer_ends_only_itself(void **state)
{
    struct http_fixture *f = *state;
    struct linger reset = {.l_onoff = 1};
    char piece[4096];
    int fd;

    http_fixture_start(f);
    for (int i = 0; i < 20; i++) {
        fd = http_fixture_connect(f);
        http_fixture_send(fd, "GET /flood HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_true(recv(fd, piece, sizeof(piece), 0) > 0);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        close(fd);
    }
    assert_int_equal(http_fixture_wait(&f->n_ends[RV_HTTP_END_GONE], 20, 2000), 20);
    http_fixture_stop(f, 100);
}

/* The default of SIGPIPE, which would end this program, is in force here. */
static void writing_to_a_peer_that_closed_and_then_reset_raises_no_signal(void **state)
{
    struct http_fixture *f = *state;
    size_t len = 16 << 20;
    char *body = calloc(1, len), piece[4096];
    int fd;

    assert_non_null(body);
    f->config.max_body = len;
    http_fixture_start(f);
    for (int i = 1; i <= 3; i++) {
        fd = http_fixture_connect(f);
        http_fixture_send(fd, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 16777216\r\n\r\n");
        assert_true(http_fixture_send_bytes(fd, body, len));
        assert_true(recv(fd, piece, sizeof(piece), 0) > 0); // the answer is complete and on its way
        shutdown(fd, SHUT_WR);
        poll(NULL, 0, 20);
        close(fd); // with bytes unread: a reset
        assert_int_equal(http_fixture_wait(&f->n_ends[RV_HTTP_END_GONE], i, 2000), i);
    }
    free(body);
    http_fixture_stop(f, 100);
}

/* ---- other threads ---------------------------------------------------------------------------- */

enum { N_POSTERS = 4, N_POSTS = 25000 };

struct poster {
    struct rv_http_server *server;
    struct rv_http_post posts[64];
    int n_run[64]; // only on the server's thread
    struct poster_arg {
        struct poster *poster;
        int i;
    } args[64];
    _Atomic int n_total;
};

static void count_post(void *user)
{
    struct poster_arg *arg = user;

    arg->poster->n_run[arg->i]++;
    arg->poster->n_total++;
}

static void *post_many(void *user)
{
    struct poster *poster = user;

    for (int i = 0; i < N_POSTS; i++)
        rv_http_server_post(poster->server, &poster->posts[i % 64]);
    return NULL;
}

static void posts_of_many_threads_run_on_the_servers(void **state)
{
    struct http_fixture *f = *state;
    static struct poster posters[N_POSTERS];
    pthread_t threads[N_POSTERS];

    http_fixture_start(f);
    for (int k = 0; k < N_POSTERS; k++) {
        posters[k].server = f->server;
        for (int i = 0; i < 64; i++) {
            posters[k].args[i] = (struct poster_arg){&posters[k], i};
            posters[k].posts[i] = (struct rv_http_post){.fn = count_post, .user = &posters[k].args[i]};
        }
        assert_int_equal(pthread_create(&threads[k], NULL, post_many, &posters[k]), 0);
    }
    for (int k = 0; k < N_POSTERS; k++)
        pthread_join(threads[k], NULL);
    http_fixture_stop(f, 1000); // runs what still waits
    for (int k = 0; k < N_POSTERS; k++) {
        assert_in_range(posters[k].n_total, 64, N_POSTS);
        for (int i = 0; i < 64; i++)
            assert_true(posters[k].n_run[i] >= 1 && !posters[k].posts[i].is_queued);
    }
}

static void tick(void *user)
{
    ++*(_Atomic int *)user;
}

static void timers_run_again_and_again(void **state)
{
    struct http_fixture *f = *state;
    struct ruvllm_error failure = {0};
    _Atomic int n_ticks = 0;
    static const char *const address[] = {"127.0.0.1:0"};

    f->config.addresses = address;
    f->config.n_addresses = 1;
    assert_ok(rv_http_server_open(&f->server, &f->config, err));
    for (int i = 0; i < 8; i++)
        assert_ok(rv_http_server_every(f->server, 10, tick, &n_ticks, err));
    assert_fails(rv_http_server_every(f->server, 10, tick, &n_ticks, &failure), RUVLLM_TOO_LARGE, failure, "at most 8");
    rv_http_server_stop(f->server, 0);
    assert_ok(rv_http_server_run(f->server, err)); // stopped before it ran
    rv_http_server_close(f->server);
    f->every_5ms = tick;
    f->every_user = &n_ticks;
    http_fixture_start(f);
    assert_true(http_fixture_wait(&n_ticks, 5, 1000) >= 5);
    http_fixture_stop(f, 0);
}

/* ---- drain ------------------------------------------------------------------------------------ */

static void wait_for_connections(const struct http_fixture *f, int32_t n)
{
    int64_t until_us = rv_clock_us() + 2000000;

    while (rv_http_server_n_connections(f->server) < n && rv_clock_us() < until_us)
        poll(NULL, 0, 1);
    assert_int_equal(rv_http_server_n_connections(f->server), n);
}

static void draining_lets_answers_end_and_closes_what_idles(void **state)
{
    struct http_fixture *f = *state;
    char answer[ANSWER_MAX];
    bool is_closed;
    int idle, partial;

    http_fixture_start(f);
    idle = http_fixture_connect(f);
    http_fixture_ask(idle);
    partial = http_fixture_connect(f);
    http_fixture_send(partial, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhel");
    http_fixture_wait(&f->n_headers, 2, 1000);
    rv_http_server_stop(f->server, 5000);
    assert_int_equal(http_fixture_read(idle, answer, sizeof(answer), 1000, &is_closed), 0);
    assert_true(is_closed);
    assert_false(f->has_returned);
    http_fixture_send(partial, "lo");
    http_fixture_read(partial, answer, sizeof(answer), 1000, &is_closed);
    assert_true(is_closed && http_fixture_begins_with(answer, "HTTP/1.1 200 "));
    assert_non_null(strstr(answer, "connection: close\r\n"));
    close(idle);
    close(partial);
    pthread_join(f->thread, NULL);
    assert_true(f->has_returned);
    rv_http_server_close(f->server);
    assert_int_equal(f->n_ends[RV_HTTP_END_SENT], 2);
}

/* Accepted, and its request still on its way when the end begins. */
static void draining_waits_a_moment_for_a_first_request(void **state)
{
    struct http_fixture *f = *state;
    char answer[ANSWER_MAX];
    int64_t start_us;
    bool is_closed;
    int late, silent;

    http_fixture_start(f);
    late = http_fixture_connect(f);
    silent = http_fixture_connect(f);
    wait_for_connections(f, 2);
    start_us = rv_clock_us();
    rv_http_server_stop(f->server, 5000);
    poll(NULL, 0, 50);
    rv_http_server_stop(f->server, 5000); // asking again shortens nobody's time
    http_fixture_send(late, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    http_fixture_read(late, answer, sizeof(answer), 2000, &is_closed);
    assert_true(is_closed && http_fixture_begins_with(answer, "HTTP/1.1 200 "));
    assert_non_null(strstr(answer, "connection: close\r\n"));
    pthread_join(f->thread, NULL); // the silent one was waited for, and for no longer than its moment
    assert_in_range(rv_clock_us() - start_us, 240000, 2000000);
    rv_http_server_close(f->server);
    assert_int_equal(http_fixture_read(silent, answer, sizeof(answer), 2000, &is_closed), 0);
    assert_true(is_closed);
    assert_int_equal(f->n_ends[RV_HTTP_END_SENT], 1);
    close(late);
    close(silent);
}

/* Connected, its request sent, and the end comes before it was accepted. */
static void draining_answers_who_waits_to_be_accepted(void **state)
{
    static const char *const address[] = {"127.0.0.1:0"};
    struct http_fixture *f = *state;
    char answer[ANSWER_MAX];
    bool is_closed;
    int fds[3];

    f->config.addresses = address;
    f->config.n_addresses = 1;
    assert_ok(rv_http_server_open(&f->server, &f->config, err));
    f->port = rv_http_server_port(f->server, 0);
    for (int i = 0; i < 3; i++) {
        fds[i] = http_fixture_connect(f);
        http_fixture_send(fds[i], "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    rv_http_server_stop(f->server, 5000);
    assert_ok(rv_http_server_run(f->server, err));
    for (int i = 0; i < 3; i++) {
        http_fixture_read(fds[i], answer, sizeof(answer), 1000, &is_closed);
        assert_true(is_closed && http_fixture_begins_with(answer, "HTTP/1.1 200 "));
        close(fds[i]);
    }
    rv_http_server_close(f->server);
    assert_int_equal(f->n_ends[RV_HTTP_END_SENT], 3);
}

static void draining_cuts_off_what_takes_too_long(void **state)
{
    struct http_fixture *f = *state;
    int64_t start_us;
    int fd;

    http_fixture_start(f);
    fd = http_fixture_connect(f);
    http_fixture_send(fd, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
    http_fixture_wait(&f->n_requests, 1, 1000);
    start_us = rv_clock_us();
    http_fixture_stop(f, 100);
    assert_in_range(rv_clock_us() - start_us, 95000, 1000000);
    assert_int_equal(f->n_ends[RV_HTTP_END_DEADLINE], 1);
    close(fd);
}

/* ---- addresses -------------------------------------------------------------------------------- */

static void a_unix_socket_serves_too_and_its_leftover_is_replaced(void **state)
{
    struct http_fixture *f = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[128];
    const char *const names[] = {name};
    int fd;

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", test_temp_path(".sock"));
    snprintf(name, sizeof(name), "unix:%s", address.sun_path);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    close(fd); // leaves the file
    f->config.addresses = names;
    f->config.n_addresses = 1;
    http_fixture_start(f);
    assert_int_equal(f->port, 0);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    http_fixture_ask(fd);
    close(fd);
    http_fixture_stop(f, 100);
    assert_int_not_equal(access(address.sun_path, F_OK), 0);
}

static void an_inherited_socket_is_used_and_a_wrong_one_refused(void **state)
{
    struct http_fixture *f = *state;
    struct sockaddr_in local = {.sin_family = AF_INET};
    struct ruvllm_error err = {0};
    int inherited, fd;

    local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    inherited = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(inherited, (const struct sockaddr *)&local, sizeof(local)), 0);
    f->config.inherited = &inherited;
    f->config.n_inherited = 1;
    assert_fails(rv_http_server_open(&f->server, &f->config, &err), RUVLLM_INVALID, err, "not a listening socket");
    assert_int_equal(listen(inherited, 8), 0);
    http_fixture_start(f);
    fd = http_fixture_connect(f);
    http_fixture_ask(fd);
    close(fd);
    http_fixture_stop(f, 100);
}

static void ipv6_is_listened_to_as_ipv4_is(void **state)
{
    struct http_fixture *f = *state;
    static const char *const addresses[] = {"127.0.0.1:0", "[::1]:0"};
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    char answer[ANSWER_MAX];
    int fd = socket(AF_INET6, SOCK_STREAM, 0);

    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        skip(); // a machine without IPv6
    close(fd);
    f->config.addresses = addresses;
    f->config.n_addresses = 2;
    http_fixture_start(f);
    address.sin6_port = htons((uint16_t)rv_http_server_port(f->server, 1));
    fd = socket(AF_INET6, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    http_fixture_send(fd, "GET /a HTTP/1.1\r\nHost: [::1]:80\r\n\r\n");
    http_fixture_read_answer(fd, answer, sizeof(answer));
    assert_true(http_fixture_begins_with(answer, "HTTP/1.1 200 "));
    close(fd);
    http_fixture_stop(f, 100);
}

/* Time on a processor, of all threads. */
static double cpu_ms(void)
{
    return (double)clock() * 1000 / CLOCKS_PER_SEC;
}

static void without_descriptors_accepting_waits_and_goes_on_later(void **state)
{
    struct http_fixture *f = *state;
    struct rlimit before, low;
    char answer[ANSWER_MAX];
    double spent_ms;
    int fd;

    http_fixture_start(f);
    fd = http_fixture_connect(f); // to know the next free descriptor
    http_fixture_ask(fd);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    low.rlim_cur = (rlim_t)fd + 3; // one for a client; its other end finds none
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    close(fd);
    while (rv_http_server_n_connections(f->server) > 0)
        poll(NULL, 0, 1);
    low.rlim_cur = (rlim_t)fd + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    fd = http_fixture_connect(f);
    http_fixture_send(fd, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    spent_ms = cpu_ms();
    poll(NULL, 0, 400);
    spent_ms = cpu_ms() - spent_ms;
    assert_int_equal(rv_http_server_n_connections(f->server), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(spent_ms < 20); // four tries
    http_fixture_read_answer(fd, answer, sizeof(answer));
    assert_true(http_fixture_begins_with(answer, "HTTP/1.1 200 "));
    close(fd);
    http_fixture_stop(f, 100);
}

static void an_address_that_cannot_be_used_is_named(void **state)
{
    struct http_fixture *f = *state;
    static const char *const wrong[] = {"127.0.0.1", "::1:80", "[::1]", "127.0.0.1:x", "unix:", "[1.2.3.4]:99999999"};
    struct ruvllm_error err = {0};

    f->config.n_addresses = 1;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        f->config.addresses = &wrong[i];
        assert_fails(rv_http_server_open(&f->server, &f->config, &err), RUVLLM_INVALID, err, wrong[i]);
    }
    f->config.n_addresses = 0;
    assert_fails(rv_http_server_open(&f->server, &f->config, &err), RUVLLM_INVALID, err, "needs an address");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, http_fixture_set_up, http_fixture_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_slow_header_is_408_at_its_deadline),
        CASE(a_slow_body_is_408_at_its_deadline),
        CASE(connections_that_idle_are_closed_without_a_word),
        CASE(a_reader_that_takes_nothing_is_closed),
        CASE(a_reader_that_takes_its_time_but_takes_is_not_closed),
        CASE(a_writer_is_told_to_wait_and_told_when_there_is_room),
        CASE(silent_event_streams_are_pinged),
        CASE(a_peer_that_goes_is_noticed_at_once),
        CASE(a_peer_that_has_said_all_still_gets_a_complete_answer),
        CASE(a_peer_that_resets_in_the_middle_of_an_answer_ends_only_itself),
        CASE(writing_to_a_peer_that_closed_and_then_reset_raises_no_signal),
        CASE(posts_of_many_threads_run_on_the_servers),
        CASE(timers_run_again_and_again),
        CASE(draining_lets_answers_end_and_closes_what_idles),
        CASE(draining_waits_a_moment_for_a_first_request),
        CASE(draining_answers_who_waits_to_be_accepted),
        CASE(draining_cuts_off_what_takes_too_long),
        CASE(a_unix_socket_serves_too_and_its_leftover_is_replaced),
        CASE(an_inherited_socket_is_used_and_a_wrong_one_refused),
        CASE(ipv6_is_listened_to_as_ipv4_is),
        CASE(without_descriptors_accepting_waits_and_goes_on_later),
        CASE(an_address_that_cannot_be_used_is_named),
    };
#undef CASE

    return cmocka_run_group_tests(tests, NULL, NULL);
}
