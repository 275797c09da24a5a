/*
 * The learner's doors for deep runs, which read the log, compute for long, and come back with a result. What they read
 * may have been undone by then, here or by another process: that is looked for in the log, just before it answers.
 */
#include "base/alloc.h"
#include "learn/learner_tenant.h"
#include "learn/tick_event.h"
#include "store/store_events.h"

#include <stdio.h>
#include <string.h>

/* ---- what was undone meanwhile -------------------------------------------------------------- */

struct looking_back {
    const char *model;
    const struct rv_learner_deepening *by;
    int64_t n_taught;
    bool is_gone_back; // to before what it has read
};

static bool look_back(void *user, const struct rv_store_event *event)
{
    struct looking_back *l = user;
    int64_t to = -1;

    if (strcmp(event->model ? event->model : "", l->model) != 0)
        return true;
    if (event->seq <= l->by->applied_seq)
        l->n_taught += rv_learner_tenant_is_taught_by(event->kind) && !event->is_forgotten;
    else if (event->kind == RV_STORE_EVENT_ROLLBACK)
        to = event->generation;
    else if (event->kind == RV_STORE_EVENT_GATE)
        to = rv_tick_event_goes_back_to(event->result);
    l->is_gone_back = l->is_gone_back || (to >= 0 && to < l->by->generation);
    return true;
}

/* Under the tenant's lock. */
static ruvllm_status check_undone(struct rv_learner *l, const struct rv_learner_tenant *t,
                                  const struct rv_learner_deepening *by, struct ruvllm_error *err)
{
    struct looking_back back = {.model = l->model, .by = by};
    ruvllm_status rc = rv_store_events_replay(l->config.store, t->name, 0, look_back, &back, err);

    if (t->n_spooled > 0) // the log does not have these yet
        back.is_gone_back = back.is_gone_back || t->state->now.root > by->generation;
    if (!rc && (back.is_gone_back || back.n_taught != by->n_taught))
        rc = rv_fail_kind(err, RUVLLM_CONFLICT, RUVLLM_ERROR_SONA,
                          "what the run learned from was undone meanwhile, so nothing of it is kept: run it again");
    return rc;
}

/* Under the tenant's lock. As the store has it, because another process may have paused it. */
static ruvllm_status check_paused(struct rv_learner *l, struct rv_learner_tenant *t, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_learner_tenant_read_pause(l, t, err);

    return rc || !t->is_paused
               ? rc
               : rv_fail_kind(err, RUVLLM_CONFLICT, RUVLLM_ERROR_SONA,
                              "learning was paused for this tenant while the run went on, so nothing of it is kept: "
                              "resume it and run again");
}

/* ---- doors ---------------------------------------------------------------------------------- */

ruvllm_status rv_learner_deep_content(struct rv_learner *learner, const char *tenant, struct rv_deep_content *out,
                                      bool *found, struct ruvllm_error *err)
{
    struct rv_deep_shelf_place place;
    struct rv_learner_tenant *t;
    ruvllm_status rc = rv_learner_tenant_begin(learner, tenant, &t, err);

    *found = false;
    if (rc)
        return rc;
    place = rv_learner_tenant_deep_place(learner, t);
    if (t->state->now.deep > 0) {
        rc = rv_deep_shelf_content(&place, t->state->now.deep, out, err);
        *found = !rc;
    }
    rv_learner_tenant_leave(learner, t);
    return rc;
}

/* Under the tenant's lock. What could fail does so before the event is in the log, but for memory of keys. */
static ruvllm_status deepen(struct rv_learner *l, struct rv_learner_tenant *t, struct rv_store_generation *gen,
                            const struct rv_learner_deepening *by, struct rv_learner_result *result,
                            struct ruvllm_error *err)
{
    struct rv_store_event event = {.kind = RV_STORE_EVENT_DEEP, .generation = t->state->now.generation};
    struct rv_deep_shelf_place place = rv_learner_tenant_deep_place(l, t);
    uint8_t ref[RV_DEEP_SHELF_REF_BYTES];
    struct ruvllm_error trouble;
    bool is_next;
    ruvllm_status rc = rv_tenant_learner_make_room(t->state, t->state->now.generation + 1, err);

    gen->parent = t->state->now.deep;
    if (!rc)
        rc = rv_deep_shelf_add(&place, gen, by->content, err);
    if (rc)
        return rc;
    event.delta = rv_deep_shelf_write_ref(gen, ref);
    event.memory = by->distilled;
    event.reason = (struct rv_str){gen->metrics, strlen(gen->metrics)};
    rc = rv_learner_tenant_append(l, t, &event, (uint64_t)gen->generation, &is_next, result, err);
    if (!rc && is_next)
        rv_learner_tenant_settle(l, t, rv_tenant_learner_set_deep(t->state, gen->generation, by->distilled, &trouble),
                                 &trouble);
    result->generation = t->state->now.generation;
    return rc;
}

ruvllm_status rv_learner_deepen(struct rv_learner *learner, const char *tenant, const struct rv_learner_deepening *by,
                                struct rv_learner_result *result, struct ruvllm_error *err)
{
    struct rv_store_generation *gen = rv_calloc(1, sizeof(*gen));
    struct rv_learner_tenant *t;
    ruvllm_status rc;

    *result = (struct rv_learner_result){0};
    if (!gen)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a generation");
    gen->applied_seq = by->applied_seq;
    snprintf(gen->metrics, sizeof(gen->metrics), "%s", by->metrics);
    rc = learner->config.store ? rv_learner_tenant_begin(learner, tenant, &t, err)
                               : rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_SONA,
                                              "a deep run's result needs a store to be kept in");
    if (!rc) {
        rc = check_paused(learner, t, err);
        if (!rc)
            rc = check_undone(learner, t, by, err);
        if (!rc)
            rc = deepen(learner, t, gen, by, result, err);
        rv_learner_tenant_leave(learner, t);
    }
    rv_free(gen);
    return rc;
}
