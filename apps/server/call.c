/*
 * Slots and who owns them. Threads: see call.h; functions here run on the I/O thread unless they say otherwise.
 *
 * Slots are made as they are needed, up to a limit, and never given back before the server ends, because an engine may
 * still post one after its request is over.
 */
#include "server/call.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "server/account.h"
#include "server/generation.h"

#include <stdio.h>
#include <string.h>

enum { MAX_REPLY = 64 << 20 };

static void on_post(void *user);
static void on_model(void *user);

/* ---- slots -------------------------------------------------------------------------------------- */

static struct rv_call *add_slot(struct rv_server *server)
{
    struct rv_call *call = server->n_slots < server->config->max_calls ? rv_calloc(1, sizeof(*call)) : NULL;

    if (!call)
        return NULL;
    call->server = server;
    call->post = (struct rv_http_post){.fn = on_post, .user = call};
    call->waiter = (struct rv_model_set_waiter){.fn = on_model, .user = call};
    call->work.user = call;
    call->next_slot = server->all_calls;
    server->all_calls = call;
    server->n_slots++;
    return call;
}

static void copy_text(char *out, size_t cap, const char *text)
{
    snprintf(out, cap, "%s", text ? text : "");
}

struct rv_call *rv_call_new(struct rv_server *server, struct rv_http_exchange *exchange)
{
    struct rv_call *call = server->free_calls;
    uint64_t random[2] = {rv_rng_next(&server->rng), rv_rng_next(&server->rng)};

    if (call)
        server->free_calls = call->next_free;
    else
        call = add_slot(server);
    if (!call)
        return NULL;
    server->n_calls++;
    call->exchange = exchange;
    call->stage = RV_CALL_OPEN;
    call->is_inside = false;
    call->end = RV_HTTP_END_GONE;
    call->ended_us = 0;
    call->status = 0;
    call->route = NULL;
    call->key = (struct rv_auth_key){0};
    call->method = rv_http_exchange_method(exchange);
    call->arrived_us = rv_clock_us();
    call->body = NULL;
    call->body_len = 0;
    call->request = NULL;
    call->i_model = -1;
    call->adapters.n = 0;
    call->engine = NULL;
    call->generation = NULL;
    call->reply_status = 0;
    call->reply_type = "application/json";
    call->retry_after = 0;
    call->has_feedback = false;
    call->cause[0] = '\0';
    call->arg[0] = '\0';
    rv_buf_init(&call->reply, MAX_REPLY);
    atomic_store_explicit(&call->is_gone, false, memory_order_relaxed);
    rv_api_reply_id(call->id, "req", (const uint8_t *)random);
    copy_text(call->path, sizeof(call->path), rv_http_exchange_path(exchange));
    copy_text(call->peer, sizeof(call->peer), rv_http_exchange_peer(exchange));
    copy_text(call->query, sizeof(call->query), rv_http_exchange_query(exchange));
    return call;
}

static void release(struct rv_call *call)
{
    if (call->generation) {
        rv_generation_cancel(call);
        rv_generation_free(call);
    }
    if (call->engine)
        rv_model_set_release(call->server->models, (size_t)call->i_model, true);
    call->engine = NULL;
    rv_api_request_free(call->request);
    call->request = NULL;
    rv_free(call->body);
    call->body = NULL;
    rv_buf_release(&call->reply);
}

/* The exchange has ended and the call is ours: it is over. */
static void settle(struct rv_call *call)
{
    struct rv_server *server = call->server;

    if (call->exchange || call->is_inside || atomic_load_explicit(&call->owner, memory_order_acquire) != RV_CALL_IO ||
        call->stage == RV_CALL_FREE)
        return;
    if (call->generation)
        rv_generation_cancel(call);
    rv_account_call(call);
    release(call);
    call->stage = RV_CALL_FREE;
    call->next_free = server->free_calls;
    server->free_calls = call;
    server->n_calls--;
}

void rv_call_on_end(struct rv_call *call, enum rv_http_end why)
{
    call->exchange = NULL;
    call->end = why;
    call->ended_us = rv_clock_us();
    atomic_store_explicit(&call->is_gone, true, memory_order_relaxed);
    settle(call);
}

void rv_call_free_all(struct rv_server *server, bool with_slots)
{
    struct rv_call *next;

    for (struct rv_call *call = server->all_calls; call; call = next) {
        next = call->next_slot;
        if (call->stage != RV_CALL_FREE)
            release(call);
        call->stage = RV_CALL_FREE;
        if (with_slots)
            rv_free(call);
    }
    if (with_slots)
        server->all_calls = NULL;
    server->free_calls = NULL;
}

/* ---- answers -------------------------------------------------------------------------------------- */

void rv_call_send(struct rv_call *call, int status, const char *type, const void *body, size_t len)
{
    char seconds[16];

    call->stage = RV_CALL_ANSWERED;
    if (!call->exchange)
        return;
    call->status = status;
    if (call->retry_after > 0) {
        snprintf(seconds, sizeof(seconds), "%d", call->retry_after);
        rv_http_exchange_add_header(call->exchange, "retry-after", seconds);
    }
    rv_http_exchange_reply(call->exchange, status, type, body, len);
}

void rv_call_send_error(struct rv_call *call, const struct rv_api_error *err)
{
    struct rv_buf body;

    rv_buf_init(&body, 8 << 10);
    rv_api_error_json(err, &body);
    rv_call_send(call, err->http_status, "application/json", body.data, body.len);
    rv_buf_release(&body);
}

/* ---- from thread to thread ------------------------------------------------------------------------- */

/* On any thread that owns the call. */
static void give_back(struct rv_call *call)
{
    struct rv_http_server *http = call->server->http;

    atomic_store_explicit(&call->owner, RV_CALL_IO, memory_order_release);
    rv_http_server_post(http, &call->post);
}

static struct rv_worker_pool *pool_of(const struct rv_call *call)
{
    const struct rv_server *server = call->server;

    if (call->route->is_vote && server->voters)
        return server->voters;
    return call->route->is_slow ? server->slow : server->quick;
}

/* On a worker. */
static void run_work(void *user)
{
    struct rv_call *call = user;

    call->result = RV_CALL_REPLY;
    if (atomic_load_explicit(&call->is_gone, memory_order_relaxed) || call->route->work(call))
        give_back(call);
}

/* On a worker. */
static void run_finish(void *user)
{
    struct rv_call *call = user;

    rv_generation_finish(call);
    give_back(call);
}

/* On the loader's thread. */
static void on_model(void *user)
{
    struct rv_call *call = user;

    rv_worker_pool_push(pool_of(call), &call->work);
}

void rv_call_hand_over(struct rv_call *call)
{
    call->stage = RV_CALL_WORKING;
    call->work.fn = run_work;
    atomic_store_explicit(&call->owner, RV_CALL_WORKER, memory_order_relaxed); // the pool's lock publishes the rest
    rv_worker_pool_push(pool_of(call), &call->work);
}

void rv_call_finish(struct rv_call *call)
{
    call->stage = RV_CALL_FINISHING;
    call->work.fn = run_finish;
    atomic_store_explicit(&call->owner, RV_CALL_WORKER, memory_order_relaxed);
    rv_worker_pool_push(call->server->quick, &call->work);
}

static void came_back(struct rv_call *call)
{
    if (!call->exchange)
        return;
    if (call->result == RV_CALL_GENERATE) {
        call->stage = RV_CALL_GENERATING;
        rv_generation_pump(call);
    } else {
        rv_call_send(call, call->reply_status, call->reply_type, call->reply.data, call->reply.len);
    }
}

static void on_post(void *user)
{
    struct rv_call *call = user;

    if (atomic_load_explicit(&call->owner, memory_order_acquire) != RV_CALL_IO || call->stage == RV_CALL_FREE)
        return;
    call->is_inside = true;
    if (call->stage == RV_CALL_WORKING)
        came_back(call);
    else if (call->stage == RV_CALL_GENERATING)
        rv_generation_pump(call);
    else if (call->stage == RV_CALL_FINISHING)
        rv_generation_end(call);
    call->is_inside = false;
    settle(call);
}

/* ---- on a worker ------------------------------------------------------------------------------------ */

void rv_call_fail(struct rv_call *call, const struct rv_api_error *err)
{
    rv_buf_clear(&call->reply);
    rv_api_error_json(err, &call->reply);
    call->reply_status = err->http_status;
    call->reply_type = "application/json";
    call->result = RV_CALL_REPLY;
    if ((err->http_status == 429 || err->http_status == 503 || err->http_status == 507) && call->retry_after == 0)
        call->retry_after = 1;
}

void rv_call_fail_from(struct rv_call *call, const struct ruvllm_error *cause)
{
    struct rv_api_error err;

    rv_api_error_from(&err, cause);
    if (err.http_status >= 500)
        copy_text(call->cause, sizeof(call->cause), cause->message);
    rv_call_fail(call, &err);
}

void rv_call_reply_json(struct rv_call *call)
{
    struct ruvllm_error err = {0};

    if (rv_buf_status(&call->reply, "the answer", &err)) {
        rv_call_fail_from(call, &err);
        return;
    }
    call->reply_status = 200;
    call->result = RV_CALL_REPLY;
}

const char *rv_call_tenant(const struct rv_call *call)
{
    return call->key.tenant;
}

enum rv_call_ready rv_call_take_model(struct rv_call *call, const char *name)
{
    struct rv_model_set *models = call->server->models;
    struct ruvllm_error err = {0};
    struct rv_api_error missing;

    if (call->engine)
        return RV_CALL_READY;
    call->i_model = rv_model_set_find(models, name);
    if (call->i_model < 0) {
        rv_api_error_model(&missing, name);
        rv_call_fail(call, &missing);
        return RV_CALL_FAILED;
    }
    switch (rv_model_set_take(models, (size_t)call->i_model, &call->waiter, &call->engine, &err)) {
    case RV_MODEL_SET_TAKEN:
        return RV_CALL_READY;
    case RV_MODEL_SET_WAITS:
        return RV_CALL_WAITS;
    case RV_MODEL_SET_FAILED:
        break;
    }
    rv_call_fail_from(call, &err);
    return RV_CALL_FAILED;
}

enum rv_call_ready rv_call_prepare(struct rv_call *call, enum rv_api_kind kind)
{
    struct rv_api_error err;

    if (!call->request) {
        if (rv_api_request_parse(kind, call->body ? call->body : "", call->body_len, &call->request, &err)) {
            rv_call_fail(call, &err);
            return RV_CALL_FAILED;
        }
        rv_free(call->body);
        call->body = NULL;
    }
    if (!rv_adapter_choice_make(call->server->models, &call->key, call->request, &call->server->default_adapters,
                                &call->i_model, &call->adapters, &err)) {
        rv_call_fail(call, &err);
        return RV_CALL_FAILED;
    }
    return rv_call_take_model(call, rv_model_set_name(call->server->models, (size_t)call->i_model));
}
