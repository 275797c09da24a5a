/* /v1/models: what is served, and what is known of it. Asking loads nothing. */
#include "server/handlers.h"

#include "server/api/api_json.h"
#include "server/learning_model.h"
#include "server/url_text.h"

#include <stdio.h>
#include <string.h>

enum { LIST_LIMIT = 1000 }; // of models with adapters

/* What one entry says; its strings live until `engine`, which may be NULL, is released. */
static void describe(struct rv_server *server, size_t i, ruvllm_engine *engine, struct rv_api_model *out)
{
    struct rv_model_set *set = server->models;
    struct ruvllm_model_info info = {.struct_size = sizeof(info)};

    *out = (struct rv_api_model){.id = rv_model_set_name(set, i), .created = rv_model_set_created(set, i)};
    if (!engine || ruvllm_model_info_get(ruvllm_engine_model(engine), &info, NULL))
        return;
    out->is_loaded = true;
    out->architecture = info.architecture;
    out->quantization = info.quantization;
    out->backend = info.backend;
    out->n_params = info.n_params;
    out->context = info.context;
    out->n_embd = info.n_embd;
    out->has_chat_template = info.has_chat_template;
    /* Rows of heads that 32 does not divide stay in 16 bits. */
    out->has_tiers = info.has_tiers && info.head_dim % 32 == 0;
    out->can_learn = rv_learning_model_stage(server, i) != RV_LEARNING_OFF;
}

/* Adds a model with each adapter of it that the caller may use, the newest generation counting. */
static ruvllm_status add_adapted(struct rv_call *call, struct rv_api_model *base, ruvllm_engine *engine, size_t *n,
                                 struct ruvllm_error *err)
{
    char id[RV_MODEL_SET_NAME + 1 + RV_API_MAX_ADAPTER + 1];
    struct ruvllm_adapter_info *infos = NULL;
    size_t n_infos = 0;
    ruvllm_status rc = ruvllm_engine_adapter_list(engine, NULL, &infos, &n_infos, err);

    for (size_t i = 0; !rc && i < n_infos && *n <= LIST_LIMIT; i++) {
        struct rv_api_model model = *base;

        /* Generations of one id lie side by side. */
        if ((i > 0 && strcmp(infos[i - 1].id, infos[i].id) == 0) ||
            !rv_adapter_choice_may_use(&call->key, infos[i].id) || (*n)++ >= LIST_LIMIT)
            continue;
        snprintf(id, sizeof(id), "%s:%s", base->id, infos[i].id);
        model.id = id;
        model.parent = base->id;
        model.owned_by = strchr(infos[i].id, '/') ? call->key.tenant : NULL;
        rv_api_reply_model(&call->reply, &model);
    }
    ruvllm_free(infos);
    return rc == RUVLLM_UNSUPPORTED ? RUVLLM_OK : rc; // a model that cannot have any has none
}

bool rv_handle_models(struct rv_call *call)
{
    struct rv_model_set *set = call->server->models;
    struct ruvllm_error err = {0};
    ruvllm_status rc = RUVLLM_OK;
    size_t n_adapted = 0;

    rv_api_json_begin(&call->reply, NULL, '{');
    rv_api_json_str(&call->reply, "object", "list");
    rv_api_json_begin(&call->reply, "data", '[');
    for (size_t i = 0; !rc && i < rv_model_set_count(set); i++) {
        ruvllm_engine *engine = rv_model_set_peek(set, i);
        struct rv_api_model model;

        describe(call->server, i, engine, &model);
        rv_api_reply_model(&call->reply, &model);
        if (!engine)
            continue;
        rc = add_adapted(call, &model, engine, &n_adapted, &err);
        rv_model_set_release(set, i, false);
    }
    rv_api_json_end(&call->reply, ']');
    if (n_adapted > LIST_LIMIT)
        rv_api_json_bool(&call->reply, "has_more", true);
    rv_api_json_end(&call->reply, '}');
    if (rc)
        rv_call_fail_from(call, &err);
    else
        rv_call_reply_json(call);
    return true;
}

/* Whether the engine has an adapter that the caller may use. */
static bool has_adapter(const struct rv_call *call, ruvllm_engine *engine, const char *id)
{
    struct ruvllm_adapter_info *infos = NULL;
    size_t n = 0;
    bool is_there = false;

    if (!rv_api_adapter_is_id(id) || !rv_adapter_choice_may_use(&call->key, id) ||
        ruvllm_engine_adapter_list(engine, id, &infos, &n, NULL))
        return false;
    for (size_t i = 0; i < n && !is_there; i++)
        is_there = strcmp(infos[i].id, id) == 0;
    ruvllm_free(infos);
    return is_there;
}

bool rv_handle_model(struct rv_call *call)
{
    struct rv_model_set *set = call->server->models;
    ruvllm_engine *engine = NULL;
    struct rv_api_model model;
    struct rv_api_error err;
    const char *adapter;
    int32_t i;

    rv_url_text_unescape(call->arg);
    i = rv_adapter_choice_find_model(set, call->arg, &adapter);
    if (i >= 0)
        engine = rv_model_set_peek(set, (size_t)i);
    if (i < 0 || (*adapter && (!engine || !has_adapter(call, engine, adapter)))) {
        rv_api_error_model(&err, call->arg);
        rv_call_fail(call, &err);
    } else {
        describe(call->server, (size_t)i, engine, &model);
        if (*adapter) {
            model.parent = model.id;
            model.id = call->arg;
            model.owned_by = strchr(adapter, '/') ? call->key.tenant : NULL;
        }
        rv_api_reply_model(&call->reply, &model);
        rv_call_reply_json(call);
    }
    if (engine)
        rv_model_set_release(set, (size_t)i, false);
    return true;
}
