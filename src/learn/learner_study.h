/*
 * What a learner does between votes: answers that were voted on are remembered, ticks go over them (background.h), and
 * votes that become all alike pause learning. Results are events like any other.
 */
#ifndef RV_LEARN_LEARNER_STUDY_H
#define RV_LEARN_LEARNER_STUDY_H

#include "learn/learner_tenant.h"

/* Starts the background loop, once, before anybody votes. Takes over the anchors, also when it fails. */
RV_CHECKED ruvllm_status rv_learner_study_start(struct rv_learner *learner, struct rv_anchors *anchors,
                                                enum rv_consolidate_strategy strategy, struct ruvllm_error *err);
/* Before the tenants go. */
void rv_learner_study_stop(struct rv_learner *learner);

/* Under the tenant's lock, after a vote was applied. Nothing that goes wrong here is a failure of the vote. */
void rv_learner_study_vote(struct rv_learner *learner, struct rv_learner_tenant *tenant, const struct rv_trace *trace,
                           const struct rv_tenant_vote *vote);
/* Under the tenant's lock: votes that later generations came of are not gone over again. */
void rv_learner_study_undo(struct rv_learner_tenant *tenant, int64_t generation);
/* Under the tenant's lock: nothing is. */
void rv_learner_study_drop(struct rv_learner_tenant *tenant);

#endif
