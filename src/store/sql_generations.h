/* The SQL of generations and their content, for every engine. Each function is for the thread that has the connection.
 */
#ifndef RV_STORE_SQL_GENERATIONS_H
#define RV_STORE_SQL_GENERATIONS_H

#include "store/sql_db.h"

enum { RV_SQL_GENERATIONS_ACTIVE = -1 }; // in place of a number: the one that is active

/*
 * Adds a generation with its content, in one transaction: content of the same hash is kept once. gen->generation is
 * filled in: one more than the newest of its tenant and model. When gen->is_active, the one that was active no longer
 * is.
 */
RV_CHECKED ruvllm_status rv_sql_generations_add(struct rv_store_db *db, struct rv_store_generation *gen,
                                                const void *data, size_t len, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_sql_generations_find(struct rv_store_db *db, const char *tenant, const char *model,
                                                 int64_t generation, struct rv_store_generation *out, bool *found,
                                                 struct ruvllm_error *err);
/* Those before a number, newest first; `out` has room for `max`. */
RV_CHECKED ruvllm_status rv_sql_generations_list(struct rv_store_db *db, const char *tenant, const char *model,
                                                 int64_t before, struct rv_store_generation *out, size_t max, size_t *n,
                                                 struct ruvllm_error *err);
/* Makes one active in place of the other; 0: none. *found false: there is no such one and nothing changed. */
RV_CHECKED ruvllm_status rv_sql_generations_activate(struct rv_store_db *db, const char *tenant, const char *model,
                                                     int64_t generation, bool *found, struct ruvllm_error *err);
/* Empties those that have read the event of this number, and removes content that no generation has any more. */
RV_CHECKED ruvllm_status rv_sql_generations_forget(struct rv_store_db *db, const char *tenant, const char *model,
                                                   int64_t seq, struct ruvllm_error *err);
/* The content, `len` bytes into `out`; *found false when a part of it is missing or there is more. */
RV_CHECKED ruvllm_status rv_sql_generations_content(struct rv_store_db *db, const char *hash, void *out, size_t len,
                                                    bool *found, struct ruvllm_error *err);

#endif
