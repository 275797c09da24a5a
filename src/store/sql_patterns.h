/* The SQL of patterns, for every engine. Each function is for the thread that has the connection. */
#ifndef RV_STORE_SQL_PATTERNS_H
#define RV_STORE_SQL_PATTERNS_H

#include "base/arena.h"
#include "store/sql_db.h"

struct rv_sql_patterns_page {
    struct rv_store_pattern *rows;
    size_t n;
    struct rv_arena arena;
};

/* Fills in pattern->row. */
RV_CHECKED ruvllm_status rv_sql_patterns_add(struct rv_store_db *db, struct rv_store_pattern *pattern,
                                             struct ruvllm_error *err);
/* Up to `max` of a tenant and model with a row beyond `after`, ascending. The page is released by the caller. */
RV_CHECKED ruvllm_status rv_sql_patterns_read(struct rv_store_db *db, const char *tenant, const char *model,
                                              int64_t after, size_t max, struct rv_sql_patterns_page *page,
                                              struct ruvllm_error *err);
void rv_sql_patterns_page_release(struct rv_sql_patterns_page *page);
/* Removes one, or, for row 0, all of a tenant and model. */
RV_CHECKED ruvllm_status rv_sql_patterns_delete(struct rv_store_db *db, const char *tenant, const char *model,
                                                int64_t row, uint64_t *n_deleted, struct ruvllm_error *err);
/* Removes what came from an event: with its number, or with none (0) and its time. */
RV_CHECKED ruvllm_status rv_sql_patterns_delete_event(struct rv_store_db *db, const char *tenant, const char *model,
                                                      int64_t seq, int64_t time_us, uint64_t *n_deleted,
                                                      struct ruvllm_error *err);
/* Removes all but the newest `n` of a tenant and model. */
RV_CHECKED ruvllm_status rv_sql_patterns_keep_newest(struct rv_store_db *db, const char *tenant, const char *model,
                                                     size_t n, uint64_t *n_deleted, struct ruvllm_error *err);

#endif
