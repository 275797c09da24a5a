/*
 * The store: a handle, the connections behind it and who uses which.
 *
 *     any thread      db         guarded by lock: everything that is not one of the next two
 *     any thread      check_db   guarded by check_lock: reads keys only, so it never waits for somebody's write
 *     writer thread   its own    owned by the witness log (store_witness.h)
 *     writer thread   its own    owned by the event log (event_writer.h), which is started by the first who uses it
 *
 * The two locks are held across SQL, which is what they are for: a connection has one user at a time. They are never
 * held together, nor across a caller's callback.
 */
#ifndef RV_STORE_STORE_H
#define RV_STORE_STORE_H

#include "store/store_backend.h"

#include <pthread.h>

struct rv_event_writer;
struct rv_key_memory;
struct rv_store_log;

struct ruvllm_store {
    const struct rv_store_backend *backend;
    char *location;
    char *spool_path; // NULL: the backend needs none
    struct ruvllm_store_params params;
    pthread_mutex_t lock;
    struct rv_store_db *db; // guarded by lock
    pthread_mutex_t check_lock;
    struct rv_store_db *check_db;     // guarded by check_lock, as the next
    struct rv_key_memory *key_memory; // NULL: the database is never away
    struct rv_store_log *log;         // has a lock of its own, as the next
    pthread_mutex_t events_lock;
    struct rv_event_writer *events; // guarded by events_lock until it is there; then it stays
};

struct ruvllm_store_params rv_store_params_default(void);
/* As ruvllm_store_open, with all params given. */
RV_CHECKED ruvllm_status rv_store_open(struct ruvllm_store **out, const char *url,
                                       const struct ruvllm_store_params *params, struct ruvllm_error *err);
/* Accepts NULL. */
void rv_store_close(struct ruvllm_store *store);

/* The connection, for this thread alone until it is given back. */
struct rv_store_db *rv_store_lock(struct ruvllm_store *store);
void rv_store_unlock(struct ruvllm_store *store);

/* The writer of the event log, which the first call starts. */
RV_CHECKED ruvllm_status rv_store_events_writer(struct ruvllm_store *store, struct rv_event_writer **out,
                                                struct ruvllm_error *err);
/* One more connection, the caller's to close. */
RV_CHECKED ruvllm_status rv_store_connect(struct ruvllm_store *store, enum rv_store_role role, struct rv_store_db **out,
                                          struct ruvllm_error *err);

#endif
