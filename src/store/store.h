/*
 * The store: a handle, the connections behind it and who uses which.
 *
 *     any thread      db         guarded by lock: everything that is not one of the next two
 *     any thread      check_db   guarded by check_lock: reads keys only, so it never waits for somebody's write
 *     writer thread   its own    owned by the witness log (store_witness.h)
 *
 * The two locks are held across SQL, which is what they are for: a connection has one user at a time. They are never
 * held together, nor across a caller's callback.
 */
#ifndef RV_STORE_STORE_H
#define RV_STORE_STORE_H

#include "store/store_ops.h"

#include <pthread.h>

struct rv_store_log;

struct ruvllm_store {
    const struct rv_store_ops *ops;
    pthread_mutex_t lock;
    struct rv_store_db *db; // guarded by lock
    pthread_mutex_t check_lock;
    struct rv_store_db *check_db; // guarded by check_lock
    struct rv_store_log *log;     // has a lock of its own
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

#endif
