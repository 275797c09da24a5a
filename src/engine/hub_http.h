/*
 * One request to a hub and its answer: the only place that knows libcurl. What it guarantees, whatever a hub answers:
 *
 *   - An endpoint over https is only ever left for https. One over http may also name its own host or this machine.
 *   - At most 5 redirections, none of them for requests that send something.
 *   - The token goes to the endpoint's scheme, host and port, and to no other.
 *   - Answers are not unpacked, and kept in memory only up to a limit.
 */
#ifndef RV_ENGINE_HUB_HTTP_H
#define RV_ENGINE_HUB_HTTP_H

#include "base/buf.h"

struct rv_hub_http;

struct rv_hub_http_reply {
    long status;            // of the last answer; 0 when there was none
    int64_t content_length; // -1: not stated
    int64_t range_start;    // of a 206; -1: not stated
    int64_t range_total;    // -1: not stated
    int64_t retry_after_ms; // 0: not stated
    char etag[160];         // "" when there is none, or a longer one than anybody needs
    char commit[48];        // what the hub says the revision stands for; ""
    char next[1024];        // address of the next page of a list; ""
    struct rv_buf body;     // unless the request takes it itself, or where the status is no success
    bool is_transient;      // on failure: trying again may help
};

struct rv_hub_http_request {
    const char *method; // "GET", "POST", "PUT"
    const char *url;
    const char *const *headers; // "Name: value"
    size_t n_headers;
    const char *body; // POST
    size_t body_len;
    int upload_fd; // PUT: read from its place on; -1: none
    uint64_t upload_len;
    /* All may be NULL; false stops, with CANCELLED from on_tick and whatever the caller makes of it from the others. */
    bool (*on_head)(void *user, const struct rv_hub_http_reply *reply); // of a success, before its body
    bool (*on_body)(void *user, const void *data, size_t len);          // of a success
    bool (*on_tick)(void *user, uint64_t uploaded);                     // several times a second
    void *user;
};

/* INVALID when the endpoint is no http(s) address, or a token would travel unprotected to another machine. */
RV_CHECKED ruvllm_status rv_hub_http_open(struct rv_hub_http **out, const char *endpoint, const char *token,
                                          int32_t stall_seconds, struct ruvllm_error *err);
void rv_hub_http_close(struct rv_hub_http *http);
/* The endpoint without a slash at its end. */
const char *rv_hub_http_endpoint(const struct rv_hub_http *http);
bool rv_hub_http_has_token(const struct rv_hub_http *http);

void rv_hub_http_reply_init(struct rv_hub_http_reply *reply);
void rv_hub_http_reply_release(struct rv_hub_http_reply *reply);

/* OK when an answer came, whatever its status. `reply` is initialised by the caller and cleared here. */
RV_CHECKED ruvllm_status rv_hub_http_send(struct rv_hub_http *http, const struct rv_hub_http_request *request,
                                          struct rv_hub_http_reply *reply, struct ruvllm_error *err);
/* The failure an answer means that is no success; sets is_transient. */
RV_CHECKED ruvllm_status rv_hub_http_fail(struct rv_hub_http_reply *reply, const char *what, struct ruvllm_error *err);

#endif
