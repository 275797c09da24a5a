/* The HTTP layer over real sockets: exchanges, limits, deadlines, back-pressure, posts, drain. */
#include "server/http/http_server.h"
#include "support/http_fixture.h"
#include "support/test.h"

#include "base/clock.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { ANSWER_MAX = 64 << 10 };

static int set_up(void **state)
{
    struct http_fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    http_fixture_init(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* ---- exchanges -------------------------------------------------------------------------------- */

static void a_request_is_answered_and_the_connection_kept(void **state)
{
    struct http_fixture *f = *state;
    char answer[ANSWER_MAX];
    int fd;

    http_fixture_start(f);
    fd = http_fixture_connect(f);
    for (int i = 0; i < 3; i++) {
        http_fixture_send(fd, "POST /a/b?c=d HTTP/1.1\r\nHost: x\r\nX-Seen: one\r\nx-seen:  two \r\nX-Empty:\r\n"
                              "Content-Length: 5\r\n\r\nhello");
        http_fixture_read_answer(fd, answer, sizeof(answer));
        assert_true(begins_with(answer, "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: "));
        assert_null(strstr(answer, "connection:"));
        assert_non_null(strstr(answer, "\r\n\r\nPOST /a/b?c=d\nseen=one, two\nhello"));
    }
    assert_int_equal(rv_http_server_n_connections(f->server), 1);
    close(fd);
    http_fixture_stop(f, 1000);
    assert_int_equal(f->n_ends[RV_HTTP_END_SENT], 3);
}

static void pipelined_requests_are_answered_in_their_order(void **state)
{
    struct http_fixture *f = *state;
    static const char text[] = "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /post HTTP/1.1\r\nHost: x\r\n\r\n"
                               "\r\nPOST /3 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
                               "GET /4 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nGET /5 HTTP/1.1\r\n";
    char answer[ANSWER_MAX];
    const char *at[4];
    bool is_closed;

    http_fixture_start(f);
    http_fixture_talk(f, text, sizeof(text) - 1, 0, answer, sizeof(answer), &is_closed);
    assert_true(is_closed);
    at[0] = strstr(answer, "GET /1?");
    at[1] = strstr(answer, "posted");
    at[2] = strstr(answer, "POST /3?");
    at[3] = strstr(answer, "GET /4?");
    for (int i = 0; i < 4; i++)
        assert_true(at[i] && (i == 0 || at[i] > at[i - 1]));
    assert_null(strstr(answer, "/5"));
    http_fixture_stop(f, 1000);
    assert_int_equal(f->n_requests, 4);
}

static void a_chunked_body_is_put_together_and_its_trailers_ignored(void **state)
{
    struct http_fixture *f = *state;
    static const char text[] = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: Chunked\r\n\r\n"
                               "5\r\nhello\r\n1;name=\"value\"\r\n,\r\n00a\r\n0123456789\r\n0\r\nX-Seen: no\r\n\r\n";
    char answer[ANSWER_MAX];
    bool is_closed;

    http_fixture_start(f);
    http_fixture_talk(f, text, sizeof(text) - 1, 0, answer, sizeof(answer), &is_closed);
    assert_non_null(strstr(answer, "seen=-\nhello,0123456789"));
    http_fixture_stop(f, 1000);
}

static void head_and_statuses_without_body_have_none(void **state)
{
    struct http_fixture *f = *state;
    char answer[ANSWER_MAX];
    bool is_closed;
    int fd;

    http_fixture_start(f);
    fd = http_fixture_connect(f);
    http_fixture_send(fd, "HEAD /a HTTP/1.1\r\nHost: x\r\n\r\nGET /status/204 HTTP/1.1\r\nHost: x\r\n\r\n"
                          "GET /status/304 HTTP/1.1\r\nHost: x\r\n\r\n"
                          "HEAD /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    http_fixture_read(fd, answer, sizeof(answer), 100, &is_closed);
    assert_true(begins_with(answer, "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 16\r\n\r\n"
                                    "HTTP/1.1 204 No Content\r\n"));
    assert_null(strstr(answer, "body"));
    assert_null(strstr(answer, "data:"));
    assert_int_equal(strlen(strstr(answer, "transfer-encoding: chunked\r\nconnection: close\r\n\r\n")), 49);
    close(fd);
    http_fixture_stop(f, 100);
}

static void http10_gets_a_stream_until_close_and_keeps_alive_only_when_asked(void **state)
{
    struct http_fixture *f = *state;
    char answer[ANSWER_MAX];
    bool is_closed;
    int fd;

    http_fixture_start(f);
    fd = http_fixture_connect(f);
    http_fixture_send(fd, "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    http_fixture_read_answer(fd, answer, sizeof(answer));
    assert_non_null(strstr(answer, "connection: keep-alive\r\n"));
    http_fixture_send(fd, "GET /b HTTP/1.0\r\n\r\n");
    http_fixture_read(fd, answer, sizeof(answer), 1000, &is_closed);
    assert_true(is_closed);
    assert_non_null(strstr(answer, "connection: close\r\n"));
    close(fd);
    fd = http_fixture_connect(f);
    http_fixture_send(fd, "GET /stream HTTP/1.0\r\n\r\n");
    http_fixture_read(fd, answer, sizeof(answer), 100, &is_closed);
    assert_null(strstr(answer, "chunked"));
    assert_non_null(strstr(answer, "\r\n\r\ndata: 1\n\n"));
    close(fd);
    http_fixture_stop(f, 100);
}

static void absolute_and_asterisk_targets_are_understood(void **state)
{
    struct http_fixture *f = *state;
    static const char text[] =
        "GET http://X:80/a?b HTTP/1.1\r\nHost: x:80\r\n\r\nGET http://x?q HTTP/1.1\r\nHost: x\r\n\r\n"
        "OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    char answer[ANSWER_MAX];
    bool is_closed;

    http_fixture_start(f);
    http_fixture_talk(f, text, sizeof(text) - 1, 0, answer, sizeof(answer), &is_closed);
    assert_non_null(strstr(answer, "GET /a?b\n"));
    assert_non_null(strstr(answer, "GET /?q\n"));
    assert_non_null(strstr(answer, "OPTIONS *?\n"));
    http_fixture_stop(f, 100);
}

static void a_peer_that_waits_for_100_is_told_after_its_headers_were_accepted(void **state)
{
    struct http_fixture *f = *state;
    char answer[ANSWER_MAX];
    bool is_closed;
    int fd;

    http_fixture_start(f);
    fd = http_fixture_connect(f);
    http_fixture_send(fd, "POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    http_fixture_read_answer(fd, answer, sizeof(answer));
    assert_string_equal(answer, "HTTP/1.1 100 Continue\r\n\r\n");
    http_fixture_send(fd, "ok");
    http_fixture_read_answer(fd, answer, sizeof(answer));
    assert_non_null(strstr(answer, "seen=-\nok"));
    http_fixture_send(fd, "POST /refuse HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    http_fixture_read(fd, answer, sizeof(answer), 2000, &is_closed);
    assert_true(is_closed && begins_with(answer, "HTTP/1.1 401 Unauthorized\r\n"));
    assert_non_null(strstr(answer, "www-authenticate: Bearer\r\n"));
    close(fd);
    http_fixture_stop(f, 100);
    assert_int_equal(f->n_requests, 1);
    assert_int_equal(f->n_headers, 2);
}

static void a_refusal_without_a_body_to_come_keeps_the_connection(void **state)
{
    struct http_fixture *f = *state;
    char answer[ANSWER_MAX];
    int fd;

    http_fixture_start(f);
    fd = http_fixture_connect(f);
    for (int i = 0; i < 2; i++) {
        http_fixture_send(fd, "GET /refuse HTTP/1.1\r\nHost: x\r\n\r\n");
        http_fixture_read_answer(fd, answer, sizeof(answer));
        assert_true(begins_with(answer, "HTTP/1.1 401 "));
        assert_null(strstr(answer, "connection: close"));
    }
    close(fd);
    http_fixture_stop(f, 100);
}

/* ---- limits ----------------------------------------------------------------------------------- */

/* A GET whose head has exactly `len` bytes. */
static char *head_of(size_t len)
{
    static const char start[] = "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: ";
    char *text = malloc(len + 1);

    assert_non_null(text);
    memset(text, 'y', len);
    memcpy(text, start, sizeof(start) - 1);
    memcpy(text + len - 4, "\r\n\r\n", 5);
    return text;
}

static void a_head_over_its_limit_is_431_at_the_very_byte(void **state)
{
    struct http_fixture *f = *state;
    char answer[ANSWER_MAX], *text;
    bool is_closed;

    f->config.max_header = 1000;
    http_fixture_start(f);
    for (uint64_t seed = 0; seed < 3; seed++) {
        text = head_of(1000);
        http_fixture_talk(f, text, 1000, seed, answer, sizeof(answer), &is_closed);
        assert_true(begins_with(answer, "HTTP/1.1 200 "));
        free(text);
        text = head_of(1001);
        http_fixture_talk(f, text, 1001, seed, answer, sizeof(answer), &is_closed);
        assert_true(is_closed && begins_with(answer, "HTTP/1.1 431 "));
        memset(text, 'y', 1001);
        memcpy(text, "GET /", 5); // a target without end
        http_fixture_talk(f, text, 1001, seed, answer, sizeof(answer), &is_closed);
        assert_true(is_closed && begins_with(answer, "HTTP/1.1 431 "));
        free(text);
    }
    http_fixture_stop(f, 100);
}

static void a_hundred_headers_are_enough(void **state)
{
    struct http_fixture *f = *state;
    char answer[ANSWER_MAX], text[4096];
    bool is_closed;
    size_t len;

    http_fixture_start(f);
    for (int n = 100; n <= 101; n++) {
        len = (size_t)snprintf(text, sizeof(text), "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
        for (int i = 2; i < n; i++)
            len += (size_t)snprintf(text + len, sizeof(text) - len, "X-Seen: %d\r\n", i);
        len += (size_t)snprintf(text + len, sizeof(text) - len, "\r\n");
        http_fixture_talk(f, text, len, 2, answer, sizeof(answer), &is_closed);
        assert_true(begins_with(answer, n == 100 ? "HTTP/1.1 200 " : "HTTP/1.1 431 "));
    }
    http_fixture_stop(f, 100);
}

static void a_body_over_its_limit_is_413_before_it_is_read(void **state)
{
    struct http_fixture *f = *state;
    static const char *const over[] = {
        "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999999999999999\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n",
        "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n62\r\n"};
    char answer[ANSWER_MAX], text[256];
    bool is_closed;
    size_t len;

    f->config.max_body = 100;
    http_fixture_start(f);
    for (size_t i = 0; i < sizeof(over) / sizeof(over[0]); i++) {
        http_fixture_talk(f, over[i], strlen(over[i]), i % 2, answer, sizeof(answer), &is_closed);
        assert_true(is_closed && begins_with(answer, "HTTP/1.1 413 "));
    }
    assert_int_equal(f->n_requests, 0);
    len = (size_t)snprintf(text, sizeof(text),
                           "POST /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 100"
                           "\r\n\r\n%0100d",
                           7);
    http_fixture_talk(f, text, len, 0, answer, sizeof(answer), &is_closed);
    assert_true(begins_with(answer, "HTTP/1.1 200 "));
    http_fixture_stop(f, 100);
}

/* The peer has sent far more than we read when it is refused; the answer reaches it nevertheless. */
static void a_refused_peer_that_goes_on_sending_still_gets_its_answer(void **state)
{
    struct http_fixture *f = *state;
    static const char piece[65536];
    char answer[ANSWER_MAX];
    bool is_closed;
    int fd;

    http_fixture_start(f);
    fd = http_fixture_connect(f);
    http_fixture_send(fd, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n");
    for (int i = 0; i < 100; i++)
        assert_true(http_fixture_send_bytes(fd, piece, sizeof(piece)));
    http_fixture_read(fd, answer, sizeof(answer), 2000, &is_closed);
    assert_true(is_closed && begins_with(answer, "HTTP/1.1 413 "));
    close(fd);
    http_fixture_stop(f, 100);
}

static void chunk_extensions_and_trailers_are_bounded(void **state)
{
    struct http_fixture *f = *state;
    static const char head[] = "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    char answer[ANSWER_MAX], *text = malloc(8192);
    bool is_closed;
    size_t len = sizeof(head) - 1;

    assert_non_null(text);
    f->config.max_header = 1000;
    http_fixture_start(f);
    memcpy(text, head, len);
    for (int i = 0; i < 300; i++)
        len += (size_t)snprintf(text + len, 8192 - len, "1;ab=cd\r\nx\r\n");
    for (uint64_t seed = 0; seed < 3; seed++) {
        http_fixture_talk(f, text, len, seed, answer, sizeof(answer), &is_closed);
        assert_true(is_closed && begins_with(answer, "HTTP/1.1 431 "));
    }
    free(text);
    http_fixture_stop(f, 100);
}

static void too_many_connections_are_told_so(void **state)
{
    struct http_fixture *f = *state;
    char answer[ANSWER_MAX];
    bool is_closed;
    int kept[3], fd;

    f->config.max_connections = 3;
    http_fixture_start(f);
    for (int i = 0; i < 3; i++) {
        kept[i] = http_fixture_connect(f);
        http_fixture_send(kept[i], "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
        http_fixture_read_answer(kept[i], answer, sizeof(answer));
    }
    fd = http_fixture_connect(f);
    http_fixture_send(fd, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    http_fixture_read(fd, answer, sizeof(answer), 2000, &is_closed);
    assert_true(is_closed && begins_with(answer, "HTTP/1.1 503 "));
    close(fd);
    http_fixture_send(kept[1], "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    http_fixture_read_answer(kept[1], answer, sizeof(answer));
    assert_true(begins_with(answer, "HTTP/1.1 200 "));
    for (int i = 0; i < 3; i++)
        close(kept[i]);
    http_fixture_stop(f, 1000);
}

/* ---- cutting ---------------------------------------------------------------------------------- */

static void answers_do_not_depend_on_how_bytes_are_cut(void **state)
{
    struct http_fixture *f = *state;
    static const char *const scripts[] = {
        "GET /a?b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "\r\nGET /a HTTP/1.1\r\nHost: x\r\n\r\nPOST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\nhello\r\nworld"
        "GET /c HTTP/1.0\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nX-Seen: a\r\nX-Seen: "
        "b\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        "GET /refuse HTTP/1.1\r\nHost: x\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nokGET /b HTTP/1.1\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nz\r\n",
        "GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\nBad Header: y\r\n\r\n",
        "POST /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhelloGET /b HTTP/1.1\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
        "HEAD /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b RTSP/1.0\r\nHost: x\r\n\r\n",
    };
    char *whole = malloc(ANSWER_MAX), *cut = malloc(ANSWER_MAX);
    bool is_closed;

    assert_non_null(whole);
    assert_non_null(cut);
    http_fixture_start(f);
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        http_fixture_talk(f, scripts[i], strlen(scripts[i]), 0, whole, ANSWER_MAX, &is_closed);
        assert_true(is_closed);
        assert_true(begins_with(whole, "HTTP/1.1 "));
        for (uint64_t seed = 1; seed < 12; seed++) {
            http_fixture_talk(f, scripts[i], strlen(scripts[i]), seed, cut, ANSWER_MAX, &is_closed);
            assert_true(is_closed);
            assert_string_equal(cut, whole);
        }
    }
    free(whole);
    free(cut);
    http_fixture_stop(f, 100);
}

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
    char answer[ANSWER_MAX], *text = head_of(2000);
    int64_t ms;
    int fd;

    f->config.header_ms = 100;
    http_fixture_start(f);
    fd = http_fixture_connect(f);
    ms = drip(fd, text, answer, sizeof(answer));
    assert_true(begins_with(answer, "HTTP/1.1 408 "));
    assert_in_range(ms, 95, 1000);
    close(fd);
    free(text);
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
    assert_true(begins_with(answer, "HTTP/1.1 408 "));
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
    http_fixture_send(used, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    http_fixture_read_answer(used, answer, sizeof(answer));
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
        assert_true(is_closed && begins_with(answer, "HTTP/1.1 200 "));
        close(fd);
    }
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

static void draining_lets_answers_end_and_closes_what_idles(void **state)
{
    struct http_fixture *f = *state;
    char answer[ANSWER_MAX];
    bool is_closed;
    int idle, partial;

    http_fixture_start(f);
    idle = http_fixture_connect(f);
    http_fixture_send(idle, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    http_fixture_read_answer(idle, answer, sizeof(answer));
    partial = http_fixture_connect(f);
    http_fixture_send(partial, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhel");
    http_fixture_wait(&f->n_headers, 2, 1000);
    rv_http_server_stop(f->server, 5000);
    assert_int_equal(http_fixture_read(idle, answer, sizeof(answer), 1000, &is_closed), 0);
    assert_true(is_closed);
    assert_false(f->has_returned);
    http_fixture_send(partial, "lo");
    http_fixture_read(partial, answer, sizeof(answer), 1000, &is_closed);
    assert_true(is_closed && begins_with(answer, "HTTP/1.1 200 "));
    assert_non_null(strstr(answer, "connection: close\r\n"));
    close(idle);
    close(partial);
    pthread_join(f->thread, NULL);
    assert_true(f->has_returned);
    rv_http_server_close(f->server);
    assert_int_equal(f->n_ends[RV_HTTP_END_SENT], 2);
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
    char name[128], answer[ANSWER_MAX];
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
    http_fixture_send(fd, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    http_fixture_read_answer(fd, answer, sizeof(answer));
    assert_true(begins_with(answer, "HTTP/1.1 200 "));
    close(fd);
    http_fixture_stop(f, 100);
    assert_int_not_equal(access(address.sun_path, F_OK), 0);
}

static void an_inherited_socket_is_used_and_a_wrong_one_refused(void **state)
{
    struct http_fixture *f = *state;
    struct sockaddr_in local = {.sin_family = AF_INET};
    struct ruvllm_error err = {0};
    char answer[ANSWER_MAX];
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
    http_fixture_send(fd, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    http_fixture_read_answer(fd, answer, sizeof(answer));
    assert_true(begins_with(answer, "HTTP/1.1 200 "));
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
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_request_is_answered_and_the_connection_kept),
        CASE(pipelined_requests_are_answered_in_their_order),
        CASE(a_chunked_body_is_put_together_and_its_trailers_ignored),
        CASE(head_and_statuses_without_body_have_none),
        CASE(http10_gets_a_stream_until_close_and_keeps_alive_only_when_asked),
        CASE(absolute_and_asterisk_targets_are_understood),
        CASE(a_peer_that_waits_for_100_is_told_after_its_headers_were_accepted),
        CASE(a_refusal_without_a_body_to_come_keeps_the_connection),
        CASE(a_head_over_its_limit_is_431_at_the_very_byte),
        CASE(a_hundred_headers_are_enough),
        CASE(a_body_over_its_limit_is_413_before_it_is_read),
        CASE(a_refused_peer_that_goes_on_sending_still_gets_its_answer),
        CASE(chunk_extensions_and_trailers_are_bounded),
        CASE(too_many_connections_are_told_so),
        CASE(answers_do_not_depend_on_how_bytes_are_cut),
        CASE(a_slow_header_is_408_at_its_deadline),
        CASE(a_slow_body_is_408_at_its_deadline),
        CASE(connections_that_idle_are_closed_without_a_word),
        CASE(a_reader_that_takes_nothing_is_closed),
        CASE(a_writer_is_told_to_wait_and_told_when_there_is_room),
        CASE(silent_event_streams_are_pinged),
        CASE(a_peer_that_goes_is_noticed_at_once),
        CASE(a_peer_that_has_said_all_still_gets_a_complete_answer),
        CASE(posts_of_many_threads_run_on_the_servers),
        CASE(timers_run_again_and_again),
        CASE(draining_lets_answers_end_and_closes_what_idles),
        CASE(draining_cuts_off_what_takes_too_long),
        CASE(a_unix_socket_serves_too_and_its_leftover_is_replaced),
        CASE(an_inherited_socket_is_used_and_a_wrong_one_refused),
        CASE(an_address_that_cannot_be_used_is_named),
    };
#undef CASE

    return cmocka_run_group_tests(tests, NULL, NULL);
}
