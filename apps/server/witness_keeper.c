/* Threads: start on the I/O thread, the deleting on a worker; a keeper is with one of them at a time. */
#include "server/witness_keeper.h"

#include <stdio.h>

static void prune(void *user)
{
    struct rv_witness_keeper *keeper = user;
    struct ruvllm_error err = {0};
    uint64_t n = 0;
    char text[sizeof(err.message) + 64];

    if (ruvllm_witness_prune(keeper->store, keeper->days, &n, &err)) {
        snprintf(text, sizeof(text), "cannot delete old entries of the witness log: %s", err.message);
        rv_access_log_message(keeper->log, "error", text);
    } else if (n > 0) {
        snprintf(text, sizeof(text), "%llu entries of the witness log were older than %d days and are deleted",
                 (unsigned long long)n, keeper->days);
        rv_access_log_message(keeper->log, "info", text);
    }
    atomic_store_explicit(&keeper->is_busy, false, memory_order_release);
}

void rv_witness_keeper_init(struct rv_witness_keeper *keeper, struct rv_worker_pool *pool, ruvllm_store *store,
                            struct rv_access_log *log, int32_t days)
{
    *keeper = (struct rv_witness_keeper){
        .work = {.fn = prune, .user = keeper}, .pool = pool, .store = store, .log = log, .days = days};
}

void rv_witness_keeper_start(void *keeper)
{
    struct rv_witness_keeper *k = keeper;

    if (!atomic_exchange_explicit(&k->is_busy, true, memory_order_acquire))
        rv_worker_pool_push(k->pool, &k->work);
}
