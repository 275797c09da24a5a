/* The engine's thread: takes what was handed in, computes steps, hands out what comes of them. */
#ifndef RV_ENGINE_ENGINE_LOOP_H
#define RV_ENGINE_ENGINE_LOOP_H

#include "engine/engine.h"

/* Runs until the engine closes; `engine` is a struct ruvllm_engine. */
void *rv_engine_loop(void *engine);
/* Copies the thread's figures to where others may read them. */
void rv_engine_loop_copy_stats(struct ruvllm_engine *engine);

#endif
