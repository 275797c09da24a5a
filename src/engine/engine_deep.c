#define _GNU_SOURCE // SCHED_IDLE
#include "engine/engine_deep.h"

#include "base/alloc.h"
#include "engine/deep_distil.h"
#include "engine/engine_learn.h"
#include "engine/own_texts.h"
#include "engine/train_run.h"
#include "learn/deep_content.h"
#include "learn/deep_variants.h"
#include "learn/fisher.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

enum {
    LEAST_EVENTS = 4,
    GUARD_EVERY = 4,
    MAX_GUARD = 24,
    ANCHORS_AT_ONCE = 48,
    N_FISHER_TEXTS = 16,
    MAX_AT_ONCE = 16,
    MAX_TURNS = 16
};

/* How much of the Fisher matrix of runs before counts: EWC++'s running mean (arXiv 1801.10112). */
static const float FISHER_KEEP = 0.5f;

/* One run and all it holds. */
struct deep_run {
    struct ruvllm_engine *engine;
    const char *tenant;
    const struct ruvllm_deep_params *params;
    struct ruvllm_deep_report *report;
    struct rv_learner *learner;
    struct rv_deep_events events;
    struct rv_own_texts own;
    struct rv_deep_sample *samples; // of the events, then the own texts
    size_t n_samples;
    struct rv_deep_variants all;   // those and other ways to ask
    struct rv_deep_content before; // what the last run has left; rank 0: nothing to go on from
    struct rv_train_run train;
    struct rv_learner_deepening by; // what came of it; no content: nothing
    ruvllm_status rc;               // of training on a thread of its own, as the next
    struct ruvllm_error *err;
};

/* ---- what is learned from ------------------------------------------------------------------- */

/* Before the first step, while the model writes: whether anybody wants the run to stop. */
static bool goes_on(void *user)
{
    const struct deep_run *r = user;
    const struct ruvllm_train_params *p = r->params->train;
    const struct ruvllm_train_progress told = {
        .struct_size = sizeof(told), .n_epochs = p->n_epochs, .loss = NAN, .held_out = NAN, .held_out_before = NAN};

    return !p->on_progress || p->on_progress(p->user, &told);
}

static ruvllm_status read_events(struct deep_run *r, struct ruvllm_error *err)
{
    const struct rv_learner_config *c = rv_learner_made_with(r->learner);
    struct rv_deep_events_config config = {.store = c->store,
                                           .tenant = r->tenant,
                                           .model = c->model,
                                           .n_vocab = r->engine->model->hparams.n_vocab,
                                           .n_dims = r->engine->model->hparams.n_embd,
                                           .max_tokens = r->params->train->max_tokens};
    struct ruvllm_error trouble;
    ruvllm_status rc;

    if (!c->store)
        return rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_SONA,
                            "without a store there is no log to learn from");
    rc = rv_deep_events_init(&r->events, &config, err);
    if (rc)
        return rc;
    r->report->n_votes = r->events.n_votes;
    r->report->n_corrections = r->events.n_corrections;
    r->report->n_pairs = r->events.n_pairs;
    r->report->n_unused = r->events.n_unused;
    if (r->events.n < LEAST_EVENTS)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA,
                            "there is too little to learn from: %zu votes, corrections and pairs that say something, "
                            "and %d are needed",
                            r->events.n, LEAST_EVENTS);
    rc = rv_own_texts_get(&r->own, r->engine, c->store, c->model, goes_on, r, &trouble);
    if (rc && rc != RUVLLM_CANCELLED && err) // a run that is stopped has not failed
        *err = trouble;
    return rc;
}

/* Events, and the own texts as anchors: every fourth of them guards, up to a number; of the others some an epoch. */
static ruvllm_status list_samples(struct deep_run *r, struct ruvllm_error *err)
{
    int32_t length = r->own.length, n_guard = (r->own.n + GUARD_EVERY - 1) / GUARD_EVERY, n_turns;

    r->n_samples = r->events.n + (size_t)r->own.n;
    r->samples = rv_calloc(r->n_samples, sizeof(*r->samples));
    if (!r->samples)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot list %zu samples", r->n_samples);
    memcpy(r->samples, r->events.items, r->events.n * sizeof(*r->samples));
    if (length > r->params->train->max_tokens)
        length = r->params->train->max_tokens;
    n_guard = n_guard < MAX_GUARD ? n_guard : MAX_GUARD;
    n_turns = (r->own.n - n_guard) / ANCHORS_AT_ONCE;
    for (int32_t i = 0; i < r->own.n; i++)
        r->samples[r->events.n + (size_t)i] = (struct rv_deep_sample){
            .tokens = r->own.tokens + (size_t)i * (size_t)r->own.length,
            .n = length,
            .is_anchor = true,
            .is_guard = i % GUARD_EVERY == 0 && i<n_guard * GUARD_EVERY, .turn = n_turns> 1 ? i % n_turns : 0,
            .n_turns = n_turns > 1 ? n_turns : 0};
    for (size_t i = 0; i < r->events.n; i++)
        for (int32_t t = 1; t < r->samples[i].n; t++)
            r->report->train.n_tokens += r->samples[i].weights[t] != 0.0f;
    r->report->train.n_samples = (int64_t)r->events.n;
    r->report->train.n_cut = r->events.n_cut;
    return RUVLLM_OK;
}

/* Other ways to ask for what was corrected: new ones each epoch, for a while. */
static ruvllm_status add_variants(struct deep_run *r, struct ruvllm_error *err)
{
    int32_t n_turns = r->train.config.n_epochs < MAX_TURNS ? r->train.config.n_epochs : MAX_TURNS;
    struct rv_deep_variants_config config = {.run = &r->train.config,
                                             .vocab = r->engine->model->vocab,
                                             .n_each = r->params->n_variants * n_turns,
                                             .n_at_once = r->params->n_variants > 0 ? r->params->n_variants : 1};

    return rv_deep_variants_init(&r->all, &config, r->samples, r->n_samples, err);
}

/* ---- the run -------------------------------------------------------------------------------- */

/* Goes on from the run before where the pairs are alike, held by what mattered to it. */
static ruvllm_status go_on(struct deep_run *r, struct ruvllm_error *err)
{
    struct rv_deep_config *c = &r->train.config;
    bool found = false;
    ruvllm_status rc = RUVLLM_OK;

    if (!r->params->is_fresh)
        rc = rv_learner_deep_content(r->learner, r->tenant, &r->before, &found, err);
    if (rc || !found)
        return rc;
    if (r->before.rank != c->rank || r->before.alpha != c->alpha || r->before.parts != c->parts) {
        rv_deep_content_release(&r->before);
        return RUVLLM_OK;
    }
    c->start = r->before.trainable.values;
    if (r->before.fisher) {
        c->center = r->before.trainable.values;
        c->fisher = r->before.fisher;
        c->ewc = r->params->ewc;
    }
    return RUVLLM_OK;
}

static void fill_report(struct deep_run *r, const struct rv_deep_result *result)
{
    struct ruvllm_train_report *t = &r->report->train;

    t->was_resumed = r->train.was_resumed;
    t->n_steps = result->n_steps;
    t->n_epochs = result->n_epochs;
    t->held_out_before = result->held_out_before;
    t->held_out_after = result->held_out_after;
    t->anchor_kl = result->anchor_kl;
    t->was_stopped = result->was_stopped;
    r->report->forgetting = result->guard_kl / r->own.nll;
}

/* ---- what comes of it ----------------------------------------------------------------------- */

static ruvllm_status measure_fisher(struct deep_run *r, struct rv_deep_content *content, struct ruvllm_error *err)
{
    const struct rv_deep_config *c = &r->train.config;
    struct rv_fisher_config config = {.hparams = c->hparams,
                                      .manifest = c->manifest,
                                      .team = c->team,
                                      .context = c->context,
                                      .max_state_bytes = c->max_state_bytes,
                                      .seed = c->seed,
                                      .keep = c->fisher ? FISHER_KEEP : 0.0f};
    struct rv_fisher_text texts[N_FISHER_TEXTS];
    size_t n = 0;

    content->fisher = rv_calloc(content->trainable.n, sizeof(*content->fisher));
    if (!content->fisher)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu numbers", content->trainable.n);
    if (c->fisher)
        memcpy(content->fisher, c->fisher, content->trainable.n * sizeof(*content->fisher));
    for (size_t i = r->events.n; i < r->n_samples && n < N_FISHER_TEXTS; i++)
        if (!r->samples[i].is_guard) // what the next run holds on to by it would not be measured fairly
            texts[n++] = (struct rv_fisher_text){.tokens = r->samples[i].tokens, .n = r->samples[i].n};
    return rv_fisher_measure(&config, &content->trainable, texts, n, content->fisher, err);
}

static void write_metrics(const struct deep_run *r, char out[512])
{
    const struct ruvllm_deep_report *d = r->report;

    snprintf(
        out, 512,
        "{\"held_out_before\":%.6f,\"held_out_after\":%.6f,\"forgetting\":%.6f,\"votes\":%lld,\"corrections\":%lld,"
        "\"pairs\":%lld,\"steps\":%d}",
        d->train.held_out_before, d->train.held_out_after, d->forgetting, (long long)d->n_votes,
        (long long)d->n_corrections, (long long)d->n_pairs, d->train.n_steps);
}

/* What the run has come to, as bytes. */
static ruvllm_status write_result(struct deep_run *r, struct ruvllm_error *err)
{
    const struct rv_deep_config *c = &r->train.config;
    struct rv_deep_content content = {.rank = c->rank,
                                      .alpha = c->alpha,
                                      .parts = c->parts,
                                      .trainable = *rv_deep_trainable(r->train.deep)}; // borrowed from the run
    ruvllm_status rc = measure_fisher(r, &content, err);

    if (!rc)
        rc = rv_deep_content_write(&content, &r->by.content, err);
    if (!rc)
        rc = rv_deep_distil_names(&r->by.distilled, c, &content.trainable, &r->events, err);
    rv_free(content.fisher);
    return rc;
}

static ruvllm_status publish(struct deep_run *r, struct ruvllm_error *err)
{
    struct rv_learner_result result;
    char metrics[512];
    ruvllm_status rc;

    write_metrics(r, metrics);
    r->by.metrics = metrics;
    r->by.applied_seq = r->events.last_seq;
    r->by.generation = r->events.generation;
    r->by.n_taught = r->events.n_taught;
    rc = rv_learner_deepen(r->learner, r->tenant, &r->by, &result, err);
    if (rc)
        return rc;
    r->report->n_distilled = (int64_t)(r->by.distilled.len / sizeof(uint64_t));
    r->report->train.was_written = true;
    r->report->generation = result.generation;
    r->report->sequence = result.seq;
    return RUVLLM_OK;
}

static ruvllm_status train(struct deep_run *r, struct ruvllm_error *err)
{
    struct rv_deep_config *c = &r->train.config;
    struct rv_deep_result result = {0};
    ruvllm_status rc =
        rv_team_open(&c->team, rv_train_run_n_threads(r->params->train->n_threads), r->params->is_idle, err);

    if (rc)
        return rc;
    rc = add_variants(r, err);
    if (!rc)
        rc = rv_train_run_go(&r->train, r->all.items, r->all.n, &result, err);
    if (!rc)
        fill_report(r, &result);
    if (!rc && !result.was_stopped && result.best_epoch >= 0)
        rc = write_result(r, err);
    rv_deep_close(r->train.deep);
    rv_team_close(c->team);
    return rc;
}

static void *train_aside(void *user)
{
    struct deep_run *r = user;

#ifdef SCHED_IDLE
    /* Without it the work is done all the same, only less politely. */
    (void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &(struct sched_param){0});
#endif
    r->rc = train(r, r->err);
    return NULL;
}

/*
 * On a thread of its own, because priority once given up does not come back. It computes and does nothing else: who
 * would wait for a lock of its, a tenant's or the store's, would wait until the machine has nothing to do.
 */
static ruvllm_status train_idle(struct deep_run *r, struct ruvllm_error *err)
{
    pthread_t thread;
    int rc;

    r->err = err;
    rc = pthread_create(&thread, NULL, train_aside, r);
    if (rc)
        return rv_fail_errno(err, rc, "cannot start a thread for training");
    pthread_join(thread, NULL);
    return r->rc;
}

/* A run whose result would be refused need not begin. */
static ruvllm_status check_paused(const struct deep_run *r, struct ruvllm_error *err)
{
    struct rv_learner_summary sum;
    ruvllm_status rc = rv_learner_sum_up(r->learner, r->tenant, &sum, err);

    return rc || !sum.is_paused ? rc
                                : rv_fail_kind(err, RUVLLM_CONFLICT, RUVLLM_ERROR_SONA,
                                               "learning is paused for this tenant: resume it first");
}

static ruvllm_status run_all(struct deep_run *r, struct ruvllm_error *err)
{
    ruvllm_status rc = check_paused(r, err);

    if (rc)
        return rc;
    rc = read_events(r, err);
    if (rc == RUVLLM_CANCELLED) {
        r->report->train.was_stopped = true;
        return RUVLLM_OK;
    }
    if (!rc)
        rc = list_samples(r, err);
    if (!rc)
        rc = go_on(r, err);
    if (rc)
        return rc;
    r->train.config.max_guard_kl = (float)((double)r->params->max_forgetting * r->own.nll);
    rc = r->params->is_idle ? train_idle(r, err) : train(r, err);
    if (!rc && r->by.content.len)
        rc = publish(r, err);
    /* What was undone is no more in a file than it is in the store. */
    if (rc ? rc == RUVLLM_CONFLICT : !r->report->train.was_stopped)
        rv_train_run_finish(&r->train);
    return rc;
}

ruvllm_status rv_engine_deep_run(struct ruvllm_engine *engine, const char *tenant,
                                 const struct ruvllm_deep_params *params, struct ruvllm_deep_report *report,
                                 struct ruvllm_error *err)
{
    struct deep_run r = {
        .engine = engine, .tenant = tenant && *tenant ? tenant : "default", .params = params, .report = report};
    ruvllm_status rc = rv_engine_learn_get(engine, &r.learner, err);

    report->forgetting = NAN;
    report->train.held_out_before = report->train.held_out_after = report->train.anchor_kl = NAN;
    if (!rc && !(params->max_forgetting > 0.0f && params->ewc >= 0.0f))
        rc = rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG,
                          "'max_forgetting' must be above 0 and 'ewc' at least 0");
    if (!rc && (params->n_variants < 0 || params->n_variants > MAX_AT_ONCE))
        rc = rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG, "'n_variants' must be 0 to %d", MAX_AT_ONCE);
    if (!rc)
        rc = rv_train_run_init(&r.train, engine->model, params->train, err);
    if (!rc && params->train->step_size == 0.0f)
        r.train.config.adamw.step = rv_deep_suited_step(&engine->model->hparams);
    r.train.may_begin_anew = true;
    if (!rc)
        rc = run_all(&r, err);
    rv_free((char *)(uintptr_t)r.by.content.data);
    rv_free((char *)(uintptr_t)r.by.distilled.data);
    rv_deep_events_release(&r.events);
    rv_own_texts_release(&r.own);
    rv_deep_content_release(&r.before);
    rv_deep_variants_release(&r.all);
    rv_free(r.samples);
    return rc;
}
