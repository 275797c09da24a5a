/* /v1/models: what is served, and what is known of it. Asking loads nothing. */
#include "server/handlers.h"

#include "base/alloc.h"

#include <string.h>

/* What one entry says; its strings live until `engine`, which may be NULL, is released. */
static void describe(struct rv_model_set *set, size_t i, ruvllm_engine *engine, struct rv_api_model *out)
{
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
}

bool rv_handle_models(struct rv_call *call)
{
    struct rv_model_set *set = call->server->models;
    size_t n = rv_model_set_count(set);
    struct rv_api_model *models = rv_calloc(n, sizeof(*models));
    ruvllm_engine **engines = rv_calloc(n, sizeof(ruvllm_engine *));
    struct ruvllm_error err = {0};

    if (models && engines) {
        for (size_t i = 0; i < n; i++) {
            engines[i] = rv_model_set_peek(set, i);
            describe(set, i, engines[i], &models[i]);
        }
        rv_api_reply_models(&call->reply, models, n);
        for (size_t i = 0; i < n; i++) {
            if (engines[i])
                rv_model_set_release(set, i, false);
        }
        rv_call_reply_json(call);
    } else {
        rv_fail(&err, RUVLLM_NO_MEMORY, "cannot allocate the list of models");
        rv_call_fail_from(call, &err);
    }
    rv_free(models);
    rv_free(engines);
    return true;
}

static int hex(char c)
{
    const char *digits = "0123456789abcdef0123456789ABCDEF";
    const char *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) % 16 : -1;
}

/* Undoes %XX, in place; only '/' and ':' need it in a name. What it gives is looked up in the table and nowhere else.
 */
static void undo_escapes(char *text)
{
    char *out = text;

    while (*text) {
        if (text[0] == '%' && hex(text[1]) >= 0 && hex(text[2]) > 0) {
            *out++ = (char)(hex(text[1]) * 16 + hex(text[2]));
            text += 3;
        } else if (text[0] == '%' && hex(text[1]) > 0 && hex(text[2]) == 0) {
            *out++ = (char)(hex(text[1]) * 16);
            text += 3;
        } else {
            *out++ = *text++;
        }
    }
    *out = '\0';
}

bool rv_handle_model(struct rv_call *call)
{
    struct rv_model_set *set = call->server->models;
    struct rv_api_model model;
    struct rv_api_error err;
    ruvllm_engine *engine;
    int32_t i;

    undo_escapes(call->arg);
    i = rv_model_set_find(set, call->arg);
    if (i < 0) {
        rv_api_error_model(&err, call->arg);
        rv_call_fail(call, &err);
        return true;
    }
    engine = rv_model_set_peek(set, (size_t)i);
    describe(set, (size_t)i, engine, &model);
    rv_api_reply_model(&call->reply, &model);
    if (engine)
        rv_model_set_release(set, (size_t)i, false);
    rv_call_reply_json(call);
    return true;
}
