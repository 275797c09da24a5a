#include "engine/recall.h"

#include "base/alloc.h"
#include "engine/engine_learn.h"

enum { MAX_LISTED = 1000 };

/* Has the engine read a question; *id is the request's. */
static ruvllm_status read_question(struct ruvllm_engine *e, const char *tenant, const struct ruvllm_input *input,
                                   uint64_t *id, struct ruvllm_error *err)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_request request = {.struct_size = sizeof(request), .tenant = tenant};
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    ruvllm_status rc;

    params.temperature = 0;
    params.max_tokens = 1;
    rc = rv_engine_submit(e, &request, input, &params, id, err);
    while (!rc && event.type != RUVLLM_EVENT_DONE)
        rc = rv_engine_next_event(e, *id, -1, &event, err);
    if (!rc)
        rv_reply_response_free(event.response);
    return rc;
}

/* What a question looks like. */
static ruvllm_status embed(struct ruvllm_engine *e, struct rv_learner *learner, const char *tenant,
                           const struct ruvllm_input *input, uint16_t *out, struct ruvllm_error *err)
{
    struct rv_trace *trace = NULL;
    uint64_t id;
    ruvllm_status rc = read_question(e, tenant, input, &id, err);

    if (!rc)
        trace = rv_trace_ring_find(rv_learner_traces(learner), id, tenant);
    if (!rc && (!trace || !rv_reasoning_bank_question(rv_learner_bank(learner), trace, out)))
        rc = rv_fail_kind(err, RUVLLM_BUSY, RUVLLM_ERROR_SONA,
                          "the question left no state to compare; there is too little room for traces");
    rv_trace_unref(trace);
    return rc;
}

static void hand_out(const struct rv_reasoning_pattern *found, size_t n, ruvllm_pattern_fn fn, void *user)
{
    for (size_t i = 0; i < n; i++) {
        struct ruvllm_pattern pattern = {.struct_size = sizeof(pattern),
                                         .sequence = found[i].seq,
                                         .time_us = found[i].time_us,
                                         .quality = found[i].quality,
                                         .verdict = (ruvllm_verdict)found[i].verdict,
                                         .n_used = found[i].n_used,
                                         .likeness = (double)found[i].likeness};

        if (!fn(user, &pattern))
            return;
    }
}

ruvllm_status rv_recall_patterns(struct ruvllm_engine *engine, const char *tenant, const struct ruvllm_input *input,
                                 size_t max, ruvllm_pattern_fn fn, void *user, struct ruvllm_error *err)
{
    struct rv_reasoning_pattern found[RV_PATTERN_SCAN_MAX_HITS];
    uint16_t question[RV_PATTERN_SCAN_MAX_DIMS];
    struct rv_learner *learner;
    size_t n = 0;
    ruvllm_status rc = rv_engine_learn_get(engine, &learner, err);

    if (!rc)
        rc = embed(engine, learner, tenant, input, question, err);
    if (!rc)
        rc = rv_reasoning_bank_search(rv_learner_bank(learner), tenant, question, found,
                                      max < RV_PATTERN_SCAN_MAX_HITS ? max : RV_PATTERN_SCAN_MAX_HITS, &n, err);
    hand_out(found, rc ? 0 : n, fn, user);
    return rc;
}

ruvllm_status rv_recall_list(struct ruvllm_engine *engine, const char *tenant, size_t max, ruvllm_pattern_fn fn,
                             void *user, struct ruvllm_error *err)
{
    struct rv_reasoning_pattern *found;
    struct rv_learner *learner;
    size_t n = 0;
    ruvllm_status rc = rv_engine_learn_get(engine, &learner, err);

    if (rc)
        return rc;
    max = max < MAX_LISTED ? max : MAX_LISTED;
    found = rv_calloc(max ? max : 1, sizeof(*found));
    if (!found)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu patterns", max);
    rc = rv_reasoning_bank_list(rv_learner_bank(learner), tenant, found, max, &n, NULL, err);
    hand_out(found, rc ? 0 : n, fn, user);
    rv_free(found);
    return rc;
}

ruvllm_status rv_recall_forget(struct ruvllm_engine *engine, const char *tenant, struct ruvllm_error *err)
{
    struct rv_learner *learner;
    ruvllm_status rc = rv_engine_learn_get(engine, &learner, err);

    return rc ? rc : rv_reasoning_bank_forget(rv_learner_bank(learner), tenant, 0, 0, err);
}
