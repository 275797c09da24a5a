/*
 * One reader for each kind of request, called with the body as an object and a request that holds the defaults. They
 * fill it, or leave a failure in the body's reader. api_request.c lists them.
 */
#ifndef RV_API_API_KINDS_H
#define RV_API_API_KINDS_H

#include "server/api/api_fields.h"

void rv_api_chat_read(struct rv_api_fields *body, struct rv_api_request *request);
void rv_api_completion_read(struct rv_api_fields *body, struct rv_api_request *request);
void rv_api_embedding_read(struct rv_api_fields *body, struct rv_api_request *request);
void rv_api_response_read(struct rv_api_fields *body, struct rv_api_request *request);
void rv_api_tokenize_read(struct rv_api_fields *body, struct rv_api_request *request);
void rv_api_detokenize_read(struct rv_api_fields *body, struct rv_api_request *request);
void rv_api_template_read(struct rv_api_fields *body, struct rv_api_request *request);

#endif
