/* Log-probabilities in the formats of chat completions, completions and responses. NULL `logprobs` is written null. */
#ifndef RV_API_API_LOGPROBS_H
#define RV_API_API_LOGPROBS_H

#include "server/api/api_reply.h"

/* {"content": [{token, logprob, bytes, top_logprobs}], "refusal": null} */
void rv_api_logprobs_chat(struct rv_buf *out, const char *key, const struct rv_api_logprobs *logprobs);
/* {"tokens": [], "token_logprobs": [], "top_logprobs": [{}], "text_offset": []} */
void rv_api_logprobs_completion(struct rv_buf *out, const char *key, const struct rv_api_logprobs *logprobs);
/* The rows alone, as an array; empty for NULL. */
void rv_api_logprobs_rows(struct rv_buf *out, const char *key, const struct rv_api_logprobs *logprobs);

#endif
