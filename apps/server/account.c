/* Prompts, answers and keys are not here to be written down: only numbers, names and reasons. */
#include "server/account.h"

#include "server/generation.h"

#include <string.h>

static int64_t at_least_0(int64_t value)
{
    return value > 0 ? value : 0;
}

/* Waiting is what is left of the time with the engine when its computing is taken away. */
static int64_t queue_us(const struct rv_generation *g)
{
    const struct ruvllm_response *first = g->choices[0].response;

    return first ? at_least_0(g->done_us - g->submitted_us - first->prefill_us - first->decode_us) : 0;
}

static bool is_complete(const struct rv_generation *g)
{
    return g && g->n_done == g->n_choices;
}

static void count_generation(struct rv_metrics_model *m, const struct rv_call *call)
{
    const struct rv_generation *g = call->generation;

    if (g->first_us)
        rv_metrics_observe(&m->first_token, (double)(g->first_us - call->arrived_us) / 1e6, 1);
    if (!is_complete(g)) {
        m->n_cancelled += call->exchange == NULL && call->end != RV_HTTP_END_SENT;
        return;
    }
    rv_metrics_observe(&m->total, (double)(g->done_us - call->arrived_us) / 1e6, 1);
    rv_metrics_observe(&m->queue, (double)queue_us(g) / 1e6, 1);
    m->prompt_tokens += (uint64_t)g->usage.prompt_tokens;
    m->cached_tokens += (uint64_t)g->usage.cached_tokens;
    m->generated_tokens += (uint64_t)g->usage.completion_tokens;
    for (size_t i = 0; i < g->n_choices; i++) {
        bool is_length = strcmp(rv_api_reply_finish_reason(g->choices[i].response->stop_reason), "length") == 0;

        m->n_length += is_length;
        m->n_stop += !is_length;
    }
}

static void count_feedback(struct rv_metrics_model *m, const struct rv_call *call)
{
    rv_metrics_observe(&m->feedback_compute, (double)call->feedback_compute_us / 1e6, 1);
    rv_metrics_observe(&m->feedback_commit, (double)call->feedback_commit_us / 1e6, 1);
}

static const char *finish_reason(const struct rv_call *call)
{
    const struct rv_generation *g = call->generation;

    if (!g)
        return NULL;
    return is_complete(g) ? rv_api_reply_finish_reason(g->choices[0].response->stop_reason) : "cancelled";
}

static const char *model_name(const struct rv_call *call)
{
    return call->i_model >= 0 ? rv_model_set_name(call->server->models, (size_t)call->i_model) : NULL;
}

static void log_call(const struct rv_call *call)
{
    static const char *const ends[] = {"sent", "gone", "deadline"};
    const struct rv_generation *g = call->generation;
    struct rv_access_log_record record = {
        .method = rv_route_method_name(call->method),
        .path = call->path,
        .route = call->route ? call->route->pattern : NULL,
        .peer = call->peer,
        .key_id = call->key.id[0] ? call->key.id : NULL,
        .tenant = call->key.tenant[0] ? call->key.tenant : NULL,
        .model = model_name(call),
        .request_id = call->id,
        .traceparent = call->trace.text,
        .finish_reason = finish_reason(call),
        .end = ends[call->end],
        .error = call->cause[0] ? call->cause : NULL,
        .status = call->status,
        .total_us = call->ended_us - call->arrived_us,
        .first_token_us = g && g->first_us ? g->first_us - call->arrived_us : 0,
        .prompt_tokens = g ? (int32_t)g->usage.prompt_tokens : 0,
        .cached_tokens = g ? (int32_t)g->usage.cached_tokens : 0,
        .generated_tokens = g ? (int32_t)g->usage.completion_tokens : 0,
    };

    rv_access_log_request(call->server->log, &record);
}

static void witness(const struct rv_call *call)
{
    const struct rv_generation *g = is_complete(call->generation) ? call->generation : NULL;
    const struct ruvllm_response *first = g ? g->choices[0].response : NULL;
    struct ruvllm_witness entry = {
        .struct_size = sizeof(entry),
        .tenant = call->key.tenant,
        .key_id = call->key.id,
        .request_id = call->id,
        .model = model_name(call),
        .endpoint = call->route->pattern,
        .finish_reason = finish_reason(call),
        .adapter_generation = call->generation ? call->generation->head.adapter_generation : 0,
        .status = call->status ? call->status : 499, // nobody waited for one
        .prompt_tokens = g ? (int32_t)g->usage.prompt_tokens : 0,
        .cached_tokens = g ? (int32_t)g->usage.cached_tokens : 0,
        .generated_tokens = g ? (int32_t)g->usage.completion_tokens : 0,
        .queue_us = g ? queue_us(g) : 0,
        .prefill_us = first ? first->prefill_us : 0,
        .decode_us = first ? first->decode_us : 0,
        .total_us = at_least_0(call->ended_us - call->arrived_us),
    };
    struct ruvllm_error err = {0};

    if (ruvllm_witness_append(call->server->store, &entry, &err))
        rv_access_log_message(call->server->log, "error", err.message);
}

void rv_account_call(struct rv_call *call)
{
    struct rv_server *server = call->server;

    rv_metrics_request(&server->metrics, rv_route_table_index(call->route), call->status ? call->status : 499);
    if (call->generation && call->i_model >= 0)
        count_generation(&server->metrics.models[call->i_model], call);
    if (call->has_feedback)
        count_feedback(&server->metrics.models[call->i_model], call);
    if (server->config->log_level <= RUVLLM_LOG_INFO)
        log_call(call);
    if (server->store && call->route && call->route->access != RV_AUTH_OPEN)
        witness(call);
}
