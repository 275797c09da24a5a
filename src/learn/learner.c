#include "learn/learner.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str_map.h"
#include "learn/tick_event.h"
#include "store/store_events.h"

#include <pthread.h>
#include <string.h>

struct tenant {
    char *name;
    pthread_mutex_t lock; // guards the rest; held while an event is written
    bool is_read;         // its log was
    int64_t seq;          // of the last event that is in it
    struct rv_tenant_learner *state;
    struct rv_adapter *adapter; // what answers; NULL: nothing
    struct rv_study *study;     // NULL: none yet
    struct tenant *next;
};

enum { N_BUCKETS = 4096, STUDY_BYTES = 8 << 20 };

struct rv_learner {
    struct rv_learner_config config;
    char *model;
    struct rv_whitening whitening;
    struct rv_anchors anchors;
    struct rv_background *background; // NULL: none
    struct rv_trace_ring *traces;
    pthread_mutex_t lock;
    struct tenant *tenants[N_BUCKETS]; // guarded by lock; they stay
};

/* ---- tenants -------------------------------------------------------------------------------- */

static void free_tenant(struct tenant *t)
{
    if (!t)
        return;
    rv_tenant_learner_free(t->state);
    rv_study_unref(t->study);
    rv_adapter_unref(t->adapter);
    pthread_mutex_destroy(&t->lock);
    rv_free(t->name);
    rv_free(t);
}

static ruvllm_status new_tenant(struct tenant **out, const struct rv_learner *l, const char *name,
                                struct ruvllm_error *err)
{
    struct tenant *t = rv_calloc(1, sizeof(*t));
    ruvllm_status rc;

    *out = NULL;
    if (!t)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a tenant");
    pthread_mutex_init(&t->lock, NULL);
    t->name = rv_strndup(name, strlen(name));
    rc = t->name ? rv_tenant_learner_new(&t->state, &l->whitening, l->config.rank, err)
                 : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a tenant");
    if (rc) {
        free_tenant(t);
        return rc;
    }
    *out = t;
    return RUVLLM_OK;
}

/* The tenant of a name, made if need be. */
static ruvllm_status find_tenant(struct rv_learner *l, const char *name, struct tenant **out, struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;
    struct tenant *t, **bucket;

    name = name && *name ? name : "default";
    bucket = &l->tenants[rv_str_map_hash(0, name, strlen(name)) % N_BUCKETS];
    pthread_mutex_lock(&l->lock);
    for (t = *bucket; t && strcmp(t->name, name) != 0; t = t->next)
        ;
    if (!t) {
        rc = new_tenant(&t, l, name, err);
        if (!rc) {
            t->next = *bucket;
            *bucket = t;
        }
    }
    pthread_mutex_unlock(&l->lock);
    *out = t;
    return rc;
}

/* ---- what answers --------------------------------------------------------------------------- */

struct numbers {
    const struct rv_head_adapter *from;
    float *b; // [n_dims][pairs]
};

static ruvllm_status give_numbers(void *user, int32_t layer, enum rv_part part, struct rv_adapter_numbers *out,
                                  struct ruvllm_error *err)
{
    const struct numbers *n = user;

    (void)layer;
    (void)part;
    (void)err;
    *out = (struct rv_adapter_numbers){.a = n->from->a, .b = n->b};
    return RUVLLM_OK;
}

/* The adapter of a state, as requests use it; *out is NULL for one that changes nothing. */
static ruvllm_status make_adapter(const struct rv_learner *l, const struct rv_head_adapter *from,
                                  struct rv_adapter **out, struct ruvllm_error *err)
{
    size_t pairs = (size_t)from->n_pairs, dims = (size_t)from->n_dims;
    struct rv_adapter_shape shape = {
        .hparams = l->config.hparams, .manifest = l->config.manifest, .head_rank = from->n_pairs, .head_scale = 1};
    struct numbers numbers = {.from = from};
    ruvllm_status rc;

    *out = NULL;
    if (pairs == 0)
        return RUVLLM_OK;
    numbers.b = rv_realloc_array(NULL, pairs * dims, sizeof(*numbers.b));
    if (!numbers.b)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an adapter");
    for (size_t i = 0; i < pairs; i++) {
        for (size_t d = 0; d < dims; d++)
            numbers.b[d * pairs + i] = from->b[i * dims + d];
    }
    rc = rv_adapter_new(out, &shape, give_numbers, &numbers, err);
    rv_free(numbers.b);
    return rc;
}

/* Under the tenant's lock: what the state now says answers from here on. */
static ruvllm_status publish(struct rv_learner *l, struct tenant *t, struct ruvllm_error *err)
{
    struct rv_adapter *adapter;
    ruvllm_status rc = make_adapter(l, &t->state->now.adapter, &adapter, err);

    if (rc)
        return rc;
    rv_adapter_unref(t->adapter);
    t->adapter = adapter;
    return RUVLLM_OK;
}

/* ---- the log -------------------------------------------------------------------------------- */

struct replay {
    struct rv_learner *learner;
    struct tenant *tenant;
    ruvllm_status rc;
    struct ruvllm_error err;
};

static ruvllm_status apply_event(struct rv_learner *l, struct tenant *t, const struct rv_store_event *event,
                                 struct ruvllm_error *err)
{
    struct rv_tenant_vote vote;
    ruvllm_status rc;

    if (event->kind == RV_STORE_EVENT_ROLLBACK)
        return rv_tenant_learner_go_back(t->state, event->generation, err);
    if (event->kind == RV_STORE_EVENT_TICK || event->kind == RV_STORE_EVENT_GATE)
        return rv_tick_event_apply(t->state, event->result, err);
    if (event->kind != RV_STORE_EVENT_VOTE || event->is_forgotten)
        return RUVLLM_OK;
    rc = rv_tenant_learner_read_vote(&vote, l->whitening.n_dims, event->score, event->delta, err);
    if (!rc)
        rc = rv_tenant_learner_apply(t->state, &vote, err);
    rv_tenant_learner_release_vote(&vote);
    return rc;
}

static bool on_event(void *user, const struct rv_store_event *event)
{
    struct replay *r = user;

    if (strcmp(event->model ? event->model : "", r->learner->model) == 0)
        r->rc = apply_event(r->learner, r->tenant, event, &r->err);
    if (!r->rc)
        r->tenant->seq = event->seq;
    return !r->rc;
}

/* Under the tenant's lock: brings it up to the end of its log, the first time. */
static ruvllm_status read_log(struct rv_learner *l, struct tenant *t, struct ruvllm_error *err)
{
    struct replay replay = {.learner = l, .tenant = t};
    ruvllm_status rc = RUVLLM_OK;

    if (t->is_read || !l->config.store) {
        t->is_read = true;
        return RUVLLM_OK;
    }
    rc = rv_store_events_replay(l->config.store, t->name, t->seq, on_event, &replay, err);
    if (!rc && replay.rc) {
        rc = replay.rc;
        if (err)
            *err = replay.err;
    }
    if (!rc)
        rc = publish(l, t, err);
    t->is_read = rc == RUVLLM_OK;
    return rc ? rv_fail_in(err, rc, "cannot read what was learned for tenant '%s'", t->name) : RUVLLM_OK;
}

/* Writes the event and waits for the disk. */
static ruvllm_status append(struct rv_learner *l, struct tenant *t, struct rv_store_event *event,
                            struct rv_learner_result *result, struct ruvllm_error *err)
{
    int64_t start = rv_clock_us();
    ruvllm_status rc;

    if (!l->config.store)
        return RUVLLM_OK;
    event->tenant = t->name;
    event->model = l->model;
    rc = rv_store_events_append(l->config.store, event, 1, err);
    result->commit_us = rv_clock_us() - start;
    result->seq = event->seq;
    t->seq = rc ? t->seq : event->seq;
    return rc;
}

/* ---- doors ---------------------------------------------------------------------------------- */

ruvllm_status rv_learner_current(struct rv_learner *learner, const char *tenant, struct rv_adapter **out,
                                 int64_t *generation, struct ruvllm_error *err)
{
    struct tenant *t;
    ruvllm_status rc = find_tenant(learner, tenant, &t, err);

    *out = NULL;
    *generation = 0;
    if (rc)
        return rc;
    pthread_mutex_lock(&t->lock);
    rc = read_log(learner, t, err);
    if (!rc) {
        *out = t->adapter ? rv_adapter_ref(t->adapter) : NULL;
        *generation = t->state->now.generation;
    }
    pthread_mutex_unlock(&t->lock);
    return rc;
}

/* The oldest generation that is kept; 0 when there is none but that. */
static int64_t oldest_of(const struct rv_tenant_learner *state)
{
    int64_t g = state->now.generation;

    while (g > 1 && rv_tenant_learner_has(state, g - 1))
        g--;
    return g;
}

ruvllm_status rv_learner_sum_up(struct rv_learner *learner, const char *tenant, struct rv_learner_summary *out,
                                struct ruvllm_error *err)
{
    struct tenant *t;
    ruvllm_status rc = find_tenant(learner, tenant, &t, err);

    if (rc)
        return rc;
    pthread_mutex_lock(&t->lock);
    rc = read_log(learner, t, err);
    if (!rc)
        *out = (struct rv_learner_summary){.generation = t->state->now.generation,
                                           .n_votes = t->state->now.n_votes,
                                           .mean = t->state->now.mean,
                                           .oldest = oldest_of(t->state),
                                           .spent_kl = t->state->now.spent_kl,
                                           .anchor_kl = t->state->now.anchor_kl,
                                           .n_ticks = t->state->now.n_ticks,
                                           .n_paused = t->state->now.flood.n_paused};
    pthread_mutex_unlock(&t->lock);
    return rc;
}

struct rv_trace_ring *rv_learner_traces(struct rv_learner *learner)
{
    return learner->traces;
}

/* ---- between votes -------------------------------------------------------------------------- */

/* Under the tenant's lock: asks for a tick when there is enough new. Not having one is no failure of the vote. */
static void ask_for_tick(struct rv_learner *l, struct tenant *t)
{
    struct rv_background_job *job;
    struct ruvllm_error err;

    if (t->study->n_new < RV_BACKGROUND_EVERY || t->study->is_busy)
        return;
    if (rv_background_job_new(&job, t->name, t->study, &t->state->now.adapter, &err)) {
        rv_log(RUVLLM_LOG_WARN, "no tick for tenant '%s': %s", t->name, err.message);
        return;
    }
    job->generation = t->state->now.generation;
    job->mean = t->state->now.mean;
    t->study->n_new = 0;
    t->study->is_busy = true;
    rv_background_ask(l->background, job);
}

/* Under the tenant's lock: an answer that was voted on is remembered, to be gone over again. */
static void remember(struct rv_learner *l, struct tenant *t, const struct rv_trace *trace,
                     const struct rv_tenant_vote *made)
{
    ruvllm_status rc = RUVLLM_OK;
    struct ruvllm_error err;

    if (!l->background || t->state->now.flood.n_paused > 0)
        return;
    if (!t->study)
        rc = rv_study_new(&t->study, &l->whitening, STUDY_BYTES, &err);
    if (!rc)
        rc =
            rv_rehearsal_add(&t->study->rehearsal, trace, made->score, made->advantage, t->state->now.generation, &err);
    if (rc) {
        rv_log(RUVLLM_LOG_WARN, "an answer of tenant '%s' will not be gone over again: %s", t->name, err.message);
        return;
    }
    t->study->n_new++;
    ask_for_tick(l, t);
}

/* Under the tenant's lock: an event of the background loop goes the way of all others. Takes over the bytes. */
static ruvllm_status record(struct rv_learner *l, struct tenant *t, struct rv_store_event *event, struct rv_str bytes,
                            struct ruvllm_error *err)
{
    struct rv_learner_result result = {0};
    ruvllm_status rc;

    event->result = bytes;
    event->generation = t->state->now.generation;
    rc = append(l, t, event, &result, err);
    if (!rc)
        rc = rv_tick_event_apply(t->state, bytes, err);
    if (!rc)
        rc = publish(l, t, err);
    rv_free((char *)(uintptr_t)bytes.data);
    return rc;
}

/* Under the tenant's lock: when votes became a flood, back to before, and nothing is learned for a while. */
static void heed_alarm(struct rv_learner *l, struct tenant *t)
{
    static const char reason[] = "votes became all alike: learning pauses";
    struct rv_store_event event = {.kind = RV_STORE_EVENT_GATE, .reason = {.data = reason, .len = sizeof(reason) - 1}};
    struct rv_tick_result nothing = {0};
    struct rv_str bytes;
    struct ruvllm_error err;
    int64_t since;
    ruvllm_status rc;

    if (!rv_flood_rings(&t->state->now.flood, &since))
        return;
    rc = rv_tick_event_write_gate(RV_TICK_EVENT_PAUSED, &nothing, since, &bytes, &err);
    if (!rc)
        rc = record(l, t, &event, bytes, &err);
    if (rc) // it rings again with the next vote
        rv_log(RUVLLM_LOG_WARN, "cannot pause learning of tenant '%s': %s", t->name, err.message);
    else if (t->study)
        rv_rehearsal_drop_after(&t->study->rehearsal, since);
}

/* Under the tenant's lock: what a tick came to. */
static ruvllm_status settle(struct rv_learner *l, struct tenant *t, const struct rv_background_job *job,
                            struct ruvllm_error *err)
{
    bool is_rejected = job->result.verdict == RV_TICK_REJECTED;
    struct rv_store_event event = {.kind = is_rejected ? RV_STORE_EVENT_GATE : RV_STORE_EVENT_TICK};
    struct rv_str bytes;
    ruvllm_status rc;

    if (job->result.verdict == RV_TICK_NOTHING)
        return RUVLLM_OK;
    if (!is_rejected && !rv_tenant_learner_can_tick(t->state, job->generation)) {
        t->study->n_new += RV_BACKGROUND_EVERY; // made again, of what is now
        return RUVLLM_OK;
    }
    rc = is_rejected ? rv_tick_event_write_gate(RV_TICK_EVENT_REJECTED, &job->result, job->generation, &bytes, err)
                     : rv_tick_event_write(&job->made, &job->result, job->generation, &bytes, err);
    return rc ? rc : record(l, t, &event, bytes, err);
}

/* On the background's thread of normal priority. */
static void on_made(void *user, struct rv_background_job *job)
{
    struct rv_learner *l = user;
    struct tenant *t;
    struct ruvllm_error err;
    ruvllm_status rc = find_tenant(l, job->tenant, &t, &err);

    if (!rc) {
        pthread_mutex_lock(&t->lock);
        if (t->study == job->study) { // else it was let go and came back since
            t->study->is_busy = false;
            err = job->err;
            rc = job->rc ? job->rc : settle(l, t, job, &err);
            ask_for_tick(l, t);
        }
        pthread_mutex_unlock(&t->lock);
    }
    if (rc)
        rv_log(RUVLLM_LOG_WARN, "a tick of tenant '%s' came to nothing: %s", job->tenant, err.message);
    rv_background_job_free(job);
}

ruvllm_status rv_learner_study(struct rv_learner *learner, struct rv_anchors *anchors,
                               enum rv_consolidate_strategy strategy, struct ruvllm_error *err)
{
    struct rv_tick_config config = {.manifest = learner->config.manifest,
                                    .hparams = learner->config.hparams,
                                    .whitening = &learner->whitening,
                                    .anchors = &learner->anchors,
                                    .rank = learner->config.rank,
                                    .strategy = strategy,
                                    .budget = RV_TICK_BUDGET};

    rv_anchors_release(&learner->anchors);
    learner->anchors = *anchors;
    *anchors = (struct rv_anchors){0};
    return rv_background_open(&learner->background, &config, on_made, learner, err);
}

/* ---- feedback ------------------------------------------------------------------------------- */

/* Under the tenant's lock. */
static ruvllm_status vote(struct rv_learner *l, struct tenant *t, const struct rv_trace *trace, double score,
                          struct rv_learner_result *result, struct ruvllm_error *err)
{
    struct rv_store_event event = {.kind = RV_STORE_EVENT_VOTE, .score = score, .generation = trace->generation};
    int64_t start = rv_clock_us();
    struct rv_tenant_vote made = {0};
    struct rv_str bytes = {0};
    ruvllm_status rc = rv_tenant_learner_weigh(t->state, trace, score, &made, err);

    if (!rc)
        rc = rv_tenant_learner_write_vote(&made, l->whitening.n_dims, &bytes, err);
    result->compute_us = rv_clock_us() - start;
    event.delta = bytes;
    if (!rc)
        rc = append(l, t, &event, result, err);
    start = rv_clock_us();
    if (!rc)
        rc = rv_tenant_learner_apply(t->state, &made, err);
    if (!rc)
        rc = publish(l, t, err);
    result->compute_us += rv_clock_us() - start;
    if (!rc) {
        remember(l, t, trace, &made);
        heed_alarm(l, t);
    }
    result->advantage = made.advantage;
    result->kl = made.step.kl;
    result->generation = t->state->now.generation;
    rv_free((char *)(uintptr_t)bytes.data);
    rv_tenant_learner_release_vote(&made);
    return rc;
}

ruvllm_status rv_learner_vote(struct rv_learner *learner, const char *tenant, uint64_t answer, double score,
                              struct rv_learner_result *result, struct ruvllm_error *err)
{
    struct rv_trace *trace = rv_trace_ring_find(learner->traces, answer, tenant);
    struct tenant *t;
    ruvllm_status rc;

    *result = (struct rv_learner_result){0};
    if (!trace)
        return rv_fail_kind(err, RUVLLM_NOT_FOUND, RUVLLM_ERROR_SONA,
                            "there is no such answer, or it is too old to learn from");
    rc = find_tenant(learner, tenant, &t, err);
    if (!rc) {
        pthread_mutex_lock(&t->lock);
        rc = read_log(learner, t, err);
        if (!rc)
            rc = vote(learner, t, trace, score, result, err);
        pthread_mutex_unlock(&t->lock);
    }
    rv_trace_unref(trace);
    return rc;
}

ruvllm_status rv_learner_go_back(struct rv_learner *learner, const char *tenant, int64_t generation,
                                 struct rv_learner_result *result, struct ruvllm_error *err)
{
    struct rv_store_event event = {.kind = RV_STORE_EVENT_ROLLBACK, .generation = generation};
    struct tenant *t;
    ruvllm_status rc = find_tenant(learner, tenant, &t, err);

    *result = (struct rv_learner_result){0};
    if (rc)
        return rc;
    pthread_mutex_lock(&t->lock);
    rc = read_log(learner, t, err);
    if (!rc && !rv_tenant_learner_has(t->state, generation))
        rc = rv_fail_kind(err, RUVLLM_NOT_FOUND, RUVLLM_ERROR_SONA, "generation %lld is not, or no longer, kept",
                          (long long)generation);
    if (!rc)
        rc = append(learner, t, &event, result, err);
    if (!rc) {
        int64_t start = rv_clock_us();

        rc = rv_tenant_learner_go_back(t->state, generation, err);
        if (t->study)
            rv_rehearsal_drop_after(&t->study->rehearsal, generation);
        if (!rc)
            rc = publish(learner, t, err);
        result->compute_us = rv_clock_us() - start;
    }
    result->generation = t->state->now.generation;
    pthread_mutex_unlock(&t->lock);
    return rc;
}

/* ---- life ----------------------------------------------------------------------------------- */

ruvllm_status rv_learner_new(struct rv_learner **out, const struct rv_learner_config *config,
                             struct rv_whitening *whitening, struct ruvllm_error *err)
{
    struct rv_learner *l = rv_calloc(1, sizeof(*l));
    ruvllm_status rc = RUVLLM_OK;

    *out = NULL;
    if (!l) {
        rv_whitening_release(whitening);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the learner");
    }
    pthread_mutex_init(&l->lock, NULL);
    l->config = *config;
    l->whitening = *whitening;
    *whitening = (struct rv_whitening){0};
    l->model = rv_strndup(config->model, strlen(config->model));
    if (!l->model)
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the learner");
    if (!rc)
        rc = rv_trace_ring_new(&l->traces, config->trace_bytes, err);
    if (rc) {
        rv_learner_free(l);
        return rc;
    }
    *out = l;
    return RUVLLM_OK;
}

void rv_learner_free(struct rv_learner *learner)
{
    if (!learner)
        return;
    rv_background_close(learner->background);
    for (size_t i = 0; i < N_BUCKETS; i++) {
        while (learner->tenants[i]) {
            struct tenant *t = learner->tenants[i];

            learner->tenants[i] = t->next;
            free_tenant(t);
        }
    }
    rv_trace_ring_free(learner->traces);
    rv_anchors_release(&learner->anchors);
    rv_whitening_release(&learner->whitening);
    pthread_mutex_destroy(&learner->lock);
    rv_free(learner->model);
    rv_free(learner);
}
