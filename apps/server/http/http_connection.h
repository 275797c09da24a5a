/*
 * One connection: bytes in, requests out one after the other, answers back. Internal to the HTTP layer; everything runs
 * on the thread of the server.
 *
 *     idle -> head -> body -> answer -> idle ...
 *               |       |        |
 *               +-------+--------+-> closing -> lingering -> freed
 *
 * While an answer is under way, what the peer sends waits: one buffer of it is read, then reading stops, and only the
 * peer's end is still noticed.
 */
#ifndef RV_HTTP_HTTP_CONNECTION_H
#define RV_HTTP_HTTP_CONNECTION_H

#include "server/http/http_deadline.h"
#include "server/http/http_listen.h"
#include "server/http/http_server.h"

struct bufferevent;
struct rv_http_loop;
struct rv_http_request;

enum rv_http_connection_state {
    RV_HTTP_CONNECTION_IDLE,     // no byte of the next request
    RV_HTTP_CONNECTION_HEAD,     // some of its head
    RV_HTTP_CONNECTION_BODY,     // the exchange is there, its body is not complete
    RV_HTTP_CONNECTION_ANSWER,   // the exchange is in the caller's hands, or its answer on the way
    RV_HTTP_CONNECTION_CLOSING,  // a refusal is on the way
    RV_HTTP_CONNECTION_LINGERING // all is sent and our side closed; what the peer still sends is thrown away
};

struct rv_http_connection {
    struct rv_http_loop *loop;
    struct rv_http_connection *prev;
    struct rv_http_connection *next;
    struct rv_http_connection *next_unsettled;
    struct bufferevent *bev;
    struct rv_http_request *request;   // from its first byte until it belongs to the exchange
    struct rv_http_exchange *exchange; // from the end of the head until on_end
    struct rv_http_deadline deadline;  // of the state it is in
    int fd;                            // -1 for a pair of buffers
    enum rv_http_connection_state state;
    enum rv_http_end broken_why;
    bool writes_itself; // plain sockets: written at once, without the loop's help
    bool is_tls;
    bool is_broken;       // to be ended and freed
    bool is_unsettled;    // in the loop's list
    bool is_paused;       // not read from, but watched
    bool has_peer_closed; // nothing more comes, the rest of the answer may still go
    bool must_feed;       // the head was accepted: a request without a body is complete now
    bool is_loopback;
    char peer[RV_HTTP_LISTEN_PEER_MAX];
};

/*
 * Takes over a buffer with its socket (fd, or -1) and waits for a request. NULL when memory is out; the buffer is freed
 * then. `peer` may be NULL.
 */
struct rv_http_connection *rv_http_connection_new(struct rv_http_loop *loop, struct bufferevent *bev, int fd,
                                                  bool is_tls, const struct sockaddr *peer);
/* Only what settles connections, or ends the loop, frees them. */
void rv_http_connection_free(struct rv_http_connection *connection);
/* Refuses the request that is being read, or a connection as such, and closes it when the answer is sent. */
void rv_http_connection_refuse(struct rv_http_connection *connection, int status, const char *why);
/* Ends it without another byte. */
void rv_http_connection_break(struct rv_http_connection *connection, enum rv_http_end why);

/* ---- for the loop --- */
void rv_http_connection_settle(struct rv_http_connection *connection);
void rv_http_connection_deadline(void *connection);
void rv_http_connection_peer_closed(struct rv_http_connection *connection);
void rv_http_connection_drain(struct rv_http_connection *connection);

#endif
