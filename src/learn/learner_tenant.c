#include "learn/learner_tenant.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "learn/errata.h"
#include "learn/learner_study.h"
#include "learn/tenant_checkpoint.h"
#include "learn/tick_event.h"
#include "store/store_checkpoints.h"
#include "store/store_events.h"
#include "store/store_learner.h"

#include <string.h>

/*
 * A checkpoint is written when this many events are not in the last one: by a busy tenant, and by one that is let go.
 * It costs a write of some hundred kilobytes, and saves reading as many events again.
 */
enum { BUSY_EVENTS = 1024, IDLE_EVENTS = 64 };

static const int64_t DOUBT_US = (int64_t)10 * 60 * 1000000;

/* ---- in memory or not ----------------------------------------------------------------------- */

static void free_tenant(struct rv_learner_tenant *t)
{
    if (!t)
        return;
    rv_tenant_learner_free(t->state);
    rv_study_unref(t->study);
    rv_learner_release_voice(&t->voice);
    rv_deep_shelf_release(&t->deep);
    pthread_mutex_destroy(&t->voice_lock);
    pthread_mutex_destroy(&t->lock);
    rv_free(t);
}

static ruvllm_status new_tenant(void *user, const char *name, struct rv_tenant_link **out, struct ruvllm_error *err)
{
    const struct rv_learner *l = user;
    struct rv_learner_tenant *t = rv_calloc(1, sizeof(*t));
    ruvllm_status rc;

    if (!t)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a tenant");
    pthread_mutex_init(&t->lock, NULL); // neither can fail with default attributes
    pthread_mutex_init(&t->voice_lock, NULL);
    t->name = name;
    rc = rv_tenant_learner_new(&t->state, &l->whitening, l->config.rank, err);
    if (rc)
        free_tenant(t);
    else
        *out = &t->link;
    return rc;
}

/* Nobody else has it, or the lock is held. A checkpoint that cannot be written costs time, and nothing else. */
static void keep(const struct rv_learner *l, struct rv_learner_tenant *t, int64_t after_events)
{
    struct ruvllm_error trouble;
    void *bytes;
    size_t len;
    ruvllm_status rc;

    if (!l->config.store || !t->is_read || t->is_behind || t->is_lost || t->n_spooled ||
        t->seq - t->kept_seq < after_events || t->state->now.generation == 0)
        return;
    rc = rv_tenant_checkpoint_write(t->state, &bytes, &len, &trouble);
    if (!rc)
        rc = rv_store_checkpoints_put(l->config.store, t->name, l->model, t->seq, t->n_forgotten, bytes, len, &trouble);
    rv_free(bytes);
    t->kept_seq = t->seq; // also after a failure: the next try is as many events away
    if (rc)
        rv_log(RUVLLM_LOG_WARN, "no checkpoint of what was learned for tenant '%s': %.160s", t->name, trouble.message);
}

/*
 * It is out of the table already, so somebody else may have read it again and had something of it forgotten, or another
 * process did: the store knows, and then keeps nothing of it.
 */
static void let_go(void *user, struct rv_tenant_link *link, bool is_end)
{
    struct rv_learner_tenant *t = (struct rv_learner_tenant *)link;
    if (!is_end)
        keep(user, t, IDLE_EVENTS);
    free_tenant(t);
}

/*
 * Nobody uses it, so nobody changes it. While events wait for a database that is away, who goes could not be read
 * again: whoever was read stays. That does not go on for ever, because nobody else can be read meanwhile.
 */
static bool may_go(void *user, const struct rv_tenant_link *link)
{
    const struct rv_learner_tenant *t = (const struct rv_learner_tenant *)link;
    const struct rv_learner *l = user;

    if (t->doubt.is_on && rv_clock_us() < t->doubt.until_us)
        return false; // only memory knows of it
    return !l->config.store || (t->n_spooled == 0 && !t->is_read) || !rv_store_events_are_spooled(l->config.store);
}

const struct rv_tenant_table_ops rv_learner_tenant_ops = {.make = new_tenant, .let_go = let_go, .may_go = may_go};

static ruvllm_status find(struct rv_learner *l, const char *name, struct rv_learner_tenant **out,
                          struct ruvllm_error *err)
{
    struct rv_tenant_link *link;
    ruvllm_status rc = rv_tenant_table_take(l->tenants, name && *name ? name : "default", &link, err);

    *out = rc ? NULL : (struct rv_learner_tenant *)link;
    return rc;
}

ruvllm_status rv_learner_tenant_take(struct rv_learner *learner, const char *name, struct rv_learner_tenant **out,
                                     struct ruvllm_error *err)
{
    ruvllm_status rc = find(learner, name, out, err);

    if (!rc)
        pthread_mutex_lock(&(*out)->lock);
    return rc;
}

struct names {
    char **at;
    size_t n, cap;
};

static void add_name(void *user, struct rv_tenant_link *link)
{
    struct names *names = user;

    if (names->n < names->cap)
        names->at[names->n++] = rv_strdup(link->name);
}

char **rv_learner_tenant_names(struct rv_learner *learner, size_t *n)
{
    struct rv_tenant_table_stats stats;
    struct names names = {0};

    rv_tenant_table_stats(learner->tenants, &stats);
    names.cap = stats.n;
    names.at = rv_calloc(stats.n + 1, sizeof(*names.at));
    if (names.at)
        rv_tenant_table_visit_all(learner->tenants, add_name, &names);
    *n = names.n;
    return names.at;
}

/* Without the tenant's lock; false when something that was acknowledged may be missing. */
static bool hear(struct rv_learner_tenant *t, struct rv_learner_voice *out)
{
    bool is_whole;

    pthread_mutex_lock(&t->voice_lock);
    is_whole = t->is_whole;
    if (is_whole)
        *out = rv_learner_tenant_voice(t);
    pthread_mutex_unlock(&t->voice_lock);
    return is_whole;
}

ruvllm_status rv_learner_tenant_take_or_hear(struct rv_learner *learner, const char *name,
                                             struct rv_learner_tenant **out, struct rv_learner_voice *voice,
                                             struct ruvllm_error *err)
{
    ruvllm_status rc = find(learner, name, out, err);

    if (rc)
        return rc;
    if (hear(*out, voice)) {
        rv_tenant_table_leave_as_it_was(learner->tenants, &(*out)->link);
        *out = NULL;
    } else {
        pthread_mutex_lock(&(*out)->lock);
    }
    return RUVLLM_OK;
}

static uint64_t bytes_of(const struct rv_learner_tenant *t)
{
    return sizeof(*t) + rv_tenant_learner_n_bytes(t->state) + (t->voice.head ? t->voice.head->n_bytes : 0) +
           (t->deep.adapter ? t->deep.adapter->n_bytes : 0) + (t->study ? rv_study_n_bytes(t->study) : 0);
}

/* Whether what answers has all that was acknowledged here. */
static bool has_all(const struct rv_learner_tenant *t)
{
    return !t->is_unpublished && (t->is_outrun || (t->is_read && !t->is_behind && !t->is_lost));
}

void rv_learner_tenant_leave(struct rv_learner *learner, struct rv_learner_tenant *tenant)
{
    uint64_t n_bytes = bytes_of(tenant);

    tenant->known_seq = tenant->seq + tenant->n_spooled;
    pthread_mutex_lock(&tenant->voice_lock);
    tenant->is_whole = has_all(tenant);
    pthread_mutex_unlock(&tenant->voice_lock);
    pthread_mutex_unlock(&tenant->lock);
    rv_tenant_table_leave(learner->tenants, &tenant->link, n_bytes);
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

struct rv_deep_shelf_place rv_learner_tenant_deep_place(const struct rv_learner *learner,
                                                        const struct rv_learner_tenant *tenant)
{
    return (struct rv_deep_shelf_place){.store = learner->config.store,
                                        .tenant = tenant->name,
                                        .model = learner->model,
                                        .hparams = learner->config.hparams,
                                        .manifest = learner->config.manifest};
}

struct rv_learner_voice rv_learner_tenant_voice(const struct rv_learner_tenant *tenant)
{
    struct rv_learner_voice voice = tenant->voice;

    if (voice.head)
        rv_adapter_ref(voice.head);
    if (voice.deep)
        rv_adapter_ref(voice.deep);
    if (voice.memory)
        rv_memory_ref(voice.memory);
    return voice;
}

/* What the state now says answers from here on. */
static ruvllm_status publish(struct rv_learner *l, struct rv_learner_tenant *t, struct ruvllm_error *err)
{
    struct rv_deep_shelf_place place = rv_learner_tenant_deep_place(l, t);
    const struct rv_tenant_state *now = &t->state->now;
    struct rv_learner_voice before = t->voice;
    struct rv_adapter *adapter;
    ruvllm_status rc = make_adapter(l, &now->adapter, &adapter, err);

    if (!rc)
        rc = rv_deep_shelf_set(&t->deep, &place, now->deep, err);
    t->is_unpublished = rc != RUVLLM_OK;
    if (rc) {
        rv_adapter_unref(adapter);
        return rc;
    }
    pthread_mutex_lock(&t->voice_lock);
    t->voice = (struct rv_learner_voice){.head = adapter,
                                         .deep = t->deep.adapter ? rv_adapter_ref(t->deep.adapter) : NULL,
                                         .memory = now->memory ? rv_memory_ref(now->memory) : NULL,
                                         .layers = t->deep.layers,
                                         .generation = now->generation};
    pthread_mutex_unlock(&t->voice_lock);
    rv_learner_release_voice(&before);
    return RUVLLM_OK;
}

void rv_learner_tenant_settle(struct rv_learner *learner, struct rv_learner_tenant *tenant, ruvllm_status applied,
                              const struct ruvllm_error *why)
{
    struct ruvllm_error trouble;
    ruvllm_status rc = applied;

    if (rc) {
        tenant->is_lost = true; // the log has it: it is read from there
        trouble = *why;
    } else {
        rc = publish(learner, tenant, &trouble);
    }
    if (rc)
        rv_log(RUVLLM_LOG_WARN, "what was learned answers later: %.200s", trouble.message);
    else
        keep(learner, tenant, BUSY_EVENTS);
}

/* ---- the log -------------------------------------------------------------------------------- */

struct replay {
    struct rv_learner *learner;
    struct rv_learner_tenant *tenant;
    struct rv_errata errata;
    ruvllm_status rc;
    struct ruvllm_error err;
};

bool rv_learner_tenant_is_taught_by(enum rv_store_event_kind kind)
{
    return kind == RV_STORE_EVENT_VOTE || kind == RV_STORE_EVENT_CORRECTION || kind == RV_STORE_EVENT_PAIR;
}

static ruvllm_status apply_deep(struct rv_learner *l, struct rv_learner_tenant *t, const struct rv_store_event *event,
                                struct ruvllm_error *err)
{
    struct rv_deep_shelf_place place = rv_learner_tenant_deep_place(l, t);
    int64_t number;
    bool is_forgotten;
    ruvllm_status rc = rv_deep_shelf_read_ref(&place, event->delta, &number, &is_forgotten, err);

    if (rc)
        return rc;
    return is_forgotten ? rv_tenant_learner_skip(t->state, err)
                        : rv_tenant_learner_set_deep(t->state, number, event->memory, err);
}

static ruvllm_status apply_taught(struct rv_learner *l, struct rv_learner_tenant *t, const struct rv_store_event *event,
                                  struct ruvllm_error *err)
{
    struct rv_tenant_vote vote;
    ruvllm_status rc = rv_tenant_learner_read_vote(&vote, l->whitening.n_dims, event->score, event->delta, err);

    vote.is_lesson = event->kind != RV_STORE_EVENT_VOTE;
    if (!rc)
        rc = rv_memory_page_read(&vote.keys, l->whitening.n_dims, event->memory, err);
    if (!rc)
        rc = rv_tenant_learner_apply(t->state, &vote, err);
    rv_tenant_learner_release_vote(&vote);
    return rc;
}

/* Somebody else went back: what was voted on here since is not gone over again. Of a log that is read anew it was. */
static void undo_study(struct rv_learner_tenant *t, const struct rv_store_event *event)
{
    int64_t to = event->kind == RV_STORE_EVENT_ROLLBACK ? event->generation
                 : event->kind == RV_STORE_EVENT_GATE   ? rv_tick_event_goes_back_to(event->result)
                                                        : -1;

    if (t->is_read && to >= 0)
        rv_learner_study_undo(t, to);
}

static ruvllm_status apply_event(struct rv_learner *l, struct rv_learner_tenant *t, const struct rv_store_event *event,
                                 struct ruvllm_error *err)
{
    if (event->is_forgotten)
        return rv_tenant_learner_skip(t->state, err);
    if (event->kind == RV_STORE_EVENT_ROLLBACK && !rv_tenant_learner_has(t->state, event->generation)) {
        t->void_seq = event->seq; // wished for while another process went on: nothing was gone back to, then as now
        return RUVLLM_OK;
    }
    undo_study(t, event);
    if (event->kind == RV_STORE_EVENT_ROLLBACK)
        return rv_tenant_learner_go_back(t->state, event->generation, err);
    if (event->kind == RV_STORE_EVENT_DEEP)
        return apply_deep(l, t, event, err);
    if (event->kind == RV_STORE_EVENT_TICK || event->kind == RV_STORE_EVENT_GATE)
        return rv_tick_event_apply(t->state, event->result, err);
    return rv_learner_tenant_is_taught_by(event->kind) ? apply_taught(l, t, event, err) : RUVLLM_OK;
}

static bool on_event(void *user, const struct rv_store_event *event)
{
    struct replay *r = user;
    struct rv_learner_doubt *doubt = &r->tenant->doubt;
    struct rv_store_event plain = *event;
    struct rv_history_note note; // what came of it is found out anew
    bool is_ours = strcmp(event->model ? event->model : "", r->learner->model) == 0;
    int64_t before = r->tenant->state->now.generation;

    rv_history_take_note(&plain.delta, &note);
    if (is_ours)
        r->rc = apply_event(r->learner, r->tenant, &plain, &r->err);
    if (r->rc)
        return false;
    if (is_ours)
        rv_errata_see(&r->errata, event, before, r->tenant->state->now.generation);
    r->tenant->seq = event->seq;
    if (doubt->is_on && memcmp(doubt->uid, event->uid, sizeof(doubt->uid)) == 0)
        doubt->seq = event->seq;
    return true;
}

ruvllm_status rv_learner_tenant_read_pause(struct rv_learner *learner, struct rv_learner_tenant *tenant,
                                           struct ruvllm_error *err)
{
    struct rv_store_look look;
    ruvllm_status rc = rv_store_learner_look(learner->config.store, tenant->name, learner->model, &look, err);

    if (!rc)
        tenant->is_paused = look.is_paused;
    return rc;
}

/* The state of the last checkpoint and its number; NULL when there is none that is of use. */
static ruvllm_status read_checkpoint(struct rv_learner *l, struct rv_learner_tenant *t, struct rv_tenant_learner **out,
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
static ruvllm_status begin_anew(struct rv_learner *l, struct rv_learner_tenant *t, struct ruvllm_error *err)
{
    struct rv_tenant_learner *state;
    struct rv_store_look look;
    uint64_t n_missed = l->n_missed;
    int64_t seq = 0;
    ruvllm_status rc = rv_store_learner_look(l->config.store, t->name, l->model, &look, err); // before all that is read

    if (!rc)
        rc = read_checkpoint(l, t, &state, &seq, err);
    if (rc)
        return rc;
    if (!state) {
        seq = 0;
        rc = rv_tenant_learner_new(&state, &l->whitening, l->config.rank, err);
    }
    if (rc)
        return rc;
    rv_tenant_learner_free(t->state);
    rv_learner_study_drop(t); // made of another reading: what was undone or forgotten since then is not known
    t->state = state;
    t->seq = t->kept_seq = seq;
    t->is_paused = look.is_paused;
    t->n_forgotten = look.n_forgotten;
    t->n_missed = n_missed;
    t->n_spooled = 0;
    t->is_read = t->is_lost = false;
    return RUVLLM_OK;
}

/* Everything the log has beyond what the state has. */
static ruvllm_status read_rest(struct rv_learner *l, struct rv_learner_tenant *t, struct ruvllm_error *err)
{
    struct replay replay = {.learner = l, .tenant = t};
    bool is_all = !rv_store_events_are_spooled(l->config.store); // asked first: it may be delivered meanwhile
    ruvllm_status rc = rv_store_events_replay(l->config.store, t->name, t->seq, on_event, &replay, err);

    rv_errata_write(&replay.errata, l->config.store, t->name);
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
        t->is_outrun = false;
        keep(l, t, BUSY_EVENTS);
    }
    return rc;
}

/*
 * What others did, as far as it was heard: the store is asked, and what it says decides whether anything is read. Of
 * this learner's own events nothing is asked, because their numbers are in the state. While the store is away the
 * tenant goes on as it is, and the next call asks again.
 */
static void heed_news(struct rv_learner *l, struct rv_learner_tenant *t)
{
    uint64_t n_missed = l->n_missed;
    struct ruvllm_error trouble;
    struct rv_store_look look;
    bool had_all = has_all(t);

    if (!t->is_read || (n_missed == t->n_missed && !t->is_changed && t->heard_seq <= t->seq + t->n_spooled))
        return;
    t->is_changed = false;
    t->heard_seq = 0;
    if (rv_store_learner_look(l->config.store, t->name, l->model, &look, &trouble)) {
        t->is_changed = true;
        return;
    }
    t->n_missed = n_missed;
    t->is_paused = look.is_paused;
    t->is_behind = t->is_behind || look.last_seq > t->seq + t->n_spooled;
    if (look.n_forgotten != t->n_forgotten) {
        t->is_lost = true; // it is made of what was forgotten, and so may the study be
        rv_learner_study_drop(t);
    }
    t->is_outrun = had_all && (t->is_behind || t->is_lost);
}

ruvllm_status rv_learner_tenant_read(struct rv_learner *learner, struct rv_learner_tenant *tenant,
                                     struct ruvllm_error *err)
{
    struct rv_learner_tenant *t = tenant;
    struct rv_learner *l = learner;
    bool is_new = !t->is_read && t->seq == 0, is_waiting = false;
    ruvllm_status rc = RUVLLM_OK;

    if (l->config.store)
        heed_news(l, t);
    /* What has no number yet cannot be told from what the log has, before it is delivered. */
    if (t->is_behind && t->n_spooled)
        is_waiting = rv_store_events_are_spooled(l->config.store);
    if (t->is_behind && t->n_spooled && !is_waiting)
        t->is_lost = true;
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

ruvllm_status rv_learner_tenant_read_or_go_on(struct rv_learner *learner, struct rv_learner_tenant *tenant,
                                              struct ruvllm_error *err)
{
    bool was_read = tenant->is_read;
    struct ruvllm_error trouble;
    ruvllm_status rc = rv_learner_tenant_read(learner, tenant, &trouble);

    if (rc && was_read && !tenant->is_unpublished) {
        rv_log(RUVLLM_LOG_WARN, "answering with what was learned so far: %.200s", trouble.message);
        return RUVLLM_OK;
    }
    if (rc && err)
        *err = trouble;
    return rc;
}

ruvllm_status rv_learner_tenant_begin(struct rv_learner *learner, const char *name, struct rv_learner_tenant **out,
                                      struct ruvllm_error *err)
{
    ruvllm_status rc = rv_learner_tenant_take(learner, name, out, err);

    if (rc)
        return rc;
    rc = rv_learner_tenant_read(learner, *out, err);
    if (rc) {
        rv_learner_tenant_leave(learner, *out);
        *out = NULL;
    }
    return rc;
}

/* ---- events --------------------------------------------------------------------------------- */

/* The generation that comes of an event; -1: none, as of a tick that the gate did not let pass. */
static int64_t comes_of(const struct rv_learner_tenant *t, const struct rv_store_event *event)
{
    bool is_none = event->kind == RV_STORE_EVENT_GATE && rv_tick_event_goes_back_to(event->result) < 0;

    return is_none ? -1 : t->state->now.generation + 1;
}

static ruvllm_status append(struct rv_learner *l, struct rv_learner_tenant *t, struct rv_store_event *event,
                            struct rv_learner_result *result, struct ruvllm_error *err)
{
    const struct rv_history_note note = {
        .generation = comes_of(t, event), .advantage = result->advantage, .kl = result->kl, .gain = result->gain};
    const struct rv_str delta = event->delta;
    struct rv_str noted;
    int64_t start = rv_clock_us();
    ruvllm_status rc;

    if (!l->config.store)
        return RUVLLM_OK;
    rc = rv_history_add_note(delta, &note, &noted, err);
    if (rc)
        return rc;
    event->tenant = t->name;
    event->model = l->model;
    event->delta = noted;
    rc = rv_store_events_append(l->config.store, event, 1, err);
    event->delta = delta;
    rv_free((char *)(uintptr_t)noted.data);
    result->commit_us = rv_clock_us() - start;
    if (rc)
        return rc;
    result->seq = event->seq;
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

/* Somebody may wish for it again. What is computed is computed anew, and must not take the place of a wish in doubt. */
static bool is_wish(enum rv_store_event_kind kind)
{
    return rv_learner_tenant_is_taught_by(kind) || kind == RV_STORE_EVENT_ROLLBACK;
}

bool rv_learner_tenant_waits(const struct rv_learner *learner, const struct rv_learner_tenant *tenant)
{
    return learner->config.store && (tenant->n_spooled > 0 || rv_store_events_are_spooled(learner->config.store));
}

ruvllm_status rv_learner_tenant_append(struct rv_learner *learner, struct rv_learner_tenant *tenant,
                                       struct rv_store_event *event, uint64_t about, bool *is_next,
                                       struct rv_learner_result *result, struct ruvllm_error *err)
{
    struct rv_learner_tenant *t = tenant;
    struct rv_learner *l = learner;
    int64_t before = t->seq, wanted = t->seq + t->n_spooled + 1;
    struct ruvllm_error trouble;
    ruvllm_status rc = append(l, t, event, result, err);

    *is_next = !rc;
    t->is_behind = t->is_behind || (rc && leaves_doubt(rc));
    t->is_outrun = t->is_outrun && !(rc && leaves_doubt(rc));
    if (rc && leaves_doubt(rc) && is_wish(event->kind)) {
        t->doubt = (struct rv_learner_doubt){.is_on = true,
                                             .until_us = rv_clock_us() + DOUBT_US,
                                             .kind = event->kind,
                                             .about = about,
                                             .score = event->score};
        memcpy(t->doubt.uid, event->uid, sizeof(event->uid));
    }
    if (rc || !l->config.store || event->fate == RV_STORE_EVENT_SPOOLED)
        return rc;
    if (event->seq == wanted && event->fate == RV_STORE_EVENT_ADDED) {
        t->n_spooled = 0;
        return RUVLLM_OK;
    }
    *is_next = false;
    t->seq = before;
    t->is_lost = t->is_lost || t->n_spooled > 0; // which of those that follow are in the state already is not known
    t->is_behind = true;
    t->is_outrun = false;
    if (rv_learner_tenant_read(l, t, &trouble))
        rv_log(RUVLLM_LOG_WARN, "an event counts later: %.200s", trouble.message);
    return RUVLLM_OK;
}

bool rv_learner_tenant_was_done(struct rv_learner_tenant *tenant, enum rv_store_event_kind kind, uint64_t about,
                                double score, struct rv_learner_result *result)
{
    const struct rv_learner_doubt *doubt = &tenant->doubt;
    bool is_same = doubt->kind == kind && doubt->about == about && doubt->score == score;
    bool is_late = rv_clock_us() >= doubt->until_us;

    if (!doubt->is_on || (tenant->is_behind && !doubt->seq))
        return false;
    tenant->doubt.is_on = doubt->seq && !is_late && !is_same; // another wish leaves it as it is
    if (!doubt->seq || is_late || !is_same)
        return false;
    result->seq = doubt->seq;
    result->generation = tenant->state->now.generation;
    return true;
}
