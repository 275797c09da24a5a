/*
 * The generation loop. Everything it needs is allocated before the first token: the loop itself computes, chooses,
 * turns the token into text and asks whether to go on.
 */
#include "engine/generate.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/input.h"
#include "sample/sampler.h"
#include "text/text_stream.h"

#include <math.h>
#include <string.h>

enum { MAX_LOGPROBS = 20 };

/* One answer in the making. */
struct answer {
    struct ruvllm_model *model;
    const struct ruvllm_generate_params *params;
    ruvllm_chunk_fn on_chunk;
    void *user;
    struct rv_sampler *sampler;
    struct rv_text_stream *stream;
    struct ruvllm_response *response;
    int32_t *prompt;
    size_t n_prompt;
    size_t room;   // tokens the context has left for the answer
    size_t max;    // tokens to generate at most
    float *raw;    // the row before sampling changed it, where log-probabilities are wanted
    float *logits; // the row to choose from
    bool is_over;
};

static void keep_rows(void *user, float *rows, int32_t n_rows)
{
    struct answer *a = user;

    a->logits = rows + (size_t)(n_rows - 1) * (size_t)a->model->hparams.n_vocab;
}

static ruvllm_status take_prompt(struct answer *a, const struct ruvllm_input *input, struct ruvllm_error *err)
{
    size_t context = (size_t)a->model->max_context;
    ruvllm_status rc = rv_input_tokens(a->model, input, &a->prompt, &a->n_prompt, err);

    if (rc)
        return rc;
    if (a->n_prompt == 0)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_GENERATION,
                            "the prompt is empty and the model has no token to begin with");
    if (a->n_prompt > context)
        return rv_fail_kind(err, RUVLLM_TOO_LARGE, RUVLLM_ERROR_GENERATION,
                            "the prompt has %zu tokens, the context holds %zu; shorten it or open the model with more",
                            a->n_prompt, context);
    /* The last token of an answer needs no place: nothing is computed after it. */
    a->room = context - a->n_prompt + 1;
    a->max = (size_t)a->params->max_tokens < a->room ? (size_t)a->params->max_tokens : a->room;
    return RUVLLM_OK;
}

static ruvllm_status allocate(struct answer *a, struct ruvllm_error *err)
{
    const struct ruvllm_generate_params *p = a->params;
    size_t n_vocab = (size_t)a->model->hparams.n_vocab;
    struct ruvllm_response *r = rv_calloc(1, sizeof(*r));
    ruvllm_status rc;

    a->response = r;
    if (!r)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a response");
    r->tokens = rv_realloc_array(NULL, a->max, sizeof(*r->tokens));
    if (p->n_logprobs >= 0) {
        r->logprobs_per_token = (size_t)p->n_logprobs + 1;
        r->logprobs = rv_calloc(a->max * r->logprobs_per_token, sizeof(*r->logprobs));
        a->raw = rv_realloc_array(NULL, n_vocab, sizeof(*a->raw));
    }
    if (!r->tokens || (p->n_logprobs >= 0 && (!r->logprobs || !a->raw)))
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate room for %zu tokens", a->max);
    rc = rv_sampler_new(&a->sampler, p, n_vocab, err);
    if (!rc)
        rc = rv_text_stream_new(&a->stream, a->model->vocab, p->stop, p->n_stop, err);
    if (!rc)
        rc = rv_text_stream_reserve(a->stream, a->max, err);
    return rc;
}

/* Computes the prompt, but for the part that is there from the call before. */
static ruvllm_status prefill(struct answer *a, struct ruvllm_error *err)
{
    struct ruvllm_model *m = a->model;
    int32_t n = (int32_t)a->n_prompt, shared = 0;
    int64_t start = rv_clock_us();
    ruvllm_status rc;

    while (shared < m->n_history && shared < n - 1 && m->history[shared] == a->prompt[shared])
        shared++;
    rv_model_rewind(m, shared);
    for (size_t i = 0; i < a->n_prompt; i++)
        rv_sampler_accept(a->sampler, a->prompt[i]);
    rc = rv_model_advance(m, a->prompt + shared, n - shared, 1, RV_DECODER_LOGITS, keep_rows, a, err);
    a->response->prompt_tokens = n;
    a->response->cached_tokens = shared;
    a->response->seed = rv_sampler_seed(a->sampler);
    a->response->prefill_us = rv_clock_us() - start;
    return rc;
}

/* The chosen token's log-probability and its best rivals, from the row as the model gave it. */
static void note_logprobs(struct answer *a, int32_t token)
{
    struct ruvllm_response *r = a->response;
    struct ruvllm_token_logprob *row = r->logprobs + r->n_tokens * r->logprobs_per_token;
    double logsumexp;

    rv_sampler_top_logprobs(a->raw, (size_t)a->model->hparams.n_vocab, r->logprobs_per_token - 1, row + 1, &logsumexp);
    row[0] = (struct ruvllm_token_logprob){.token = token, .logprob = (float)((double)a->raw[token] - logsumexp)};
}

static void hand_out(struct answer *a, struct rv_str piece, int32_t token)
{
    const struct ruvllm_response *r = a->response;
    struct ruvllm_chunk chunk = {.text = piece.data, .text_len = piece.len, .token = token};

    if (!a->on_chunk)
        return;
    if (token >= 0 && r->logprobs) {
        chunk.logprobs = r->logprobs + (r->n_tokens - 1) * r->logprobs_per_token;
        chunk.n_logprobs = r->logprobs_per_token;
    }
    if (!a->on_chunk(a->user, &chunk) && !a->is_over) {
        a->response->stop_reason = RUVLLM_STOP_CALLBACK;
        a->is_over = true;
    }
}

static void end(struct answer *a, ruvllm_stop_reason reason)
{
    a->response->stop_reason = reason;
    a->is_over = true;
}

/* Chooses a token from the row at hand and says what it means for the answer. */
static ruvllm_status take_token(struct answer *a, int32_t *token, struct ruvllm_error *err)
{
    struct ruvllm_response *r = a->response;
    struct rv_str piece;
    bool stopped;
    ruvllm_status rc;

    if (a->raw)
        memcpy(a->raw, a->logits, (size_t)a->model->hparams.n_vocab * sizeof(*a->raw));
    rc = rv_sampler_choose(a->sampler, a->logits, token, err);
    if (rc)
        return rc;
    rv_sampler_accept(a->sampler, *token);
    if (rv_vocab_is_eog(a->model->vocab, *token) && !a->params->ignore_eos) {
        end(a, RUVLLM_STOP_EOS);
        return RUVLLM_OK;
    }
    if (a->raw)
        note_logprobs(a, *token);
    r->tokens[r->n_tokens++] = *token;
    rc = rv_text_stream_push(a->stream, *token, &piece, &stopped, err);
    if (rc)
        return rc;
    if (stopped)
        end(a, RUVLLM_STOP_STRING);
    else if (r->n_tokens == a->max)
        end(a, a->max < (size_t)a->params->max_tokens ? RUVLLM_STOP_CONTEXT : RUVLLM_STOP_LENGTH);
    hand_out(a, piece, *token);
    return RUVLLM_OK;
}

static ruvllm_status decode(struct answer *a, struct ruvllm_error *err)
{
    int64_t start = rv_clock_us();
    ruvllm_status rc = RUVLLM_OK;
    int32_t token;

    if (a->max == 0)
        end(a, RUVLLM_STOP_LENGTH);
    while (!a->is_over) {
        rc = take_token(a, &token, err);
        if (!rc && !a->is_over)
            rc = rv_model_advance(a->model, &token, 1, 1, RV_DECODER_LOGITS, keep_rows, a, err);
        if (rc)
            break;
    }
    a->response->decode_us = rv_clock_us() - start;
    return rc;
}

/* What was held back, and the whole text. */
static ruvllm_status finish(struct answer *a, struct ruvllm_error *err)
{
    struct ruvllm_response *r = a->response;
    struct rv_str piece = {.data = "", .len = 0};
    ruvllm_status rc = RUVLLM_OK;

    if (r->stop_reason != RUVLLM_STOP_STRING)
        rc = rv_text_stream_finish(a->stream, &piece, err);
    if (rc)
        return rc;
    if (piece.len && r->stop_reason != RUVLLM_STOP_CALLBACK)
        hand_out(a, piece, -1);
    piece = rv_text_stream_text(a->stream);
    r->text = rv_strndup(piece.data, piece.len);
    r->text_len = piece.len;
    return r->text ? RUVLLM_OK : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the answer's text");
}

ruvllm_status rv_generate(struct ruvllm_model *model, const struct ruvllm_input *input,
                          const struct ruvllm_generate_params *params, ruvllm_chunk_fn on_chunk, void *user,
                          struct ruvllm_response **out, struct ruvllm_error *err)
{
    struct answer a = {.model = model, .params = params, .on_chunk = on_chunk, .user = user};
    ruvllm_status rc;

    if (out)
        *out = NULL;
    if (params->max_tokens < 0 || params->n_logprobs < -1 || params->n_logprobs > MAX_LOGPROBS)
        return rv_fail(err, RUVLLM_INVALID, "'max_tokens' must be 0 or more and 'n_logprobs' between -1 and %d",
                       MAX_LOGPROBS);
    rc = take_prompt(&a, input, err);
    if (!rc)
        rc = allocate(&a, err);
    if (!rc)
        rc = prefill(&a, err);
    if (!rc)
        rc = decode(&a, err);
    if (!rc)
        rc = finish(&a, err);
    rv_free(a.prompt);
    rv_free(a.raw);
    rv_sampler_free(a.sampler);
    rv_text_stream_free(a.stream);
    if (!rc && out)
        *out = a.response;
    else
        rv_generate_response_free(a.response);
    return rc;
}

void rv_generate_response_free(struct ruvllm_response *response)
{
    if (!response)
        return;
    rv_free(response->text);
    rv_free(response->tokens);
    rv_free(response->logprobs);
    rv_free(response);
}
