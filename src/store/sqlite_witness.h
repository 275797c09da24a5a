/* The witness log in SQLite; the contracts are those of struct rv_store_ops. */
#ifndef RV_STORE_SQLITE_WITNESS_H
#define RV_STORE_SQLITE_WITNESS_H

#include "store/sqlite_db.h"

RV_CHECKED ruvllm_status rv_sqlite_witness_write(struct rv_store_db *db, const struct rv_store_witness *rows,
                                                 size_t n_rows, const struct rv_store_touch *touches, size_t n_touches,
                                                 struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_sqlite_witness_query(struct rv_store_db *db, const struct ruvllm_witness_filter *filter,
                                                 struct rv_store_witness *out, size_t *n, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_sqlite_witness_prune(struct rv_store_db *db, int64_t before_us, int32_t max,
                                                 uint64_t *n_deleted, struct ruvllm_error *err);

#endif
