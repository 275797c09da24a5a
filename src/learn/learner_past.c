/* The learner's doors to what was learned before: pausing it, forgetting parts of it, looking back. */
#include "base/alloc.h"
#include "base/clock.h"
#include "learn/learner_study.h"
#include "store/store_events.h"
#include "store/store_learner.h"

#include <string.h>

/* Under the tenant's lock. */
static ruvllm_status write_pause(struct rv_learner *l, struct rv_learner_tenant *t, bool is_paused,
                                 struct ruvllm_error *err)
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
    struct rv_learner_tenant *t;
    ruvllm_status rc = rv_learner_tenant_begin(learner, tenant, &t, err);

    if (rc)
        return rc;
    if (learner->config.store) // also what is so here: elsewhere it may have become otherwise just now
        rc = write_pause(learner, t, is_paused, err);
    if (!rc)
        t->is_paused = is_paused;
    rv_learner_tenant_leave(learner, t);
    return rc;
}

struct wanted {
    int64_t seq;
    const char *model;
    int64_t time_us;
    bool found;
    bool is_feedback;
    bool is_forgotten;
};

static bool on_wanted(void *user, const struct rv_store_event *event)
{
    struct wanted *w = user;

    if (event->seq == w->seq && strcmp(event->model ? event->model : "", w->model) == 0) {
        w->found = true;
        w->time_us = event->time_us;
        w->is_feedback = rv_learner_tenant_is_taught_by(event->kind);
        w->is_forgotten = event->is_forgotten;
    }
    return false;
}

/*
 * What was computed from it goes first: a failure in between has lost nothing that is not computed again, and who tries
 * again finds the rest. Events go before the results they refer to. *has_begun tells whether the log may have less than
 * before, then too.
 */
static ruvllm_status forget_in_store(struct rv_learner *l, struct rv_learner_tenant *t, int64_t seq, bool *has_begun,
                                     struct ruvllm_error *err)
{
    static const enum rv_store_event_kind computed[] = {RV_STORE_EVENT_TICK, RV_STORE_EVENT_DEEP};
    struct rv_deep_shelf_place place = rv_learner_tenant_deep_place(l, t);
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
    *has_begun = !rc;
    for (size_t i = 0; i < sizeof(computed) / sizeof(computed[0]) && !rc; i++)
        rc = rv_store_events_forget_later(l->config.store, t->name, l->model, seq, computed[i], err);
    if (!rc)
        rc = rv_deep_shelf_forget(&place, seq, err);
    if (!rc)
        rc = rv_reasoning_bank_forget(l->bank, t->name, seq, wanted.time_us, err);
    return rc ? rc : rv_store_events_forget(l->config.store, t->name, seq, err);
}

ruvllm_status rv_learner_forget(struct rv_learner *learner, const char *tenant, int64_t seq,
                                struct rv_learner_result *result, struct ruvllm_error *err)
{
    int64_t start = rv_clock_us();
    struct rv_learner_tenant *t;
    bool has_begun;
    ruvllm_status rc;

    *result = (struct rv_learner_result){.seq = seq};
    if (!learner->config.store)
        return rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_SONA,
                            "without a store there is no log to forget from: go back to a generation instead");
    rc = rv_learner_tenant_begin(learner, tenant, &t, err);
    if (rc)
        return rc;
    rc = forget_in_store(learner, t, seq, &has_begun, err);
    result->commit_us = rv_clock_us() - start;
    start = rv_clock_us();
    t->is_lost = t->is_lost || has_begun; // from here on the tenant is as the log has it, also after a failure
    if (has_begun)
        rv_learner_study_drop(t); // nothing of it is gone over again; a tick under way finds another study, and ends
    if (!rc)
        rc = rv_learner_tenant_read(learner, t, err);
    result->compute_us = rv_clock_us() - start;
    result->generation = t->state->now.generation;
    rv_learner_tenant_leave(learner, t);
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
