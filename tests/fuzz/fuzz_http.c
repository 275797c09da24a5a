/*
 * Any bytes into a connection, once whole and once cut into pieces: the callbacks and the answers are the same, every
 * exchange ends once, and what is answered is HTTP. The first byte of the input draws the cuts and the routes' ways of
 * answering; sockets are replaced by a pair of buffers.
 */
#include "fuzz_target.h"

#include "base/buf.h"
#include "base/rng.h"
#include "server/http/http_connection.h"
#include "server/http/http_loop.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRACE_MAX = 64 << 20, TURNS_MAX = 100000 };

/* One loop for all inputs, for speed; nothing is left in it behind an input. */
static struct rv_http_loop loop;

/* What one run shows. */
struct run {
    struct rv_buf trace;  // calls, in their order
    struct rv_buf answer; // bytes
    int n_open;           // exchanges between on_headers and on_end
    uint8_t flavour;
    bool is_closed;
};

static void need(bool is_kept, const char *promise)
{
    if (is_kept)
        return;
    fprintf(stderr, "broken promise: %s\n", promise);
    abort();
}

static int on_headers(void *user, struct rv_http_exchange *exchange)
{
    struct run *run = user;
    const char *host = rv_http_exchange_header(exchange, "host");

    run->n_open++;
    rv_buf_addf(&run->trace, "head %d %s ? %s host %s\n", rv_http_exchange_method(exchange),
                rv_http_exchange_path(exchange), rv_http_exchange_query(exchange), host ? host : "-");
    if (rv_http_exchange_header(exchange, "authorization") == NULL || !(run->flavour & 1))
        return 0;
    if (run->flavour & 2)
        rv_http_exchange_reply(exchange, 401, "text/plain", "no", 2);
    return 401;
}

static void on_request(void *user, struct rv_http_exchange *exchange)
{
    struct run *run = user;
    size_t len;
    const char *body = rv_http_exchange_body(exchange, &len);

    need(body[len] == '\0', "a body has a NUL behind it");
    rv_buf_addf(&run->trace, "body %zu ", len);
    rv_buf_add(&run->trace, body, len);
    if (run->flavour & 4) {
        rv_http_exchange_begin(exchange, 200, "text/event-stream");
        rv_http_exchange_write(exchange, body, len);
        rv_http_exchange_end(exchange);
    } else {
        rv_http_exchange_reply(exchange, 200, "text/plain", body, len);
    }
}

static size_t on_refusal(void *user, int status, const char *why, char *body, size_t body_cap)
{
    struct run *run = user;

    rv_buf_addf(&run->trace, "refused %d %s\n", status, why);
    need(status >= 400 && status <= 599 && why[0] != '\0', "a refusal has a status and a reason");
    return (size_t)snprintf(body, body_cap, "%s", why);
}

static void on_end(void *user, struct rv_http_exchange *exchange, enum rv_http_end why)
{
    struct run *run = user;

    (void)exchange;
    run->n_open--;
    if (why == RV_HTTP_END_SENT) // how far it had come when the peer went is told by the rest
        rv_buf_addf(&run->trace, "sent\n");
}

static void on_client_event(struct bufferevent *bev, short what, void *user)
{
    (void)bev;
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        ((struct run *)user)->is_closed = true;
}

/* Lets the loop run until nothing is left to do, and takes what the client got. */
static void turn(struct run *run, struct bufferevent *client)
{
    struct evbuffer *input = bufferevent_get_input(client);
    char piece[4096];
    int n;

    for (int i = 0; i < TURNS_MAX; i++) {
        event_base_loop(loop.base, EVLOOP_NONBLOCK);
        while ((n = evbuffer_remove(input, piece, sizeof(piece))) > 0)
            rv_buf_add(&run->answer, piece, (size_t)n);
        if (!loop.unsettled && evbuffer_get_length(bufferevent_get_output(client)) == 0)
            return;
        if (loop.connections && loop.connections->is_paused && !loop.unsettled)
            return;
    }
    need(false, "the loop comes to rest");
}

static void open_loop(void)
{
    struct rv_http_config config = rv_http_config_default();
    struct ruvllm_error err;

    config.max_header = 512;
    config.max_body = 2048;
    config.on_headers = on_headers;
    config.on_request = on_request;
    config.on_refusal = on_refusal;
    config.on_end = on_end;
    if (rv_http_loop_init(&loop, &config, &err))
        abort();
}

static void run_once(struct run *run, const uint8_t *data, size_t size, uint64_t seed)
{
    struct bufferevent *pair[2];
    struct rv_rng rng;
    size_t n;

    rv_buf_init(&run->trace, TRACE_MAX);
    rv_buf_init(&run->answer, TRACE_MAX);
    loop.config.user = run;
    if (bufferevent_pair_new(loop.base, 0, pair) != 0 || !rv_http_connection_new(&loop, pair[1], -1, false, NULL))
        abort();
    bufferevent_setcb(pair[0], NULL, NULL, on_client_event, run);
    bufferevent_enable(pair[0], EV_READ | EV_WRITE);
    rv_rng_init(&rng, seed);
    for (size_t at = 0; at < size && !run->is_closed; at += n) {
        n = seed == 0 ? size : 1 + (size_t)rv_rng_below(&rng, 1 + rv_rng_below(&rng, 8 + size / 4));
        n = n < size - at ? n : size - at;
        bufferevent_write(pair[0], data + at, n);
        turn(run, pair[0]);
    }
    if (loop.connections)
        rv_http_connection_break(loop.connections, RV_HTTP_END_GONE);
    event_base_loop(loop.base, EVLOOP_NONBLOCK);
    need(run->n_open == 0, "every exchange ends once");
    need(!loop.connections && !loop.unsettled && loop.n_lingering == 0, "nothing is left of a connection");
    bufferevent_free(pair[0]);
}

static void release(struct run *run)
{
    rv_buf_release(&run->trace);
    rv_buf_release(&run->answer);
}

static bool is_equal(const struct rv_buf *a, const struct rv_buf *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run whole = {0}, cut = {0};

    if (size == 0)
        return 0;
    if (!loop.base)
        open_loop();
    whole.flavour = cut.flavour = data[0] & 7;
    run_once(&whole, data + 1, size - 1, 0);
    run_once(&cut, data + 1, size - 1, 1 + (uint64_t)(data[0] >> 3));
    need(whole.answer.len == 0 || memcmp(whole.answer.data, "HTTP/1.1 ", 9) == 0, "an answer is HTTP");
    need(is_equal(&whole.trace, &cut.trace), "what is called does not depend on how bytes are cut");
    need(is_equal(&whole.answer, &cut.answer), "what is answered does not depend on how bytes are cut");
    need(whole.is_closed == cut.is_closed, "whether it is closed does not depend on how bytes are cut");
    release(&whole);
    release(&cut);
    return 0;
}
