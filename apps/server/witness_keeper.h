/* Keeps the witness log from growing for ever: deletes what is older than so many days, on a worker. */
#ifndef RV_SERVER_WITNESS_KEEPER_H
#define RV_SERVER_WITNESS_KEEPER_H

#include "ruvllm_store.h"
#include "server/access_log.h"
#include "server/worker_pool.h"

#include <stdatomic.h>

enum { RV_WITNESS_KEEPER_PERIOD_MS = 24 * 60 * 60 * 1000 };

struct rv_witness_keeper {
    struct rv_work work;
    struct rv_worker_pool *pool;
    ruvllm_store *store;
    struct rv_access_log *log;
    int32_t days;
    _Atomic bool is_busy; // handed to the pool and not done; released by the worker, acquired by who starts again
};

/* All are borrowed; `store` outlives the pool's threads. */
void rv_witness_keeper_init(struct rv_witness_keeper *keeper, struct rv_worker_pool *pool, ruvllm_store *store,
                            struct rv_access_log *log, int32_t days);
/* Has it done soon, unless it is under way. What was deleted, and what failed, goes to the log. */
void rv_witness_keeper_start(void *keeper);

#endif
