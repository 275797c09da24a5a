/* The index of saved sessions. As the public calls of the same names. */
#ifndef RV_STORE_STORE_SESSIONS_H
#define RV_STORE_STORE_SESSIONS_H

#include "store/store.h"

RV_CHECKED ruvllm_status rv_store_sessions_put(struct ruvllm_store *store, const struct ruvllm_session *session,
                                               struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_store_sessions_get(struct ruvllm_store *store, const char *tenant, const char *id,
                                               struct ruvllm_session **out, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_store_sessions_list(struct ruvllm_store *store, const char *tenant, int64_t before_us,
                                                const char *before_id, int32_t limit, ruvllm_session_fn fn, void *user,
                                                struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_store_sessions_delete(struct ruvllm_store *store, const char *tenant, const char *id,
                                                  struct ruvllm_error *err);

#endif
