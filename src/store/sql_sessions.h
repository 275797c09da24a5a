/* The SQL of sessions, for every engine. Each function is for the thread that has the connection. */
#ifndef RV_STORE_SQL_SESSIONS_H
#define RV_STORE_SQL_SESSIONS_H

#include "store/sql_db.h"

RV_CHECKED ruvllm_status rv_sql_sessions_put(struct rv_store_db *db, const struct ruvllm_session *session,
                                             int64_t now_us, struct ruvllm_error *err);
/* *out is NULL when there is none; one piece of memory with its strings. */
RV_CHECKED ruvllm_status rv_sql_sessions_get(struct rv_store_db *db, const char *tenant, const char *id,
                                             struct ruvllm_session **out, struct ruvllm_error *err);
/* Those before (before_us, before_id) in the order of the list; `out` has room for `limit` rows. */
RV_CHECKED ruvllm_status rv_sql_sessions_list(struct rv_store_db *db, const char *tenant, int64_t before_us,
                                              const char *before_id, int32_t limit, struct rv_store_session *out,
                                              size_t *n, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_sql_sessions_delete(struct rv_store_db *db, const char *tenant, const char *id, bool *found,
                                                struct ruvllm_error *err);

#endif
