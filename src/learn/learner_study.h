/*
 * What a learner does between votes: answers that were voted on are gone over again by the background loop, and its
 * results go into the log as events do. For the files of the learner; rv_learner_study begins it.
 */
#ifndef RV_LEARN_LEARNER_STUDY_H
#define RV_LEARN_LEARNER_STUDY_H

#include "learn/learner_tenant.h"

/* After a vote was applied, under the tenant's lock: it is remembered, and votes that became a flood are heeded. */
void rv_learner_study_vote(struct rv_learner *learner, struct rv_learner_tenant *tenant, const struct rv_trace *trace,
                           const struct rv_tenant_vote *vote);
/* After a correction or a pair was applied, under the tenant's lock: it stays within what the tenant may change. */
void rv_learner_study_lesson(struct rv_learner *learner, struct rv_learner_tenant *tenant);
/*
 * Under the tenant's lock: votes that later generations came of are not gone over again. A tick that is under way comes
 * to nothing, and the next waits for new feedback.
 */
void rv_learner_study_undo(struct rv_learner_tenant *tenant, int64_t generation);
/* Under the tenant's lock: nothing is. */
void rv_learner_study_drop(struct rv_learner_tenant *tenant);

#endif
