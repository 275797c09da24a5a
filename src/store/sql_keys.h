/* The SQL of keys, for every engine. Each function is for the thread that has the connection. */
#ifndef RV_STORE_SQL_KEYS_H
#define RV_STORE_SQL_KEYS_H

#include "store/sql_db.h"

/* *taken: the id (or, never seen, the hash) exists already and nothing was added. */
RV_CHECKED ruvllm_status rv_sql_keys_add(struct rv_store_db *db, const struct rv_store_key *key, bool *taken,
                                         struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_sql_keys_find(struct rv_store_db *db, const uint8_t hash[RV_SECRET_BYTES],
                                          struct rv_store_key *out, bool *found, struct ruvllm_error *err);
/* Up to `max` keys with a row beyond `after`, ascending; NULL tenant: all. */
RV_CHECKED ruvllm_status rv_sql_keys_list(struct rv_store_db *db, const char *tenant, int64_t after,
                                          struct rv_store_key *out, size_t max, size_t *n, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_sql_keys_count(struct rv_store_db *db, int64_t now, uint64_t *n, struct ruvllm_error *err);
/* Keeps the time of a first revocation. */
RV_CHECKED ruvllm_status rv_sql_keys_revoke(struct rv_store_db *db, const char *id, int64_t now, bool *found,
                                            struct ruvllm_error *err);
/* Inside a transaction: notes when keys were used last. Never moves a time back. */
RV_CHECKED ruvllm_status rv_sql_keys_touch(struct rv_store_db *db, const struct rv_store_touch *touches, size_t n,
                                           struct ruvllm_error *err);

#endif
