#include "server/learning_starter.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { FIRST_WAIT_S = 5, LONGEST_WAIT_S = 60, STALLED_S = 600, MAX_WAITING = 4 };

/* A model that prepares; guarded by the lock, but for the stage. */
struct entry {
    _Atomic int stage;
    _Atomic bool is_whole; // nothing is left to prepare: learning may be on before that
    bool is_wanted;
    int32_t wait_s; // after the next failure
    int64_t next_us;
};

struct rv_learning_starter {
    struct rv_model_set *models;
    struct rv_access_log *log;
    struct ruvllm_learn_params params;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    _Atomic bool is_closing; // changed under the lock
    int32_t n_waiting;       // for a stage to come; guarded by lock
    struct {                 // the thread's: what it prepares
        size_t i_model;
        ruvllm_engine *engine;
        float done; // of it, and since when it is as much
        int64_t done_us;
    } now;
    struct entry entries[RV_MODEL_SET_MAX];
};

static void say(struct rv_learning_starter *s, const char *level, size_t i_model, const char *what, const char *why)
{
    char text[sizeof(((struct ruvllm_error *)NULL)->message) + RV_MODEL_SET_NAME + 160];

    snprintf(text, sizeof(text), "the model '%s' %s%s%s", rv_model_set_name(s->models, i_model), what, *why ? ": " : "",
             why);
    rv_access_log_message(s->log, level, text);
}

/* ---- beginning ----------------------------------------------------------------------------------------- */

static bool not_now(void *user, float fraction)
{
    (void)user;
    (void)fraction;
    return false;
}

/* With a lease of the engine, which feedback teaches. */
static void turn_on(struct rv_learning_starter *s, size_t i_model)
{
    if (atomic_exchange(&s->entries[i_model].stage, RV_LEARNING_ON) == RV_LEARNING_ON)
        return;
    say(s, "info", i_model, "learns from now on", "");
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* Until others need the model's memory, or its engine has so much to do that another model may rather come. */
static bool goes_on(void *user, float fraction)
{
    struct rv_learning_starter *s = user;

    if (fraction > s->now.done) {
        s->now.done = fraction;
        s->now.done_us = rv_clock_us();
    }
    if (ruvllm_engine_learns(s->now.engine))
        turn_on(s, s->now.i_model);
    return !atomic_load(&s->is_closing) && !rv_model_set_was_short(s->models) &&
           rv_clock_us() - s->now.done_us < (int64_t)STALLED_S * 1000000;
}

/* Nothing would come of another try. */
static bool is_final(ruvllm_status rc)
{
    return rc == RUVLLM_UNSUPPORTED || rc == RUVLLM_INVALID || rc == RUVLLM_TOO_LARGE;
}

static ruvllm_status begin(struct rv_learning_starter *s, size_t i_model, ruvllm_engine *engine,
                           ruvllm_progress_fn on_progress, struct ruvllm_error *err)
{
    struct ruvllm_learn_params params = s->params;
    struct entry *entry = &s->entries[i_model];
    ruvllm_status rc;

    if (!ruvllm_engine_learns(engine)) // it may have been another engine's until now
        atomic_store(&entry->stage, RV_LEARNING_PREPARING);
    params.on_progress = on_progress;
    params.progress_user = s;
    rc = ruvllm_engine_learn(engine, &params, err);
    atomic_store(&entry->is_whole, rc == RUVLLM_OK || is_final(rc));
    if (ruvllm_engine_learns(engine))
        turn_on(s, i_model);
    else if (is_final(rc))
        atomic_store(&entry->stage, RV_LEARNING_OFF);
    if (!rc)
        say(s, "info", i_model, "has all that learning takes", "");
    if (is_final(rc))
        say(s, "warn", i_model,
            ruvllm_engine_learns(engine) ? "learns, but does not go over votes again" : "is served without learning",
            err->message);
    return rc;
}

void rv_learning_starter_try(struct rv_learning_starter *starter, size_t i_model, ruvllm_engine *engine)
{
    struct ruvllm_error err = {0};
    ruvllm_status rc = begin(starter, i_model, engine, not_now, &err);

    if (rc && !is_final(rc) && rc != RUVLLM_CANCELLED)
        say(starter, "warn", i_model, "cannot begin to learn yet", err.message);
}

void rv_learning_starter_go_on(struct rv_learning_starter *starter, size_t i_model)
{
    struct entry *entry = &starter->entries[i_model];

    pthread_mutex_lock(&starter->lock);
    entry->is_wanted = !atomic_load(&entry->is_whole);
    entry->wait_s = FIRST_WAIT_S;
    entry->next_us = 0;
    pthread_cond_broadcast(&starter->changed);
    pthread_mutex_unlock(&starter->lock);
}

enum rv_learning_stage rv_learning_starter_stage(const struct rv_learning_starter *starter, size_t i_model)
{
    return (enum rv_learning_stage)atomic_load(&starter->entries[i_model].stage);
}

/* Under the lock. */
static void wait_until(struct rv_learning_starter *s, int64_t us)
{
    int64_t wait = us - rv_clock_us();
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += wait / 1000000;
    until.tv_nsec += wait % 1000000 * 1000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&s->changed, &s->lock, &until);
}

enum rv_learning_stage rv_learning_starter_await(struct rv_learning_starter *starter, size_t i_model, int32_t wait_ms)
{
    int64_t until = rv_clock_us() + (int64_t)wait_ms * 1000;

    pthread_mutex_lock(&starter->lock);
    starter->n_waiting++;
    while (rv_learning_starter_stage(starter, i_model) == RV_LEARNING_PREPARING && rv_clock_us() < until &&
           starter->n_waiting <= MAX_WAITING && !atomic_load(&starter->is_closing))
        wait_until(starter, until);
    starter->n_waiting--;
    pthread_mutex_unlock(&starter->lock);
    return rv_learning_starter_stage(starter, i_model);
}

/* ---- the thread: under the lock unless said otherwise --------------------------------------------------- */

/* With a lease of the engine: what the stage is nobody else changes. */
static ruvllm_status work(struct rv_learning_starter *s, size_t i_model, ruvllm_engine *engine)
{
    struct ruvllm_error err = {0};
    ruvllm_status rc;

    if (atomic_load(&s->entries[i_model].is_whole)) // it was unloaded, and loaded again
        return RUVLLM_OK;
    say(s, "info", i_model, "prepares to learn, beside its answers", "");
    s->now.i_model = i_model;
    s->now.engine = engine;
    s->now.done = 0;
    s->now.done_us = rv_clock_us();
    rc = begin(s, i_model, engine, goes_on, &err);
    if (rc && !is_final(rc) && !atomic_load(&s->is_closing))
        say(s, "warn", i_model,
            ruvllm_engine_learns(engine) ? "learns, but does not go over votes again yet, which is tried again"
                                         : "cannot begin to learn yet, which is tried again",
            err.message);
    return rc;
}

/* Unlocks while it works. A model that was unloaded comes again when it is loaded. */
static void prepare(struct rv_learning_starter *s, size_t i_model)
{
    struct entry *entry = &s->entries[i_model];
    ruvllm_status rc = RUVLLM_OK;
    ruvllm_engine *engine;

    entry->is_wanted = false;
    pthread_mutex_unlock(&s->lock);
    engine = rv_model_set_peek(s->models, i_model);
    if (engine) {
        rc = work(s, i_model, engine);
        rv_model_set_release(s->models, i_model, rc == RUVLLM_OK);
    }
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->changed);
    if (!rc || is_final(rc) || entry->is_wanted)
        return;
    entry->is_wanted = true;
    entry->next_us = rv_clock_us() + (int64_t)entry->wait_s * 1000000;
    entry->wait_s = 2 * entry->wait_s < LONGEST_WAIT_S ? 2 * entry->wait_s : LONGEST_WAIT_S;
}

/* Who is next, and when; NULL: nobody. */
static struct entry *next_of(struct rv_learning_starter *s)
{
    struct entry *best = NULL;

    for (size_t i = 0; i < RV_MODEL_SET_MAX; i++) {
        struct entry *entry = &s->entries[i];

        if (entry->is_wanted && (!best || entry->next_us < best->next_us))
            best = entry;
    }
    return best;
}

static void *run(void *user)
{
    struct rv_learning_starter *s = user;

    pthread_mutex_lock(&s->lock);
    while (!atomic_load(&s->is_closing)) {
        struct entry *entry = next_of(s);

        if (!entry)
            pthread_cond_wait(&s->changed, &s->lock);
        else if (entry->next_us > rv_clock_us())
            wait_until(s, entry->next_us);
        else
            prepare(s, (size_t)(entry - s->entries));
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- life ----------------------------------------------------------------------------------------------- */

ruvllm_status rv_learning_starter_open(struct rv_learning_starter **out, struct rv_model_set *models,
                                       const struct ruvllm_learn_params *params, struct rv_access_log *log,
                                       struct ruvllm_error *err)
{
    struct rv_learning_starter *s = rv_calloc(1, sizeof(*s));
    pthread_condattr_t attributes;
    int rc;

    *out = NULL;
    if (!s)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate what has models learn");
    s->models = models;
    s->log = log;
    s->params = *params;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    rc = pthread_create(&s->thread, NULL, run, s);
    if (rc) {
        pthread_cond_destroy(&s->changed);
        pthread_mutex_destroy(&s->lock);
        rv_free(s);
        return rv_fail_errno(err, rc, "cannot start the thread that has models learn");
    }
    *out = s;
    return RUVLLM_OK;
}

void rv_learning_starter_stop(struct rv_learning_starter *starter)
{
    if (!starter)
        return;
    pthread_mutex_lock(&starter->lock);
    atomic_store(&starter->is_closing, true);
    pthread_cond_broadcast(&starter->changed);
    pthread_mutex_unlock(&starter->lock);
}

void rv_learning_starter_close(struct rv_learning_starter *starter)
{
    if (!starter)
        return;
    rv_learning_starter_stop(starter);
    pthread_join(starter->thread, NULL);
    pthread_cond_destroy(&starter->changed);
    pthread_mutex_destroy(&starter->lock);
    rv_free(starter);
}
