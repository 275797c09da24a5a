/* Conversations that a client gave an id: kept in the store after each answer, with their keys and values on disk when
 * asked for. On workers. */
#ifndef RV_SERVER_SESSION_STORE_H
#define RV_SERVER_SESSION_STORE_H

#include "server/call.h"

/* Puts the conversation of a chat request, with its answer, into the store under the request's session id. */
RV_CHECKED ruvllm_status rv_session_store_put(struct rv_call *call, const char *answer, int64_t n_tokens,
                                              struct ruvllm_error *err);

enum { RV_SESSION_STORE_NAME = 80 };
/* The file name of a session's keys and values: from a hash, so that no id becomes part of a path. */
void rv_session_store_file_name(const char *tenant, const char *id, char out[RV_SESSION_STORE_NAME]);

#endif
