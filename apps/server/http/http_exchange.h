/*
 * One request and its answer: what rv_http_server.h shows as struct rv_http_exchange. Internal to the HTTP layer. It
 * belongs to its connection, which ends it.
 */
#ifndef RV_HTTP_HTTP_EXCHANGE_H
#define RV_HTTP_HTTP_EXCHANGE_H

#include "base/buf.h"
#include "server/http/http_answer.h"
#include "server/http/http_deadline.h"
#include "server/http/http_server.h"

struct rv_http_connection;
struct rv_http_request;

struct rv_http_exchange {
    struct rv_http_connection *connection;
    struct rv_http_request *request; // owned
    struct rv_buf extra;             // headers of the answer as lines
    struct rv_http_deadline ping;
    void (*room_fn)(void *user);
    void *room_user;
    void *user;
    enum rv_http_end why;                // when it ends by itself
    enum rv_http_answer_framing framing; // of the answer
    bool is_complete;                    // the request is
    bool has_begun;
    bool has_ended; // the answer is complete, though not yet sent
    bool keeps_alive;
    bool is_blocked; // the writer was told to wait
    bool is_event_stream;
};

/* Takes the request over; NULL, with the request still the caller's, when memory is out. */
struct rv_http_exchange *rv_http_exchange_new(struct rv_http_connection *connection, struct rv_http_request *request);
void rv_http_exchange_free(struct rv_http_exchange *exchange);
/* Tells the writer that there is room again, if it waits for that and less than half of what is allowed is waiting. */
void rv_http_exchange_settle(struct rv_http_exchange *exchange, size_t n_waiting);
/* For the deadlines: the stream was silent. */
void rv_http_exchange_ping(void *exchange);

#endif
