/* Sessions in SQLite; the contracts are those of struct rv_store_ops. */
#ifndef RV_STORE_SQLITE_SESSIONS_H
#define RV_STORE_SQLITE_SESSIONS_H

#include "store/sqlite_db.h"

RV_CHECKED ruvllm_status rv_sqlite_sessions_put(struct rv_store_db *db, const struct ruvllm_session *session,
                                                int64_t now_us, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_sqlite_sessions_get(struct rv_store_db *db, const char *tenant, const char *id,
                                                struct ruvllm_session **out, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_sqlite_sessions_list(struct rv_store_db *db, const char *tenant, int64_t before_us,
                                                 const char *before_id, int32_t limit, struct rv_store_session *out,
                                                 size_t *n, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_sqlite_sessions_delete(struct rv_store_db *db, const char *tenant, const char *id,
                                                   bool *found, struct ruvllm_error *err);

#endif
