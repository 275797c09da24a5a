/*
 * A server of the HTTP layer in a thread of the test, with a few routes of its own, and a client made of plain sockets.
 *
 *     any path     GET and others: the answer is "METHOD path?query", a line with what on_headers saw, then the body
 *     /hold        kept without an answer until it ends
 *     /post        answered from a thread of its own, by a post
 *     /stream      an event stream with one event, kept open
 *     /flood       8 MiB in pieces of 16 KiB, waiting for room whenever told so
 *     /refuse      refused with 401 by on_headers
 *     /status/N    an answer with that status
 *
 * Threads: the server's runs every callback; the counters are atomic, and the test's thread only reads them.
 */
#ifndef RV_TESTS_SUPPORT_HTTP_FIXTURE_H
#define RV_TESTS_SUPPORT_HTTP_FIXTURE_H

#include "server/http/http_server.h"

#include <pthread.h>
#include <stdatomic.h>

enum { HTTP_FIXTURE_FLOOD = 8 << 20 };

struct http_fixture {
    struct rv_http_config config;  // to be changed between init and start
    void (*every_5ms)(void *user); // a timer, if set before start
    void *every_user;
    struct rv_http_server *server;
    pthread_t thread;
    int port;
    _Atomic int n_headers;     // calls of on_headers
    _Atomic int n_requests;    // calls of on_request
    _Atomic int n_ends[3];     // by why
    _Atomic int n_rooms;       // calls of on_room
    _Atomic int64_t ended_us;  // of the newest end
    _Atomic bool has_returned; // run has
};

void http_fixture_init(struct http_fixture *f);
/* Around a case: *state is an initialised fixture of its own. */
int http_fixture_set_up(void **state);
int http_fixture_tear_down(void **state);
/* Listens at a free loopback port unless the config has addresses. */
void http_fixture_start(struct http_fixture *f);
/* Drains, joins, closes; checks that every exchange ended once. */
void http_fixture_stop(struct http_fixture *f, int32_t drain_ms);

/* A connected socket with a receive timeout of ten seconds. */
int http_fixture_connect(const struct http_fixture *f);
void http_fixture_send(int fd, const char *text);
/* False when the server has closed. */
bool http_fixture_send_bytes(int fd, const char *data, size_t len);
/* Reads until the server closes, or nothing comes for quiet_ms; NUL-terminated. *is_closed: it has. */
size_t http_fixture_read(int fd, char *out, size_t cap, int quiet_ms, bool *is_closed);
/* One answer with content-length, head and body; reads not a byte more. */
size_t http_fixture_read_answer(int fd, char *out, size_t cap);
/* Asks for /a on a connection that is kept; the case fails unless the answer is 200. */
void http_fixture_ask(int fd);
bool http_fixture_begins_with(const char *text, const char *start);
/* Waits until the counter has reached n, at most ms; its value then. */
int http_fixture_wait(_Atomic int *counter, int n, int ms);
/*
 * Sends bytes over a connection of their own, in pieces drawn from `seed` (0: at once, 1: byte by byte) and reads the
 * answers until the server closes.
 */
size_t http_fixture_talk(const struct http_fixture *f, const char *data, size_t len, uint64_t seed, char *out,
                         size_t cap, bool *is_closed);

#endif
