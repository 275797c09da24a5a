/* /v1/tokenize, /v1/detokenize and /v1/chat/template: text and tokens, nothing computed. */
#include "server/handlers.h"

#include "base/alloc.h"
#include "server/token_text.h"

static const char *model_name(const struct rv_call *call)
{
    return rv_model_set_name(call->server->models, (size_t)call->i_model);
}

static const ruvllm_model *model_of(const struct rv_call *call)
{
    return ruvllm_engine_model(call->engine);
}

static void free_pieces(struct rv_api_token *pieces, size_t n)
{
    for (size_t i = 0; pieces && i < n; i++)
        ruvllm_free((void *)(uintptr_t)pieces[i].text);
    rv_free(pieces);
}

/* The text of each token. */
static ruvllm_status make_pieces(const ruvllm_model *model, const int32_t *tokens, size_t n,
                                 struct rv_api_token **pieces, struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;

    *pieces = rv_calloc(n ? n : 1, sizeof(**pieces));
    if (!*pieces)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the pieces");
    for (size_t i = 0; !rc && i < n; i++) {
        char *text = NULL;

        rc = rv_token_text(model, tokens[i], &text, &(*pieces)[i].text_len, err);
        (*pieces)[i].text = text;
    }
    return rc;
}

bool rv_handle_tokenize(struct rv_call *call)
{
    enum rv_call_ready ready = rv_call_prepare(call, RV_API_TOKENIZE);
    struct rv_api_token *pieces = NULL;
    struct ruvllm_error err = {0};
    int32_t *tokens = NULL;
    size_t n = 0;
    ruvllm_status rc;

    if (ready != RV_CALL_READY)
        return ready == RV_CALL_FAILED;
    rc = ruvllm_tokenize(model_of(call), &call->request->inputs[0], &tokens, &n, &err);
    if (!rc && call->request->with_pieces)
        rc = make_pieces(model_of(call), tokens, n, &pieces, &err);
    if (rc) {
        rv_call_fail_from(call, &err);
    } else {
        rv_api_reply_tokenize(&call->reply, model_name(call), tokens, n, pieces);
        rv_call_reply_json(call);
    }
    free_pieces(pieces, n);
    ruvllm_free(tokens);
    return true;
}

/* False and an error as the reply for a token that is not in the vocabulary: it would vanish without a word. */
static bool check_tokens(struct rv_call *call, const struct ruvllm_input *input)
{
    struct ruvllm_model_info info = {.struct_size = sizeof(info)};
    struct ruvllm_error err = {0};
    struct rv_api_error wrong;

    if (ruvllm_model_info_get(model_of(call), &info, &err)) {
        rv_call_fail_from(call, &err);
        return false;
    }
    for (size_t i = 0; i < input->n_tokens; i++) {
        if (input->tokens[i] >= 0 && input->tokens[i] < info.n_vocab)
            continue;
        rv_api_error_set(&wrong, 400, "invalid_value", "tokens",
                         "'tokens[%zu]' is %d, and the model's tokens are 0 to %d", i, (int)input->tokens[i],
                         (int)info.n_vocab - 1);
        rv_call_fail(call, &wrong);
        return false;
    }
    return true;
}

bool rv_handle_detokenize(struct rv_call *call)
{
    enum rv_call_ready ready = rv_call_prepare(call, RV_API_DETOKENIZE);
    const struct ruvllm_input *input;
    struct ruvllm_error err = {0};
    char *text = NULL;
    size_t len = 0;

    if (ready != RV_CALL_READY)
        return ready == RV_CALL_FAILED;
    input = &call->request->inputs[0];
    if (!check_tokens(call, input))
        return true;
    if (ruvllm_detokenize(model_of(call), input->tokens, input->n_tokens, call->request->with_special, &text, &len,
                          &err)) {
        rv_call_fail_from(call, &err);
    } else {
        rv_api_reply_detokenize(&call->reply, model_name(call), text, len);
        rv_call_reply_json(call);
    }
    ruvllm_free(text);
    return true;
}

bool rv_handle_template(struct rv_call *call)
{
    enum rv_call_ready ready = rv_call_prepare(call, RV_API_TEMPLATE);
    const struct ruvllm_input *input;
    struct ruvllm_error err = {0};
    char *text = NULL;
    size_t len = 0;

    if (ready != RV_CALL_READY)
        return ready == RV_CALL_FAILED;
    input = &call->request->inputs[0];
    if (ruvllm_apply_template(model_of(call), input->messages, input->n_messages, &text, &len, &err)) {
        rv_call_fail_from(call, &err);
    } else {
        rv_api_reply_template(&call->reply, model_name(call), text, len);
        rv_call_reply_json(call);
    }
    ruvllm_free(text);
    return true;
}
