/*
 * The generation loop of a model that serves one caller: computes, lets the reply choose, hands out the text.
 * Everything is allocated before the first token.
 */
#include "engine/generate.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/input.h"
#include "engine/reply.h"

/* One call of ruvllm_generate. */
struct call {
    struct ruvllm_model *model;
    ruvllm_chunk_fn on_chunk;
    void *user;
    struct rv_reply *reply;
    int32_t *prompt;
    size_t n_prompt;
    float *logits; // the row to choose from
};

static void keep_rows(void *user, float *rows, int32_t n_rows)
{
    struct call *c = user;

    c->logits = rows + (size_t)(n_rows - 1) * (size_t)c->model->hparams.n_vocab;
}

/* Computes the prompt, but for the part that is there from the call before. */
static ruvllm_status prefill(struct call *c, struct ruvllm_error *err)
{
    struct ruvllm_model *m = c->model;
    struct ruvllm_response *r = rv_reply_response(c->reply);
    int32_t n = (int32_t)c->n_prompt, shared = 0;
    int64_t start = rv_clock_us();
    ruvllm_status rc;

    while (shared < m->n_history && shared < n - 1 && m->history[shared] == c->prompt[shared])
        shared++;
    shared = rv_model_rewind(m, shared);
    rc = rv_model_advance(m, c->prompt + shared, n - shared, 1, RV_DECODER_LOGITS, keep_rows, c, err);
    r->cached_tokens = shared;
    r->prefill_us = rv_clock_us() - start;
    return rc;
}

static void hand_out(struct call *c, const struct rv_reply_piece *piece)
{
    struct ruvllm_chunk chunk = {.text = piece->text.data, .text_len = piece->text.len, .token = piece->token};

    if (!c->on_chunk)
        return;
    if (piece->logprobs) {
        chunk.logprobs = piece->logprobs;
        chunk.n_logprobs = rv_reply_response(c->reply)->logprobs_per_token;
    }
    if (!c->on_chunk(c->user, &chunk))
        rv_reply_stop(c->reply, RUVLLM_STOP_CALLBACK);
}

static ruvllm_status decode(struct call *c, struct ruvllm_error *err)
{
    int64_t start = rv_clock_us();
    ruvllm_status rc = RUVLLM_OK;

    while (!rc && !rv_reply_is_over(c->reply)) {
        struct rv_reply_piece piece;
        int32_t token;

        rc = rv_reply_take(c->reply, c->logits, &token, &piece, err);
        if (rc)
            break;
        if (piece.token >= 0)
            hand_out(c, &piece);
        if (!rv_reply_is_over(c->reply))
            rc = rv_model_advance(c->model, &token, 1, 1, RV_DECODER_LOGITS, keep_rows, c, err);
    }
    rv_reply_response(c->reply)->decode_us = rv_clock_us() - start;
    return rc;
}

/* What was held back, and the whole text. */
static ruvllm_status finish(struct call *c, struct ruvllm_error *err)
{
    struct rv_reply_piece piece;
    ruvllm_status rc = rv_reply_finish(c->reply, &piece, err);

    if (!rc && piece.text.len && rv_reply_response(c->reply)->stop_reason != RUVLLM_STOP_CALLBACK)
        hand_out(c, &piece);
    return rc;
}

ruvllm_status rv_generate(struct ruvllm_model *model, const struct ruvllm_input *input,
                          const struct ruvllm_generate_params *params, ruvllm_chunk_fn on_chunk, void *user,
                          struct ruvllm_response **out, struct ruvllm_error *err)
{
    struct call c = {.model = model, .on_chunk = on_chunk, .user = user};
    ruvllm_status rc;

    if (out)
        *out = NULL;
    rc = rv_input_tokens(model, input, &c.prompt, &c.n_prompt, err);
    if (!rc) {
        struct rv_reply_config config = {.vocab = model->vocab,
                                         .n_vocab = (size_t)model->hparams.n_vocab,
                                         .params = params,
                                         .prompt = c.prompt,
                                         .n_prompt = c.n_prompt,
                                         .context = (size_t)model->max_context};
        rc = rv_constraint_find(model->constraints, params, &config.grammar, err);
        if (!rc)
            rc = rv_reply_new(&c.reply, &config, err);
        rv_grammar_unref(config.grammar);
    }
    if (!rc)
        rc = prefill(&c, err);
    if (!rc)
        rc = decode(&c, err);
    if (!rc)
        rc = finish(&c, err);
    if (!rc && out)
        *out = rv_reply_take_response(c.reply);
    rv_reply_free(c.reply);
    rv_free(c.prompt);
    return rc;
}
