/*
 * Feedback on an answer: a vote, or texts that the model reads as answers (teacher.h) before the learner makes a lesson
 * of them. Runs on the caller's thread; what the model computes, on the engine's, a piece at a time.
 */
#ifndef RV_ENGINE_ENGINE_FEEDBACK_H
#define RV_ENGINE_ENGINE_FEEDBACK_H

#include "engine/engine.h"
#include "learn/learner.h"
#include "ruvllm_learn.h"

/* As ruvllm_engine_give_feedback. */
RV_CHECKED ruvllm_status rv_engine_feedback_give(struct ruvllm_engine *engine, const char *tenant,
                                                 const struct ruvllm_feedback *feedback,
                                                 struct rv_learner_result *result, struct ruvllm_error *err);

#endif
