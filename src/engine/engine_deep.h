/*
 * The deep loop of an engine: a tenant's log, texts of the model's own, a run, a gate, and a generation that answers.
 * Runs on the caller's thread, or on one of its own with the lowest priority, beside the engine's.
 */
#ifndef RV_ENGINE_ENGINE_DEEP_H
#define RV_ENGINE_ENGINE_DEEP_H

#include "engine/engine.h"
#include "ruvllm_train.h"

/* As ruvllm_engine_learn_deep; structs are the library's own. */
RV_CHECKED ruvllm_status rv_engine_deep_run(struct ruvllm_engine *engine, const char *tenant,
                                            const struct ruvllm_deep_params *params, struct ruvllm_deep_report *report,
                                            struct ruvllm_error *err);

#endif
