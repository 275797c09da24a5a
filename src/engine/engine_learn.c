#include "engine/engine_learn.h"

#include "base/alloc.h"
#include "base/log.h"
#include "engine/own_texts.h"

#include <string.h>

void rv_engine_learn_free(struct rv_engine_learn *learn)
{
    if (!learn)
        return;
    rv_learner_free(atomic_load(&learn->learner));
    rv_trace_ring_free(learn->first);
    rv_trace_ring_free(learn->early);
    rv_whitening_release(&learn->whitening);
    rv_anchors_release(&learn->anchors);
    rv_head_gradient_release(&learn->gradient);
    rv_engine_memory_release(&learn->memory);
    rv_free(learn);
}

ruvllm_status rv_engine_learn_get(struct ruvllm_engine *engine, struct rv_learner **out, struct ruvllm_error *err)
{
    struct rv_engine_learn *learn = atomic_load(&engine->learn);

    *out = learn ? atomic_load(&learn->learner) : NULL;
    if (*out)
        return RUVLLM_OK;
    if (learn && atomic_load(&learn->is_starting))
        return rv_fail_kind(err, RUVLLM_BUSY, RUVLLM_ERROR_SONA,
                            "learning is being prepared: the model writes texts to measure; try again in a while");
    return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "this engine does not learn: %s",
                        learn ? "it was given up, or failed, before it began" : "it was not asked to");
}

/* Two changes below the head, as one number; 0: there is none. */
static uint64_t mix_layers(uint64_t named, uint64_t deep)
{
    return named && deep ? (named ^ deep * 0x9E3779B97F4A7C15u) | 1 : named + deep;
}

void rv_engine_learn_layers(struct ruvllm_engine *engine, const char *tenant, uint64_t *layers)
{
    struct rv_engine_learn *learn = atomic_load(&engine->learn);
    struct rv_learner *learner = learn ? atomic_load(&learn->learner) : NULL;
    struct rv_learner_voice voice;
    struct ruvllm_error trouble;

    if (!learner)
        return;
    if (rv_learner_voice(learner, tenant, &voice, &trouble))
        rv_log(RUVLLM_LOG_WARN, "a session without what was learned: %s", trouble.message);
    *layers = mix_layers(*layers, voice.layers);
    rv_learner_release_voice(&voice);
}

/* ---- requests ------------------------------------------------------------------------------- */

/* What the tenant has learned, at the head and below it, of one generation. */
static ruvllm_status take_learned(struct rv_learner *learner, const char *tenant, struct rv_job *job,
                                  struct ruvllm_error *err)
{
    struct rv_learner_voice voice;
    ruvllm_status rc = rv_learner_voice(learner, tenant, &voice, err);

    if (rc)
        return rc;
    job->learned = voice.head;
    job->deep = voice.deep;
    job->memory = voice.memory;
    job->trace->generation = voice.generation;
    job->trace->layers = voice.layers;
    job->request.scope.adapter_layers = mix_layers(job->ticket.layers, voice.layers);
    return RUVLLM_OK;
}

/* Whose texts are the model's own, as it came. */
static bool is_first(const char *tenant)
{
    return tenant && strcmp(tenant, RV_ENGINE_LEARN_WRITER) == 0;
}

ruvllm_status rv_engine_learn_begin(struct ruvllm_engine *engine, struct rv_job *job, const char *tenant,
                                    struct ruvllm_error *err)
{
    struct rv_engine_learn *learn = atomic_load(&engine->learn);
    struct rv_learner *learner = learn ? atomic_load(&learn->learner) : NULL;
    struct ruvllm_error trouble;
    ruvllm_status rc;

    if (!learn || rv_own_texts_are_by(tenant)) // nobody judges those
        return RUVLLM_OK;
    rc = rv_trace_new(&job->trace, 0, tenant, engine->model->hparams.n_embd, (int32_t)rv_reply_max_tokens(job->reply),
                      err);
    if (rc)
        return rc;
    job->trace->has_adapters = job->ticket.n > 0;
    rc = rv_trace_set_prompt(job->trace, job->tokens, job->request.n_prompt, err);
    if (rc)
        return rc;
    /* Answers go on while the store is away: without what was learned, and the answer says so by its generation. */
    if (learner && !is_first(tenant) && take_learned(learner, tenant, job, &trouble))
        rv_log(RUVLLM_LOG_WARN, "answering without what was learned: %s", trouble.message);
    rv_reply_response(job->reply)->learned_generation = job->trace->generation;
    if (job->ticket.n == 0)
        rv_engine_learn_join(job);
    return RUVLLM_OK;
}

void rv_engine_learn_join(struct rv_job *job)
{
    rv_engine_learn_mix(&job->request.mix, job->learned, job->deep);
}

void rv_engine_learn_mix(struct rv_adapter_mix *mix, const struct rv_adapter *head, const struct rv_adapter *deep)
{
    const struct rv_adapter *learned[] = {deep, head};

    for (size_t i = 0; i < sizeof(learned) / sizeof(learned[0]); i++) {
        if (!learned[i])
            continue;
        mix->adapters[mix->n_adapters] = learned[i];
        mix->weights[mix->n_adapters] = 1;
        mix->n_adapters++;
    }
}

const float *rv_engine_learn_recall(struct ruvllm_engine *engine, struct rv_job *job, const float *state, float *row)
{
    struct rv_engine_learn *learn = atomic_load(&engine->learn);

    return job->memory ? rv_engine_memory_mix(&learn->memory, job, state, row, (size_t)engine->model->hparams.n_vocab)
                       : row;
}

void rv_engine_learn_capture(struct ruvllm_engine *engine, struct rv_job *job, const float *state, const float *logits,
                             int32_t token)
{
    struct rv_engine_learn *learn = atomic_load(&engine->learn);
    int32_t row = job->trace->n_rows;

    rv_head_gradient_capture(&learn->gradient, job->trace, state, logits, job->temperature, token);
    if (job->trace->n_rows > row)
        job->trace->is_recalled[row] = logits == learn->memory.logits;
}

void rv_engine_learn_keep(struct ruvllm_engine *engine, struct rv_job *job)
{
    struct rv_engine_learn *learn = atomic_load(&engine->learn);
    struct rv_learner *learner = atomic_load(&learn->learner);
    struct rv_trace *trace = job->trace;

    job->trace = NULL;
    rv_trace_ring_add(is_first(trace->tenant) ? learn->first
                      : learner               ? rv_learner_traces(learner)
                                              : learn->early,
                      trace);
}
