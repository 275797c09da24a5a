/*
 * Request smuggling (libevent GHSA-q39v-w2g7-gr8j and GHSA-2gmv-p5m7-98p6, libmicrohttpd 1.0.4) and memory bugs by
 * chunks (Triton CVE-2025-23310, CVE-2025-23311): whatever could be read in two ways is refused with 4xx, the
 * connection is closed, and no route sees it. Each case is sent whole, byte by byte and in pieces.
 */
#include "support/http_fixture.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct framing {
    const char *name;
    const char *bytes;
    size_t len;
};

#define CASE(name, text)                                                                                               \
    {                                                                                                                  \
        name, text, sizeof(text) - 1                                                                                   \
    }
#define POST "POST / HTTP/1.1\r\nHost: a\r\n"
/* What a smuggler hides behind the request; never to be answered. */
#define HIDDEN "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"

static const struct framing malformed[] = {
    CASE("both lengths, content-length first",
         POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" HIDDEN),
    CASE("both lengths, transfer-encoding first",
         POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" HIDDEN),
    CASE("two equal content-lengths", POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello" HIDDEN),
    CASE("two different content-lengths", POST "Content-Length: 5\r\nContent-Length: 0\r\n\r\nhello" HIDDEN),
    CASE("content-length list", POST "Content-Length: 5, 5\r\n\r\nhello" HIDDEN),
    CASE("content-length with plus", POST "Content-Length: +5\r\n\r\nhello" HIDDEN),
    CASE("content-length with minus", POST "Content-Length: -5\r\n\r\nhello" HIDDEN),
    CASE("content-length in hex", POST "Content-Length: 0x5\r\n\r\nhello" HIDDEN),
    CASE("content-length with inner space", POST "Content-Length: 5 0\r\n\r\nhello" HIDDEN),
    CASE("content-length over 64 bits", POST "Content-Length: 18446744073709551621\r\n\r\nhello" HIDDEN),
    CASE("content-length empty", POST "Content-Length:\r\n\r\nhello" HIDDEN),
    CASE("content-length with letters", POST "Content-Length: 5a\r\n\r\nhello" HIDDEN),
    CASE("content-length with fraction", POST "Content-Length: 5.0\r\n\r\nhello" HIDDEN),
    CASE("transfer-encoding gzip, chunked", POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" HIDDEN),
    CASE("transfer-encoding chunked twice", POST "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" HIDDEN),
    CASE("transfer-encoding in two headers",
         POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" HIDDEN),
    CASE("transfer-encoding identity", POST "Transfer-Encoding: identity\r\n\r\n" HIDDEN),
    CASE("transfer-encoding xchunked", POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" HIDDEN),
    CASE("transfer-encoding chunked with parameter", POST "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n" HIDDEN),
    CASE("transfer-encoding quoted", POST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n" HIDDEN),
    CASE("transfer-encoding with vertical tab", POST "Transfer-Encoding: \x0b"
                                                     "chunked\r\n\r\n0\r\n\r\n" HIDDEN),
    CASE("transfer-encoding empty", POST "Transfer-Encoding:\r\n\r\n0\r\n\r\n" HIDDEN),
    CASE("transfer-encoding in HTTP/1.0",
         "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" HIDDEN),
    CASE("transfer-encoding folded", POST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" HIDDEN),
    CASE("folded header", "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n"),
    CASE("folded with tab", "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n\tb\r\n\r\n"),
    CASE("first header begins with space", "GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
    CASE("space before colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n"),
    CASE("space before colon of content-length", POST "Content-Length : 5\r\n\r\nhello"),
    CASE("header without colon", "GET / HTTP/1.1\r\nHost: a\r\nnothing\r\n\r\n"),
    CASE("header without name", "GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n"),
    CASE("header name with NUL", "GET / HTTP/1.1\r\nHost: a\r\nX\0Y: x\r\n\r\n"),
    CASE("header name with parenthesis", "GET / HTTP/1.1\r\nHost: a\r\nX(Y): x\r\n\r\n"),
    CASE("header name beyond ASCII", "GET / HTTP/1.1\r\nHost: a\r\nX\xc3\xa4: x\r\n\r\n"),
    CASE("bare LF after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n"),
    CASE("bare LF after a header", "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n"),
    CASE("bare LF at the end of the head", "GET / HTTP/1.1\r\nHost: a\r\n\n"),
    CASE("only bare LFs", "GET / HTTP/1.1\nHost: a\n\n"),
    CASE("bare CR after a header", "GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n"),
    CASE("bare CR in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n"),
    CASE("bare CR at the end of the head", "GET / HTTP/1.1\r\nHost: a\r\n\rX"),
    CASE("NUL in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n"),
    CASE("escape character in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\x1b[2J\r\n\r\n"),
    CASE("delete character in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\x7f\r\n\r\n"),
    CASE("NUL in the target", "GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n"),
    CASE("tab in the target", "GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n"),
    CASE("delete character in the target", "GET /a\x7f HTTP/1.1\r\nHost: a\r\n\r\n"),
    CASE("target beyond ASCII", "GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n"),
    CASE("space in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"),
    CASE("fragment in the target", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n"),
    CASE("target that is no path", "GET a HTTP/1.1\r\nHost: a\r\n\r\n"),
    CASE("no target", "GET HTTP/1.1\r\nHost: a\r\n\r\n"),
    CASE("asterisk with GET", "GET * HTTP/1.1\r\nHost: a\r\n\r\n"),
    CASE("absolute target of another host", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    CASE("absolute target with a user", "GET http://a@b/ HTTP/1.1\r\nHost: b\r\n\r\n"),
    CASE("absolute target of another port", "GET http://a:81/ HTTP/1.1\r\nHost: a:80\r\n\r\n"),
    CASE("authority target", "GET a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n"),
    CASE("CONNECT", "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n"),
    CASE("unknown method", "GRAB / HTTP/1.1\r\nHost: a\r\n\r\n"),
    CASE("method in lower case", "get / HTTP/1.1\r\nHost: a\r\n\r\n"),
    CASE("method with a control character", "GE\x01T / HTTP/1.1\r\nHost: a\r\n\r\n"),
    CASE("two spaces behind the method", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
    CASE("two spaces behind the target", "GET /  HTTP/1.1\r\nHost: a\r\n\r\n"),
    CASE("space behind the version", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n"),
    CASE("tab behind the method", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    CASE("no Host", "GET / HTTP/1.1\r\n\r\n"),
    CASE("two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    CASE("the same Host twice", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
    CASE("empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n"),
    CASE("Host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    CASE("Host with a user", "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"),
    CASE("Host with a comma", "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n"),
    CASE("two Hosts in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"),
    CASE("HTTP/0.9 without version", "GET /\r\n\r\n"),
    CASE("HTTP/0.9 with version", "GET / HTTP/0.9\r\nHost: a\r\n\r\n"),
    CASE("HTTP/1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n"),
    CASE("HTTP/1.10", "GET / HTTP/1.10\r\nHost: a\r\n\r\n"),
    CASE("HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
    CASE("the HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    CASE("http in lower case", "GET / http/1.1\r\nHost: a\r\n\r\n"),
    CASE("RTSP", "GET / RTSP/1.0\r\nHost: a\r\n\r\n"),
    CASE("RTSP OPTIONS", "OPTIONS * RTSP/1.0\r\nHost: a\r\n\r\n"),
    CASE("ICE", "SOURCE / ICE/1.0\r\nHost: a\r\n\r\n"),
    CASE("an answer instead of a request", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    CASE("garbage before the request line", "xyz\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    CASE("a TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    CASE("space before the request line", " GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    CASE("LF before the request line", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    CASE("CR before the request line", "\rGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    CASE("two blank lines before the request line", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    CASE("chunk size with sign", POST "Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n"),
    CASE("chunk size with 0x", POST "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n"),
    CASE("chunk size over 64 bits", POST "Transfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n"),
    CASE("chunk size empty", POST "Transfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n"),
    CASE("chunk size with leading space", POST "Transfer-Encoding: chunked\r\n\r\n 5\r\nhello\r\n0\r\n\r\n"),
    CASE("chunk size with trailing space", POST "Transfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n"),
    CASE("chunk size ended by bare LF", POST "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n"),
    CASE("chunk size ended by bare CR", POST "Transfer-Encoding: chunked\r\n\r\n5\rhello\r\n0\r\n\r\n"),
    CASE("chunk longer than its size", POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhellooo\r\n0\r\n\r\n"),
    CASE("chunk without its CR LF", POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello0\r\n\r\n"),
    CASE("chunk ended by bare LF", POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n"),
    CASE("chunk extension with bare LF", POST "Transfer-Encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n0\r\n\r\n"),
    CASE("chunk extension with bare CR", POST "Transfer-Encoding: chunked\r\n\r\n5;a\rb\r\nhello\r\n0\r\n\r\n"),
    CASE("chunk extension value with LF", POST "Transfer-Encoding: chunked\r\n\r\n5;a=\"\n\"\r\nhello\r\n0\r\n\r\n"),
    CASE("last chunk ended by bare LFs", POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\n\n"),
    CASE("trailer with space before colon", POST "Transfer-Encoding: chunked\r\n\r\n0\r\nX : y\r\n\r\n"),
    CASE("unmet expectation", POST "Expect: magic\r\nContent-Length: 5\r\n\r\nhello"),
};

enum { N_MALFORMED = sizeof(malformed) / sizeof(malformed[0]), ANSWER_MAX = 4096, N_SEEDS = 4 };

static int start(void **state)
{
    struct http_fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    http_fixture_init(f);
    http_fixture_start(f);
    *state = f;
    return 0;
}

static int stop(void **state)
{
    http_fixture_stop(*state, 1000);
    free(*state);
    return 0;
}

static void what_can_be_read_in_two_ways_is_refused_and_closed(void **state)
{
    struct http_fixture *f = *state;
    char answer[ANSWER_MAX];
    int n_wrong = 0;
    bool is_closed;

    for (size_t i = 0; i < N_MALFORMED; i++) {
        for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
            http_fixture_talk(f, malformed[i].bytes, malformed[i].len, seed, answer, sizeof(answer), &is_closed);
            if (strncmp(answer, "HTTP/1.1 4", 10) == 0 && is_closed && strstr(answer, "connection: close\r\n") &&
                !strstr(answer + 1, "HTTP/1.1 2") && f->n_requests == 0)
                continue;
            fprintf(stderr, "%s (cut %d): closed %d, on_request %d: %.60s\n", malformed[i].name, (int)seed, is_closed,
                    f->n_requests, answer);
            f->n_requests = 0;
            n_wrong++;
        }
    }
    printf("%d malformed requests, each cut %d ways\n", N_MALFORMED, N_SEEDS);
    assert_true(N_MALFORMED >= 40);
    assert_int_equal(n_wrong, 0);
}

/* Upgrades are read over: the answer is HTTP/1.1, and what follows is the next request. */
static void an_upgrade_is_answered_as_a_plain_request(void **state)
{
    static const char text[] = "GET /up HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"
                               "GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    char answer[ANSWER_MAX];
    bool is_closed;

    http_fixture_talk(*state, text, sizeof(text) - 1, 0, answer, sizeof(answer), &is_closed);
    assert_true(strncmp(answer, "HTTP/1.1 200", 12) == 0);
    assert_non_null(strstr(answer, "GET /up?"));
    assert_non_null(strstr(answer, "GET /next?"));
}

static void three_megabytes_of_one_byte_chunks_are_one_body(void **state)
{
    static const char head[] = POST "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    enum { N_CHUNKS = 3000000 };
    size_t len = 0, cap = sizeof(head) + (size_t)N_CHUNKS * 6 + 8;
    char *text = malloc(cap), *answer = malloc(N_CHUNKS + ANSWER_MAX), *body;
    bool is_closed;

    assert_non_null(text);
    assert_non_null(answer);
    memcpy(text, head, len = sizeof(head) - 1);
    for (int i = 0; i < N_CHUNKS; i++, len += 6)
        memcpy(text + len, "1\r\nx\r\n", 6);
    memcpy(text + len, "0\r\n\r\n", 5);
    http_fixture_talk(*state, text, len + 5, 0, answer, N_CHUNKS + ANSWER_MAX, &is_closed);
    assert_true(is_closed);
    body = strstr(answer, "seen=-\n");
    assert_non_null(body);
    assert_int_equal(strspn(body + 7, "x"), N_CHUNKS);
    free(text);
    free(answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_can_be_read_in_two_ways_is_refused_and_closed, start, stop),
        cmocka_unit_test_setup_teardown(an_upgrade_is_answered_as_a_plain_request, start, stop),
        cmocka_unit_test_setup_teardown(three_megabytes_of_one_byte_chunks_are_one_body, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
