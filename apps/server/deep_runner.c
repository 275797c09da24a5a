/* Who runs what is in the header; a run is in the list from its beginning, and is forgotten only after its end. */
#include "server/deep_runner.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { MAX_RUNS = 256 }; // remembered

struct run {
    struct run *next; // guarded by the runner's lock, as `state`
    struct rv_deep_runner_state state;

    /* Settled before its thread starts. */
    struct rv_deep_runner *runner;
    char *tenant;
    ruvllm_engine *engine; // leased
    struct ruvllm_deep_params params;
    struct ruvllm_train_params train;
    _Atomic bool is_unwanted; // nothing hangs on the order: it is looked at again after every step

    /*
     * How far it is, each number for itself: a thread that computes while nothing else does must not hold a lock that
     * others wait for.
     */
    _Atomic int32_t epoch, step, n_steps;
    _Atomic double loss, held_out, held_out_before;
};

struct rv_deep_runner {
    struct rv_model_set *models;
    struct rv_access_log *log;
    pthread_mutex_t lock;
    struct run *runs; // guarded by lock, as the rest; the newest first
    struct run *now;  // under way; NULL: none
    pthread_t thread; // of the last run
    bool has_thread;  // that was not joined yet
    bool is_closing;
};

static void free_run(struct run *run)
{
    rv_free(run->tenant);
    rv_free(run);
}

/* ---- a run, on its thread ------------------------------------------------------------------------ */

static bool on_progress(void *user, const struct ruvllm_train_progress *progress)
{
    struct run *run = user;

    if (progress->step > run->step) // else something was measured, which has no loss of its own
        run->loss = progress->loss;
    run->epoch = progress->epoch;
    run->step = progress->step;
    run->n_steps = progress->n_steps;
    run->held_out_before = progress->held_out_before;
    if (!isnan(progress->held_out)) // once after each epoch
        run->held_out = progress->held_out;
    return !run->is_unwanted;
}

static enum rv_deep_runner_status status_of(const struct ruvllm_deep_report *report)
{
    return report->train.was_stopped   ? RV_DEEP_RUNNER_STOPPED
           : report->train.was_written ? RV_DEEP_RUNNER_DONE
                                       : RV_DEEP_RUNNER_UNCHANGED;
}

static void *work(void *user)
{
    struct run *run = user;
    struct rv_deep_runner *runner = run->runner;
    struct ruvllm_deep_report report = {.struct_size = sizeof(report), .train = {.struct_size = sizeof(report.train)}};
    struct ruvllm_error failure = {0};
    ruvllm_status rc = ruvllm_engine_learn_deep(run->engine, run->tenant, &run->params, &report, &failure);
    char text[sizeof(failure.message) + 160];

    rv_model_set_release(runner->models, run->state.i_model, true);
    if (rc) {
        snprintf(text, sizeof(text), "a training run of tenant '%.64s' failed: %s", run->tenant, failure.message);
        rv_access_log_message(runner->log, "warn", text);
    }
    pthread_mutex_lock(&runner->lock);
    run->state.report = report;
    run->state.failure = failure;
    run->state.status = rc ? RV_DEEP_RUNNER_FAILED : status_of(&report);
    run->state.ended_us = rv_clock_unix_us();
    runner->now = NULL;
    pthread_mutex_unlock(&runner->lock);
    return NULL;
}

/* ---- under the lock -------------------------------------------------------------------------------- */

static struct run **find(struct rv_deep_runner *r, const char *tenant)
{
    struct run **at = &r->runs;

    while (*at && strcmp((*at)->tenant, tenant) != 0)
        at = &(*at)->next;
    return at;
}

/* The tenant's run before goes, and the oldest of too many; none is under way. */
static void make_room(struct rv_deep_runner *r, const char *tenant)
{
    struct run **at = find(r, tenant), *old = *at;
    size_t n = 0;

    if (old) {
        *at = old->next;
        free_run(old);
    }
    for (at = &r->runs; *at && n < MAX_RUNS - 1; n++)
        at = &(*at)->next;
    while ((old = *at) != NULL) {
        *at = old->next;
        free_run(old);
    }
}

static ruvllm_status start(struct rv_deep_runner *r, struct run *run, struct ruvllm_error *err)
{
    int rc;

    if (r->has_thread)
        pthread_join(r->thread, NULL); // it has nothing left to do but to return
    r->has_thread = false;
    rc = pthread_create(&r->thread, NULL, work, run);
    if (rc)
        return rv_fail_errno(err, rc, "cannot start a thread for a training run");
    r->has_thread = true;
    make_room(r, run->tenant);
    run->next = r->runs;
    r->runs = r->now = run;
    return RUVLLM_OK;
}

/* ---- doors ----------------------------------------------------------------------------------------- */

static ruvllm_status new_run(struct rv_deep_runner *r, const char *tenant, size_t i_model,
                             const struct ruvllm_deep_params *params, struct run **out, struct ruvllm_error *err)
{
    struct run *run = rv_calloc(1, sizeof(*run));

    *out = NULL;
    if (run)
        run->tenant = rv_strdup(tenant);
    if (!run || !run->tenant) {
        rv_free(run);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a training run");
    }
    run->engine = rv_model_set_peek(r->models, i_model);
    if (!run->engine) {
        free_run(run);
        return rv_fail(err, RUVLLM_BUSY, "the model was unloaded meanwhile: try again");
    }
    run->runner = r;
    run->train = params->train ? *params->train : ruvllm_deep_train_params_default();
    run->train.on_progress = on_progress;
    run->train.user = run;
    run->params = *params;
    run->params.train = &run->train;
    run->params.is_idle = true;
    run->state = (struct rv_deep_runner_state){.i_model = i_model, .started_us = rv_clock_unix_us()};
    run->loss = run->held_out = run->held_out_before = (double)NAN;
    *out = run;
    return RUVLLM_OK;
}

ruvllm_status rv_deep_runner_begin(struct rv_deep_runner *runner, const char *tenant, size_t i_model,
                                   const struct ruvllm_deep_params *params, struct ruvllm_error *err)
{
    struct run *run;
    ruvllm_status rc = new_run(runner, tenant, i_model, params, &run, err);

    if (rc)
        return rc;
    pthread_mutex_lock(&runner->lock);
    if (runner->now || runner->is_closing)
        rc = rv_fail(err, RUVLLM_BUSY, "another training run is under way: try again when it has ended");
    else
        rc = start(runner, run, err);
    pthread_mutex_unlock(&runner->lock);
    if (rc) {
        rv_model_set_release(runner->models, i_model, false);
        free_run(run);
    }
    return rc;
}

ruvllm_status rv_deep_runner_look(struct rv_deep_runner *runner, const char *tenant, struct rv_deep_runner_state *out,
                                  struct ruvllm_error *err)
{
    const struct run *run;

    pthread_mutex_lock(&runner->lock);
    run = *find(runner, tenant);
    if (run) {
        *out = run->state;
        out->progress = (struct ruvllm_train_progress){.epoch = run->epoch,
                                                       .n_epochs = run->train.n_epochs,
                                                       .step = run->step,
                                                       .n_steps = run->n_steps,
                                                       .loss = run->loss,
                                                       .held_out = run->held_out,
                                                       .held_out_before = run->held_out_before};
    }
    pthread_mutex_unlock(&runner->lock);
    return run ? RUVLLM_OK : rv_fail(err, RUVLLM_NOT_FOUND, "no training run was asked for since the server started");
}

ruvllm_status rv_deep_runner_cancel(struct rv_deep_runner *runner, const char *tenant, struct ruvllm_error *err)
{
    struct run *run;

    pthread_mutex_lock(&runner->lock);
    run = *find(runner, tenant);
    if (run)
        run->is_unwanted = true;
    pthread_mutex_unlock(&runner->lock);
    return run ? RUVLLM_OK : rv_fail(err, RUVLLM_NOT_FOUND, "no training run was asked for since the server started");
}

/* ---- life ------------------------------------------------------------------------------------------ */

ruvllm_status rv_deep_runner_open(struct rv_deep_runner **out, struct rv_model_set *models, struct rv_access_log *log,
                                  struct ruvllm_error *err)
{
    struct rv_deep_runner *r = rv_calloc(1, sizeof(*r));

    *out = r;
    if (!r)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate what keeps training runs");
    r->models = models;
    r->log = log;
    pthread_mutex_init(&r->lock, NULL);
    return RUVLLM_OK;
}

void rv_deep_runner_close(struct rv_deep_runner *runner)
{
    bool has_thread;

    if (!runner)
        return;
    pthread_mutex_lock(&runner->lock);
    runner->is_closing = true;
    if (runner->now)
        runner->now->is_unwanted = true;
    has_thread = runner->has_thread;
    pthread_mutex_unlock(&runner->lock);
    if (has_thread)
        pthread_join(runner->thread, NULL);
    while (runner->runs) {
        struct run *run = runner->runs;

        runner->runs = run->next;
        free_run(run);
    }
    pthread_mutex_destroy(&runner->lock);
    rv_free(runner);
}
