#include "engine/learn_start.h"

#include "base/alloc.h"
#include "engine/engine_learn.h"
#include "engine/scribe.h"
#include "engine/session.h"
#include "learn/anchors_store.h"
#include "learn/first_text.h"
#include "learn/whitening_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_TOKENS = 128, WHITENED_TEXTS = 24 }; // anchors are of all texts, the whitening of the first ones

static const uint64_t FIRST_BYTES = (uint64_t)1 << 28; // more than what runs at once leaves behind

/* What the model's own texts leave behind. */
struct first {
    struct rv_trace_ring *traces;
    const struct ruvllm_learn_params *params;
    struct rv_first_text text;
    struct rv_anchors anchors; // some states of each, with what was likely there
};

/* Appends what a text that was written left. */
static void take_states(void *user, uint64_t id, const struct ruvllm_response *response)
{
    struct first *first = user;
    struct rv_trace *trace = rv_trace_ring_find(first->traces, id, RV_ENGINE_LEARN_WRITER);

    (void)response;
    if (trace && rv_trace_has_rows(trace)) {
        rv_first_text_add(&first->text, trace);
        rv_anchors_add(&first->anchors, trace);
    }
    rv_trace_unref(trace);
}

static bool goes_on(void *user, float fraction)
{
    const struct ruvllm_learn_params *p = ((const struct first *)user)->params;

    return !p->on_progress || p->on_progress(p->progress_user, fraction);
}

/* Has the texts written; makes the anchors, and the whitening unless there is one. */
static ruvllm_status make_first(struct ruvllm_engine *e, struct rv_engine_learn *learn,
                                const struct ruvllm_learn_params *params, struct rv_whitening *whitening,
                                struct rv_anchors *anchors, struct ruvllm_error *err)
{
    struct first first = {.traces = learn->first, .params = params};
    struct rv_scribe_task task = {.tenant = RV_ENGINE_LEARN_WRITER,
                                  .n_texts = RV_ANCHORS_TEXTS,
                                  .n_tokens = e->model->max_context - 2 < FIRST_TOKENS ? e->model->max_context - 2
                                                                                       : FIRST_TOKENS,
                                  .seed = 1,
                                  .goes_on = goes_on,
                                  .on_text = take_states,
                                  .user = &first};
    ruvllm_status rc =
        rv_first_text_init(&first.text, (size_t)WHITENED_TEXTS * FIRST_TOKENS, e->model->hparams.n_embd, err);

    if (!rc)
        rc = rv_anchors_init(&first.anchors, e->model->hparams.n_embd, err);
    if (!rc) {
        rv_trace_ring_resize(learn->first, FIRST_BYTES);
        rc = rv_scribe_write(e, &task, err);
        rv_trace_ring_resize(learn->first, 0);
    }
    if (!rc && !whitening->directions)
        rc = rv_first_text_measure(&first.text, whitening, err);
    rv_first_text_release(&first.text);
    if (rc)
        rv_anchors_release(&first.anchors);
    else
        *anchors = first.anchors;
    return rc;
}

/* What an earlier try has made and the store could not keep: the texts are not written again. */
static bool take_made(struct rv_engine_learn *learn, struct rv_whitening *whitening, struct rv_anchors *anchors)
{
    if (!learn->anchors.states || (!whitening->directions && !learn->whitening.directions))
        return false;
    if (whitening->directions)
        rv_whitening_release(&learn->whitening);
    else
        *whitening = learn->whitening;
    *anchors = learn->anchors;
    learn->whitening = (struct rv_whitening){0};
    learn->anchors = (struct rv_anchors){0};
    return true;
}

static void leave_made(struct rv_engine_learn *learn, struct rv_whitening *whitening, struct rv_anchors *anchors)
{
    rv_whitening_release(&learn->whitening);
    rv_anchors_release(&learn->anchors);
    learn->whitening = *whitening;
    learn->anchors = *anchors;
    *whitening = (struct rv_whitening){0};
    *anchors = (struct rv_anchors){0};
}

/*
 * All who share the store must fold by the same numbers. Measuring takes long, and another replica may have begun at
 * the same time: who comes second takes what the first has kept.
 */
static ruvllm_status agree(struct ruvllm_store *store, const char *model, struct rv_whitening *whitening,
                           struct ruvllm_error *err)
{
    struct rv_whitening theirs;
    ruvllm_status rc = rv_whitening_store_load(store, model, whitening->n_dims, &theirs, err);

    if (rc || !theirs.directions)
        return rc ? rc : rv_whitening_store_save(store, model, whitening, err);
    rv_whitening_release(whitening);
    *whitening = theirs;
    return RUVLLM_OK;
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
    if (!take_made(learn, whitening, anchors))
        rc = make_first(e, learn, params, whitening, anchors, err);
    if (rc)
        return rc;
    if (!is_known)
        rc = agree(params->store, model, whitening, err);
    if (!rc)
        rc = rv_anchors_store_save(params->store, model, anchors, err);
    if (rc)
        leave_made(learn, whitening, anchors);
    return rc;
}

/* Between two steps: no answer ends while it changes where answers wait. */
static void hand_over(struct ruvllm_engine *e, void *arg)
{
    struct rv_engine_learn *learn = atomic_load(&e->learn);
    struct rv_learner *learner = arg;

    rv_trace_ring_move(rv_learner_traces(learner), learn->early);
    atomic_store(&learn->learner, learner);
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
    if (!rc && !params->no_background)
        rc = rv_learner_study(learner, &anchors, (enum rv_consolidate_strategy)params->consolidation, err);
    if (!rc)
        rc = rv_learner_follow(learner, err);
    rv_anchors_release(&anchors);
    if (!rc && !rv_engine_call(e, hand_over, learner))
        rc = rv_fail(err, RUVLLM_CANCELLED, "the engine closes");
    if (rc)
        rv_learner_free(learner);
    return rc;
}

/* ---- the door ------------------------------------------------------------------------------- */

static ruvllm_status check(const struct ruvllm_engine *e, const struct ruvllm_learn_params *params,
                           struct ruvllm_error *err)
{
    if (!e->model->backend->states || !rv_model_has_blocks(e->model))
        return rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_SONA,
                            "learning needs the engine's own graph on the CPU: this model runs by backend '%s' on '%s'",
                            e->model->backend->name, rv_device_name(e->model->device));
    if (params->rank < 1 || params->rank > RV_HEAD_ADAPTER_MAX_RANK)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "'rank' must be 1 to %d, and is %d",
                            RV_HEAD_ADAPTER_MAX_RANK, params->rank);
    if ((unsigned)params->consolidation >= RV_CONSOLIDATE_N)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "there is no 'consolidation' %d",
                            (int)params->consolidation);
    return RUVLLM_OK;
}

/* What answers leave traces by, from now on until the engine closes: its thread has it. */
static ruvllm_status begin(struct ruvllm_engine *e, const struct ruvllm_learn_params *params, struct ruvllm_error *err)
{
    struct rv_engine_learn *learn = rv_calloc(1, sizeof(*learn)), *none = NULL;
    ruvllm_status rc;

    if (!learn)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate what learning needs");
    rc = rv_head_gradient_init(&learn->gradient, &e->model->manifest, &e->model->hparams, err);
    if (!rc)
        rc = rv_engine_memory_init(&learn->memory, (size_t)e->model->hparams.n_embd, (size_t)e->model->hparams.n_vocab,
                                   err);
    if (!rc)
        rc = rv_trace_ring_new(&learn->first, 0, err);
    if (!rc)
        rc = rv_trace_ring_new(&learn->early, params->trace_bytes, err);
    if (rc || !atomic_compare_exchange_strong(&e->learn, &none, learn))
        rv_engine_learn_free(learn);
    return rc;
}

ruvllm_status rv_learn_start(struct ruvllm_engine *engine, const struct ruvllm_learn_params *params,
                             struct ruvllm_error *err)
{
    struct rv_engine_learn *learn;
    ruvllm_status rc = check(engine, params, err);

    if (!rc && !atomic_load(&engine->learn))
        rc = begin(engine, params, err);
    if (rc)
        return rc;
    learn = atomic_load(&engine->learn);
    if (atomic_exchange(&learn->is_starting, true))
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "learning is being begun on this engine already");
    rc = atomic_load(&learn->learner)
             ? rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "this engine learns already")
             : make_learner(engine, learn, params, err);
    atomic_store(&learn->is_starting, false);
    return rc;
}
