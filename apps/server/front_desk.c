/*
 * The order is: draining, key, path, rate. Whether a path exists is told only to who has a key.
 */
#include "server/front_desk.h"

#include "base/alloc.h"
#include "server/call.h"

#include <string.h>

/* ---- other origins ------------------------------------------------------------------------------- */

static bool is_listed(const struct rv_server *server, const char *origin)
{
    for (size_t i = 0; origin && i < server->config->n_cors_origins; i++) {
        if (strcmp(server->config->cors_origins[i], origin) == 0)
            return true;
    }
    return false;
}

static void add_common_headers(const struct rv_call *call, const char *origin, bool origin_is_listed)
{
    struct rv_http_exchange *exchange = call->exchange;

    rv_http_exchange_add_header(exchange, "x-request-id", call->id);
    rv_http_exchange_add_header(exchange, "traceparent", call->trace.text);
    if (call->server->config->n_cors_origins > 0)
        rv_http_exchange_add_header(exchange, "vary", "Origin");
    if (origin_is_listed) {
        rv_http_exchange_add_header(exchange, "access-control-allow-origin", origin);
        rv_http_exchange_add_header(exchange, "access-control-expose-headers", "x-request-id, retry-after");
    }
}

/* A browser asks whether it may ask; it sends no key along. */
static int answer_preflight(struct rv_call *call)
{
    struct rv_http_exchange *exchange = call->exchange;

    rv_http_exchange_add_header(exchange, "access-control-allow-methods", "GET, POST, DELETE, HEAD");
    rv_http_exchange_add_header(exchange, "access-control-allow-headers",
                                "authorization, content-type, traceparent, x-request-id");
    rv_http_exchange_add_header(exchange, "access-control-max-age", "600");
    rv_call_send(call, 204, "text/plain", "", 0);
    return 204;
}

/* ---- refusals -------------------------------------------------------------------------------------- */

static int refuse(struct rv_call *call, const struct rv_api_error *err)
{
    int status = err->http_status;

    rv_call_send_error(call, err);
    return status;
}

static int refuse_http(struct rv_call *call, int status, const char *why)
{
    struct rv_api_error err;

    rv_api_error_http(&err, status, why);
    return refuse(call, &err);
}

static int refuse_key(struct rv_call *call, enum rv_auth_verdict verdict)
{
    struct rv_api_error err;

    switch (verdict) {
    case RV_AUTH_MISSING:
        rv_http_exchange_add_header(call->exchange, "www-authenticate", "Bearer");
        rv_api_error_set(&err, 401, "missing_api_key", NULL,
                         "this server wants a key: send the header 'Authorization: Bearer KEY'");
        return refuse(call, &err);
    case RV_AUTH_WRONG:
        rv_http_exchange_add_header(call->exchange, "www-authenticate", "Bearer error=\"invalid_token\"");
        rv_api_error_set(&err, 401, "invalid_api_key", NULL,
                         "the key is not one of this server's, or not any more; 'ruvllm key create' makes one");
        return refuse(call, &err);
    case RV_AUTH_FORBIDDEN:
        rv_api_error_set(&err, 403, "admin_only", NULL, "this needs a key made with 'ruvllm key create --admin'");
        return refuse(call, &err);
    case RV_AUTH_FOREIGN:
        rv_api_error_set(&err, 403, "local_only", NULL,
                         "without keys only this machine is served, under the name localhost; make a key with 'ruvllm "
                         "key create', or allow a web page with --cors-origin");
        return refuse(call, &err);
    default:
        call->retry_after = 1;
        return refuse_http(call, 503, "the key cannot be checked now; try again");
    }
}

static int refuse_path(struct rv_call *call, enum rv_route_found found)
{
    if (found == RV_ROUTE_NONE)
        return refuse_http(call, 404, "there is no such path; see the documentation for those there are");
    rv_http_exchange_add_header(call->exchange, "allow", call->arg);
    if (call->method == RV_HTTP_OPTIONS) {
        rv_call_send(call, 204, "text/plain", "", 0);
        return 204;
    }
    return refuse_http(call, 405, "this path does not take this method; the header 'Allow' names those it does");
}

static int refuse_rate(struct rv_call *call, int32_t seconds)
{
    struct rv_api_error err;

    call->retry_after = seconds;
    rv_api_error_set(&err, 429, "rate_limit_exceeded", NULL,
                     "this key may make %d requests a minute; the next one is let through in %d s",
                     call->key.requests_per_minute, seconds);
    return refuse(call, &err);
}

/* Votes change what is answered, so a key may cast no more of them than people do. */
static int check_vote_rate(struct rv_call *call)
{
    struct rv_server *server = call->server;
    int32_t per_minute = server->config->votes_per_minute, seconds;
    struct rv_api_error err;

    if (!server->config->learns || !call->route->is_vote || call->method != RV_HTTP_POST)
        return 0;
    seconds = rv_rate_limit_take(&server->vote_rates, call->key.number, per_minute, call->arrived_us);
    if (!seconds)
        return 0;
    call->retry_after = seconds;
    rv_api_error_set(&err, 429, "rate_limit_exceeded", NULL,
                     "a key may give %d votes a minute here; the next one is let through in %d s", per_minute, seconds);
    return refuse(call, &err);
}

/* ---- the callbacks ----------------------------------------------------------------------------------- */

static int check(struct rv_call *call, enum rv_route_found found, const struct rv_auth_request *request)
{
    struct rv_server *server = call->server;
    enum rv_auth_access access = call->route ? call->route->access : RV_AUTH_KEY;
    enum rv_auth_verdict verdict;
    int32_t seconds;

    if (access != RV_AUTH_OPEN && atomic_load_explicit(&server->is_draining, memory_order_relaxed)) {
        call->retry_after = 1;
        return refuse_http(call, 503, "the server is ending; try again on another one, or in a moment");
    }
    verdict = rv_auth_check(&server->auth, request, access, call->arrived_us, &call->key);
    if (verdict != RV_AUTH_OK)
        return refuse_key(call, verdict);
    if (found != RV_ROUTE_FOUND)
        return refuse_path(call, found);
    seconds = rv_rate_limit_take(&server->rates, call->key.number, call->key.requests_per_minute, call->arrived_us);
    return seconds ? refuse_rate(call, seconds) : check_vote_rate(call);
}

int rv_front_desk_on_headers(void *user, struct rv_http_exchange *exchange)
{
    struct rv_server *server = user;
    struct rv_call *call = rv_call_new(server, exchange);
    struct rv_auth_request request = {.authorization = rv_http_exchange_header(exchange, "authorization"),
                                      .host = rv_http_exchange_header(exchange, "host"),
                                      .origin = rv_http_exchange_header(exchange, "origin"),
                                      .is_loopback = rv_http_exchange_is_loopback(exchange)};
    enum rv_route_found found;

    rv_http_exchange_set_user(exchange, call);
    if (!call) {
        static const char body[] = "{\"error\":{\"message\":\"too many requests are under way; try again later\","
                                   "\"type\":\"server_error\",\"param\":null,\"code\":\"overloaded\"}}";

        rv_http_exchange_add_header(exchange, "retry-after", "1");
        rv_http_exchange_reply(exchange, 503, "application/json", body, sizeof(body) - 1);
        return 503;
    }
    request.origin_is_listed = is_listed(server, request.origin);
    rv_trace_context_begin(&call->trace, rv_http_exchange_header(exchange, "traceparent"), &server->rng);
    add_common_headers(call, request.origin, request.origin_is_listed);
    if (call->method == RV_HTTP_OPTIONS && request.origin_is_listed &&
        rv_http_exchange_header(exchange, "access-control-request-method"))
        return answer_preflight(call);
    found = rv_route_table_find(call->method, rv_http_exchange_path(exchange), &call->route, call->arg);
    return check(call, found, &request);
}

/* The client may go while a worker reads, so the worker has its own copy. */
static bool copy_body(struct rv_call *call)
{
    const char *body = rv_http_exchange_body(call->exchange, &call->body_len);

    if (call->body_len == 0)
        return true;
    call->body = rv_strndup(body, call->body_len);
    return call->body != NULL;
}

void rv_front_desk_on_request(void *user, struct rv_http_exchange *exchange)
{
    struct rv_call *call = rv_http_exchange_user(exchange);

    (void)user;
    if (!call || call->stage != RV_CALL_OPEN)
        return; // refused already
    if (call->route->answer) {
        call->route->answer(call);
    } else if (copy_body(call)) {
        rv_call_hand_over(call);
    } else {
        call->retry_after = 1;
        refuse_http(call, 503, "no memory for this request now; try again later");
    }
}

size_t rv_front_desk_on_refusal(void *user, int status, const char *why, char *body, size_t body_cap)
{
    struct rv_server *server = user;
    struct rv_api_error err;
    struct rv_buf out;
    size_t len = 0;

    server->metrics.n_refused_early++;
    rv_api_error_http(&err, status, why);
    rv_buf_init(&out, body_cap);
    rv_api_error_json(&err, &out);
    if (out.failed == RUVLLM_OK) {
        memcpy(body, out.data, out.len);
        len = out.len;
    }
    rv_buf_release(&out);
    return len;
}

void rv_front_desk_on_end(void *user, struct rv_http_exchange *exchange, enum rv_http_end why)
{
    struct rv_call *call = rv_http_exchange_user(exchange);

    (void)user;
    if (call)
        rv_call_on_end(call, why);
}
