#include "base/alloc.h"
#include "base/clock.h"
#include "base/str_map.h"
#include "learn/learner_follow.h"
#include "learn/learner_study.h"
#include "learn/lesson_tokens.h"
#include "store/store_events.h"

#include <string.h>

enum { MAX_WORDS = 2048 }; // of a vote's question and answer in the log: 8 KiB

/* ---- what answers --------------------------------------------------------------------------- */

ruvllm_status rv_learner_voice(struct rv_learner *learner, const char *tenant, struct rv_learner_voice *out,
                               struct ruvllm_error *err)
{
    struct rv_learner_tenant *t;
    ruvllm_status rc;

    *out = (struct rv_learner_voice){0};
    rc = rv_learner_tenant_take_or_hear(learner, tenant, &t, out, err);
    if (rc || !t)
        return rc;
    rc = rv_learner_tenant_read_or_go_on(learner, t, err);
    if (!rc)
        *out = rv_learner_tenant_voice(t);
    rv_learner_tenant_leave(learner, t);
    return rc;
}

void rv_learner_release_voice(struct rv_learner_voice *voice)
{
    rv_adapter_unref(voice->head);
    rv_adapter_unref(voice->deep);
    rv_memory_unref(voice->memory);
    *voice = (struct rv_learner_voice){0};
}

ruvllm_status rv_learner_current(struct rv_learner *learner, const char *tenant, struct rv_adapter **out,
                                 struct rv_memory **memory, int64_t *generation, struct ruvllm_error *err)
{
    struct rv_learner_voice voice;
    ruvllm_status rc = rv_learner_voice(learner, tenant, &voice, err);

    rv_adapter_unref(voice.deep);
    *out = voice.head;
    *memory = voice.memory;
    *generation = voice.generation;
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
    struct rv_learner_tenant *t;
    double budget = learner->kl_budget;
    ruvllm_status rc = rv_learner_tenant_begin(learner, tenant, &t, err);

    if (rc)
        return rc;
    *out = (struct rv_learner_summary){.generation = t->state->now.generation,
                                       .n_votes = t->state->now.n_votes,
                                       .mean = t->state->now.mean,
                                       .oldest = oldest_of(t->state),
                                       .spent_kl = t->state->now.spent_kl,
                                       .n_lessons = t->state->now.n_lessons,
                                       .n_keys = rv_memory_n_keys(t->state->now.memory),
                                       .is_paused = t->is_paused,
                                       .anchor_kl = t->state->now.anchor_kl,
                                       .kl_budget = budget > 0 ? budget : t->state->now.kl_budget,
                                       .n_ticks = t->state->now.n_ticks,
                                       .n_paused = t->state->now.flood.n_paused};
    rv_learner_tenant_leave(learner, t);
    return RUVLLM_OK;
}

const struct rv_learner_config *rv_learner_made_with(const struct rv_learner *learner)
{
    return &learner->config;
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

ruvllm_status rv_learner_forward(struct rv_learner *learner, const char *tenant, const float *state, float *out,
                                 struct ruvllm_error *err)
{
    struct rv_learner_tenant *t;
    ruvllm_status rc = rv_learner_tenant_begin(learner, tenant, &t, err);

    if (rc)
        return rc;
    rv_head_adapter_apply(&t->state->now.adapter, state, out);
    rv_learner_tenant_leave(learner, t);
    return RUVLLM_OK;
}

void rv_learner_tenants(struct rv_learner *learner, struct rv_tenant_table_stats *out)
{
    rv_tenant_table_stats(learner->tenants, out);
}

/* ---- feedback ------------------------------------------------------------------------------- */

/* An event in the making, with the memory it borrows. */
struct draft {
    struct rv_store_event event;
    struct rv_tenant_vote vote;
    struct rv_str bytes, keys, words;
};

static void release_draft(struct draft *d)
{
    rv_free((char *)(uintptr_t)d->bytes.data);
    rv_free((char *)(uintptr_t)d->keys.data);
    rv_free((char *)(uintptr_t)d->words.data);
    rv_tenant_learner_release_vote(&d->vote);
}

static ruvllm_status weigh(struct rv_learner_tenant *t, const struct rv_learner_lesson *lesson,
                           struct rv_tenant_vote *made, struct ruvllm_error *err)
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
    return rv_lesson_tokens_write(&tokens, l->config.hparams->n_vocab, out, err);
}

static ruvllm_status make_draft(struct rv_learner *l, struct rv_learner_tenant *t,
                                const struct rv_learner_lesson *lesson, struct draft *d, struct ruvllm_error *err)
{
    ruvllm_status rc = weigh(t, lesson, &d->vote, err);

    if (!rc && lesson->kind == RV_STORE_EVENT_VOTE)
        rc = write_words(l, lesson->lesson.good, &d->words, err);
    if (!rc)
        rc = rv_tenant_learner_write_vote(&d->vote, l->whitening.n_dims, &d->bytes, err);
    if (!rc)
        rc = rv_memory_page_write(d->vote.keys, &d->keys, err);
    if (!rc)
        rc = rv_tenant_learner_make_room(t->state, t->state->now.generation + 1, err);
    d->event = (struct rv_store_event){.kind = lesson->kind,
                                       .score = lesson->score,
                                       .generation = lesson->generation,
                                       .prompt = lesson->prompt,
                                       .answer = lesson->answer,
                                       .correction = lesson->correction,
                                       .reason = lesson->reason,
                                       .result = d->words.len ? d->words : lesson->tokens,
                                       .delta = d->bytes,
                                       .memory = d->keys};
    return rc;
}

/* An answer that was voted on is a pattern. */
static void note(const struct rv_learner *l, const struct rv_learner_lesson *lesson, int64_t seq, int64_t time_us)
{
    if (lesson->kind == RV_STORE_EVENT_VOTE)
        rv_reasoning_bank_note(l->bank, lesson->lesson.good, lesson->score, seq, time_us);
}

/* What the same lesson is known by when it comes again. */
static uint64_t about(const struct rv_learner_lesson *lesson)
{
    return lesson->kind == RV_STORE_EVENT_VOTE ? lesson->lesson.good->id
                                               : rv_str_map_hash(0, lesson->tokens.data, lesson->tokens.len);
}

/*
 * Under the tenant's lock, so that who forgets the event finds all that came of it. What could fail does so before the
 * event is in the log, but for memory of keys.
 */
static ruvllm_status teach(struct rv_learner *l, struct rv_learner_tenant *t, const struct rv_learner_lesson *lesson,
                           struct rv_learner_result *result, struct ruvllm_error *err)
{
    int64_t start = rv_clock_us();
    struct draft d = {0};
    struct ruvllm_error trouble;
    bool is_next = false;
    ruvllm_status rc = make_draft(l, t, lesson, &d, err);

    result->compute_us = rv_clock_us() - start;
    result->advantage = d.vote.advantage;
    result->kl = d.vote.step.kl;
    result->gain = d.vote.step.gain;
    if (!rc)
        rc = rv_learner_tenant_append(l, t, &d.event, about(lesson), &is_next, result, err);
    start = rv_clock_us();
    if (!rc && is_next)
        rv_learner_tenant_settle(l, t, rv_tenant_learner_apply(t->state, &d.vote, &trouble), &trouble);
    result->compute_us += rv_clock_us() - start;
    if (!rc && is_next && lesson->kind == RV_STORE_EVENT_VOTE)
        rv_learner_study_vote(l, t, lesson->lesson.good, &d.vote);
    else if (!rc && is_next)
        rv_learner_study_lesson(l, t);
    if (!rc)
        note(l, lesson, result->seq, d.event.time_us);
    result->generation = t->state->now.generation + (!rc && is_next && t->is_lost); // what the log has, in any case
    release_draft(&d);
    return rc;
}

ruvllm_status rv_learner_teach(struct rv_learner *learner, const char *tenant, const struct rv_learner_lesson *lesson,
                               struct rv_learner_result *result, struct ruvllm_error *err)
{
    struct rv_learner_tenant *t;
    ruvllm_status rc = rv_learner_tenant_begin(learner, tenant, &t, err);

    *result = (struct rv_learner_result){0};
    if (rc)
        return rc;
    if (t->is_paused)
        rc = rv_fail_kind(err, RUVLLM_CONFLICT, RUVLLM_ERROR_SONA,
                          "learning is paused for this tenant: resume it first");
    else if (rv_learner_tenant_was_done(t, lesson->kind, about(lesson), lesson->score, result))
        note(learner, lesson, result->seq, 0);
    else
        rc = teach(learner, t, lesson, result, err);
    rv_learner_tenant_leave(learner, t);
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
    rc = rv_trace_has_rows(trace)
             ? rv_learner_teach(learner, tenant, &lesson, result, err)
             : rv_fail_kind(err, RUVLLM_NOT_FOUND, RUVLLM_ERROR_SONA, "the answer is too old to learn from");
    rv_trace_unref(trace);
    return rc;
}

/* ---- going back ----------------------------------------------------------------------------- */

/*
 * Generations that were made while the database is away get their numbers when it is back, and others may have made
 * some before them: who names one now may mean another then.
 */
static ruvllm_status check_number(struct rv_learner *l, struct rv_learner_tenant *t, int64_t generation,
                                  struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;

    if (t->n_spooled > 0 && !rv_store_events_are_spooled(l->config.store)) {
        t->is_behind = true; // they were delivered
        rc = rv_learner_tenant_read(l, t, err);
    }
    if (!rc && t->n_spooled > 0 && generation > t->state->now.generation - t->n_spooled)
        rc = rv_fail_kind(err, RUVLLM_IO, RUVLLM_ERROR_STORAGE,
                          "generation %lld waits for the database: go back to it when that is there again",
                          (long long)generation);
    if (!rc && !rv_tenant_learner_has(t->state, generation))
        rc = rv_fail_kind(err, RUVLLM_NOT_FOUND, RUVLLM_ERROR_SONA, "generation %lld is not, or no longer, kept",
                          (long long)generation);
    return rc;
}

/* Under the tenant's lock; as teach. */
static ruvllm_status go_back(struct rv_learner *l, struct rv_learner_tenant *t, int64_t generation,
                             struct rv_learner_result *result, struct ruvllm_error *err)
{
    struct rv_store_event event = {.kind = RV_STORE_EVENT_ROLLBACK, .generation = generation};
    struct ruvllm_error trouble;
    int64_t start;
    bool is_next;
    ruvllm_status rc = check_number(l, t, generation, err);

    if (!rc)
        rc = rv_tenant_learner_make_room(t->state, t->state->now.generation + 1, err);
    if (!rc)
        rc = rv_learner_tenant_append(l, t, &event, (uint64_t)generation, &is_next, result, err);
    if (!rc && !is_next && result->seq > 0 && t->void_seq == result->seq)
        rc = rv_fail_kind(err, RUVLLM_NOT_FOUND, RUVLLM_ERROR_SONA,
                          "others taught meanwhile, and generation %lld is no longer kept: nothing was gone back to",
                          (long long)generation);
    if (rc)
        return rc;
    start = rv_clock_us();
    if (is_next)
        rv_learner_tenant_settle(l, t, rv_tenant_learner_go_back(t->state, generation, &trouble), &trouble);
    rv_learner_study_undo(t, generation);
    result->compute_us = rv_clock_us() - start;
    return RUVLLM_OK;
}

ruvllm_status rv_learner_go_back(struct rv_learner *learner, const char *tenant, int64_t generation,
                                 struct rv_learner_result *result, struct ruvllm_error *err)
{
    struct rv_learner_tenant *t;
    ruvllm_status rc = rv_learner_tenant_begin(learner, tenant, &t, err);

    *result = (struct rv_learner_result){0};
    if (rc)
        return rc;
    if (!rv_learner_tenant_was_done(t, RV_STORE_EVENT_ROLLBACK, (uint64_t)generation, 0, result))
        rc = go_back(learner, t, generation, result, err);
    result->generation = t->state->now.generation;
    rv_learner_tenant_leave(learner, t);
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
    l->config.model = l->model;
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
        rc = rv_tenant_table_new(&l->tenants, &rv_learner_tenant_ops, l, config->store ? config->tenant_bytes : 0, err);
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
    rv_learner_follow_end(learner);
    rv_background_close(atomic_load(&learner->background));
    rv_tenant_table_free(learner->tenants);
    rv_trace_ring_free(learner->traces);
    rv_reasoning_bank_free(learner->bank);
    rv_anchors_release(&learner->anchors);
    rv_whitening_release(&learner->whitening);
    rv_free(learner->model);
    rv_free(learner);
}
