/* What is answered on the I/O thread at once: the page, the API's document, health, metrics. */
#include "server/handlers.h"

#include "base/alloc.h"
#include "server/generation.h"
#include "server/page.h"

#include <string.h>
#include <time.h>

enum { MAX_IDS = 64 << 10 }; // bytes of adapters' ids in a label

/* Not again to who has it. */
static void send_file(struct rv_call *call, const struct rv_page_file *file)
{
    const char *known = rv_http_exchange_header(call->exchange, "if-none-match");

    if (known && strcmp(known, file->etag) == 0) {
        rv_call_send(call, 304, rv_page_content_type(file), "", 0);
        return;
    }
    rv_http_exchange_add_header(call->exchange, "etag", file->etag);
    rv_call_send(call, 200, rv_page_content_type(file), file->data, file->len);
}

void rv_handle_openapi(struct rv_call *call)
{
    send_file(call, rv_page_document);
}

void rv_handle_page(struct rv_call *call)
{
    const struct rv_page_file *file = rv_page_find(rv_http_exchange_path(call->exchange));
    struct rv_api_error err;

    for (const struct rv_page_header *h = rv_page_headers; h->name; h++)
        rv_http_exchange_add_header(call->exchange, h->name, h->value);
    if (strcmp(rv_http_exchange_path(call->exchange), "/") == 0) {
        /* The page names its files relative to its own folder. */
        rv_http_exchange_add_header(call->exchange, "location", "/page/index.html");
        rv_call_send(call, 302, "text/plain", "", 0);
    } else if (!file) {
        rv_api_error_http(&err, 404, "the page has no such file");
        rv_call_send_error(call, &err);
    } else {
        send_file(call, file);
    }
}

void rv_handle_healthz(struct rv_call *call)
{
    rv_call_send(call, 200, "application/json", "{\"status\":\"ok\"}", 15);
}

void rv_handle_readyz(struct rv_call *call)
{
    struct rv_server *server = call->server;
    struct rv_api_error err;

    if (atomic_load_explicit(&server->is_draining, memory_order_relaxed)) {
        rv_api_error_http(&err, 503, "the server is ending");
    } else if (!rv_model_set_is_ready(server->models)) {
        rv_api_error_http(&err, 503, "the default model is being loaded");
    } else {
        rv_call_send(call, 200, "application/json", "{\"status\":\"ready\"}", 18);
        return;
    }
    call->retry_after = 1;
    rv_call_send_error(call, &err);
}

static const char *route_name(size_t i_route)
{
    return rv_route_table_at(i_route)->pattern;
}

static const char *route_method(size_t i_route)
{
    return rv_route_method_name(rv_route_table_at(i_route)->method);
}

/* What every model says of itself now. */
static void view_models(struct rv_server *server, struct rv_metrics_model_view *models)
{
    for (size_t i = 0; i < rv_model_set_count(server->models); i++) {
        ruvllm_engine *engine = rv_model_set_peek(server->models, i);

        models[i].name = rv_model_set_name(server->models, i);
        models[i].stats.struct_size = sizeof(models[i].stats);
        if (!engine)
            continue;
        models[i].is_loaded = ruvllm_engine_stats_get(engine, &models[i].stats, NULL) == RUVLLM_OK;
        rv_model_set_release(server->models, i, false);
    }
}

/* Adds an id to "a,b" unless it is there. Ids have no commas. */
static void add_id(struct rv_buf *ids, const char *id)
{
    size_t len = strlen(id);

    for (const char *at = ids->data; at && *at;) {
        size_t n = strcspn(at, ",");

        if (n == len && strncmp(at, id, len) == 0)
            return;
        at += n + (at[n] == ',');
    }
    if (ids->len > 0)
        rv_buf_add_char(ids, ',');
    rv_buf_add(ids, id, len);
}

/* Adapters of the answers under way, by whether their first token has come. */
static void view_adapters(const struct rv_server *server, struct rv_buf *running, struct rv_buf *waiting)
{
    for (const struct rv_call *call = server->all_calls; call; call = call->next_slot) {
        if (call->stage != RV_CALL_GENERATING)
            continue;
        for (size_t i = 0; i < call->adapters.n; i++)
            add_id(call->generation->first_us ? running : waiting, call->adapters.uses[i].id);
    }
}

static void fail_without_memory(struct rv_call *call)
{
    struct rv_api_error err;

    call->retry_after = 1;
    rv_api_error_http(&err, 503, "no memory for the metrics now; try again later");
    rv_call_send_error(call, &err);
}

void rv_handle_metrics(struct rv_call *call)
{
    struct rv_server *server = call->server;
    struct rv_metrics_model_view *models = rv_calloc(RV_MODEL_SET_MAX, sizeof(*models)); // too large for a stack
    struct ruvllm_witness_stats witness = {.struct_size = sizeof(witness)};
    struct rv_metrics_view view = {.route_name = route_name,
                                   .route_method = route_method,
                                   .models = models,
                                   .n_connections = rv_http_server_n_connections(server->http),
                                   .n_calls = server->n_calls,
                                   .now_s = (int64_t)time(NULL),
                                   .is_draining = atomic_load_explicit(&server->is_draining, memory_order_relaxed)};
    struct rv_buf *out = &server->scratch;
    struct rv_buf running, waiting;

    if (!models) {
        fail_without_memory(call);
        return;
    }
    rv_buf_init(&running, MAX_IDS);
    rv_buf_init(&waiting, MAX_IDS);
    view_models(server, models);
    view_adapters(server, &running, &waiting);
    view.running_adapters = running.data;
    view.waiting_adapters = waiting.data;
    if (server->store && ruvllm_witness_stats_get(server->store, &witness, NULL) == RUVLLM_OK)
        view.witness_dropped = witness.dropped;
    rv_buf_clear(out);
    rv_metrics_write(&server->metrics, &view, out);
    rv_call_send(call, 200, "text/plain; version=0.0.4; charset=utf-8", out->data, out->len);
    rv_buf_clear(out);
    rv_buf_release(&running);
    rv_buf_release(&waiting);
    rv_free(models);
}
