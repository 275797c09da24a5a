#include "engine/engine_learn.h"

#include "base/alloc.h"
#include "base/log.h"
#include "engine/session.h"
#include "learn/anchors_store.h"
#include "learn/first_text.h"
#include "learn/whitening_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_TEXTS = 24, FIRST_TOKENS = 128, FIRST_AT_ONCE = 4 };

static const uint64_t FIRST_BYTES = (uint64_t)1 << 28; // more than what runs at once leaves behind

void rv_engine_learn_free(struct rv_engine_learn *learn)
{
    if (!learn)
        return;
    rv_learner_free(atomic_load(&learn->learner));
    rv_trace_ring_free(learn->first);
    rv_head_gradient_release(&learn->gradient);
    rv_engine_memory_release(&learn->memory);
    rv_free(learn);
}

ruvllm_status rv_engine_learn_get(struct ruvllm_engine *engine, struct rv_learner **out, struct ruvllm_error *err)
{
    struct rv_engine_learn *learn = atomic_load(&engine->learn);

    *out = learn ? atomic_load(&learn->learner) : NULL;
    return *out ? RUVLLM_OK
                : rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA,
                               "this engine does not learn: it was not asked to");
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

ruvllm_status rv_engine_learn_begin(struct ruvllm_engine *engine, struct rv_job *job, const char *tenant,
                                    struct ruvllm_error *err)
{
    struct rv_engine_learn *learn = atomic_load(&engine->learn);
    struct rv_learner *learner = learn ? atomic_load(&learn->learner) : NULL;
    struct ruvllm_error trouble;
    ruvllm_status rc;

    if (!learn)
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
    if (learner && take_learned(learner, tenant, job, &trouble))
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
    rv_trace_ring_add(learner ? rv_learner_traces(learner) : learn->first, trace);
}

/* ---- the beginning -------------------------------------------------------------------------- */

/* Has the model write a text of its own; *id is the request's. */
static ruvllm_status write_text(struct ruvllm_engine *e, int32_t n, uint64_t seed, uint64_t *id,
                                struct ruvllm_error *err)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    int32_t bos = rv_vocab_bos(e->model->vocab), eos = rv_vocab_eos(e->model->vocab);
    int32_t first = bos >= 0 ? bos : eos >= 0 ? eos : 0;
    struct ruvllm_input input = {.struct_size = sizeof(input), .tokens = &first, .n_tokens = 1};
    struct ruvllm_request request = {.struct_size = sizeof(request), .no_shared_prefix = true};

    params.temperature = 1;
    params.top_p = 1;
    params.repetition_penalty = 1;
    params.max_tokens = n;
    params.ignore_eos = true;
    params.has_seed = true;
    params.seed = seed;
    return rv_engine_submit(e, &request, &input, &params, id, err);
}

static ruvllm_status wait_for(struct ruvllm_engine *e, uint64_t id, struct ruvllm_error *err)
{
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    ruvllm_status rc;

    do {
        event.type = RUVLLM_EVENT_NONE;
        rc = rv_engine_next_event(e, id, -1, &event, err);
    } while (!rc && event.type != RUVLLM_EVENT_DONE);
    if (!rc)
        rv_reply_response_free(event.response);
    return rc;
}

/* What the model's own texts leave behind. */
struct first {
    struct rv_first_text text;
    struct rv_anchors anchors; // its states, with what was likely there
};

/* Appends what a text that was written left. */
static void take_states(struct rv_engine_learn *learn, uint64_t id, struct first *first)
{
    struct rv_trace *trace = rv_trace_ring_find(learn->first, id, NULL);

    if (trace) {
        rv_first_text_add(&first->text, trace);
        rv_anchors_add(&first->anchors, trace, 1);
    }
    rv_trace_unref(trace);
}

/* Some texts at once, which a batch computes hardly slower than one. */
static ruvllm_status write_group(struct ruvllm_engine *e, struct rv_engine_learn *learn, uint64_t first_seed,
                                 struct first *first, struct ruvllm_error *err)
{
    int32_t tokens = e->model->max_context - 2 < FIRST_TOKENS ? e->model->max_context - 2 : FIRST_TOKENS;
    uint64_t ids[FIRST_AT_ONCE];
    int n_ids = 0;
    ruvllm_status rc = RUVLLM_OK;

    while (n_ids < FIRST_AT_ONCE && !rc) {
        rc = write_text(e, tokens, first_seed + (uint64_t)n_ids, &ids[n_ids], err);
        n_ids += !rc;
    }
    for (int i = 0; i < n_ids; i++) {
        struct ruvllm_error late;
        ruvllm_status each = wait_for(e, ids[i], rc ? &late : err); // also after a failure: nobody else reads them

        if (!each)
            take_states(learn, ids[i], first);
        rc = rc ? rc : each;
    }
    return rc;
}

/* States of texts the model writes. */
static ruvllm_status write_texts(struct ruvllm_engine *e, struct rv_engine_learn *learn,
                                 const struct ruvllm_learn_params *params, struct first *first,
                                 struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;

    for (int i = 0; i < FIRST_TEXTS && !rc; i += FIRST_AT_ONCE) {
        if (params->on_progress && !params->on_progress(params->progress_user, (float)i / FIRST_TEXTS))
            return rv_fail(err, RUVLLM_CANCELLED, "learning was given up before it began");
        rc = write_group(e, learn, (uint64_t)i + 1, first, err);
    }
    return rc;
}

/* Has the texts written; makes the anchors, and the whitening unless there is one. */
static ruvllm_status make_first(struct ruvllm_engine *e, struct rv_engine_learn *learn,
                                const struct ruvllm_learn_params *params, struct rv_whitening *whitening,
                                struct rv_anchors *anchors, struct ruvllm_error *err)
{
    struct first first = {0};
    ruvllm_status rc =
        rv_first_text_init(&first.text, (size_t)FIRST_TEXTS * FIRST_TOKENS, e->model->hparams.n_embd, err);

    if (!rc)
        rc = rv_anchors_init(&first.anchors, e->model->hparams.n_embd, err);
    if (!rc)
        rc = write_texts(e, learn, params, &first, err);
    if (!rc && !whitening->directions)
        rc = rv_first_text_measure(&first.text, whitening, err);
    rv_first_text_release(&first.text);
    if (rc)
        rv_anchors_release(&first.anchors);
    else
        *anchors = first.anchors;
    return rc;
}

/* Where the model usually is: from the store, or measured and kept there. */
static ruvllm_status find_first(struct ruvllm_engine *e, struct rv_engine_learn *learn,
                                const struct ruvllm_learn_params *params, const char *model,
                                struct rv_whitening *whitening, struct rv_anchors *anchors, struct ruvllm_error *err)
{
    const struct rv_hparams *h = &e->model->hparams;
    bool is_known;
    ruvllm_status rc = rv_whitening_store_load(params->store, model, h->n_embd, whitening, err);

    if (!rc)
        rc = rv_anchors_store_load(params->store, model, h->n_embd, h->n_vocab, anchors, err);
    is_known = whitening->directions != NULL;
    if (rc || (is_known && anchors->states))
        return rc;
    rv_anchors_release(anchors);
    rc = make_first(e, learn, params, whitening, anchors, err);
    if (!rc && !is_known)
        rc = rv_whitening_store_save(params->store, model, whitening, err);
    if (!rc)
        rc = rv_anchors_store_save(params->store, model, anchors, err);
    return rc;
}

static ruvllm_status make_learner(struct ruvllm_engine *e, struct rv_engine_learn *learn,
                                  const struct ruvllm_learn_params *params, struct ruvllm_error *err)
{
    char model[32];
    struct rv_learner_config config = {.hparams = &e->model->hparams,
                                       .manifest = &e->model->manifest,
                                       .store = params->store,
                                       .model = model,
                                       .rank = params->rank,
                                       .trace_bytes = params->trace_bytes,
                                       .tenant_bytes = params->tenant_bytes};
    struct rv_whitening whitening = {0};
    struct rv_anchors anchors = {0};
    struct rv_learner *learner;
    ruvllm_status rc;

    snprintf(model, sizeof(model), "%016" PRIx64, rv_session_model_hash(e));
    rc = find_first(e, learn, params, model, &whitening, &anchors, err);
    if (rc) {
        rv_whitening_release(&whitening);
        rv_anchors_release(&anchors);
        return rc;
    }
    rc = rv_learner_new(&learner, &config, &whitening, err);
    if (!rc && !params->no_background) {
        rc = rv_learner_study(learner, &anchors, (enum rv_consolidate_strategy)params->consolidation, err);
        if (rc)
            rv_learner_free(learner);
    }
    rv_anchors_release(&anchors);
    if (!rc)
        atomic_store(&learn->learner, learner);
    return rc;
}

ruvllm_status rv_engine_learn_start(struct ruvllm_engine *engine, const struct ruvllm_learn_params *params,
                                    struct ruvllm_error *err)
{
    struct rv_engine_learn *learn, *none = NULL;
    ruvllm_status rc;

    if (!engine->model->backend->states || !rv_model_has_blocks(engine->model))
        return rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_SONA,
                            "learning needs the engine's own graph on the CPU: this model runs by backend '%s' on '%s'",
                            engine->model->backend->name, rv_device_name(engine->model->device));
    if (params->rank < 1 || params->rank > RV_HEAD_ADAPTER_MAX_RANK)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "'rank' must be 1 to %d, and is %d",
                            RV_HEAD_ADAPTER_MAX_RANK, params->rank);
    if ((unsigned)params->consolidation >= RV_CONSOLIDATE_N)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "there is no 'consolidation' %d",
                            (int)params->consolidation);
    learn = rv_calloc(1, sizeof(*learn));
    if (!learn)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate what learning needs");
    rc = rv_head_gradient_init(&learn->gradient, &engine->model->manifest, &engine->model->hparams, err);
    if (!rc)
        rc = rv_engine_memory_init(&learn->memory, (size_t)engine->model->hparams.n_embd,
                                   (size_t)engine->model->hparams.n_vocab, err);
    if (!rc)
        rc = rv_trace_ring_new(&learn->first, FIRST_BYTES, err);
    if (!rc && !atomic_compare_exchange_strong(&engine->learn, &none, learn))
        rc =
            rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA,
                         atomic_load(&none->learner)
                             ? "this engine learns already"
                             : "learning was begun on this engine before, and is not done or has failed: open it anew");
    if (rc) {
        rv_engine_learn_free(learn);
        return rc;
    }
    /* From here on the engine thread has it, so it stays until the engine closes. */
    rc = make_learner(engine, learn, params, err);
    rv_trace_ring_resize(learn->first, 0);
    return rc;
}
