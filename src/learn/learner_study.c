#include "learn/learner_study.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "learn/tick_event.h"

#include <time.h>

enum { STUDY_BYTES = 8 << 20 };

/*
 * Under the tenant's lock: asks for a tick when there is enough new. Not having one is no failure of the vote. Lessons
 * are not gone over again, but what they do elsewhere adds up.
 */
static void ask_for_tick(struct rv_learner *l, struct rv_learner_tenant *t)
{
    bool has_votes = t->study->n_new >= RV_BACKGROUND_EVERY, has_lessons = t->study->n_lessons >= RV_BACKGROUND_EVERY;
    struct rv_background *background = atomic_load(&l->background);
    struct rv_background_job *job;
    struct ruvllm_error err;

    if (!background || (!has_votes && !has_lessons) || t->study->is_busy || t->is_paused)
        return;
    if (rv_background_job_new(&job, t->name, t->study, has_votes, &t->state->now.adapter, &err)) {
        rv_log(RUVLLM_LOG_WARN, "no tick for tenant '%s': %.200s", t->name, err.message);
        return;
    }
    job->generation = t->state->now.generation;
    job->mean = t->state->now.mean;
    t->study->n_new = has_votes ? 0 : t->study->n_new;
    t->study->n_lessons = 0;
    t->study->is_busy = true;
    rv_background_ask(background, job);
}

/*
 * A tenant that comes back with what it learned is looked at with its first feedback: who never stays for long enough
 * to have a tick would else never be held to the budget.
 */
static ruvllm_status need_study(struct rv_learner *l, struct rv_learner_tenant *t, struct ruvllm_error *err)
{
    ruvllm_status rc;

    if (t->study)
        return RUVLLM_OK;
    rc = rv_study_new(&t->study, &l->whitening, STUDY_BYTES, err);
    if (!rc && t->state->now.generation > 1)
        t->study->n_lessons = RV_BACKGROUND_EVERY;
    return rc;
}

/* An answer that was voted on is remembered, to be gone over again. */
static void remember(struct rv_learner *l, struct rv_learner_tenant *t, const struct rv_trace *trace,
                     const struct rv_tenant_vote *made)
{
    struct ruvllm_error err;
    ruvllm_status rc;

    if (t->state->now.flood.n_paused > 0)
        return;
    rc = need_study(l, t, &err);
    if (!rc)
        rc =
            rv_rehearsal_add(&t->study->rehearsal, trace, made->score, made->advantage, t->state->now.generation, &err);
    if (rc) {
        rv_log(RUVLLM_LOG_WARN, "an answer of tenant '%s' will not be gone over again: %.200s", t->name, err.message);
        return;
    }
    t->study->n_new++;
    ask_for_tick(l, t);
}

/* Under the tenant's lock: an event of the background loop goes the way of all others. Takes over the bytes. */
static ruvllm_status record(struct rv_learner *l, struct rv_learner_tenant *t, struct rv_store_event *event,
                            struct rv_str bytes, struct ruvllm_error *err)
{
    struct rv_learner_result result = {0};
    struct ruvllm_error trouble;
    bool is_next;
    ruvllm_status rc = rv_tenant_learner_make_room(t->state, t->state->now.generation + 1, err);

    event->result = bytes;
    event->generation = t->state->now.generation;
    if (!rc)
        rc = rv_learner_tenant_append(l, t, event, (uint64_t)event->generation, &is_next, &result, err);
    if (!rc && is_next)
        rv_learner_tenant_settle(l, t, rv_tick_event_apply(t->state, bytes, &trouble), &trouble);
    rv_free((char *)(uintptr_t)bytes.data);
    return rc;
}

void rv_learner_study_undo(struct rv_learner_tenant *tenant, int64_t generation)
{
    struct rv_study *study = tenant->study;

    if (!study)
        return;
    rv_rehearsal_drop_after(&study->rehearsal, generation);
    study->n_new = study->n_lessons = 0; // answers stay as they were gone back to until there is new feedback
    study->n_undone++;
}

/* Under the tenant's lock: when votes became a flood, back to before, and nothing is learned for a while. */
static void heed_alarm(struct rv_learner *l, struct rv_learner_tenant *t)
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
    rc = rv_tick_event_write_gate(RV_TICK_EVENT_PAUSED, &nothing, rv_tenant_learner_kept_since(t->state, since), &bytes,
                                  &err);
    if (!rc)
        rc = record(l, t, &event, bytes, &err);
    if (rc) // it rings again with the next vote
        rv_log(RUVLLM_LOG_WARN, "cannot pause learning of tenant '%s': %.200s", t->name, err.message);
    else
        rv_learner_study_undo(t, since);
}

void rv_learner_study_vote(struct rv_learner *learner, struct rv_learner_tenant *tenant, const struct rv_trace *trace,
                           const struct rv_tenant_vote *vote)
{
    if (!learner->config.studies)
        return;
    remember(learner, tenant, trace, vote);
    heed_alarm(learner, tenant);
}

void rv_learner_study_lesson(struct rv_learner *learner, struct rv_learner_tenant *tenant)
{
    struct ruvllm_error err;

    if (!learner->config.studies)
        return;
    if (need_study(learner, tenant, &err)) {
        rv_log(RUVLLM_LOG_WARN, "no tick for tenant '%s': %.200s", tenant->name, err.message);
        return;
    }
    tenant->study->n_lessons++;
    ask_for_tick(learner, tenant);
}

void rv_learner_study_drop(struct rv_learner_tenant *tenant)
{
    rv_study_unref(tenant->study);
    tenant->study = NULL;
}

/* Under the tenant's lock: what a tick came to. */
static ruvllm_status settle(struct rv_learner *l, struct rv_learner_tenant *t, const struct rv_background_job *job,
                            struct ruvllm_error *err)
{
    bool is_rejected = job->result.verdict == RV_TICK_REJECTED;
    struct rv_store_event event = {.kind = is_rejected ? RV_STORE_EVENT_GATE : RV_STORE_EVENT_TICK};
    struct rv_str bytes;
    ruvllm_status rc;

    if (job->result.verdict == RV_TICK_NOTHING || job->n_undone != t->study->n_undone)
        return RUVLLM_OK; // or it was made of what has been taken back since
    /* Then it is made again, of what is then: also when the store could not say what others did. */
    if (t->is_paused || (l->config.store && t->is_changed) ||
        (!is_rejected && !rv_tenant_learner_can_tick(t->state, job->generation))) {
        *(job->n_answers > 0 ? &t->study->n_new : &t->study->n_lessons) += RV_BACKGROUND_EVERY;
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
    struct rv_learner_tenant *t;
    struct ruvllm_error err;
    ruvllm_status rc = rv_learner_tenant_take(l, job->tenant, &t, &err);

    if (job->result.budget > 0)
        l->kl_budget = job->result.budget;
    if (!rc) {
        if (t->study == job->study) { // else it was let go and came back since
            t->is_changed = true;     // the store is asked: what the tick was made of may have been forgotten elsewhere
            rc = rv_learner_tenant_read(l, t, &err);
            if (rv_learner_tenant_waits(l, t)) // a tick names a generation, and the log may come to number them anew
                t->is_changed = true;
        }
        if (t->study == job->study) {  // else something was forgotten
            t->study->is_busy = false; // whatever comes of this one, there may be a next
            if (!rc && job->rc)
                err = job->err;
            rc = rc ? rc : job->rc ? job->rc : settle(l, t, job, &err);
            /* Else with the next feedback; and writing it down may have found that something was forgotten. */
            if (t->study == job->study && (!t->is_changed || !l->config.store))
                ask_for_tick(l, t);
        }
        rv_learner_tenant_leave(l, t);
    }
    if (rc)
        rv_log(RUVLLM_LOG_WARN, "a tick of tenant '%s' came to nothing: %.200s", job->tenant, err.message);
    rv_background_job_free(job);
}

/* Under the tenant's lock: asks for a tick of what is new, once; true when there is nothing to wait for. */
static bool consolidate(struct rv_learner *l, struct rv_learner_tenant *t, bool *is_asked, int32_t *n_used)
{
    struct rv_study *study = t->study;

    if (!study || !rv_learner_has_study(l))
        return true;
    if (!study->is_busy && study->n_new > 0 && !*is_asked && !t->is_paused) {
        *is_asked = true;
        *n_used = study->n_new;
        study->n_new = RV_BACKGROUND_EVERY;
        ask_for_tick(l, t);
    }
    return !study->is_busy && (*is_asked || study->n_new == 0 || t->is_paused);
}

ruvllm_status rv_learner_consolidate(struct rv_learner *learner, const char *tenant, int64_t wait_us, int32_t *n_used,
                                     struct ruvllm_error *err)
{
    const struct timespec nap = {.tv_nsec = 2000000};
    int64_t until = rv_clock_us() + wait_us;
    bool is_asked = false, is_done = false;

    *n_used = 0;
    while (!is_done) {
        struct rv_learner_tenant *t;
        ruvllm_status rc = rv_learner_tenant_begin(learner, tenant, &t, err);

        if (rc)
            return rc;
        is_done = consolidate(learner, t, &is_asked, n_used);
        rv_learner_tenant_leave(learner, t);
        if (!is_done && rv_clock_us() > until)
            return rv_fail_kind(err, RUVLLM_BUSY, RUVLLM_ERROR_SONA,
                                "the background loop gets no time to finish: the machine is busy");
        if (!is_done)
            (void)nanosleep(&nap, NULL);
    }
    return RUVLLM_OK;
}

/* Ticks of what was said before there were any. Who is left out by lack of memory has one with the next feedback. */
static void ask_for_all(struct rv_learner *l)
{
    size_t n;
    char **names = rv_learner_tenant_names(l, &n);

    for (size_t i = 0; i < n; i++) {
        struct rv_learner_tenant *t;
        struct ruvllm_error err;

        if (names[i] && rv_learner_tenant_take(l, names[i], &t, &err) == RUVLLM_OK) {
            if (t->study)
                ask_for_tick(l, t);
            rv_learner_tenant_leave(l, t);
        }
        rv_free(names[i]);
    }
    rv_free(names);
}

ruvllm_status rv_learner_study(struct rv_learner *learner, struct rv_anchors *anchors, struct ruvllm_error *err)
{
    struct rv_tick_config config = {.manifest = learner->config.manifest,
                                    .hparams = learner->config.hparams,
                                    .whitening = &learner->whitening,
                                    .anchors = &learner->anchors,
                                    .rank = learner->config.rank,
                                    .strategy = learner->config.strategy,
                                    .budget = RV_TICK_BUDGET};

    struct rv_background *background;
    ruvllm_status rc;

    rv_anchors_release(&learner->anchors);
    learner->anchors = *anchors;
    *anchors = (struct rv_anchors){0};
    rc = rv_background_open(&background, &config, on_made, learner, err);
    if (rc)
        return rc;
    atomic_store(&learner->background, background);
    ask_for_all(learner);
    return RUVLLM_OK;
}

bool rv_learner_has_study(const struct rv_learner *learner)
{
    return atomic_load(&learner->background) != NULL;
}
