/*
 * Any bytes into the parser of requests, whole and cut into crumbs, and for a share of the inputs, because it costs
 * four times as much, into a connection, whole and cut into a few pieces: what is parsed, called and answered is the
 * same, every exchange ends once, and what is answered is HTTP. The first byte of the input draws the cuts and the
 * routes' ways of answering; sockets are replaced by a pair of buffers.
 */
#include "fuzz_target.h"

#include "base/buf.h"
#include "base/rng.h"
#include "server/http/http_connection.h"
#include "server/http/http_loop.h"
#include "server/http/http_request.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum { TRACE_MAX = 64 << 20, TURNS_MAX = 100000, PIECES = 8, MAX_HEADER = 512, MAX_BODY = 512 };
/* One input in so many goes through a connection as well, by its hash; all of them where they are replayed. */
#ifdef RV_FUZZ_CAMPAIGN
enum { CONNECTION_SHARE = 8 };
#else
enum { CONNECTION_SHARE = 1 };
#endif

/* One loop for all inputs, for speed; nothing is left in it behind an input. */
static struct rv_http_loop loop;

/* No descriptor is in play here, so the system has nothing to tell: asking it would take most of the time. */
int epoll_wait(int fd, struct epoll_event *events, int max_events, int timeout)
{
    (void)fd, (void)events, (void)max_events, (void)timeout;
    return 0;
}

/* What one run shows. Made once, cleared between inputs. */
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

/* A word and a text behind it; printf would cost more than the parser. */
static void note(struct rv_buf *trace, const char *word, const char *text, size_t len)
{
    rv_buf_add_str(trace, word);
    rv_buf_add(trace, text, len);
    rv_buf_add_char(trace, '\n');
}

static void note_text(struct rv_buf *trace, const char *word, const char *text)
{
    note(trace, word, text ? text : "-", text ? strlen(text) : 1);
}

static int on_headers(void *user, struct rv_http_exchange *exchange)
{
    struct run *run = user;

    run->n_open++;
    rv_buf_add_char(&run->trace, (char)('0' + rv_http_exchange_method(exchange)));
    note_text(&run->trace, " head ", rv_http_exchange_path(exchange));
    note_text(&run->trace, "query ", rv_http_exchange_query(exchange));
    note_text(&run->trace, "host ", rv_http_exchange_header(exchange, "host"));
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
    note(&run->trace, "body ", body, len);
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

    note_text(&run->trace, "refused ", why);
    need(status >= 400 && status <= 599 && why[0] != '\0', "a refusal has a status and a reason");
    return (size_t)snprintf(body, body_cap, "%s", why);
}

static void on_end(void *user, struct rv_http_exchange *exchange, enum rv_http_end why)
{
    struct run *run = user;

    (void)exchange;
    run->n_open--;
    if (why == RV_HTTP_END_SENT) // how far it had come when the peer went is told by the rest
        rv_buf_add_str(&run->trace, "sent\n");
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

    config.max_header = MAX_HEADER;
    config.max_body = MAX_BODY;
    config.on_headers = on_headers;
    config.on_request = on_request;
    config.on_refusal = on_refusal;
    config.on_end = on_end;
    if (rv_http_loop_init(&loop, &config, &err))
        abort();
}

/* The next piece of `size` bytes of which `at` are gone; seed 0: all of them. */
static size_t piece_of(struct rv_rng *rng, uint64_t seed, size_t at, size_t size, size_t most)
{
    size_t n = seed == 0 ? size : 1 + (size_t)rv_rng_below(rng, most);

    return n < size - at ? n : size - at;
}

static void begin(struct run *run, uint8_t flavour)
{
    if (!run->trace.max) {
        rv_buf_init(&run->trace, TRACE_MAX);
        rv_buf_init(&run->answer, TRACE_MAX);
    }
    rv_buf_clear(&run->trace);
    rv_buf_clear(&run->answer);
    run->n_open = 0;
    run->is_closed = false;
    run->flavour = flavour;
}

static void run_connection(struct run *run, const uint8_t *data, size_t size, uint64_t seed)
{
    struct bufferevent *pair[2];
    struct rv_rng rng;
    size_t n;

    loop.config.user = run;
    if (bufferevent_pair_new(loop.base, 0, pair) != 0 || !rv_http_connection_new(&loop, pair[1], -1, false, NULL))
        abort();
    bufferevent_setcb(pair[0], NULL, NULL, on_client_event, run);
    bufferevent_enable(pair[0], EV_READ | EV_WRITE);
    rv_rng_init(&rng, seed);
    for (size_t at = 0; at < size && !run->is_closed; at += n) {
        n = piece_of(&rng, seed, at, size, 1 + 2 * size / PIECES);
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

/* What came out of the parser; false when no more requests can follow. */
static bool note_request(struct run *run, const struct rv_http_request *request, enum rv_http_request_event event)
{
    switch (event) {
    case RV_HTTP_REQUEST_HEAD:
        rv_buf_add_char(&run->trace, (char)('0' + request->method));
        note_text(&run->trace, " head ", request->path);
        note_text(&run->trace, "query ", request->query);
        note(&run->trace, "headers ", request->headers.text.data, request->headers.text.len);
        return true;
    case RV_HTTP_REQUEST_COMPLETE:
        note(&run->trace, "body ", request->body.data ? request->body.data : "", request->body.len);
        return request->can_keep_alive;
    case RV_HTTP_REQUEST_REFUSED:
        need(request->status >= 400 && request->status <= 599, "a refusal has a status");
        note_text(&run->trace, "refused ", request->why);
        return false;
    case RV_HTTP_REQUEST_MORE:
        break;
    }
    return true;
}

/* Requests one behind the other. */
static void run_parser(struct run *run, const uint8_t *data, size_t size, uint64_t seed)
{
    struct rv_http_request *request = rv_http_request_new(MAX_HEADER, MAX_BODY);
    enum rv_http_request_event event = RV_HTTP_REQUEST_MORE;
    struct rv_rng rng;
    bool goes_on = request != NULL;
    size_t used;

    rv_rng_init(&rng, seed);
    for (size_t at = 0; goes_on && (at < size || event == RV_HTTP_REQUEST_HEAD); at += used) {
        size_t n = piece_of(&rng, seed, at, size, 12);

        event = rv_http_request_feed(request, (const char *)data + at, n, &used);
        need(used <= n && (used == n || event != RV_HTTP_REQUEST_MORE), "bytes are used once");
        goes_on = note_request(run, request, event);
        if (event == RV_HTTP_REQUEST_COMPLETE) {
            rv_http_request_free(request);
            request = rv_http_request_new(MAX_HEADER, MAX_BODY);
        }
    }
    rv_http_request_free(request);
}

static bool is_equal(const struct rv_buf *a, const struct rv_buf *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

/* FNV-1a. */
static uint32_t hash_of(const uint8_t *data, size_t size)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < size; i++)
        hash = (uint32_t)(((uint64_t)hash ^ data[i]) * 16777619u);
    return hash >> 8;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct run whole, cut;
    uint64_t seed;

    if (size == 0)
        return 0;
    if (!loop.base)
        open_loop();
    seed = 1 + (uint64_t)(data[0] >> 3);
    begin(&whole, 0);
    begin(&cut, 0);
    run_parser(&whole, data + 1, size - 1, 0);
    run_parser(&cut, data + 1, size - 1, seed);
    need(is_equal(&whole.trace, &cut.trace), "what is parsed does not depend on how bytes are cut");
    if (hash_of(data, size) % CONNECTION_SHARE != 0)
        return 0;
    begin(&whole, data[0] & 7);
    begin(&cut, data[0] & 7);
    run_connection(&whole, data + 1, size - 1, 0);
    run_connection(&cut, data + 1, size - 1, seed);
    need(whole.answer.len == 0 || memcmp(whole.answer.data, "HTTP/1.1 ", 9) == 0, "an answer is HTTP");
    need(is_equal(&whole.trace, &cut.trace), "what is called does not depend on how bytes are cut");
    need(is_equal(&whole.answer, &cut.answer), "what is answered does not depend on how bytes are cut");
    need(whole.is_closed == cut.is_closed, "whether it is closed does not depend on how bytes are cut");
    return 0;
}
