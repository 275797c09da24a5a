#include "learn/learner.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str_map.h"
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
    struct tenant *next;
};

enum { N_BUCKETS = 4096 };

struct rv_learner {
    struct rv_learner_config config;
    char *model;
    struct rv_whitening whitening;
    struct rv_trace_ring *traces;
    struct rv_reasoning_bank *bank;
    pthread_mutex_t lock;
    struct tenant *tenants[N_BUCKETS]; // guarded by lock; they stay
};

/* ---- tenants -------------------------------------------------------------------------------- */

static void free_tenant(struct tenant *t)
{
    if (!t)
        return;
    rv_tenant_learner_free(t->state);
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
                                           .spent_kl = t->state->now.spent_kl};
    pthread_mutex_unlock(&t->lock);
    return rc;
}

struct rv_trace_ring *rv_learner_traces(struct rv_learner *learner)
{
    return learner->traces;
}

struct rv_reasoning_bank *rv_learner_bank(struct rv_learner *learner)
{
    return learner->bank;
}

const struct rv_whitening *rv_learner_whitening(const struct rv_learner *learner)
{
    return &learner->whitening;
}

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
    if (!rc)
        rv_reasoning_bank_note(learner->bank, trace, score, result->seq);
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
    if (!rc)
        rc = rv_reasoning_bank_new(
            &l->bank,
            &(struct rv_reasoning_bank_config){.store = config->store, .model = l->model, .whitening = &l->whitening},
            err);
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
    for (size_t i = 0; i < N_BUCKETS; i++) {
        while (learner->tenants[i]) {
            struct tenant *t = learner->tenants[i];

            learner->tenants[i] = t->next;
            free_tenant(t);
        }
    }
    rv_trace_ring_free(learner->traces);
    rv_reasoning_bank_free(learner->bank);
    rv_whitening_release(&learner->whitening);
    pthread_mutex_destroy(&learner->lock);
    rv_free(learner->model);
    rv_free(learner);
}
