/*
 * Learning inside an engine: answers leave traces as they are drawn, and requests get what their tenant's feedback has
 * taught. Threads: begin and join run on the submitting thread, capture and keep on the engine's; the rest on any.
 */
#ifndef RV_ENGINE_ENGINE_LEARN_H
#define RV_ENGINE_ENGINE_LEARN_H

#include "engine/engine.h"
#include "engine/engine_memory.h"
#include "learn/anchors.h"
#include "learn/head_gradient.h"
#include "learn/learner.h"

/* As whom the texts are written that learning begins with. */
#define RV_ENGINE_LEARN_WRITER ".first_texts"

struct rv_engine_learn {
    struct rv_head_gradient gradient; // the engine thread's, as the next
    struct rv_engine_memory memory;
    struct rv_trace_ring *first;          // traces of the texts that whitening is made of, see learn_start.h
    struct rv_trace_ring *early;          // of answers, until there is a learner
    struct rv_whitening whitening;        // what they came to, until the store has kept it
    struct rv_anchors anchors;            // likewise; of the texts so far
    int32_t n_texts;                      // how many those are
    atomic_bool is_starting;              // somebody makes it
    _Atomic(struct rv_learner *) learner; // NULL until that is done
};

void rv_engine_learn_free(struct rv_engine_learn *learn);
/* The learner. BUSY, with a sentence, while it is being made; INVALID when nobody makes one. */
RV_CHECKED ruvllm_status rv_engine_learn_get(struct ruvllm_engine *engine, struct rv_learner **out,
                                             struct ruvllm_error *err);

/*
 * What keys and values of a tenant's requests depend on, besides the `*layers` of the adapters they name. While that
 * cannot be read, on nothing else: then requests are answered without what was learned.
 */
void rv_engine_learn_layers(struct ruvllm_engine *engine, const char *tenant, uint64_t *layers);

/* Gives a new job a trace to fill and what its tenant has learned. */
RV_CHECKED ruvllm_status rv_engine_learn_begin(struct ruvllm_engine *engine, struct rv_job *job, const char *tenant,
                                               struct ruvllm_error *err);
/* Adds what was learned to the adapters of the request. */
void rv_engine_learn_join(struct rv_job *job);
/* The same to any mix; each may be NULL. */
void rv_engine_learn_mix(struct rv_adapter_mix *mix, const struct rv_adapter *head, const struct rv_adapter *deep);
/* What the tenant's memory makes of a row before a token is drawn from it; returns the row for learn_capture. */
const float *rv_engine_learn_recall(struct ruvllm_engine *engine, struct rv_job *job, const float *state, float *row);
/* A token was drawn from `logits`, which the head made of `state`. Allocates nothing. */
void rv_engine_learn_capture(struct ruvllm_engine *engine, struct rv_job *job, const float *state, const float *logits,
                             int32_t token);
/* The answer is whole: its trace waits for feedback. */
void rv_engine_learn_keep(struct ruvllm_engine *engine, struct rv_job *job);

#endif
