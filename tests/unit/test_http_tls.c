/* TLS under the HTTP layer, with a certificate the openssl program makes for the run. */
#include "support/http_fixture.h"
#include "support/test.h"

#include <errno.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/ssl.h>

extern char **environ;

static char cert_path[64], key_path[64];

static int make_certificate(void **state)
{
    char *arguments[] = {"openssl",
                         "req",
                         "-x509",
                         "-newkey",
                         "ec",
                         "-pkeyopt",
                         "ec_paramgen_curve:prime256v1",
                         "-nodes",
                         "-days",
                         "2",
                         "-subj",
                         "/CN=localhost",
                         "-keyout",
                         key_path,
                         "-out",
                         cert_path,
                         NULL};
    posix_spawn_file_actions_t quiet;
    int status = -1;
    pid_t pid;

    (void)state;
    snprintf(cert_path, sizeof(cert_path), "%s", test_temp_path(".cert.pem"));
    snprintf(key_path, sizeof(key_path), "%s", test_temp_path(".key.pem"));
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", 1 /* O_WRONLY */, 0);
    if (posix_spawnp(&pid, "openssl", &quiet, NULL, arguments, environ) != 0 || waitpid(pid, &status, 0) != pid)
        status = -1;
    posix_spawn_file_actions_destroy(&quiet);
    return status;
}

static int set_up(void **state)
{
    struct http_fixture *f;

    http_fixture_set_up(state);
    f = *state;
    f->config.tls_cert = cert_path;
    f->config.tls_key = key_path;
    return 0;
}

/* A client that has shaken hands; NULL when the server refused. */
static SSL *shake_hands(SSL_CTX *context, int fd, int max_version)
{
    SSL *ssl = SSL_new(context);

    assert_non_null(ssl);
    SSL_set_max_proto_version(ssl, max_version);
    SSL_set_fd(ssl, fd);
    if (SSL_connect(ssl) == 1)
        return ssl;
    SSL_free(ssl);
    return NULL;
}

static size_t read_all(SSL *ssl, char *out, size_t cap)
{
    size_t len = 0;
    int n;

    while (len + 1 < cap && (n = SSL_read(ssl, out + len, (int)(cap - 1 - len))) > 0)
        len += (size_t)n;
    out[len] = '\0';
    return len;
}

static void requests_are_answered_over_tls(void **state)
{
    static const char first[] = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
    static const char last[] = "GET /post HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    struct http_fixture *f = *state;
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    char answer[8192];
    SSL *ssl;
    int fd;

    http_fixture_start(f);
    fd = http_fixture_connect(f);
    ssl = shake_hands(context, fd, TLS1_3_VERSION);
    assert_non_null(ssl);
    assert_true(SSL_write(ssl, first, sizeof(first) - 1) > 0);
    assert_true(SSL_write(ssl, last, sizeof(last) - 1) > 0);
    read_all(ssl, answer, sizeof(answer));
    assert_true(strncmp(answer, "HTTP/1.1 200 ", 13) == 0);
    assert_non_null(strstr(answer, "hello"));
    assert_non_null(strstr(answer, "posted"));
    assert_int_equal(SSL_get_shutdown(ssl) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
    SSL_free(ssl);
    close(fd);
    SSL_CTX_free(context);
    http_fixture_stop(f, 1000);
    assert_int_equal(f->n_ends[RV_HTTP_END_SENT], 2);
}

static void a_long_answer_arrives_whole_over_tls(void **state)
{
    static const char request[] = "GET /flood HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    struct http_fixture *f = *state;
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    size_t cap = HTTP_FIXTURE_FLOOD + HTTP_FIXTURE_FLOOD / 16, len;
    char *answer = malloc(cap);
    SSL *ssl;
    int fd;

    assert_non_null(answer);
    http_fixture_start(f);
    fd = http_fixture_connect(f);
    ssl = shake_hands(context, fd, TLS1_2_VERSION);
    assert_non_null(ssl);
    assert_true(SSL_write(ssl, request, sizeof(request) - 1) > 0);
    len = read_all(ssl, answer, cap);
    assert_true(len > HTTP_FIXTURE_FLOOD && memcmp(answer + len - 5, "0\r\n\r\n", 5) == 0);
    assert_true(f->n_rooms > 4);
    SSL_free(ssl);
    close(fd);
    SSL_CTX_free(context);
    free(answer);
    http_fixture_stop(f, 1000);
}

/*
 * A client's first words as bytes, the same but for the version they ask for: 3.2 is TLS 1.1, 3.3 is TLS 1.2. A client
 * of the library would refuse the old ones by itself, and prove nothing about the server.
 */
static size_t say_hello(const struct http_fixture *f, unsigned char minor, unsigned char *answer, size_t cap)
{
    /* clang-format off */
    const unsigned char hello[] = {
        0x16, 3, 1, 0, 87,     // a record of a handshake
        0x01, 0, 0, 83,        // ClientHello
        3, minor,
        7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, // random
        0,                     // no session
        0, 12, 0xc0, 0x2b, 0xc0, 0x2f, 0xc0, 0x09, 0xc0, 0x13, 0, 0x2f, 0, 0xff, // suites for both versions
        1, 0,                  // no compression
        0, 30,                 // extensions:
        0, 10, 0, 6, 0, 4, 0, 0x1d, 0, 0x17, // groups
        0, 11, 0, 2, 1, 0,                   // forms of points
        0, 13, 0, 6, 0, 4, 4, 3, 4, 1,       // signatures
        0, 23, 0, 0,                         // extended master secret
    };
    /* clang-format on */
    int fd = http_fixture_connect(f);
    bool is_closed;
    size_t len;

    assert_int_equal(sizeof(hello), 92);
    assert_true(http_fixture_send_bytes(fd, (const char *)hello, sizeof(hello)));
    len = http_fixture_read(fd, (char *)answer, cap, 500, &is_closed);
    close(fd);
    return len;
}

static void versions_before_1_2_are_refused_for_their_version(void **state)
{
    static const unsigned char alert[] = {0x15, 3, 0, 0, 2, 2, 70}; // fatal, protocol_version; its own minor is free
    struct http_fixture *f = *state;
    unsigned char answer[8192];

    http_fixture_start(f);
    for (unsigned char minor = 1; minor < 3; minor++) {
        memset(answer, 0, sizeof(answer));
        assert_true(say_hello(f, minor, answer, sizeof(answer)) >= sizeof(alert));
        answer[2] = 0;
        assert_memory_equal(answer, alert, sizeof(alert));
    }
    /* The same words with the next version are answered: a ServerHello of 1.2. */
    assert_true(say_hello(f, 3, answer, sizeof(answer)) > 50);
    assert_int_equal(answer[0], 0x16);
    assert_int_equal(answer[5], 2);
    assert_int_equal(answer[10], 3);
    http_fixture_stop(f, 1000);
    assert_int_equal(f->n_requests, 0);
}

static void plain_text_is_refused(void **state)
{
    struct http_fixture *f = *state;
    char answer[1024];
    bool is_closed;
    int fd;

    http_fixture_start(f);
    fd = http_fixture_connect(f);
    http_fixture_send(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    http_fixture_read(fd, answer, sizeof(answer), 2000, &is_closed);
    assert_true(is_closed);
    assert_null(strstr(answer, "200"));
    close(fd);
    http_fixture_stop(f, 1000);
    assert_int_equal(f->n_requests, 0);
}

static void a_handshake_has_the_deadline_of_a_header(void **state)
{
    struct http_fixture *f = *state;
    char answer[1024];
    bool is_closed;
    int fd;

    f->config.header_ms = 100;
    http_fixture_start(f);
    fd = http_fixture_connect(f);
    assert_true(http_fixture_send_bytes(fd, "\x16\x03\x01", 3));
    http_fixture_read(fd, answer, sizeof(answer), 2000, &is_closed);
    assert_true(is_closed);
    close(fd);
    http_fixture_stop(f, 1000);
}

static void a_peer_that_goes_is_noticed_under_tls_too(void **state)
{
    static const char request[] = "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n";
    struct http_fixture *f = *state;
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl;
    int fd;

    http_fixture_start(f);
    fd = http_fixture_connect(f);
    ssl = shake_hands(context, fd, TLS1_3_VERSION);
    assert_non_null(ssl);
    assert_true(SSL_write(ssl, request, sizeof(request) - 1) > 0);
    http_fixture_wait(&f->n_requests, 1, 1000);
    SSL_free(ssl);
    close(fd);
    assert_int_equal(http_fixture_wait(&f->n_ends[RV_HTTP_END_GONE], 1, 1000), 1);
    SSL_CTX_free(context);
    http_fixture_stop(f, 1000);
}

static void a_certificate_that_cannot_be_used_is_named(void **state)
{
    struct http_fixture *f = *state;
    static const char *const address[] = {"127.0.0.1:0"};
    struct ruvllm_error err = {0};

    f->config.addresses = address;
    f->config.n_addresses = 1;
    f->config.tls_cert = "/nonexistent.pem";
    assert_fails(rv_http_server_open(&f->server, &f->config, &err), RUVLLM_INVALID, err, "/nonexistent.pem");
    f->config.tls_cert = key_path;
    assert_fails(rv_http_server_open(&f->server, &f->config, &err), RUVLLM_INVALID, err, key_path);
    f->config.tls_cert = cert_path;
    f->config.tls_key = NULL;
    assert_fails(rv_http_server_open(&f->server, &f->config, &err), RUVLLM_INVALID, err, "both");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, http_fixture_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(requests_are_answered_over_tls),
        CASE(a_long_answer_arrives_whole_over_tls),
        CASE(versions_before_1_2_are_refused_for_their_version),
        CASE(plain_text_is_refused),
        CASE(a_handshake_has_the_deadline_of_a_header),
        CASE(a_peer_that_goes_is_noticed_under_tls_too),
        CASE(a_certificate_that_cannot_be_used_is_named),
    };
#undef CASE

    return cmocka_run_group_tests(tests, make_certificate, NULL);
}
