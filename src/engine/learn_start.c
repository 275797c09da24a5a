#include "engine/learn_start.h"

#include "base/alloc.h"
#include "engine/engine_learn.h"
#include "engine/scribe.h"
#include "engine/session.h"
#include "learn/anchors_store.h"
#include "learn/first_text.h"
#include "learn/whitening_store.h"
#include "store/store_policies.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Anchors are of all texts, the whitening of the first ones. */
enum { FIRST_TOKENS = 128, WHITENED_TEXTS = 24, DEFAULT_RANK = 2 };

static const char OWNER[] = ".states"; // of what belongs to a model and to no tenant

static const uint64_t FIRST_BYTES = (uint64_t)1 << 28; // more than what runs at once leaves behind

/* What the model's own texts leave behind. */
struct first {
    struct rv_engine_learn *learn;
    const struct ruvllm_learn_params *params;
    struct rv_first_text *text; // NULL: there is a whitening already
    int32_t n_before;           // texts that were written before this task, of n_task and of all there will be
    int32_t n_task;
    int32_t n_all;
};

/* Appends what a text that was written left. */
static void take_states(void *user, uint64_t id, const struct ruvllm_response *response)
{
    struct first *first = user;
    struct rv_trace *trace = rv_trace_ring_find(first->learn->first, id, RV_ENGINE_LEARN_WRITER);

    (void)response;
    first->learn->n_texts++;
    if (trace && rv_trace_has_rows(trace)) {
        if (first->text)
            rv_first_text_add(first->text, trace);
        rv_anchors_add(&first->learn->anchors, trace);
    }
    rv_trace_unref(trace);
}

static bool goes_on(void *user, float fraction)
{
    const struct first *first = user;
    const struct ruvllm_learn_params *p = first->params;

    return !p->on_progress ||
           p->on_progress(p->progress_user,
                          ((float)first->n_before + fraction * (float)first->n_task) / (float)first->n_all);
}

/* Has texts written until there are n; what they leave is added to the anchors, and to `text` unless that is NULL. */
static ruvllm_status write_texts(struct ruvllm_engine *e, struct rv_engine_learn *learn,
                                 const struct ruvllm_learn_params *params, int32_t n, struct rv_first_text *text,
                                 struct ruvllm_error *err)
{
    int32_t most = e->model->max_context - 2;
    struct first first = {.learn = learn,
                          .params = params,
                          .text = text,
                          .n_before = learn->n_texts,
                          .n_task = n - learn->n_texts,
                          .n_all = params->no_background ? n : RV_ANCHORS_TEXTS};
    struct rv_scribe_task task = {.tenant = RV_ENGINE_LEARN_WRITER,
                                  .n_texts = first.n_task,
                                  .n_tokens = most < FIRST_TOKENS ? most : FIRST_TOKENS,
                                  .seed = 1 + (uint64_t)learn->n_texts,
                                  .goes_on = goes_on,
                                  .on_text = take_states,
                                  .user = &first};
    ruvllm_status rc = RUVLLM_OK;

    if (first.n_task < 1)
        return RUVLLM_OK;
    if (!learn->anchors.states)
        rc = rv_anchors_init(&learn->anchors, e->model->hparams.n_embd, err);
    if (rc)
        return rc;
    rv_trace_ring_resize(learn->first, FIRST_BYTES);
    rc = rv_scribe_write(e, &task, err);
    rv_trace_ring_resize(learn->first, 0);
    return rc;
}

static void forget_texts(struct rv_engine_learn *learn)
{
    rv_anchors_release(&learn->anchors);
    learn->n_texts = 0;
}

/* Into learn->whitening, from the first texts. */
static ruvllm_status measure(struct ruvllm_engine *e, struct rv_engine_learn *learn,
                             const struct ruvllm_learn_params *params, struct ruvllm_error *err)
{
    struct rv_first_text text;
    ruvllm_status rc;

    forget_texts(learn); // of a try that was given up
    rc = rv_first_text_init(&text, (size_t)WHITENED_TEXTS * FIRST_TOKENS, e->model->hparams.n_embd, err);
    if (rc)
        return rc;
    rc = write_texts(e, learn, params, WHITENED_TEXTS, &text, err);
    if (!rc)
        rc = rv_first_text_measure(&text, &learn->whitening, err);
    rv_first_text_release(&text);
    return rc;
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

    if (!rc && !theirs.directions) {
        rc = rv_whitening_store_save(store, model, whitening, err);
        if (!rc) // another's may have come in between, and be the first
            rc = rv_whitening_store_load(store, model, whitening->n_dims, &theirs, err);
    }
    if (rc || !theirs.directions)
        return rc;
    rv_whitening_release(whitening);
    *whitening = theirs;
    return RUVLLM_OK;
}

/*
 * Where the model usually is: from the store, or measured and kept there. What the store could not keep waits for the
 * next try: the texts are not written again.
 */
static ruvllm_status find_whitening(struct ruvllm_engine *e, struct rv_engine_learn *learn,
                                    const struct ruvllm_learn_params *params, const char *model,
                                    struct rv_whitening *out, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_whitening_store_load(params->store, model, e->model->hparams.n_embd, out, err);

    if (rc || out->directions)
        return rc;
    if (!learn->whitening.directions)
        rc = measure(e, learn, params, err);
    if (!rc)
        rc = agree(params->store, model, &learn->whitening, err);
    if (rc)
        return rc;
    *out = learn->whitening;
    learn->whitening = (struct rv_whitening){0};
    return RUVLLM_OK;
}

/* What it does there: likewise. */
static ruvllm_status find_anchors(struct ruvllm_engine *e, struct rv_engine_learn *learn,
                                  const struct ruvllm_learn_params *params, const char *model, struct rv_anchors *out,
                                  struct ruvllm_error *err)
{
    const struct rv_hparams *h = &e->model->hparams;
    ruvllm_status rc = rv_anchors_store_load(params->store, model, h->n_embd, h->n_vocab, out, err);

    if (rc || out->states)
        return rc;
    rc = write_texts(e, learn, params, RV_ANCHORS_TEXTS, NULL, err);
    if (!rc)
        rc = rv_anchors_store_save(params->store, model, &learn->anchors, err);
    if (rc)
        return rc;
    *out = learn->anchors;
    learn->anchors = (struct rv_anchors){0};
    learn->n_texts = 0;
    return RUVLLM_OK;
}

/*
 * The rank that was asked for last with this store: who only looks at what was learned, as the command line does, must
 * fold it as the server did.
 */
static ruvllm_status find_rank(const struct ruvllm_learn_params *params, const char *model, int32_t *out,
                               struct ruvllm_error *err)
{
    char name[64], text[16], *kept = NULL;
    bool found = false;
    ruvllm_status rc;

    *out = params->rank > 0 ? params->rank : DEFAULT_RANK;
    if (!params->store)
        return RUVLLM_OK;
    (void)snprintf(name, sizeof(name), "rank.%s", model);
    (void)snprintf(text, sizeof(text), "%d", *out);
    rc = rv_store_policies_get(params->store, OWNER, name, &kept, &found, err);
    if (!rc && found && params->rank == 0 && kept[0] >= '1' && kept[0] <= '0' + RV_HEAD_ADAPTER_MAX_RANK && !kept[1])
        *out = kept[0] - '0';
    else if (!rc && params->rank > 0 && (!found || strcmp(kept, text) != 0))
        rc = rv_store_policies_put(params->store, OWNER, name, text, strlen(text), err);
    rv_free(kept);
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

/* The first part: from then on feedback teaches. */
static ruvllm_status make_learner(struct ruvllm_engine *e, struct rv_engine_learn *learn,
                                  const struct ruvllm_learn_params *params, const char *model, struct ruvllm_error *err)
{
    struct rv_learner_config config = {.hparams = &e->model->hparams,
                                       .manifest = &e->model->manifest,
                                       .store = params->store,
                                       .model = model,
                                       .trace_bytes = params->trace_bytes,
                                       .tenant_bytes = params->tenant_bytes,
                                       .studies = !params->no_background,
                                       .strategy = (enum rv_consolidate_strategy)params->consolidation};
    struct rv_whitening whitening = {0};
    struct rv_learner *learner;
    ruvllm_status rc = find_rank(params, model, &config.rank, err);

    if (!rc)
        rc = find_whitening(e, learn, params, model, &whitening, err);
    if (rc)
        return rc;
    rc = rv_learner_new(&learner, &config, &whitening, err);
    if (!rc)
        rc = rv_learner_follow(learner, err);
    if (!rc && !rv_engine_call(e, hand_over, learner))
        rc = rv_fail(err, RUVLLM_CANCELLED, "the engine closes");
    if (rc)
        rv_learner_free(learner);
    return rc;
}

/* The second: from then on what was said is gone over again. */
static ruvllm_status begin_study(struct ruvllm_engine *e, struct rv_engine_learn *learn,
                                 const struct ruvllm_learn_params *params, const char *model, struct ruvllm_error *err)
{
    struct rv_anchors anchors = {0};
    ruvllm_status rc = find_anchors(e, learn, params, model, &anchors, err);

    if (rc)
        return rc;
    return rv_learner_study(atomic_load(&learn->learner), &anchors, err);
}

static ruvllm_status start(struct ruvllm_engine *e, struct rv_engine_learn *learn,
                           const struct ruvllm_learn_params *params, struct ruvllm_error *err)
{
    struct rv_learner *learner = atomic_load(&learn->learner);
    char model[32];
    ruvllm_status rc = RUVLLM_OK;

    if (learner && (rv_learner_has_study(learner) || !rv_learner_made_with(learner)->studies))
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "this engine learns already");
    snprintf(model, sizeof(model), "%016" PRIx64, rv_session_model_hash(e));
    if (!learner)
        rc = make_learner(e, learn, params, model, err);
    if (!rc && !params->no_background)
        rc = begin_study(e, learn, params, model, err);
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
    if (params->rank < 0 || params->rank > RV_HEAD_ADAPTER_MAX_RANK)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "'rank' must be 0 to %d, and is %d",
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
    rc = start(engine, learn, params, err);
    atomic_store(&learn->is_starting, false);
    return rc;
}
