/* /v1/learning/patterns: what the caller's tenant asked and how it was judged, as loaded models have it. */
#include "server/handlers.h"

#include "server/api/api_json.h"
#include "server/api/api_learning.h"
#include "server/api/api_patterns.h"
#include "server/learning_model.h"

struct listing {
    struct rv_call *call;
    const char *model;
};

static bool add_pattern(void *user, const struct ruvllm_pattern *pattern)
{
    struct listing *listing = user;

    rv_api_patterns_reply(&listing->call->reply, listing->model, pattern);
    return true;
}

static ruvllm_status list_model(struct rv_call *call, size_t i_model, ruvllm_engine *engine, struct ruvllm_error *err)
{
    struct listing listing = {.call = call, .model = rv_model_set_name(call->server->models, i_model)};

    return ruvllm_patterns_list(engine, rv_call_tenant(call), RV_API_MAX_PATTERNS, add_pattern, &listing, err);
}

static ruvllm_status forget_model(struct rv_call *call, size_t i_model, ruvllm_engine *engine, struct ruvllm_error *err)
{
    (void)i_model;
    return ruvllm_patterns_forget(engine, rv_call_tenant(call), err);
}

/* For each loaded model that learns; false: it has failed, and the call says so. */
static bool for_models(struct rv_call *call,
                       ruvllm_status (*fn)(struct rv_call *, size_t, ruvllm_engine *, struct ruvllm_error *))
{
    struct rv_model_set *set = call->server->models;
    struct ruvllm_error cause = {0};
    struct rv_api_error off;
    ruvllm_status rc = RUVLLM_OK;

    if (!call->server->config->learns) {
        rv_api_learning_off(&off, NULL);
        rv_call_fail(call, &off);
        return false;
    }
    for (size_t i = 0; !rc && i < rv_model_set_count(set); i++) {
        ruvllm_engine *engine = rv_model_set_peek(set, i);

        if (!engine)
            continue;
        if (rv_learning_model_stage(call->server, i) == RV_LEARNING_ON)
            rc = fn(call, i, engine, &cause);
        rv_model_set_release(set, i, false);
    }
    if (rc)
        rv_call_fail_from(call, &cause);
    return rc == RUVLLM_OK;
}

bool rv_handle_patterns(struct rv_call *call)
{
    rv_api_json_begin(&call->reply, NULL, '{');
    rv_api_json_str(&call->reply, "object", "list");
    rv_api_json_begin(&call->reply, "data", '[');
    if (!for_models(call, list_model))
        return true;
    rv_api_json_end(&call->reply, ']');
    rv_api_json_end(&call->reply, '}');
    rv_call_reply_json(call);
    return true;
}

/* True, and the reply says so, when a loaded model's patterns cannot be reached yet. */
static bool has_some_later(struct rv_call *call)
{
    for (size_t i = 0; i < rv_model_set_count(call->server->models); i++) {
        if (!rv_model_set_peek(call->server->models, i))
            continue;
        rv_model_set_release(call->server->models, i, false);
        if (rv_learning_model_is_early(call, i))
            return true;
    }
    return false;
}

bool rv_handle_patterns_delete(struct rv_call *call)
{
    if (has_some_later(call) || !for_models(call, forget_model))
        return true;
    rv_api_patterns_reply_deleted(&call->reply);
    rv_call_reply_json(call);
    return true;
}
