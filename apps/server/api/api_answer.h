/* What requests for an answer have in common: the fields any of them may have, and how an answer is chosen and sent. */
#ifndef RV_API_API_ANSWER_H
#define RV_API_API_ANSWER_H

#include "server/api/api_fields.h"

/* Refuses fields that are neither `own`, nor `tools`, nor any request's; reads which adapters are to be used. */
void rv_api_answer_begin(struct rv_api_fields *body, const struct rv_api_field *own, const struct rv_api_field *tools,
                         struct rv_api_request *request);
/* Reads how tokens are chosen, how many at most (a field of that name), and whether they are streamed. */
void rv_api_answer_sampling(struct rv_api_fields *body, const char *max_tokens, struct rv_api_request *request);

#endif
