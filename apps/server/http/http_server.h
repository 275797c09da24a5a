/*
 * HTTP/1.1 over TCP, and over TLS when asked for: connections, parsing, limits, deadlines, answers, event streams. It
 * knows nothing of models, keys or JSON; what a request means is told to it by two callbacks.
 *
 * One thread, the one that called rv_http_server_run, owns every connection and makes every callback; it never computes
 * and never waits for anything but the network. Other threads reach it through rv_http_server_post alone. An exchange
 * is one request with its answer, and lives from its headers until `on_end`, exactly once for each. on_end is never
 * called from inside a function below: what a callback does to an exchange takes effect when it has returned.
 *
 *     headers complete -> on_headers   refuse with a status before a body is read, or go on
 *     body complete    -> on_request   answer now, or keep the exchange and answer later (a worker posts back)
 *     whichever first  -> on_end       the answer was sent, the peer has gone, or a deadline passed
 *
 * Limits and deadlines are absolute: a header takes at most header_ms from its first byte (the first of a connection
 * comes within header_ms too, TLS handshake included), a body body_ms, and a peer that takes no bytes of what waits for
 * it for stall_ms is closed. A peer that closes its side before the answer is complete has gone. What breaks a limit
 * gets its status (400, 408, 413, 431) and the connection closes; a request that could be read in two ways (framing) is
 * always 400 and closed.
 */
#ifndef RV_HTTP_HTTP_SERVER_H
#define RV_HTTP_HTTP_SERVER_H

#include "base/error.h"

#include <stdbool.h>

struct rv_http_server;
struct rv_http_exchange;

enum rv_http_method { RV_HTTP_GET, RV_HTTP_POST, RV_HTTP_DELETE, RV_HTTP_HEAD, RV_HTTP_OPTIONS, RV_HTTP_OTHER };

/* Why an exchange ended. */
enum rv_http_end {
    RV_HTTP_END_SENT,    // the whole answer was handed to the system
    RV_HTTP_END_GONE,    // the peer closed, or broke off
    RV_HTTP_END_DEADLINE // it was too slow
};

struct rv_http_config {
    const char *const *addresses; // "127.0.0.1:8080", "[::1]:8080", "unix:/path"; none with inherited sockets
    size_t n_addresses;
    const int *inherited; // listening sockets of a service manager
    size_t n_inherited;
    const char *tls_cert; // PEM files; NULL: no TLS
    const char *tls_key;
    size_t max_header;   // bytes; 16 KiB
    size_t max_body;     // bytes; 8 MiB
    size_t max_buffered; // of an answer that its reader has not taken; what goes beyond is told to the writer; 256 KiB
    int32_t max_connections; // more are answered 503 and closed; 20,000
    int32_t header_ms;       // 10,000
    int32_t body_ms;         // 30,000
    int32_t stall_ms;        // 30,000
    int32_t idle_ms;         // between requests of a connection; 75,000
    int32_t ping_ms;         // a comment line goes to an event stream that was silent so long; 15,000; 0: none

    /* 0 to go on, else the status of a refusal whose body the callback gave with rv_http_exchange_reply. If a body was
     * still to come, the connection closes then. NULL: everything goes on. */
    int (*on_headers)(void *user, struct rv_http_exchange *exchange);
    void (*on_request)(void *user, struct rv_http_exchange *exchange);
    /* The answer to what was refused before a route could be told (bad framing, a limit), or by on_headers without a
     * reply: fills `body` with JSON, returns its length. NULL: `why` as plain text. */
    size_t (*on_refusal)(void *user, int status, const char *why, char *body, size_t body_cap);
    void (*on_end)(void *user, struct rv_http_exchange *exchange, enum rv_http_end why);
    void *user;
};

struct rv_http_config rv_http_config_default(void);

/* Opens the sockets; failing names the address. Nothing is accepted before rv_http_server_run. */
RV_CHECKED ruvllm_status rv_http_server_open(struct rv_http_server **out, const struct rv_http_config *config,
                                             struct ruvllm_error *err);
/* Serves until rv_http_server_stop. */
RV_CHECKED ruvllm_status rv_http_server_run(struct rv_http_server *server, struct ruvllm_error *err);
void rv_http_server_close(struct rv_http_server *server);
/*
 * Stops accepting at once; run returns when the last exchange has ended, or after drain_ms, when what is left is cut
 * off (DEADLINE). A connection that was accepted and has sent nothing yet has 250 ms to send its request. Asking again
 * sets the time anew. Any thread, and signal handlers.
 */
void rv_http_server_stop(struct rv_http_server *server, int32_t drain_ms);
/* The port that address i got, for addresses that ask for port 0; 0 for a socket without one. */
int rv_http_server_port(const struct rv_http_server *server, size_t i);
int32_t rv_http_server_n_connections(const struct rv_http_server *server);

/*
 * Runs `fn` on the server's thread, soon. Any thread; allocates nothing: the node is the caller's and must live until
 * fn was called. Posting a node that already waits does nothing, so one node may be posted for every token.
 */
struct rv_http_post {
    void (*fn)(void *user);
    void *user;
    struct rv_http_post *next; // guarded by the server's lock
    bool is_queued;            // likewise
};
/* Posts that wait when run returns are run before it does; later ones never are. */
void rv_http_server_post(struct rv_http_server *server, struct rv_http_post *post);
/* Calls fn every period_ms on the server's thread. Before run; at most eight. */
RV_CHECKED ruvllm_status rv_http_server_every(struct rv_http_server *server, int32_t period_ms, void (*fn)(void *user),
                                              void *user, struct ruvllm_error *err);

/* ---- an exchange: only on the server's thread ------------------------------------------------- */

enum rv_http_method rv_http_exchange_method(const struct rv_http_exchange *exchange);
/* The path as it was sent, without the query; no escapes are undone: routes are plain ASCII. */
const char *rv_http_exchange_path(const struct rv_http_exchange *exchange);
const char *rv_http_exchange_query(const struct rv_http_exchange *exchange); // after '?'; "" for none
/* A header by lower-case name; NULL when absent. One that came twice is joined with ", ". */
const char *rv_http_exchange_header(const struct rv_http_exchange *exchange, const char *name);
/* The body, complete in on_request and after; NUL-terminated beyond its length. */
const char *rv_http_exchange_body(const struct rv_http_exchange *exchange, size_t *len);
/* The peer's address as text, without the port; "unix" for a local socket. */
const char *rv_http_exchange_peer(const struct rv_http_exchange *exchange);
bool rv_http_exchange_is_loopback(const struct rv_http_exchange *exchange);
/* What the routes keep with it. */
void rv_http_exchange_set_user(struct rv_http_exchange *exchange, void *user);
void *rv_http_exchange_user(const struct rv_http_exchange *exchange);

/* A header of the answer, before reply or begin. Names and values are checked: a control character is a bug of ours. */
void rv_http_exchange_add_header(struct rv_http_exchange *exchange, const char *name, const char *value);
/* The whole answer; content-length is set, HEAD gets no body. Once. */
void rv_http_exchange_reply(struct rv_http_exchange *exchange, int status, const char *content_type, const void *body,
                            size_t len);
/*
 * An answer in pieces: headers now (chunked), then writes, then end. Event streams get pings while they are silent, so
 * every piece of one must be whole events.
 */
void rv_http_exchange_begin(struct rv_http_exchange *exchange, int status, const char *content_type);
/* False when more than max_buffered waits: the piece was taken, but write no more before `on_room` was called. */
bool rv_http_exchange_write(struct rv_http_exchange *exchange, const void *data, size_t len);
/* After a write that returned false, fn is called once at most half of max_buffered waits; it may write and end. */
void rv_http_exchange_on_room(struct rv_http_exchange *exchange, void (*fn)(void *user), void *user);
void rv_http_exchange_end(struct rv_http_exchange *exchange);
bool rv_http_exchange_has_begun(const struct rv_http_exchange *exchange); // reply or begin was called

#endif
