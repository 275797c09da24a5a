/*
 * What was learned, for people: /v1/learning/history, pause, resume, forget and export; for the caller's tenant and
 * nobody else's. The query's or body's `model` says which model is meant, the default one when it says nothing.
 */
#include "server/handlers.h"

#include "server/api/api_json.h"
#include "server/api/api_learning_log.h"
#include "server/learning_model.h"
#include "server/reply_file.h"
#include "server/url_text.h"

#include <string.h>

enum { PAGE = 100, MAX_PAGE = 1000 };

static void fail_query(struct rv_call *call, const char *field, const char *why)
{
    struct rv_api_error err;

    rv_api_error_set(&err, 400, "invalid_value", field, "%s", why);
    rv_call_fail(call, &err);
}

/* The query's model; false: the reply says what is wrong. */
static bool read_model(struct rv_call *call, const char *const *known, char model[RV_MODEL_SET_NAME + 1])
{
    model[0] = '\0';
    if (!rv_url_text_has_only(call->query, known)) {
        fail_query(call, "", "the query has a field that is not known here; leave it out");
        return false;
    }
    if (strstr(call->query, "model=") && !rv_url_text_field(call->query, "model", model, RV_MODEL_SET_NAME + 1)) {
        fail_query(call, "model", "'model' is too long for a model's name");
        return false;
    }
    return true;
}

static const char *model_name(const struct rv_call *call)
{
    return rv_model_set_name(call->server->models, (size_t)call->i_model);
}

/* ---- history ----------------------------------------------------------------------------------------- */

static bool add_event(void *user, const struct ruvllm_learned_event *event)
{
    rv_api_learning_log_reply_event(user, event);
    return true;
}

static void reply_history(struct rv_call *call, int64_t before, size_t limit)
{
    struct ruvllm_error err = {0};
    int64_t next = 0;

    rv_api_json_begin(&call->reply, NULL, '{');
    rv_api_json_str(&call->reply, "object", "list");
    rv_api_json_str(&call->reply, "model", model_name(call));
    rv_api_json_begin(&call->reply, "data", '[');
    if (ruvllm_engine_learn_history(call->engine, rv_call_tenant(call), before, limit, add_event, &call->reply, &next,
                                    &err)) {
        rv_call_fail_from(call, &err);
        return;
    }
    rv_api_json_end(&call->reply, ']');
    rv_api_json_bool(&call->reply, "has_more", next > 0);
    if (next > 0)
        rv_api_json_int(&call->reply, "next", next);
    else
        rv_api_json_null(&call->reply, "next");
    rv_api_json_end(&call->reply, '}');
    rv_call_reply_json(call);
}

bool rv_handle_learning_history(struct rv_call *call)
{
    static const char *const known[] = {"model", "before", "limit", NULL};
    int64_t before = 0, limit = PAGE;
    char model[RV_MODEL_SET_NAME + 1];
    enum rv_call_ready ready;

    if (!read_model(call, known, model))
        return true;
    if (!rv_url_text_int(call->query, "before", 1, INT64_MAX, &before)) {
        fail_query(call, "before", "'before' is what 'next' of the page before said");
        return true;
    }
    if (!rv_url_text_int(call->query, "limit", 1, MAX_PAGE, &limit)) {
        fail_query(call, "limit", "'limit' is a number from 1 to 1000");
        return true;
    }
    ready = rv_learning_model_take(call, model);
    if (ready != RV_CALL_READY)
        return ready == RV_CALL_FAILED;
    reply_history(call, before, (size_t)limit);
    return true;
}

/* ---- pause, resume, forget --------------------------------------------------------------------------- */

static bool pause_or_resume(struct rv_call *call, bool is_paused)
{
    struct rv_api_learning_wish wish;
    struct ruvllm_error cause = {0};
    struct rv_api_error err;
    enum rv_call_ready ready;

    if (rv_api_learning_log_parse_pause(call->body ? call->body : "", call->body_len, &wish, &err)) {
        rv_call_fail(call, &err);
        return true;
    }
    ready = rv_learning_model_take(call, wish.model);
    if (ready != RV_CALL_READY)
        return ready == RV_CALL_FAILED;
    if (ruvllm_engine_learn_pause(call->engine, rv_call_tenant(call), is_paused, &cause)) {
        rv_call_fail_from(call, &cause);
        return true;
    }
    rv_learning_model_keep(call);
    rv_api_learning_log_reply_pause(&call->reply, model_name(call), is_paused);
    rv_call_reply_json(call);
    return true;
}

bool rv_handle_learning_pause(struct rv_call *call)
{
    return pause_or_resume(call, true);
}

bool rv_handle_learning_resume(struct rv_call *call)
{
    return pause_or_resume(call, false);
}

bool rv_handle_learning_forget(struct rv_call *call)
{
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    struct rv_api_learning_wish wish;
    struct ruvllm_error cause = {0};
    struct rv_api_error err;
    enum rv_call_ready ready;

    if (rv_api_learning_log_parse_forget(call->body ? call->body : "", call->body_len, &wish, &err)) {
        rv_call_fail(call, &err);
        return true;
    }
    ready = rv_learning_model_take(call, wish.model);
    if (ready != RV_CALL_READY)
        return ready == RV_CALL_FAILED;
    if (ruvllm_engine_learn_forget(call->engine, rv_call_tenant(call), wish.event, &result, &cause)) {
        rv_call_fail_from(call, &cause);
        return true;
    }
    rv_api_learning_log_reply_forget(&call->reply, model_name(call), &result);
    rv_call_reply_json(call);
    return true;
}

/* ---- export ------------------------------------------------------------------------------------------ */

static ruvllm_status write_export(struct rv_call *call, const void *user, const char *path, struct ruvllm_error *err)
{
    return ruvllm_engine_learn_export(call->engine, rv_call_tenant(call), path, *(const ruvllm_adapter_format *)user,
                                      err);
}

bool rv_handle_learning_export(struct rv_call *call)
{
    static const char *const known[] = {"model", "format", NULL};
    ruvllm_adapter_format format = RUVLLM_ADAPTER_OWN;
    char model[RV_MODEL_SET_NAME + 1], word[8] = "own";
    struct ruvllm_error err = {0};
    enum rv_call_ready ready;

    if (!read_model(call, known, model))
        return true;
    if (strstr(call->query, "format=") && !rv_url_text_field(call->query, "format", word, sizeof(word)))
        word[0] = '\0';
    if (strcmp(word, "gguf") == 0) {
        format = RUVLLM_ADAPTER_GGUF;
    } else if (strcmp(word, "own") != 0) {
        fail_query(call, "format", "'format' is own or gguf");
        return true;
    }
    ready = rv_learning_model_take(call, model);
    if (ready != RV_CALL_READY)
        return ready == RV_CALL_FAILED;
    if (rv_reply_file_make(call, write_export, &format, &err))
        rv_call_fail_from(call, &err);
    return true;
}
