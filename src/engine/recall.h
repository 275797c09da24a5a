/*
 * Looking up what a tenant asked before that is like a new question. What the question is like is the state at its end,
 * which the engine computes as for an answer of one token; the request that comes next finds the work done.
 */
#ifndef RV_ENGINE_RECALL_H
#define RV_ENGINE_RECALL_H

#include "engine/engine.h"
#include "ruvllm_sona.h"

/* As the public functions of the same names; arguments were checked. */
RV_CHECKED ruvllm_status rv_recall_patterns(struct ruvllm_engine *engine, const char *tenant,
                                            const struct ruvllm_input *input, size_t max, ruvllm_pattern_fn fn,
                                            void *user, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_recall_list(struct ruvllm_engine *engine, const char *tenant, size_t max,
                                        ruvllm_pattern_fn fn, void *user, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_recall_forget(struct ruvllm_engine *engine, const char *tenant, struct ruvllm_error *err);

#endif
