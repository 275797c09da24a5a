/*
 * How an engine begins to learn: what is known of the model's states comes from the store, or the model writes texts
 * and they are measured. Requests are answered meanwhile, and their traces wait for the learner. A quarter of the texts
 * say how states are spread: then there is a learner, and feedback teaches. All of them say what the model does by
 * itself, which the background loop holds tenants to: then that begins. Where it fails, it can be tried again, and goes
 * on with what there is.
 */
#ifndef RV_ENGINE_LEARN_START_H
#define RV_ENGINE_LEARN_START_H

#include "engine/engine.h"
#include "ruvllm_learn.h"

/* As ruvllm_engine_learn. */
RV_CHECKED ruvllm_status rv_learn_start(struct ruvllm_engine *engine, const struct ruvllm_learn_params *params,
                                        struct ruvllm_error *err);

#endif
