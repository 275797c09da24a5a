/*
 * What a tenant's memory has to say about a row of logits, before a token is drawn from it. Runs on the engine's
 * thread, allocates nothing; a row whose tenant remembers nothing about the token before costs a search in a short
 * list.
 */
#ifndef RV_ENGINE_ENGINE_MEMORY_H
#define RV_ENGINE_ENGINE_MEMORY_H

#include "engine/engine.h"

struct rv_engine_memory {
    float *state;  // scratch of n_embd
    float *logits; // of n_vocab: the row as the head gave it, when something was mixed into it
};

RV_CHECKED ruvllm_status rv_engine_memory_init(struct rv_engine_memory *out, size_t n_dims, size_t n_vocab,
                                               struct ruvllm_error *err);
void rv_engine_memory_release(struct rv_engine_memory *memory);

/*
 * Mixes what the job's memory says into `row`, which the head made of `state`; returns the row that learning is to see:
 * the head's own, because a gradient by the head's input has no part in what memory says. Valid until the next call.
 */
const float *rv_engine_memory_mix(struct rv_engine_memory *memory, const struct rv_job *job, const float *state,
                                  float *row, size_t n_vocab);

#endif
