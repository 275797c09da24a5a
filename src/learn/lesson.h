/*
 * What is learned when somebody says what the answer should have been. A correction: its tokens are raised by a step of
 * the head adapter, and those that were no matter of course are remembered in their states. A pair: the same for what
 * is preferred, and the opposite for what is rejected, both weighed by how far the model is from preferring it: the
 * derivative of -log sigmoid(margin), the margin being the difference of the mean log-likelihoods a token. That is DPO
 * (arXiv 2305.18290) with lengths taken out and without its reference, which the trust region of the step stands for.
 */
#ifndef RV_LEARN_LESSON_H
#define RV_LEARN_LESSON_H

#include "learn/tenant_learner.h"

/* Traces of what a text would have been as an answer. */
struct rv_lesson {
    const struct rv_trace *good;
    const struct rv_trace *bad; // NULL: nothing is rejected
};

/* Makes what is to be written and applied, as rv_tenant_learner_weigh does for votes. `vote` is the caller's. */
RV_CHECKED ruvllm_status rv_lesson_weigh(struct rv_tenant_learner *learner, const struct rv_lesson *lesson,
                                         struct rv_tenant_vote *vote, struct ruvllm_error *err);

#endif
