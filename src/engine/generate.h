/* One answer: prompt in, tokens out, until something ends it. */
#ifndef RV_ENGINE_GENERATE_H
#define RV_ENGINE_GENERATE_H

#include "engine/model.h"

/* The model must have been acquired. See ruvllm_generate_stream; on_chunk and out may be NULL. */
RV_CHECKED ruvllm_status rv_generate(struct ruvllm_model *model, const struct ruvllm_input *input,
                                     const struct ruvllm_generate_params *params, ruvllm_chunk_fn on_chunk, void *user,
                                     struct ruvllm_response **out, struct ruvllm_error *err);

#endif
