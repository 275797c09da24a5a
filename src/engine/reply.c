/* Sampler, text stream and bookkeeping of one answer. */
#include "engine/reply.h"

#include "base/alloc.h"
#include "sample/sampler.h"

#include <string.h>

enum { MAX_LOGPROBS = 20 };

struct rv_reply {
    const struct rv_vocab *vocab;
    size_t n_vocab;
    struct rv_sampler *sampler;
    struct rv_text_stream *stream;
    struct ruvllm_response *response;
    size_t max;     // tokens to generate at most
    bool is_capped; // ... because the context ends there
    bool ignores_eos;
    float *raw; // the row before sampling changed it, where log-probabilities are wanted
    bool is_over;
    struct rv_grammar_matcher *matcher; // NULL: any text will do
};

static ruvllm_status check(const struct rv_reply_config *c, struct ruvllm_error *err)
{
    const struct ruvllm_generate_params *p = c->params;

    if (p->max_tokens < 0 || p->n_logprobs < -1 || p->n_logprobs > MAX_LOGPROBS)
        return rv_fail(err, RUVLLM_INVALID, "'max_tokens' must be 0 or more and 'n_logprobs' between -1 and %d",
                       MAX_LOGPROBS);
    if (c->n_prompt == 0)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_GENERATION,
                            "the prompt is empty and the model has no token to begin with");
    if (c->n_prompt > c->context)
        return rv_fail_kind(err, RUVLLM_TOO_LARGE, RUVLLM_ERROR_GENERATION,
                            "the prompt has %zu tokens, the context holds %zu; shorten it or open the model with more",
                            c->n_prompt, c->context);
    return RUVLLM_OK;
}

static ruvllm_status allocate(struct rv_reply *reply, const struct ruvllm_generate_params *p, struct ruvllm_error *err)
{
    struct ruvllm_response *r = rv_calloc(1, sizeof(*r));
    ruvllm_status rc;

    reply->response = r;
    if (!r)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a response");
    r->tokens = rv_realloc_array(NULL, reply->max, sizeof(*r->tokens));
    if (p->n_logprobs >= 0) {
        r->logprobs_per_token = (size_t)p->n_logprobs + 1;
        r->logprobs = rv_calloc(reply->max * r->logprobs_per_token, sizeof(*r->logprobs));
        reply->raw = rv_realloc_array(NULL, reply->n_vocab, sizeof(*reply->raw));
    }
    if (!r->tokens || (p->n_logprobs >= 0 && (!r->logprobs || !reply->raw)))
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate room for %zu tokens", reply->max);
    rc = rv_sampler_new(&reply->sampler, p, reply->n_vocab, err);
    if (!rc)
        rc = rv_text_stream_new(&reply->stream, reply->vocab, p->stop, p->n_stop, err);
    if (!rc && p->tools) // the grammar lets no control token through but the marks of a call
        rv_text_stream_show_control(reply->stream);
    if (!rc)
        rc = rv_text_stream_reserve(reply->stream, reply->max, err);
    return rc;
}

ruvllm_status rv_reply_new(struct rv_reply **out, const struct rv_reply_config *config, struct ruvllm_error *err)
{
    ruvllm_status rc = check(config, err);
    struct rv_reply *reply;
    size_t room, wanted;

    *out = NULL;
    if (rc)
        return rc;
    reply = rv_calloc(1, sizeof(*reply));
    if (!reply)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a reply");
    reply->vocab = config->vocab;
    reply->n_vocab = config->n_vocab;
    /* The last token of an answer needs no place: nothing is computed after it. */
    room = config->context - config->n_prompt + 1;
    wanted = (size_t)config->params->max_tokens;
    reply->is_capped = room < wanted;
    reply->max = reply->is_capped ? room : wanted;
    reply->ignores_eos = config->params->ignore_eos;
    rc = allocate(reply, config->params, err);
    if (!rc && config->grammar)
        rc = rv_grammar_matcher_new(&reply->matcher, config->grammar, err);
    if (rc) {
        rv_reply_free(reply);
        return rc;
    }
    for (size_t i = 0; i < config->n_prompt; i++)
        rv_sampler_accept(reply->sampler, config->prompt[i]);
    reply->response->prompt_tokens = (int32_t)config->n_prompt;
    reply->response->seed = rv_sampler_seed(reply->sampler);
    if (reply->max == 0)
        rv_reply_stop(reply, RUVLLM_STOP_LENGTH);
    *out = reply;
    return RUVLLM_OK;
}

void rv_reply_free(struct rv_reply *reply)
{
    if (!reply)
        return;
    rv_reply_response_free(reply->response);
    rv_sampler_free(reply->sampler);
    rv_grammar_matcher_free(reply->matcher);
    rv_text_stream_free(reply->stream);
    rv_free(reply->raw);
    rv_free(reply);
}

size_t rv_reply_max_tokens(const struct rv_reply *reply)
{
    return reply->max;
}

bool rv_reply_is_over(const struct rv_reply *reply)
{
    return reply->is_over;
}

void rv_reply_stop(struct rv_reply *reply, ruvllm_stop_reason reason)
{
    if (reply->is_over)
        return;
    reply->response->stop_reason = reason;
    reply->is_over = true;
}

/* The chosen token's log-probability and its best rivals, from the row as the model gave it. */
static const struct ruvllm_token_logprob *note_logprobs(struct rv_reply *reply, int32_t token)
{
    struct ruvllm_response *r = reply->response;
    struct ruvllm_token_logprob *row = r->logprobs + r->n_tokens * r->logprobs_per_token;
    double logsumexp;

    rv_sampler_top_logprobs(reply->raw, reply->n_vocab, r->logprobs_per_token - 1, row + 1, &logsumexp);
    row[0] = (struct ruvllm_token_logprob){.token = token, .logprob = (float)((double)reply->raw[token] - logsumexp)};
    return row;
}

/* One of the tokens the grammar allows; penalties and grammar are told. */
static ruvllm_status choose(struct rv_reply *reply, float *logits, int32_t *token, struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;

    if (reply->matcher)
        rc = rv_grammar_matcher_apply(reply->matcher, logits, reply->n_vocab, err);
    if (!rc)
        rc = rv_sampler_choose(reply->sampler, logits, token, err);
    if (rc)
        return rc;
    rv_sampler_accept(reply->sampler, *token);
    if (reply->matcher && !rv_vocab_is_eog(reply->vocab, *token))
        rc = rv_grammar_matcher_accept(reply->matcher, *token, err);
    return rc;
}

ruvllm_status rv_reply_take(struct rv_reply *reply, float *logits, int32_t *token, struct rv_reply_piece *piece,
                            struct ruvllm_error *err)
{
    struct ruvllm_response *r = reply->response;
    bool stopped;
    ruvllm_status rc;

    *piece = (struct rv_reply_piece){.text = {.data = "", .len = 0}, .token = -1};
    if (reply->raw)
        memcpy(reply->raw, logits, reply->n_vocab * sizeof(*reply->raw));
    rc = choose(reply, logits, token, err);
    if (rc)
        return rc;
    if (rv_vocab_is_eog(reply->vocab, *token) && (reply->matcher || !reply->ignores_eos)) {
        rv_reply_stop(reply, RUVLLM_STOP_EOS);
        return RUVLLM_OK;
    }
    piece->token = *token;
    if (reply->raw)
        piece->logprobs = note_logprobs(reply, *token);
    r->tokens[r->n_tokens++] = *token;
    rc = rv_text_stream_push(reply->stream, *token, &piece->text, &stopped, err);
    if (rc)
        return rc;
    if (stopped)
        rv_reply_stop(reply, RUVLLM_STOP_STRING);
    else if (reply->matcher && rv_grammar_matcher_is_complete(reply->matcher))
        rv_reply_stop(reply, RUVLLM_STOP_EOS);
    else if (r->n_tokens == reply->max)
        rv_reply_stop(reply, reply->is_capped ? RUVLLM_STOP_CONTEXT : RUVLLM_STOP_LENGTH);
    return RUVLLM_OK;
}

int32_t rv_reply_foresee(struct rv_reply *reply, const int32_t *tokens, int32_t n)
{
    return reply->matcher ? rv_grammar_matcher_foresee(reply->matcher, tokens, n) : n;
}

ruvllm_status rv_reply_finish(struct rv_reply *reply, struct rv_reply_piece *piece, struct ruvllm_error *err)
{
    struct ruvllm_response *r = reply->response;
    struct rv_str text;

    *piece = (struct rv_reply_piece){.text = {.data = "", .len = 0}, .token = -1};
    if (r->stop_reason != RUVLLM_STOP_STRING) {
        ruvllm_status rc = rv_text_stream_finish(reply->stream, &piece->text, err);
        if (rc)
            return rc;
    }
    text = rv_text_stream_text(reply->stream);
    r->text = rv_strndup(text.data, text.len);
    r->text_len = text.len;
    return r->text ? RUVLLM_OK : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the answer's text");
}

struct ruvllm_response *rv_reply_response(struct rv_reply *reply)
{
    return reply->response;
}

struct ruvllm_response *rv_reply_take_response(struct rv_reply *reply)
{
    struct ruvllm_response *response = reply->response;

    reply->response = NULL;
    return response;
}

void rv_reply_response_free(struct ruvllm_response *response)
{
    if (!response)
        return;
    rv_free(response->text);
    rv_free(response->tokens);
    rv_free(response->logprobs);
    rv_free(response);
}
