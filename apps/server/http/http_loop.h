/*
 * What the connections of a server share on its one thread: the event loop, the deadlines, the list of them all, and
 * the list of those that need to be looked at.
 *
 * A callback of the caller's never ends an exchange or frees a connection under its own feet: whatever happens to a
 * connection is noted on it and it is touched; once the callbacks have returned, each touched connection is settled:
 * written, ended, freed, given its next request.
 */
#ifndef RV_HTTP_HTTP_LOOP_H
#define RV_HTTP_HTTP_LOOP_H

#include "server/http/http_deadline.h"
#include "server/http/http_server.h"

#include <stdatomic.h>

struct rv_http_connection;

struct rv_http_loop {
    struct event_base *base;
    struct rv_http_config config;
    struct rv_http_deadlines deadlines;
    struct rv_http_connection *connections;
    struct rv_http_connection *unsettled;
    struct rv_http_connection *unsettled_last;
    struct event *settle;
    bool is_settling;
    bool is_draining;
    int32_t n_lingering;           // answered and closed by us, the peer has not closed yet
    _Atomic int32_t n_connections; // relaxed: written by the thread of the server, read by any
    int watch_fd;                  // sockets that are not read but whose end must be noticed
    struct event *watch;
};

RV_CHECKED ruvllm_status rv_http_loop_init(struct rv_http_loop *loop, const struct rv_http_config *config,
                                           struct ruvllm_error *err);
/* Frees the connections that are left; their exchanges have ended. Accepts a zeroed or half-made loop. */
void rv_http_loop_release(struct rv_http_loop *loop);
/* Has the connection settled soon. */
void rv_http_loop_touch(struct rv_http_loop *loop, struct rv_http_connection *connection);
/* Notices the end of a peer that is not read from; false when it cannot be watched. */
bool rv_http_loop_watch(struct rv_http_loop *loop, struct rv_http_connection *connection, int fd);
void rv_http_loop_unwatch(struct rv_http_loop *loop, int fd);
/*
 * Closes what idles, what never sent a byte after a moment, and lets every answer be its connection's last; the loop
 * breaks when no connection is left.
 */
void rv_http_loop_drain(struct rv_http_loop *loop);
/* Breaks off every connection. */
void rv_http_loop_cut_off(struct rv_http_loop *loop);

#endif
