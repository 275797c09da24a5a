/* Following others who share the store, for the files of the learner; rv_learner_follow begins it. */
#ifndef RV_LEARN_LEARNER_FOLLOW_H
#define RV_LEARN_LEARNER_FOLLOW_H

#include "learn/learner_tenant.h"

/* Ends what rv_learner_follow began, if it did, and waits for its thread. */
void rv_learner_follow_end(struct rv_learner *learner);

#endif
