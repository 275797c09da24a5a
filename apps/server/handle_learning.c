/*
 * /v1/feedback and /v1/learning: votes on answers and what they should have been, what that has come to, and the way
 * back; for the caller's tenant and nobody else's. They wait for the disk, on workers of their own.
 */
#include "server/handlers.h"

#include "server/api/api_json.h"
#include "server/api/api_learning.h"
#include "server/learning_model.h"
#include "server/response_index.h"

/* ---- feedback ---------------------------------------------------------------------------------------- */

/* The engine that gave the answer, if it is still there: no other one knows the answer. */
static bool find_answer(struct rv_call *call, const struct rv_api_feedback *feedback, uint64_t *answer)
{
    size_t i_model;

    if (!rv_response_index_find(call->server->responses, feedback->response_id, feedback->choice, rv_call_tenant(call),
                                &i_model, answer))
        return false;
    call->engine = rv_model_set_peek(call->server->models, i_model);
    if (!call->engine)
        return false;
    call->i_model = (int32_t)i_model;
    /* Once more, now that the engine stays: it may have been another one before. */
    return rv_response_index_find(call->server->responses, feedback->response_id, feedback->choice,
                                  rv_call_tenant(call), &i_model, answer);
}

static void fail_missing(struct rv_call *call, const struct rv_api_feedback *feedback)
{
    struct rv_api_error err;

    rv_api_learning_missing(&err, feedback->response_id);
    rv_call_fail(call, &err);
}

/* Gives it to the engine of the answer. */
static void give(struct rv_call *call, const struct rv_api_feedback *feedback, uint64_t answer)
{
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    struct ruvllm_feedback given = {.struct_size = sizeof(given),
                                    .id = answer,
                                    .has_score = feedback->has_score,
                                    .score = (double)feedback->score,
                                    .correction = feedback->correction,
                                    .preferred = feedback->preferred,
                                    .rejected = feedback->rejected,
                                    .reason = feedback->reason};
    struct ruvllm_error cause = {0};

    if (ruvllm_engine_give_feedback(call->engine, rv_call_tenant(call), &given, &result, &cause)) {
        if (cause.status == RUVLLM_NOT_FOUND)
            fail_missing(call, feedback);
        else
            rv_call_fail_from(call, &cause);
        return;
    }
    rv_learning_model_keep(call);
    call->has_feedback = true;
    call->feedback_compute_us = result.compute_us;
    call->feedback_commit_us = result.commit_us;
    rv_api_learning_reply_feedback(&call->reply, feedback->response_id, &result);
    rv_call_reply_json(call);
}

bool rv_handle_feedback(struct rv_call *call)
{
    struct rv_api_feedback feedback;
    struct rv_api_error err;
    uint64_t answer;

    if (rv_api_learning_parse_feedback(call->body ? call->body : "", call->body_len, &feedback, &err)) {
        rv_call_fail(call, &err);
    } else if (rv_learning_model_served(call)) {
        if (!find_answer(call, &feedback, &answer))
            fail_missing(call, &feedback);
        else if (rv_learning_model_comes_to_learn(call))
            give(call, &feedback, answer);
    }
    rv_api_learning_release_feedback(&feedback);
    return true;
}

/* ---- what was learned ---------------------------------------------------------------------------------- */

static ruvllm_status add_model(struct rv_call *call, size_t i_model, ruvllm_engine *engine, struct ruvllm_error *err)
{
    const char *name = rv_model_set_name(call->server->models, i_model);
    struct ruvllm_learned_info info = {.struct_size = sizeof(info)};
    bool learns = rv_learning_model_stage(call->server, i_model) == RV_LEARNING_ON;
    ruvllm_status rc = RUVLLM_OK;

    if (learns)
        rc = ruvllm_engine_learned(engine, rv_call_tenant(call), &info, err);
    if (!rc)
        rv_api_learning_reply(&call->reply, name, learns ? &info : NULL);
    return rc;
}

bool rv_handle_learning(struct rv_call *call)
{
    struct rv_model_set *set = call->server->models;
    struct ruvllm_error err = {0};
    ruvllm_status rc = RUVLLM_OK;

    rv_api_json_begin(&call->reply, NULL, '{');
    rv_api_json_str(&call->reply, "object", "list");
    rv_api_json_begin(&call->reply, "data", '[');
    for (size_t i = 0; !rc && i < rv_model_set_count(set); i++) {
        ruvllm_engine *engine = rv_model_set_peek(set, i);

        if (!engine)
            continue;
        rc = add_model(call, i, engine, &err);
        rv_model_set_release(set, i, false);
    }
    rv_api_json_end(&call->reply, ']');
    rv_api_json_end(&call->reply, '}');
    if (rc)
        rv_call_fail_from(call, &err);
    else
        rv_call_reply_json(call);
    return true;
}

bool rv_handle_learning_rollback(struct rv_call *call)
{
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    struct rv_model_set *set = call->server->models;
    struct rv_api_rollback wanted;
    struct ruvllm_error cause = {0};
    struct rv_api_error err;
    enum rv_call_ready ready;

    if (rv_api_learning_parse_rollback(call->body ? call->body : "", call->body_len, &wanted, &err)) {
        rv_call_fail(call, &err);
        return true;
    }
    ready = rv_learning_model_take(call, wanted.model);
    if (ready != RV_CALL_READY)
        return ready == RV_CALL_FAILED;
    if (ruvllm_engine_learn_rollback(call->engine, rv_call_tenant(call), wanted.generation, &result, &cause)) {
        rv_call_fail_from(call, &cause);
        return true;
    }
    rv_learning_model_keep(call);
    rv_api_learning_reply_rollback(&call->reply, rv_model_set_name(set, (size_t)call->i_model), &result);
    rv_call_reply_json(call);
    return true;
}
