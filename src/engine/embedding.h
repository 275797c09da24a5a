/*
 * A text as one vector: the final hidden states averaged over its tokens, scaled to length 1. On a model of one's own,
 * or beside the requests an engine serves, piece by piece between its steps.
 */
#ifndef RV_ENGINE_EMBEDDING_H
#define RV_ENGINE_EMBEDDING_H

#include "engine/engine.h"

/* n_embd floats into `out`. Nothing to embed is INVALID, more than the context holds TOO_LARGE. */
RV_CHECKED ruvllm_status rv_embedding_by_model(struct ruvllm_model *model, const int32_t *tokens, size_t n_tokens,
                                               float *out, struct ruvllm_error *err);
/* BUSY when there is no room for its keys and values beside what runs. */
RV_CHECKED ruvllm_status rv_embedding_by_engine(struct ruvllm_engine *engine, const char *tenant, const int32_t *tokens,
                                                size_t n_tokens, float *out, struct ruvllm_error *err);

#endif
