/* /v1/embeddings. The engine computes one input at a time beside what it generates; this thread waits for it. */
#include "server/handlers.h"

#include "base/alloc.h"

static ruvllm_status embed_all(struct rv_call *call, float *vectors, size_t n_embd, int64_t *n_tokens,
                               struct ruvllm_error *err)
{
    const struct rv_api_request *r = call->request;

    *n_tokens = 0;
    for (size_t i = 0; i < r->n_inputs; i++) {
        struct ruvllm_request request = {.struct_size = sizeof(request),
                                         .input = &r->inputs[i],
                                         .tenant = rv_call_tenant(call),
                                         .priority = r->priority};
        int32_t n = 0;
        ruvllm_status rc;

        if (atomic_load_explicit(&call->is_gone, memory_order_relaxed))
            return rv_fail(err, RUVLLM_CANCELLED, "the client has gone");
        rc = ruvllm_engine_embed(call->engine, &request, vectors + i * n_embd, n_embd, &n, err);
        if (rc)
            return rv_fail_in(err, rc, "input %zu", i);
        *n_tokens += n;
    }
    return RUVLLM_OK;
}

bool rv_handle_embeddings(struct rv_call *call)
{
    enum rv_call_ready ready = rv_call_prepare(call, RV_API_EMBEDDING);
    struct ruvllm_model_info info = {.struct_size = sizeof(info)};
    struct ruvllm_error err = {0};
    struct rv_api_error wrong;
    float *vectors = NULL;
    int64_t n_tokens = 0;
    ruvllm_status rc;

    if (ready != RV_CALL_READY)
        return ready == RV_CALL_FAILED;
    rc = ruvllm_model_info_get(ruvllm_engine_model(call->engine), &info, &err);
    if (!rc && call->request->dimensions && call->request->dimensions != info.n_embd) {
        rv_api_error_set(&wrong, 400, "invalid_value", "dimensions",
                         "'dimensions' is %d, embeddings of this model have %d: leave it out",
                         call->request->dimensions, info.n_embd);
        rv_call_fail(call, &wrong);
        return true;
    }
    if (!rc) {
        vectors = rv_calloc(call->request->n_inputs, (size_t)info.n_embd * sizeof(*vectors));
        rc = vectors ? embed_all(call, vectors, (size_t)info.n_embd, &n_tokens, &err)
                     : rv_fail(&err, RUVLLM_NO_MEMORY, "cannot allocate the embeddings");
    }
    if (rc) {
        rv_call_fail_from(call, &err);
    } else {
        rv_api_reply_embeddings(&call->reply, rv_model_set_name(call->server->models, (size_t)call->i_model), vectors,
                                call->request->n_inputs, (size_t)info.n_embd, call->request->encoding, n_tokens);
        rv_call_reply_json(call);
    }
    rv_free(vectors);
    return true;
}
