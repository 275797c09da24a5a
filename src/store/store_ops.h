/*
 * What a kind of database has to do to be a store: one table of functions a backend, listed in store.c. The functions
 * move rows; what a row means (who may see it, what a valid name is, when a key is good) is decided above them, once
 * for all backends.
 *
 * A `struct rv_store_db` is one connection and belongs to one thread at a time: who holds it holds its lock.
 */
#ifndef RV_STORE_STORE_OPS_H
#define RV_STORE_STORE_OPS_H

#include "ruvllm_store.h"

#include "base/error.h"
#include "base/secret.h"

enum {
    RV_STORE_TENANT_MAX = 64, // bytes without the NUL, as the rest
    RV_STORE_KEY_ID_LEN = 8,
    RV_STORE_KEY_NAME_MAX = 128,
    RV_STORE_REQUEST_ID_MAX = 64,
    RV_STORE_MODEL_MAX = 128,
    RV_STORE_ENDPOINT_MAX = 64,
    RV_STORE_FINISH_MAX = 32,
    RV_STORE_SESSION_ID_MAX = 64,
    RV_STORE_TITLE_MAX = 256,
    RV_STORE_SNAPSHOT_MAX = 128,
    RV_STORE_MESSAGES_MAX = 16 * 1024 * 1024,
    RV_STORE_LIMIT_MAX = 1000 // rows of one query
};

struct rv_store_db; // a connection; each backend has its own

struct rv_store_key {
    int64_t row; // ascending in the order of creation
    uint8_t hash[RV_SECRET_BYTES];
    struct ruvllm_key_info info;
};

/* That a key was used. */
struct rv_store_touch {
    char id[RV_STORE_KEY_ID_LEN + 1];
    int64_t time; // Unix seconds
};

/* A witness entry with room for its strings. The numbers are in `numbers`, whose own strings are not looked at. */
struct rv_store_witness {
    char tenant[RV_STORE_TENANT_MAX + 1];
    char key_id[RV_STORE_KEY_ID_LEN + 1];
    char request_id[RV_STORE_REQUEST_ID_MAX + 1];
    char model[RV_STORE_MODEL_MAX + 1];
    char endpoint[RV_STORE_ENDPOINT_MAX + 1];
    char finish_reason[RV_STORE_FINISH_MAX + 1];
    struct ruvllm_witness numbers;
};

/* A session as lists have it: without its messages. The numbers are in `numbers`. */
struct rv_store_session {
    char id[RV_STORE_SESSION_ID_MAX + 1];
    char model[RV_STORE_MODEL_MAX + 1];
    char title[RV_STORE_TITLE_MAX + 1];
    char snapshot[RV_STORE_SNAPSHOT_MAX + 1];
    struct ruvllm_session numbers;
};

/* What connections are for; a backend may prepare them differently. */
enum rv_store_role {
    RV_STORE_ROLE_FIRST, // makes what is missing, checks the version, migrates; then reads and writes
    RV_STORE_ROLE_READER,
    RV_STORE_ROLE_WRITER
};

struct rv_store_ops {
    const char *scheme; // of the URL: "sqlite"
    ruvllm_status (*open)(struct rv_store_db **out, const char *location, enum rv_store_role role,
                          const struct ruvllm_store_params *params, struct ruvllm_error *err);
    void (*close)(struct rv_store_db *db); // NULL is fine

    /* *taken: the id (or, never seen, the hash) exists already and nothing was added. */
    ruvllm_status (*key_add)(struct rv_store_db *db, const struct rv_store_key *key, bool *taken,
                             struct ruvllm_error *err);
    ruvllm_status (*key_find)(struct rv_store_db *db, const uint8_t hash[RV_SECRET_BYTES], struct rv_store_key *out,
                              bool *found, struct ruvllm_error *err);
    /* Up to `max` keys with a row beyond `after`, ascending; NULL tenant: all. */
    ruvllm_status (*key_list)(struct rv_store_db *db, const char *tenant, int64_t after, struct rv_store_key *out,
                              size_t max, size_t *n, struct ruvllm_error *err);
    ruvllm_status (*key_count)(struct rv_store_db *db, int64_t now, uint64_t *n, struct ruvllm_error *err);
    /* Keeps the time of a first revocation. */
    ruvllm_status (*key_revoke)(struct rv_store_db *db, const char *id, int64_t now, bool *found,
                                struct ruvllm_error *err);

    /* All of it in one transaction, or none. */
    ruvllm_status (*witness_write)(struct rv_store_db *db, const struct rv_store_witness *rows, size_t n_rows,
                                   const struct rv_store_touch *touches, size_t n_touches, struct ruvllm_error *err);
    /* `out` has room for filter->limit rows. */
    ruvllm_status (*witness_query)(struct rv_store_db *db, const struct ruvllm_witness_filter *filter,
                                   struct rv_store_witness *out, size_t *n, struct ruvllm_error *err);
    /* The oldest rows before a time, `max` of them. */
    ruvllm_status (*witness_prune)(struct rv_store_db *db, int64_t before_us, int32_t max, uint64_t *n_deleted,
                                   struct ruvllm_error *err);

    ruvllm_status (*session_put)(struct rv_store_db *db, const struct ruvllm_session *session, int64_t now_us,
                                 struct ruvllm_error *err);
    /* *out is NULL when there is none; one piece of memory with its strings. */
    ruvllm_status (*session_get)(struct rv_store_db *db, const char *tenant, const char *id,
                                 struct ruvllm_session **out, struct ruvllm_error *err);
    /* Those before (before_us, before_id) in the order of the list; `out` has room for `limit` rows. */
    ruvllm_status (*session_list)(struct rv_store_db *db, const char *tenant, int64_t before_us, const char *before_id,
                                  int32_t limit, struct rv_store_session *out, size_t *n, struct ruvllm_error *err);
    ruvllm_status (*session_delete)(struct rv_store_db *db, const char *tenant, const char *id, bool *found,
                                    struct ruvllm_error *err);
};

#endif
