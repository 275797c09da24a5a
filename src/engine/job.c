/* Making and unmaking a request's memory; the thread that submits pays for it. */
#include "engine/job.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/input.h"

#include <string.h>
#include <time.h>

static ruvllm_status make_reply(struct rv_job *job, const struct rv_job_config *c, const int32_t *prompt,
                                size_t n_prompt, struct ruvllm_error *err)
{
    struct rv_reply_config config = {.vocab = c->model->vocab,
                                     .n_vocab = (size_t)c->model->hparams.n_vocab,
                                     .params = c->params,
                                     .prompt = prompt,
                                     .n_prompt = n_prompt,
                                     .context = (size_t)c->model->max_context};
    ruvllm_status rc = rv_constraint_find(c->model->constraints, c->params, &config.grammar, err);

    if (!rc)
        rc = rv_reply_new(&job->reply, &config, err);
    rv_grammar_unref(config.grammar);
    return rc;
}

static ruvllm_status fill(struct rv_job *job, const struct rv_job_config *c, const int32_t *prompt, size_t n_prompt,
                          struct ruvllm_error *err)
{
    struct rv_request *request = &job->request;
    size_t max_tokens, max_text;
    ruvllm_status rc = make_reply(job, c, prompt, n_prompt, err);

    if (rc)
        return rc;
    max_tokens = n_prompt + rv_reply_max_tokens(job->reply);
    max_text = rv_reply_max_tokens(job->reply) * rv_vocab_max_piece(c->model->vocab) + 16;
    job->tokens = rv_realloc_array(NULL, max_tokens, sizeof(*job->tokens));
    rv_buf_init(&job->text, max_text);
    rv_buf_init(&job->piece, max_text + 1);
    if (!job->tokens || !rv_buf_reserve(&job->text, max_text) || !rv_buf_reserve(&job->piece, max_text + 1))
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate room for %zu tokens", max_tokens);
    memcpy(job->tokens, prompt, n_prompt * sizeof(*prompt));
    request->tokens = job->tokens;
    request->n_prompt = (int32_t)n_prompt;
    request->n_tokens = (int32_t)n_prompt;
    request->priority = c->request->priority;
    request->share = c->request->share;
    request->arrived_us = rv_clock_us();
    request->no_cache = c->request->no_shared_prefix;
    request->scope = c->scope;
    return rv_kv_seq_init(&request->kv, c->pool, &c->policy, (int32_t)max_tokens, err);
}

ruvllm_status rv_job_new(struct rv_job **out, const struct rv_job_config *config, struct ruvllm_error *err)
{
    struct rv_job *job = rv_calloc(1, sizeof(*job));
    pthread_condattr_t attributes;
    int32_t *prompt = NULL;
    size_t n_prompt;
    ruvllm_status rc;

    *out = NULL;
    if (!job)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a request");
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&job->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    job->on_event = config->request->on_event;
    job->user = config->request->user;
    job->temperature = config->params->temperature;
    rc = rv_input_tokens(config->model, config->input, &prompt, &n_prompt, err);
    if (!rc)
        rc = fill(job, config, prompt, n_prompt, err);
    rv_free(prompt);
    if (rc) {
        rv_job_free(job);
        return rc;
    }
    *out = job;
    return RUVLLM_OK;
}

int32_t rv_job_max_tokens(const struct rv_job *job)
{
    return job->request.n_prompt + (int32_t)rv_reply_max_tokens(job->reply);
}

void rv_job_free(struct rv_job *job)
{
    if (!job)
        return;
    RV_ASSERT(job->request.kv.n_blocks == 0 && job->ticket.state == RV_ADAPTER_TICKET_NONE);
    rv_trace_unref(job->trace);
    rv_adapter_unref(job->learned);
    rv_adapter_unref(job->deep);
    rv_memory_unref(job->memory);
    rv_kv_seq_release(&job->request.kv);
    rv_reply_free(job->reply);
    rv_buf_release(&job->text);
    rv_buf_release(&job->piece);
    pthread_cond_destroy(&job->changed);
    rv_free(job->tokens);
    rv_free(job);
}
