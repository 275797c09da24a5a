/* The HTTP layer over real sockets: exchanges, limits, and that cutting the bytes changes nothing. */
#include "server/http/http_server.h"
#include "support/http_fixture.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_MAX = 64 << 10 };

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
        assert_true(
            http_fixture_begins_with(answer, "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: "));
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
    assert_true(http_fixture_begins_with(answer,
                                         "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 16\r\n\r\n"
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
    assert_true(is_closed && http_fixture_begins_with(answer, "HTTP/1.1 401 Unauthorized\r\n"));
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
        assert_true(http_fixture_begins_with(answer, "HTTP/1.1 401 "));
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
        assert_true(http_fixture_begins_with(answer, "HTTP/1.1 200 "));
        free(text);
        text = head_of(1001);
        http_fixture_talk(f, text, 1001, seed, answer, sizeof(answer), &is_closed);
        assert_true(is_closed && http_fixture_begins_with(answer, "HTTP/1.1 431 "));
        memset(text, 'y', 1001);
        memcpy(text, "GET /", 5); // a target without end
        http_fixture_talk(f, text, 1001, seed, answer, sizeof(answer), &is_closed);
        assert_true(is_closed && http_fixture_begins_with(answer, "HTTP/1.1 431 "));
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
        assert_true(http_fixture_begins_with(answer, n == 100 ? "HTTP/1.1 200 " : "HTTP/1.1 431 "));
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
        assert_true(is_closed && http_fixture_begins_with(answer, "HTTP/1.1 413 "));
    }
    assert_int_equal(f->n_requests, 0);
    len = (size_t)snprintf(text, sizeof(text),
                           "POST /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 100"
                           "\r\n\r\n%0100d",
                           7);
    http_fixture_talk(f, text, len, 0, answer, sizeof(answer), &is_closed);
    assert_true(http_fixture_begins_with(answer, "HTTP/1.1 200 "));
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
    assert_true(is_closed && http_fixture_begins_with(answer, "HTTP/1.1 413 "));
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
        assert_true(is_closed && http_fixture_begins_with(answer, "HTTP/1.1 431 "));
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
        http_fixture_ask(kept[i]);
    }
    fd = http_fixture_connect(f);
    http_fixture_send(fd, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    http_fixture_read(fd, answer, sizeof(answer), 2000, &is_closed);
    assert_true(is_closed && http_fixture_begins_with(answer, "HTTP/1.1 503 "));
    assert_non_null(strstr(answer, "retry-after: 1\r\n"));
    close(fd);
    http_fixture_ask(kept[1]);
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
        assert_true(http_fixture_begins_with(whole, "HTTP/1.1 "));
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

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, http_fixture_set_up, http_fixture_tear_down)
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
    };
#undef CASE

    return cmocka_run_group_tests(tests, NULL, NULL);
}
