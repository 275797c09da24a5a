/* The SQL of the witness log, for every engine. Each function is for the thread that has the connection. */
#ifndef RV_STORE_SQL_WITNESS_H
#define RV_STORE_SQL_WITNESS_H

#include "store/sql_db.h"

/* All of it in one transaction, or none. */
RV_CHECKED ruvllm_status rv_sql_witness_write(struct rv_store_db *db, const struct rv_store_witness *rows,
                                              size_t n_rows, const struct rv_store_touch *touches, size_t n_touches,
                                              struct ruvllm_error *err);
/* `out` has room for filter->limit rows. */
RV_CHECKED ruvllm_status rv_sql_witness_query(struct rv_store_db *db, const struct ruvllm_witness_filter *filter,
                                              struct rv_store_witness *out, size_t *n, struct ruvllm_error *err);
/* The oldest rows before a time, `max` of them. */
RV_CHECKED ruvllm_status rv_sql_witness_prune(struct rv_store_db *db, int64_t before_us, int32_t max,
                                              uint64_t *n_deleted, struct ruvllm_error *err);

#endif
