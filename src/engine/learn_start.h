/*
 * How an engine begins to learn: what is known of the model's states comes from the store, or the model writes texts
 * and they are measured. Requests are answered meanwhile, and their traces wait for the learner. Where it fails, it can
 * be tried again.
 */
#ifndef RV_ENGINE_LEARN_START_H
#define RV_ENGINE_LEARN_START_H

#include "engine/engine.h"
#include "ruvllm_learn.h"

/* As ruvllm_engine_learn. */
RV_CHECKED ruvllm_status rv_learn_start(struct ruvllm_engine *engine, const struct ruvllm_learn_params *params,
                                        struct ruvllm_error *err);

#endif
