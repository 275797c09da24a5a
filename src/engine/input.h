/* What a caller hands in (text, a conversation, token ids), made into token ids. */
#ifndef RV_ENGINE_INPUT_H
#define RV_ENGINE_INPUT_H

#include "engine/model.h"

/* *tokens is the caller's (rv_free). Ids given by the caller are checked against the vocabulary. */
RV_CHECKED ruvllm_status rv_input_tokens(const struct ruvllm_model *model, const struct ruvllm_input *input,
                                         int32_t **tokens, size_t *n_tokens, struct ruvllm_error *err);
/* Renders a conversation; `user_mask` may be NULL. Both buffers are appended to. */
RV_CHECKED ruvllm_status rv_input_render(const struct ruvllm_model *model, const struct ruvllm_message *messages,
                                         size_t n_messages, struct rv_buf *text, struct rv_buf *user_mask,
                                         struct ruvllm_error *err);

#endif
