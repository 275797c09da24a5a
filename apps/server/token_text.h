/* The text of tokens one by one, as log-probabilities and /v1/tokenize show them. */
#ifndef RV_SERVER_TOKEN_TEXT_H
#define RV_SERVER_TOKEN_TEXT_H

#include "base/error.h"

/* What a token adds inside a text; *text is the caller's: ruvllm_free(). Special tokens are spelled out. */
RV_CHECKED ruvllm_status rv_token_text(const ruvllm_model *model, int32_t token, char **text, size_t *len,
                                       struct ruvllm_error *err);

#endif
