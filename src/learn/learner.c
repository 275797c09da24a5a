#include "learn/learner.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "learn/tenant_checkpoint.h"
#include "store/store_checkpoints.h"
#include "store/store_events.h"

#include <pthread.h>
#include <string.h>

/* An event of which nobody knows whether it is in the log: writing it failed in a way that leaves that open. */
struct doubt {
    bool is_on;
    int64_t until_us; // who comes later means something new
    int64_t seq;      // where it was found later; 0: not yet
    uint8_t uid[RV_STORE_UID_BYTES];
    enum rv_store_event_kind kind;
    uint64_t about; // the answer, or the generation
    double score;
};

struct tenant {
    struct rv_tenant_link link; // first; the rest is guarded by the tenant's own lock
    const char *name;           // the link's
    pthread_mutex_t lock;       // held while an event is written
    bool is_read;               // its log was, to the end
    bool is_behind;             // the log may have more since
    bool is_lost;               // how the state and the log fit together: it is made anew from the log
    bool is_unpublished;        // the state answers only after another try
    bool is_plain;              // nothing but what a checkpoint keeps is in it
    int64_t seq;                // of the last event that is in it
    int64_t n_spooled;          // events in it beyond that, which have no number yet
    int64_t kept_seq;           // of the last checkpoint
    struct doubt doubt;
    struct rv_tenant_learner *state;
    struct rv_adapter *adapter; // what answers; NULL: nothing
    int64_t generation;         // that answers
};

/*
 * A checkpoint is written when this many events are not in the last one: by a busy tenant, and by one that is let go.
 * It costs a write of some hundred kilobytes, and saves reading as many events again.
 */
enum { BUSY_EVENTS = 1024, IDLE_EVENTS = 64 };

static const int64_t DOUBT_US = (int64_t)10 * 60 * 1000000;

struct rv_learner {
    struct rv_learner_config config;
    char *model;
    struct rv_whitening whitening;
    struct rv_trace_ring *traces;
    struct rv_reasoning_bank *bank;
    struct rv_tenant_table *tenants;
};

/* ---- tenants -------------------------------------------------------------------------------- */

static void free_tenant(struct tenant *t)
{
    if (!t)
        return;
    rv_tenant_learner_free(t->state);
    rv_adapter_unref(t->adapter);
    pthread_mutex_destroy(&t->lock);
    rv_free(t);
}

static ruvllm_status new_tenant(void *user, const char *name, struct rv_tenant_link **out, struct ruvllm_error *err)
{
    const struct rv_learner *l = user;
    struct tenant *t = rv_calloc(1, sizeof(*t));
    ruvllm_status rc;

    if (!t)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a tenant");
    pthread_mutex_init(&t->lock, NULL);
    t->name = name;
    t->is_plain = true;
    rc = rv_tenant_learner_new(&t->state, &l->whitening, l->config.rank, err);
    if (rc)
        free_tenant(t);
    else
        *out = &t->link;
    return rc;
}

/* Nobody else has it, or the lock is held. A checkpoint that cannot be written costs time, and nothing else. */
static void keep(const struct rv_learner *l, struct tenant *t, int64_t after_events)
{
    struct ruvllm_error trouble;
    void *bytes;
    size_t len;
    ruvllm_status rc;

    if (!l->config.store || !t->is_read || t->is_behind || t->is_lost || t->n_spooled || !t->is_plain ||
        t->seq - t->kept_seq < after_events || t->state->now.generation == 0)
        return;
    rc = rv_tenant_checkpoint_write(t->state, &bytes, &len, &trouble);
    if (!rc)
        rc = rv_store_checkpoints_put(l->config.store, t->name, l->model, t->seq, bytes, len, &trouble);
    rv_free(bytes);
    t->kept_seq = t->seq; // also after a failure: the next try is as many events away
    if (rc)
        rv_log(RUVLLM_LOG_WARN, "no checkpoint of what was learned for tenant '%s': %.160s", t->name, trouble.message);
}

static void let_go(void *user, struct rv_tenant_link *link, bool is_end)
{
    struct tenant *t = (struct tenant *)link;

    if (!is_end)
        keep(user, t, IDLE_EVENTS);
    free_tenant(t);
}

/* Nobody uses it, so nobody changes it. */
static bool may_go(void *user, const struct rv_tenant_link *link)
{
    const struct tenant *t = (const struct tenant *)link;
    const struct rv_learner *l = user;

    if (t->doubt.is_on && rv_clock_us() < t->doubt.until_us)
        return false; // only memory knows of it
    return t->n_spooled == 0 || !rv_store_events_are_spooled(l->config.store);
}

static const struct rv_tenant_table_ops tenant_ops = {.make = new_tenant, .let_go = let_go, .may_go = may_go};

/* The tenant of a name, made if need be; to be left again. */
static ruvllm_status find_tenant(struct rv_learner *l, const char *name, struct tenant **out, struct ruvllm_error *err)
{
    struct rv_tenant_link *link;
    ruvllm_status rc = rv_tenant_table_take(l->tenants, name && *name ? name : "default", &link, err);

    *out = (struct tenant *)link;
    return rc;
}

static uint64_t bytes_of(const struct tenant *t)
{
    return sizeof(*t) + rv_tenant_learner_n_bytes(t->state) + (t->adapter ? t->adapter->n_bytes : 0);
}

/* Unlocks it as well. */
static void leave_tenant(struct rv_learner *l, struct tenant *t)
{
    uint64_t n_bytes = bytes_of(t);

    pthread_mutex_unlock(&t->lock);
    rv_tenant_table_leave(l->tenants, &t->link, n_bytes);
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

    t->is_unpublished = rc != RUVLLM_OK;
    if (rc)
        return rc;
    rv_adapter_unref(t->adapter);
    t->adapter = adapter;
    t->generation = t->state->now.generation;
    return RUVLLM_OK;
}

/* For an event that is in the log already: it counts, and what cannot be published now is before the next answer. */
static void publish_or_owe(struct rv_learner *l, struct tenant *t)
{
    struct ruvllm_error trouble;

    if (publish(l, t, &trouble))
        rv_log(RUVLLM_LOG_WARN, "what was learned answers later: %.200s", trouble.message);
}

/* ---- the log -------------------------------------------------------------------------------- */

struct replay {
    struct rv_learner *learner;
    struct tenant *tenant;
    ruvllm_status rc;
    struct ruvllm_error err;
};

/* A checkpoint keeps a tenant's state. What these leave elsewhere would be missing: then the whole log is read. */
static bool is_plain(const struct rv_store_event *event)
{
    return event->kind != RV_STORE_EVENT_CORRECTION && event->kind != RV_STORE_EVENT_PAIR &&
           event->kind != RV_STORE_EVENT_DEEP && !event->memory.len;
}

static ruvllm_status apply_event(struct rv_learner *l, struct tenant *t, const struct rv_store_event *event,
                                 struct ruvllm_error *err)
{
    struct rv_tenant_vote vote;
    ruvllm_status rc;

    t->is_plain = t->is_plain && is_plain(event);
    if (event->kind == RV_STORE_EVENT_ROLLBACK && !rv_tenant_learner_has(t->state, event->generation))
        return RUVLLM_OK; // wished for while another process went on: nothing was gone back to, then as now
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
    struct doubt *doubt = &r->tenant->doubt;

    if (strcmp(event->model ? event->model : "", r->learner->model) == 0)
        r->rc = apply_event(r->learner, r->tenant, event, &r->err);
    if (r->rc)
        return false;
    r->tenant->seq = event->seq;
    if (doubt->is_on && memcmp(doubt->uid, event->uid, sizeof(doubt->uid)) == 0)
        doubt->seq = event->seq;
    return true;
}

/* The state of the last checkpoint and its number; NULL when there is none that is of use. */
static ruvllm_status read_checkpoint(struct rv_learner *l, struct tenant *t, struct rv_tenant_learner **out,
                                     int64_t *seq, struct ruvllm_error *err)
{
    struct ruvllm_error trouble = {0};
    void *bytes = NULL;
    size_t len = 0;
    ruvllm_status rc = rv_store_checkpoints_get(l->config.store, t->name, l->model, seq, &bytes, &len, &trouble);

    *out = NULL;
    if (!rc && bytes)
        rc = rv_tenant_checkpoint_read(out, bytes, len, &l->whitening, l->config.rank, &trouble);
    rv_free(bytes);
    if (rc == RUVLLM_FORMAT) { // the log has all of it
        rv_log(RUVLLM_LOG_WARN, "reading the whole log of tenant '%s': %.160s", t->name, trouble.message);
        rc = RUVLLM_OK;
    }
    if (rc && err)
        *err = trouble;
    return rc;
}

/* A state to read the log into: from the last checkpoint, or an empty one. */
static ruvllm_status begin_anew(struct rv_learner *l, struct tenant *t, struct ruvllm_error *err)
{
    struct rv_tenant_learner *state;
    int64_t seq = 0;
    ruvllm_status rc = read_checkpoint(l, t, &state, &seq, err);

    if (rc)
        return rc;
    if (!state) {
        seq = 0;
        rc = rv_tenant_learner_new(&state, &l->whitening, l->config.rank, err);
    }
    if (rc)
        return rc;
    rv_tenant_learner_free(t->state);
    t->state = state;
    t->seq = t->kept_seq = seq;
    t->n_spooled = 0;
    t->is_plain = true;
    t->is_read = t->is_lost = false;
    return RUVLLM_OK;
}

/* Everything the log has beyond what the state has. */
static ruvllm_status read_rest(struct rv_learner *l, struct tenant *t, struct ruvllm_error *err)
{
    struct replay replay = {.learner = l, .tenant = t};
    bool is_all = !rv_store_events_are_spooled(l->config.store); // asked first: it may be delivered meanwhile
    ruvllm_status rc = rv_store_events_replay(l->config.store, t->name, t->seq, on_event, &replay, err);

    if (!rc && replay.rc) {
        rc = replay.rc;
        if (err)
            *err = replay.err;
    }
    if (!rc)
        rc = publish(l, t, err);
    if (!rc) {
        t->is_read = true;
        t->is_behind = !is_all;
        keep(l, t, BUSY_EVENTS);
    }
    return rc;
}

/* Under the tenant's lock: brings it up to the end of its log. */
static ruvllm_status read_log(struct rv_learner *l, struct tenant *t, struct ruvllm_error *err)
{
    bool is_new = !t->is_read && t->seq == 0, is_waiting = false;
    ruvllm_status rc = RUVLLM_OK;

    /* What has no number yet cannot be told from what the log has, before it is delivered. */
    if (t->is_behind && t->n_spooled)
        is_waiting = rv_store_events_are_spooled(l->config.store);
    t->is_lost = t->is_lost || (t->is_behind && t->n_spooled && !is_waiting);
    if (!l->config.store || is_waiting || (t->is_read && !t->is_behind && !t->is_lost)) {
        t->is_read = true;
        return t->is_unpublished ? publish(l, t, err) : RUVLLM_OK;
    }
    if (is_new || t->is_lost)
        rc = begin_anew(l, t, err);
    if (!rc)
        rc = read_rest(l, t, err);
    return rc ? rv_fail_in(err, rc, "cannot read what was learned for tenant '%s'", t->name) : RUVLLM_OK;
}

/* As read_log, for answers: what was read before goes on answering while the log cannot be read. */
static ruvllm_status read_log_or_go_on(struct rv_learner *l, struct tenant *t, struct ruvllm_error *err)
{
    bool was_read = t->is_read;
    struct ruvllm_error trouble;
    ruvllm_status rc = read_log(l, t, &trouble);

    if (rc && was_read && !t->is_unpublished) {
        rv_log(RUVLLM_LOG_WARN, "answering with what was learned so far: %.200s", trouble.message);
        return RUVLLM_OK;
    }
    if (rc && err)
        *err = trouble;
    return rc;
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
    if (rc)
        return rc;
    result->seq = event->seq;
    t->is_plain = t->is_plain && is_plain(event);
    t->n_spooled += event->fate == RV_STORE_EVENT_SPOOLED;
    if (event->fate != RV_STORE_EVENT_SPOOLED)
        t->seq = event->seq;
    return RUVLLM_OK;
}

/* These say for certain that nothing was written. */
static bool leaves_doubt(ruvllm_status rc)
{
    return rc != RUVLLM_NO_SPACE && rc != RUVLLM_BUSY && rc != RUVLLM_INVALID && rc != RUVLLM_TOO_LARGE;
}

/*
 * As append; *is_next tells whether the event follows on what the state has, and so is to be applied. Where it does not
 * (another process wrote in between, or another model of the tenant's), the log is read instead. `about` is what the
 * same wish is known by when it comes again after a failure that leaves open whether the event was written.
 */
static ruvllm_status append_in_order(struct rv_learner *l, struct tenant *t, struct rv_store_event *event,
                                     uint64_t about, bool *is_next, struct rv_learner_result *result,
                                     struct ruvllm_error *err)
{
    int64_t before = t->seq, wanted = t->seq + t->n_spooled + 1;
    struct ruvllm_error trouble;
    ruvllm_status rc = append(l, t, event, result, err);

    *is_next = !rc;
    if (rc && leaves_doubt(rc)) {
        t->doubt = (struct doubt){.is_on = true,
                                  .until_us = rv_clock_us() + DOUBT_US,
                                  .kind = event->kind,
                                  .about = about,
                                  .score = event->score};
        memcpy(t->doubt.uid, event->uid, sizeof(event->uid));
        t->is_behind = true;
    }
    if (rc || !l->config.store || event->fate == RV_STORE_EVENT_SPOOLED)
        return rc;
    if (event->seq == wanted && event->fate == RV_STORE_EVENT_ADDED) {
        t->n_spooled = 0;
        return RUVLLM_OK;
    }
    *is_next = false;
    t->seq = before;
    t->is_lost = t->n_spooled > 0; // which of those that follow are in the state already is not known
    t->is_behind = true;
    if (read_log(l, t, &trouble))
        rv_log(RUVLLM_LOG_WARN, "an event counts later: %.200s", trouble.message);
    return RUVLLM_OK;
}

/* Under the tenant's lock, after its log was read: whether this very wish was in doubt, and turned out to be done. */
static bool was_done(struct tenant *t, enum rv_store_event_kind kind, uint64_t about, double score,
                     struct rv_learner_result *result)
{
    struct doubt doubt = t->doubt;

    if (!doubt.is_on || t->is_behind)
        return false;
    t->doubt.is_on = false;
    if (!doubt.seq || rv_clock_us() >= doubt.until_us || doubt.kind != kind || doubt.about != about ||
        doubt.score != score)
        return false;
    result->seq = doubt.seq;
    result->generation = t->state->now.generation;
    return true;
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
    rc = read_log_or_go_on(learner, t, err);
    if (!rc) {
        *out = t->adapter ? rv_adapter_ref(t->adapter) : NULL;
        *generation = t->generation;
    }
    leave_tenant(learner, t);
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
    leave_tenant(learner, t);
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

void rv_learner_tenants(struct rv_learner *learner, struct rv_tenant_table_stats *out)
{
    rv_tenant_table_stats(learner->tenants, out);
}

/* Under the tenant's lock. Whatever could fail does so before the event is in the log. */
static ruvllm_status vote(struct rv_learner *l, struct tenant *t, const struct rv_trace *trace, double score,
                          struct rv_learner_result *result, struct ruvllm_error *err)
{
    struct rv_store_event event = {.kind = RV_STORE_EVENT_VOTE, .score = score, .generation = trace->generation};
    int64_t start = rv_clock_us();
    struct rv_tenant_vote made = {0};
    struct rv_str bytes = {0};
    bool is_next = false;
    ruvllm_status rc = rv_tenant_learner_weigh(t->state, trace, score, &made, err);

    if (!rc)
        rc = rv_tenant_learner_write_vote(&made, l->whitening.n_dims, &bytes, err);
    if (!rc)
        rc = rv_tenant_learner_make_room(t->state, t->state->now.generation + 1, err);
    result->compute_us = rv_clock_us() - start;
    event.delta = bytes;
    if (!rc)
        rc = append_in_order(l, t, &event, trace->id, &is_next, result, err);
    start = rv_clock_us();
    if (!rc && is_next)
        rc = rv_tenant_learner_apply(t->state, &made, err);
    if (!rc && is_next)
        publish_or_owe(l, t);
    result->compute_us += rv_clock_us() - start;
    if (!rc)
        keep(l, t, BUSY_EVENTS);
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
    bool is_new = false;
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
        if (!rc && !was_done(t, RV_STORE_EVENT_VOTE, answer, score, result)) {
            rc = vote(learner, t, trace, score, result, err);
            is_new = rc == RUVLLM_OK;
        }
        leave_tenant(learner, t);
    }
    if (is_new)
        rv_reasoning_bank_note(learner->bank, trace, score, result->seq);
    rv_trace_unref(trace);
    return rc;
}

/* Under the tenant's lock; as vote. */
static ruvllm_status go_back(struct rv_learner *l, struct tenant *t, int64_t generation,
                             struct rv_learner_result *result, struct ruvllm_error *err)
{
    struct rv_store_event event = {.kind = RV_STORE_EVENT_ROLLBACK, .generation = generation};
    int64_t start;
    bool is_next;
    ruvllm_status rc;

    if (!rv_tenant_learner_has(t->state, generation))
        return rv_fail_kind(err, RUVLLM_NOT_FOUND, RUVLLM_ERROR_SONA, "generation %lld is not, or no longer, kept",
                            (long long)generation);
    rc = rv_tenant_learner_make_room(t->state, t->state->now.generation + 1, err);
    if (!rc)
        rc = append_in_order(l, t, &event, (uint64_t)generation, &is_next, result, err);
    if (rc)
        return rc;
    start = rv_clock_us();
    if (is_next)
        rc = rv_tenant_learner_go_back(t->state, generation, err);
    if (!rc && is_next)
        publish_or_owe(l, t);
    result->compute_us = rv_clock_us() - start;
    return rc;
}

ruvllm_status rv_learner_go_back(struct rv_learner *learner, const char *tenant, int64_t generation,
                                 struct rv_learner_result *result, struct ruvllm_error *err)
{
    struct tenant *t;
    ruvllm_status rc = find_tenant(learner, tenant, &t, err);

    *result = (struct rv_learner_result){0};
    if (rc)
        return rc;
    pthread_mutex_lock(&t->lock);
    rc = read_log(learner, t, err);
    if (!rc && !was_done(t, RV_STORE_EVENT_ROLLBACK, (uint64_t)generation, 0, result))
        rc = go_back(learner, t, generation, result, err);
    result->generation = t->state->now.generation;
    leave_tenant(learner, t);
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
    if (!rc) // without a store nobody would come back
        rc = rv_tenant_table_new(&l->tenants, &tenant_ops, l, config->store ? config->tenant_bytes : 0, err);
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
    rv_tenant_table_free(learner->tenants);
    rv_trace_ring_free(learner->traces);
    rv_reasoning_bank_free(learner->bank);
    rv_whitening_release(&learner->whitening);
    rv_free(learner->model);
    rv_free(learner);
}
