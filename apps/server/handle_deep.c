/*
 * /v1/learning/deep: a training run on what the caller's tenant said. It is asked for, looked at and stopped by that
 * tenant alone; deep_runner.c has it done.
 */
#include "server/handlers.h"

#include "server/api/api_deep.h"
#include "server/deep_runner.h"
#include "server/learning_model.h"

#include "base/clock.h"

static void reply(struct rv_call *call)
{
    static const char *const names[] = {[RV_DEEP_RUNNER_RUNNING] = "running",
                                        [RV_DEEP_RUNNER_DONE] = "done",
                                        [RV_DEEP_RUNNER_UNCHANGED] = "unchanged",
                                        [RV_DEEP_RUNNER_STOPPED] = "stopped",
                                        [RV_DEEP_RUNNER_FAILED] = "failed"};
    struct rv_deep_runner_state state;
    struct rv_api_deep_run told;
    struct ruvllm_error cause = {0};
    int64_t end_us;

    if (rv_deep_runner_look(call->server->deep, rv_call_tenant(call), &state, &cause)) {
        rv_call_fail_from(call, &cause);
        return;
    }
    end_us = state.ended_us ? state.ended_us : rv_clock_unix_us();
    told = (struct rv_api_deep_run){.model = rv_model_set_name(call->server->models, state.i_model),
                                    .status = names[state.status],
                                    .started = state.started_us / 1000000,
                                    .seconds = (double)(end_us - state.started_us) / 1e6,
                                    .progress = &state.progress};
    if (state.status == RV_DEEP_RUNNER_FAILED)
        told.failure = &state.failure;
    else if (state.status != RV_DEEP_RUNNER_RUNNING)
        told.report = &state.report;
    rv_api_deep_reply(&call->reply, &told);
    rv_call_reply_json(call);
}

bool rv_handle_deep(struct rv_call *call)
{
    if (rv_learning_model_served(call))
        reply(call);
    return true;
}

bool rv_handle_deep_stop(struct rv_call *call)
{
    struct ruvllm_error cause = {0};

    if (!rv_learning_model_served(call))
        return true;
    if (rv_deep_runner_cancel(call->server->deep, rv_call_tenant(call), &cause))
        rv_call_fail_from(call, &cause);
    else
        reply(call);
    return true;
}

bool rv_handle_deep_begin(struct rv_call *call)
{
    struct ruvllm_deep_params params = ruvllm_deep_params_default();
    struct rv_api_deep_wish wish;
    struct ruvllm_error cause = {0};
    struct rv_api_error err;
    enum rv_call_ready ready;

    if (rv_api_deep_parse(call->body ? call->body : "", call->body_len, &wish, &err)) {
        rv_call_fail(call, &err);
        return true;
    }
    ready = rv_learning_model_take(call, wish.model);
    if (ready != RV_CALL_READY)
        return ready == RV_CALL_FAILED;
    params.is_fresh = wish.is_fresh;
    params.max_forgetting = wish.max_forgetting;
    if (!call->server->store)
        rv_call_fail_from(call, &(struct ruvllm_error){.status = RUVLLM_UNSUPPORTED,
                                                       .message = "without a store there is no log to learn from"});
    else if (rv_deep_runner_begin(call->server->deep, rv_call_tenant(call), (size_t)call->i_model, &params, &cause))
        rv_call_fail_from(call, &cause);
    else
        reply(call);
    return true;
}
