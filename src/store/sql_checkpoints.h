/* The SQL of checkpoints, for every engine. Each function is for the thread that has the connection. */
#ifndef RV_STORE_SQL_CHECKPOINTS_H
#define RV_STORE_SQL_CHECKPOINTS_H

#include "store/sql_db.h"

/* Takes the place of the one of its tenant and model, unless the log counts more or less as forgotten. */
RV_CHECKED ruvllm_status rv_sql_checkpoints_put(struct rv_store_db *db, const char *tenant, const char *model,
                                                int64_t seq, int64_t n_forgotten, const void *data, size_t len,
                                                struct ruvllm_error *err);
/* *out is the caller's to rv_free; NULL when there is none. */
RV_CHECKED ruvllm_status rv_sql_checkpoints_get(struct rv_store_db *db, const char *tenant, const char *model,
                                                int64_t *seq, void **out, size_t *len, struct ruvllm_error *err);
/* Removes a tenant's that have the event of a number in them. */
RV_CHECKED ruvllm_status rv_sql_checkpoints_drop(struct rv_store_db *db, const char *tenant, int64_t seq,
                                                 struct ruvllm_error *err);

#endif
