#include "server/learning_model.h"

#include "server/api/api_learning.h"

enum { WAIT_MS = 5000, RETRY_S = 5 }; // large models take minutes to prepare, small ones seconds

enum rv_learning_stage rv_learning_model_stage(const struct rv_server *server, size_t i_model)
{
    return server->starter ? rv_learning_starter_stage(server->starter, i_model) : RV_LEARNING_OFF;
}

bool rv_learning_model_served(struct rv_call *call)
{
    struct rv_api_error err;

    if (call->server->config->learns)
        return true;
    rv_api_learning_off(&err, NULL);
    rv_call_fail(call, &err);
    return false;
}

/* False: the reply says why not. */
static bool is_on(struct rv_call *call, size_t i_model, enum rv_learning_stage stage)
{
    const char *name = rv_model_set_name(call->server->models, i_model);
    struct rv_api_error err;

    if (stage == RV_LEARNING_ON)
        return true;
    if (stage == RV_LEARNING_PREPARING) {
        call->retry_after = RETRY_S;
        rv_api_learning_not_yet(&err, name);
    } else {
        rv_api_learning_off(&err, name);
    }
    rv_call_fail(call, &err);
    return false;
}

bool rv_learning_model_learns(struct rv_call *call)
{
    return is_on(call, (size_t)call->i_model, rv_learning_model_stage(call->server, (size_t)call->i_model));
}

bool rv_learning_model_comes_to_learn(struct rv_call *call)
{
    size_t i = (size_t)call->i_model;

    return is_on(call, i, rv_learning_starter_await(call->server->starter, i, WAIT_MS));
}

bool rv_learning_model_is_early(struct rv_call *call, size_t i_model)
{
    enum rv_learning_stage stage = rv_learning_model_stage(call->server, i_model);

    return stage == RV_LEARNING_PREPARING && !is_on(call, i_model, stage);
}

enum rv_call_ready rv_learning_model_take(struct rv_call *call, const char *name)
{
    enum rv_call_ready ready;

    if (!rv_learning_model_served(call))
        return RV_CALL_FAILED;
    ready = rv_call_take_model(call, *name ? name : rv_model_set_name(call->server->models, 0));
    return ready == RV_CALL_READY && !rv_learning_model_learns(call) ? RV_CALL_FAILED : ready;
}

void rv_learning_model_keep(struct rv_call *call)
{
    if (!call->server->store)
        rv_model_set_keep(call->server->models, (size_t)call->i_model);
}
