/* The public calls of ruvllm_learn.h: arguments checked, then the part that works. */
#include "ruvllm_learn.h"

#include "engine/door.h"
#include "engine/engine_feedback.h"
#include "engine/engine_learn.h"
#include "engine/learn_start.h"

enum { DEFAULT_TRACE_MIB = 64, DEFAULT_TENANT_MIB = 512 };

/* Those outside and inside are the same numbers. */
_Static_assert((int)RUVLLM_CONSOLIDATION_EWC_MERGE == RV_CONSOLIDATE_EWC_MERGE &&
                   (int)RUVLLM_CONSOLIDATION_AVERAGE == RV_CONSOLIDATE_AVERAGE &&
                   (int)RUVLLM_CONSOLIDATION_QUALITY_WEIGHTED == RV_CONSOLIDATE_QUALITY_WEIGHTED &&
                   (int)RUVLLM_CONSOLIDATION_BEST_ONLY == RV_CONSOLIDATE_BEST_ONLY &&
                   (int)RUVLLM_CONSOLIDATION_ENSEMBLE == RV_CONSOLIDATE_ENSEMBLE,
               "a strategy is missing, or has moved");

const char *ruvllm_consolidation_name(ruvllm_consolidation consolidation)
{
    const char *name = rv_consolidate_name((enum rv_consolidate_strategy)consolidation);

    return name ? name : "unknown";
}

struct ruvllm_learn_params ruvllm_learn_params_default(void)
{
    return (struct ruvllm_learn_params){.struct_size = sizeof(struct ruvllm_learn_params),
                                        .trace_bytes = (uint64_t)DEFAULT_TRACE_MIB << 20,
                                        .tenant_bytes = (uint64_t)DEFAULT_TENANT_MIB << 20};
}

ruvllm_status ruvllm_engine_learn(ruvllm_engine *engine, const struct ruvllm_learn_params *params,
                                  struct ruvllm_error *err)
{
    struct ruvllm_learn_params ours = ruvllm_learn_params_default();
    ruvllm_status rc;

    if (!engine)
        return rv_door_fail_null(err, "engine");
    rc = rv_door_take_struct(&ours, sizeof(ours), params, "ruvllm_learn_params", err);
    return rc ? rc : rv_learn_start(engine, &ours, err);
}

bool ruvllm_engine_learns(const ruvllm_engine *engine)
{
    struct rv_engine_learn *learn = engine ? atomic_load(&engine->learn) : NULL;

    return learn && atomic_load(&learn->learner);
}

static ruvllm_status give_result(const struct rv_learner_result *r, struct ruvllm_feedback_result *out,
                                 struct ruvllm_error *err)
{
    const struct ruvllm_feedback_result ours = {.struct_size = sizeof(ours),
                                                .generation = r->generation,
                                                .sequence = r->seq,
                                                .advantage = r->advantage,
                                                .kl = r->kl,
                                                .compute_us = r->compute_us,
                                                .commit_us = r->commit_us,
                                                .read_us = r->read_us};

    return out ? rv_door_give_struct(out, &ours, sizeof(ours), "ruvllm_feedback_result", err) : RUVLLM_OK;
}

ruvllm_status ruvllm_engine_feedback(ruvllm_engine *engine, const char *tenant, uint64_t id, double score,
                                     struct ruvllm_feedback_result *result, struct ruvllm_error *err)
{
    const struct ruvllm_feedback vote = {.struct_size = sizeof(vote), .id = id, .has_score = true, .score = score};
    struct rv_learner_result r;
    ruvllm_status rc;

    if (!engine)
        return rv_door_fail_null(err, "engine");
    rc = rv_engine_feedback_give(engine, tenant, &vote, &r, err);
    return rc ? rc : give_result(&r, result, err);
}

ruvllm_status ruvllm_engine_give_feedback(ruvllm_engine *engine, const char *tenant,
                                          const struct ruvllm_feedback *feedback, struct ruvllm_feedback_result *result,
                                          struct ruvllm_error *err)
{
    struct ruvllm_feedback ours = {.struct_size = sizeof(ours)};
    struct rv_learner_result r;
    ruvllm_status rc;

    if (!engine || !feedback)
        return rv_door_fail_null(err, engine ? "feedback" : "engine");
    rc = rv_door_take_struct(&ours, sizeof(ours), feedback, "ruvllm_feedback", err);
    if (!rc)
        rc = rv_engine_feedback_give(engine, tenant, &ours, &r, err);
    return rc ? rc : give_result(&r, result, err);
}

ruvllm_status ruvllm_engine_learn_rollback(ruvllm_engine *engine, const char *tenant, int64_t generation,
                                           struct ruvllm_feedback_result *result, struct ruvllm_error *err)
{
    struct rv_learner_result r;
    struct rv_learner *learner;
    ruvllm_status rc;

    if (!engine)
        return rv_door_fail_null(err, "engine");
    rc = rv_engine_learn_get(engine, &learner, err);
    if (!rc)
        rc = rv_learner_go_back(learner, tenant, generation, &r, err);
    return rc ? rc : give_result(&r, result, err);
}

ruvllm_status ruvllm_engine_learned(ruvllm_engine *engine, const char *tenant, struct ruvllm_learned_info *info,
                                    struct ruvllm_error *err)
{
    struct ruvllm_learned_info ours = {.struct_size = sizeof(ours)};
    struct rv_learner_summary sum;
    struct rv_learner *learner;
    ruvllm_status rc;

    if (!engine || !info)
        return rv_door_fail_null(err, engine ? "info" : "engine");
    rc = rv_engine_learn_get(engine, &learner, err);
    if (!rc)
        rc = rv_learner_sum_up(learner, tenant, &sum, err);
    if (rc)
        return rc;
    ours.generation = sum.generation;
    ours.n_votes = sum.n_votes;
    ours.mean_score = sum.mean;
    ours.oldest_generation = sum.oldest;
    ours.spent_kl = sum.spent_kl;
    ours.n_lessons = sum.n_lessons;
    ours.n_keys = sum.n_keys;
    ours.is_paused = sum.is_paused;
    ours.anchor_kl = sum.anchor_kl;
    ours.kl_budget = sum.kl_budget;
    ours.n_ticks = sum.n_ticks;
    ours.n_paused = sum.n_paused;
    ours.consolidation = (ruvllm_consolidation)rv_learner_made_with(learner)->strategy;
    return rv_door_give_struct(info, &ours, sizeof(ours), "ruvllm_learned_info", err);
}
