#include "server/learning_model.h"

#include "server/api/api_learning.h"

bool rv_learning_model_served(struct rv_call *call)
{
    struct rv_api_error err;

    if (call->server->config->learns)
        return true;
    rv_api_learning_off(&err, NULL);
    rv_call_fail(call, &err);
    return false;
}

bool rv_learning_model_learns(struct rv_call *call)
{
    struct rv_api_error err;

    if (atomic_load(&call->server->learns[call->i_model]))
        return true;
    rv_api_learning_off(&err, rv_model_set_name(call->server->models, (size_t)call->i_model));
    rv_call_fail(call, &err);
    return false;
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
