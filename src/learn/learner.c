#include "learn/learner.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str_map.h"
#include "learn/lesson_tokens.h"
#include "store/store_events.h"
#include "store/store_learner.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct tenant {
    char *name;
    pthread_mutex_t lock; // guards the rest; held while an event is written
    bool is_read;         // its log was
    bool is_paused;       // known once that is so
    int64_t seq;          // of the last event that is in it
    struct rv_tenant_learner *state;
    struct rv_adapter *adapter; // what answers; NULL: nothing
    struct rv_deep_shelf deep;  // what answers below the head
    struct tenant *next;
};

enum { N_BUCKETS = 4096, MAX_WORDS = 2048 }; // of a vote's question and answer in the log: 8 KiB

struct rv_learner {
    struct rv_learner_config config;
    char *model;
    struct rv_whitening whitening;
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
    rv_adapter_unref(t->adapter);
    rv_deep_shelf_release(&t->deep);
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

static struct rv_deep_shelf_place deep_place(const struct rv_learner *l, const struct tenant *t)
{
    return (struct rv_deep_shelf_place){.store = l->config.store,
                                        .tenant = t->name,
                                        .model = l->model,
                                        .hparams = l->config.hparams,
                                        .manifest = l->config.manifest};
}

/* Under the tenant's lock: what the state now says answers from here on. */
static ruvllm_status publish(struct rv_learner *l, struct tenant *t, struct ruvllm_error *err)
{
    struct rv_deep_shelf_place place = deep_place(l, t);
    struct rv_adapter *adapter;
    ruvllm_status rc = make_adapter(l, &t->state->now.adapter, &adapter, err);

    if (!rc)
        rc = rv_deep_shelf_set(&t->deep, &place, t->state->now.deep, err);
    if (rc) {
        rv_adapter_unref(adapter);
        return rc;
    }
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

static ruvllm_status apply_deep(struct rv_learner *l, struct tenant *t, const struct rv_store_event *event,
                                struct ruvllm_error *err)
{
    struct rv_deep_shelf_place place = deep_place(l, t);
    int64_t number;
    ruvllm_status rc = rv_deep_shelf_read_ref(&place, event->delta, &number, err);

    return rc ? rc : rv_tenant_learner_set_deep(t->state, number, event->memory, err);
}

static bool is_taught(enum rv_store_event_kind kind)
{
    return kind == RV_STORE_EVENT_VOTE || kind == RV_STORE_EVENT_CORRECTION || kind == RV_STORE_EVENT_PAIR;
}

static ruvllm_status apply_event(struct rv_learner *l, struct tenant *t, const struct rv_store_event *event,
                                 struct ruvllm_error *err)
{
    struct rv_tenant_vote vote;
    ruvllm_status rc;

    if (event->is_forgotten)
        return rv_tenant_learner_skip(t->state, err);
    if (event->kind == RV_STORE_EVENT_ROLLBACK)
        return rv_tenant_learner_go_back(t->state, event->generation, err);
    if (event->kind == RV_STORE_EVENT_DEEP)
        return apply_deep(l, t, event, err);
    if (!is_taught(event->kind))
        return RUVLLM_OK;
    rc = rv_tenant_learner_read_vote(&vote, l->whitening.n_dims, event->score, event->delta, err);
    vote.is_lesson = event->kind != RV_STORE_EVENT_VOTE;
    if (!rc)
        rc = rv_memory_page_read(&vote.keys, l->whitening.n_dims, event->memory, err);
    if (!rc)
        rc = rv_tenant_learner_apply(t->state, &vote, err);
    rv_tenant_learner_release_vote(&vote);
    return rc;
}

static bool on_event(void *user, const struct rv_store_event *event)
{
    struct replay *r = user;
    struct rv_store_event plain = *event;
    struct rv_history_note note; // what came of it is found out anew

    rv_history_take_note(&plain.delta, &note);
    if (strcmp(event->model ? event->model : "", r->learner->model) == 0)
        r->rc = apply_event(r->learner, r->tenant, &plain, &r->err);
    if (!r->rc)
        r->tenant->seq = event->seq;
    return !r->rc;
}

/* Whether the tenant's learning is paused, as the store has it. */
static ruvllm_status read_pause(struct rv_learner *l, struct tenant *t, struct ruvllm_error *err)
{
    struct rv_store_learner *row = rv_calloc(1, sizeof(*row));
    ruvllm_status rc;

    if (!row)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate where learning stands");
    rc = rv_store_learner_get(l->config.store, t->name, l->model, row, err);
    t->is_paused = !rc && row->is_paused;
    rv_free(row);
    return rc;
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
    rc = read_pause(l, t, err);
    if (!rc)
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

/* Writes the event, with what comes of it, and waits for the disk. CONFLICT for feedback while learning is paused. */
static ruvllm_status append(struct rv_learner *l, struct tenant *t, struct rv_store_event *event,
                            struct rv_learner_result *result, struct ruvllm_error *err)
{
    const struct rv_history_note note = {.generation = t->state->now.generation + 1,
                                         .advantage = result->advantage,
                                         .kl = result->kl,
                                         .gain = result->gain};
    const struct rv_str delta = event->delta;
    struct rv_str noted;
    int64_t start = rv_clock_us();
    ruvllm_status rc;

    if (t->is_paused && is_taught(event->kind))
        return rv_fail_kind(err, RUVLLM_CONFLICT, RUVLLM_ERROR_SONA,
                            "learning is paused for this tenant: resume it first");
    if (!l->config.store)
        return RUVLLM_OK;
    event->tenant = t->name;
    event->model = l->model;
    rc = rv_history_add_note(delta, &note, &noted, err);
    event->delta = noted;
    if (!rc)
        rc = rv_store_events_append(l->config.store, event, 1, err);
    event->delta = delta;
    rv_free((char *)(uintptr_t)noted.data);
    result->commit_us = rv_clock_us() - start;
    result->seq = event->seq;
    t->seq = rc ? t->seq : event->seq;
    return rc;
}

/* ---- doors ---------------------------------------------------------------------------------- */

ruvllm_status rv_learner_current(struct rv_learner *learner, const char *tenant, struct rv_adapter **out,
                                 struct rv_memory **memory, int64_t *generation, struct ruvllm_error *err)
{
    struct tenant *t;
    ruvllm_status rc = find_tenant(learner, tenant, &t, err);

    *out = NULL;
    *memory = NULL;
    *generation = 0;
    if (rc)
        return rc;
    pthread_mutex_lock(&t->lock);
    rc = read_log(learner, t, err);
    if (!rc) {
        *out = t->adapter ? rv_adapter_ref(t->adapter) : NULL;
        *memory = t->state->now.memory ? rv_memory_ref(t->state->now.memory) : NULL;
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
                                           .n_lessons = t->state->now.n_lessons,
                                           .n_keys = rv_memory_n_keys(t->state->now.memory),
                                           .is_paused = t->is_paused};
    pthread_mutex_unlock(&t->lock);
    return rc;
}

const struct rv_learner_config *rv_learner_made_with(const struct rv_learner *learner)
{
    return &learner->config;
}

struct rv_trace_ring *rv_learner_traces(struct rv_learner *learner)
{
    return learner->traces;
}

/* What an event is to be written as, besides its bytes. */
static struct rv_store_event event_of(const struct rv_learner_lesson *lesson)
{
    return (struct rv_store_event){.kind = lesson->kind,
                                   .score = lesson->score,
                                   .generation = lesson->generation,
                                   .prompt = lesson->prompt,
                                   .answer = lesson->answer,
                                   .correction = lesson->correction,
                                   .reason = lesson->reason,
                                   .result = lesson->tokens};
}

static ruvllm_status weigh(struct tenant *t, const struct rv_learner_lesson *lesson, struct rv_tenant_vote *made,
                           struct ruvllm_error *err)
{
    return lesson->kind == RV_STORE_EVENT_VOTE
               ? rv_tenant_learner_weigh(t->state, lesson->lesson.good, lesson->score, made, err)
               : rv_lesson_weigh(t->state, &lesson->lesson, made, err);
}

/* Question and answer of a vote, for deep runs; none when they are long, or nothing outlives the process. */
static ruvllm_status write_words(const struct rv_learner *l, const struct rv_trace *trace, struct rv_str *out,
                                 struct ruvllm_error *err)
{
    struct rv_lesson_tokens tokens = {
        .prompt = trace->prompt, .n_prompt = trace->n_prompt, .good = trace->tokens, .n_good = trace->n_rows};

    if (!l->config.store || !trace->prompt || trace->n_prompt > MAX_WORDS - trace->n_rows)
        return RUVLLM_OK;
    return rv_lesson_tokens_write(&tokens, out, err);
}

/* Under the tenant's lock. */
static ruvllm_status teach(struct rv_learner *l, struct tenant *t, const struct rv_learner_lesson *lesson,
                           struct rv_learner_result *result, struct ruvllm_error *err)
{
    struct rv_store_event event = event_of(lesson);
    int64_t start = rv_clock_us();
    struct rv_tenant_vote made = {0};
    struct rv_str bytes = {0}, keys = {0}, words = {0};
    ruvllm_status rc = weigh(t, lesson, &made, err);

    if (!rc && lesson->kind == RV_STORE_EVENT_VOTE)
        rc = write_words(l, lesson->lesson.good, &words, err);
    if (words.len)
        event.result = words;
    if (!rc)
        rc = rv_tenant_learner_write_vote(&made, l->whitening.n_dims, &bytes, err);
    if (!rc)
        rc = rv_memory_page_write(made.keys, &keys, err);
    result->compute_us = rv_clock_us() - start;
    result->advantage = made.advantage;
    result->kl = made.step.kl;
    result->gain = made.step.gain;
    event.delta = bytes;
    event.memory = keys;
    if (!rc)
        rc = append(l, t, &event, result, err);
    start = rv_clock_us();
    if (!rc)
        rc = rv_tenant_learner_apply(t->state, &made, err);
    if (!rc)
        rc = publish(l, t, err);
    result->compute_us += rv_clock_us() - start;
    result->generation = t->state->now.generation;
    rv_free((char *)(uintptr_t)bytes.data);
    rv_free((char *)(uintptr_t)keys.data);
    rv_free((char *)(uintptr_t)words.data);
    rv_tenant_learner_release_vote(&made);
    return rc;
}

ruvllm_status rv_learner_teach(struct rv_learner *learner, const char *tenant, const struct rv_learner_lesson *lesson,
                               struct rv_learner_result *result, struct ruvllm_error *err)
{
    struct tenant *t;
    ruvllm_status rc = find_tenant(learner, tenant, &t, err);

    *result = (struct rv_learner_result){0};
    if (rc)
        return rc;
    pthread_mutex_lock(&t->lock);
    rc = read_log(learner, t, err);
    if (!rc)
        rc = teach(learner, t, lesson, result, err);
    pthread_mutex_unlock(&t->lock);
    return rc;
}

ruvllm_status rv_learner_vote(struct rv_learner *learner, const char *tenant, uint64_t answer, double score,
                              struct rv_learner_result *result, struct ruvllm_error *err)
{
    struct rv_trace *trace = rv_trace_ring_find(learner->traces, answer, tenant);
    struct rv_learner_lesson lesson = {.kind = RV_STORE_EVENT_VOTE, .score = score, .lesson = {.good = trace}};
    ruvllm_status rc;

    *result = (struct rv_learner_result){0};
    if (!trace)
        return rv_fail_kind(err, RUVLLM_NOT_FOUND, RUVLLM_ERROR_SONA,
                            "there is no such answer, or it is too old to learn from");
    lesson.generation = trace->generation;
    rc = rv_learner_teach(learner, tenant, &lesson, result, err);
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

/* ---- deep runs ------------------------------------------------------------------------------ */

ruvllm_status rv_learner_deep(struct rv_learner *learner, const char *tenant, struct rv_adapter **out, uint64_t *layers,
                              int64_t *generation, struct ruvllm_error *err)
{
    struct tenant *t;
    ruvllm_status rc = find_tenant(learner, tenant, &t, err);

    *out = NULL;
    *layers = 0;
    *generation = 0;
    if (rc)
        return rc;
    pthread_mutex_lock(&t->lock);
    rc = read_log(learner, t, err);
    if (!rc) {
        *out = t->deep.adapter ? rv_adapter_ref(t->deep.adapter) : NULL;
        *layers = t->deep.layers;
        *generation = t->state->now.generation;
    }
    pthread_mutex_unlock(&t->lock);
    return rc;
}

ruvllm_status rv_learner_deep_content(struct rv_learner *learner, const char *tenant, struct rv_deep_content *out,
                                      bool *found, struct ruvllm_error *err)
{
    struct rv_deep_shelf_place place;
    struct tenant *t;
    ruvllm_status rc = find_tenant(learner, tenant, &t, err);

    *found = false;
    if (rc)
        return rc;
    place = deep_place(learner, t);
    pthread_mutex_lock(&t->lock);
    rc = read_log(learner, t, err);
    if (!rc && t->state->now.deep > 0) {
        rc = rv_deep_shelf_content(&place, t->state->now.deep, out, err);
        *found = !rc;
    }
    pthread_mutex_unlock(&t->lock);
    return rc;
}

/* Under the tenant's lock. */
static ruvllm_status deepen(struct rv_learner *l, struct tenant *t, struct rv_store_generation *gen,
                            const struct rv_learner_deepening *by, struct rv_learner_result *result,
                            struct ruvllm_error *err)
{
    struct rv_store_event event = {.kind = RV_STORE_EVENT_DEEP, .generation = t->state->now.generation};
    struct rv_deep_shelf_place place = deep_place(l, t);
    uint8_t ref[RV_DEEP_SHELF_REF_BYTES];
    ruvllm_status rc;

    gen->parent = t->state->now.deep;
    rc = rv_deep_shelf_add(&place, gen, by->content, err);
    if (rc)
        return rc;
    event.delta = rv_deep_shelf_write_ref(gen, ref);
    event.memory = by->distilled;
    event.reason = (struct rv_str){gen->metrics, strlen(gen->metrics)};
    rc = append(l, t, &event, result, err);
    if (!rc)
        rc = rv_tenant_learner_set_deep(t->state, gen->generation, by->distilled, err);
    if (!rc)
        rc = publish(l, t, err);
    result->generation = t->state->now.generation;
    return rc;
}

ruvllm_status rv_learner_deepen(struct rv_learner *learner, const char *tenant, const struct rv_learner_deepening *by,
                                struct rv_learner_result *result, struct ruvllm_error *err)
{
    struct rv_store_generation *gen = rv_calloc(1, sizeof(*gen));
    struct tenant *t;
    ruvllm_status rc;

    *result = (struct rv_learner_result){0};
    if (!gen)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a generation");
    gen->applied_seq = by->applied_seq;
    snprintf(gen->metrics, sizeof(gen->metrics), "%s", by->metrics);
    rc = learner->config.store ? find_tenant(learner, tenant, &t, err)
                               : rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_SONA,
                                              "a deep run's result needs a store to be kept in");
    if (!rc) {
        pthread_mutex_lock(&t->lock);
        rc = read_log(learner, t, err);
        if (!rc)
            rc = deepen(learner, t, gen, by, result, err);
        pthread_mutex_unlock(&t->lock);
    }
    rv_free(gen);
    return rc;
}

/* ---- pausing, forgetting, looking back --------------------------------------------------------- */

/* Under the tenant's lock. */
static ruvllm_status write_pause(struct rv_learner *l, struct tenant *t, bool is_paused, struct ruvllm_error *err)
{
    struct rv_store_learner *row = rv_calloc(1, sizeof(*row));
    ruvllm_status rc;

    if (!row)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate where learning stands");
    rc = rv_store_learner_get(l->config.store, t->name, l->model, row, err);
    row->is_paused = is_paused;
    if (!rc)
        rc = rv_store_learner_put(l->config.store, row, err);
    rv_free(row);
    return rc;
}

ruvllm_status rv_learner_pause(struct rv_learner *learner, const char *tenant, bool is_paused, struct ruvllm_error *err)
{
    struct tenant *t;
    ruvllm_status rc = find_tenant(learner, tenant, &t, err);

    if (rc)
        return rc;
    pthread_mutex_lock(&t->lock);
    rc = read_log(learner, t, err);
    if (!rc && learner->config.store && t->is_paused != is_paused)
        rc = write_pause(learner, t, is_paused, err);
    if (!rc)
        t->is_paused = is_paused;
    pthread_mutex_unlock(&t->lock);
    return rc;
}

struct wanted {
    int64_t seq;
    const char *model;
    bool found;
    bool is_feedback;
    bool is_forgotten;
};

static bool on_wanted(void *user, const struct rv_store_event *event)
{
    struct wanted *w = user;

    if (event->seq == w->seq && strcmp(event->model ? event->model : "", w->model) == 0) {
        w->found = true;
        w->is_feedback = is_taught(event->kind);
        w->is_forgotten = event->is_forgotten;
    }
    return false;
}

/* What was computed from it goes first: a failure in between has lost nothing that is not computed again. */
static ruvllm_status forget_in_store(struct rv_learner *l, struct tenant *t, int64_t seq, struct ruvllm_error *err)
{
    static const enum rv_store_event_kind computed[] = {RV_STORE_EVENT_TICK, RV_STORE_EVENT_DEEP};
    struct wanted wanted = {.seq = seq, .model = l->model};
    ruvllm_status rc = RUVLLM_OK;

    if (seq > 0)
        rc = rv_store_events_replay(l->config.store, t->name, seq - 1, on_wanted, &wanted, err);
    if (!rc && (!wanted.found || wanted.is_forgotten))
        rc = rv_fail_kind(err, RUVLLM_NOT_FOUND, RUVLLM_ERROR_SONA,
                          "there is no event %lld, or it is forgotten already", (long long)seq);
    if (!rc && !wanted.is_feedback)
        rc = rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA,
                          "event %lld is no feedback: there is nothing to forget", (long long)seq);
    for (size_t i = 0; i < sizeof(computed) / sizeof(computed[0]) && !rc; i++)
        rc = rv_store_events_forget_later(l->config.store, t->name, l->model, seq, computed[i], err);
    return rc ? rc : rv_store_events_forget(l->config.store, t->name, seq, err);
}

/* Under the tenant's lock: from here on the tenant is as the log has it, read from its beginning. */
static ruvllm_status read_anew(struct rv_learner *l, struct tenant *t, struct rv_tenant_learner *empty,
                               struct ruvllm_error *err)
{
    rv_tenant_learner_free(t->state);
    t->state = empty;
    t->seq = 0;
    t->is_read = false;
    return read_log(l, t, err);
}

ruvllm_status rv_learner_forget(struct rv_learner *learner, const char *tenant, int64_t seq,
                                struct rv_learner_result *result, struct ruvllm_error *err)
{
    struct rv_tenant_learner *empty = NULL;
    int64_t start = rv_clock_us();
    struct tenant *t;
    ruvllm_status rc = find_tenant(learner, tenant, &t, err);

    *result = (struct rv_learner_result){.seq = seq};
    if (!rc && !learner->config.store)
        rc = rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_SONA,
                          "without a store there is no log to forget from: go back to a generation instead");
    if (!rc)
        rc = rv_tenant_learner_new(&empty, &learner->whitening, learner->config.rank, err);
    if (rc)
        return rc;
    pthread_mutex_lock(&t->lock);
    rc = read_log(learner, t, err);
    if (!rc)
        rc = forget_in_store(learner, t, seq, err);
    result->commit_us = rv_clock_us() - start;
    start = rv_clock_us();
    if (!rc) {
        rc = read_anew(learner, t, empty, err);
        empty = NULL;
    }
    result->compute_us = rv_clock_us() - start;
    result->generation = t->state->now.generation;
    pthread_mutex_unlock(&t->lock);
    rv_tenant_learner_free(empty);
    return rc;
}

ruvllm_status rv_learner_history(struct rv_learner *learner, const char *tenant, int64_t before, size_t max,
                                 struct rv_history *out, struct ruvllm_error *err)
{
    *out = (struct rv_history){0};
    if (!learner->config.store)
        return rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_SONA,
                            "without a store there is no log of what was learned");
    return rv_history_read(out, learner->config.store, tenant && *tenant ? tenant : "default", learner->model, before,
                           max, err);
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
    l->config.model = l->model;
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
    for (size_t i = 0; i < N_BUCKETS; i++) {
        while (learner->tenants[i]) {
            struct tenant *t = learner->tenants[i];

            learner->tenants[i] = t->next;
            free_tenant(t);
        }
    }
    rv_trace_ring_free(learner->traces);
    rv_whitening_release(&learner->whitening);
    pthread_mutex_destroy(&learner->lock);
    rv_free(learner->model);
    rv_free(learner);
}
