/*
 * A few threads that do what the I/O thread must not: parse, render, tokenise, ask the store, compute embeddings. Work
 * is a node inside the thing worked on, so handing over allocates nothing and the queue is as long as there are things.
 */
#ifndef RV_SERVER_WORKER_POOL_H
#define RV_SERVER_WORKER_POOL_H

#include "base/error.h"

struct rv_worker_pool;

/* Lives until `fn` begins; may be handed in again from then on. Not while it waits. */
struct rv_work {
    void (*fn)(void *user);
    void *user;
    struct rv_work *next; // guarded by the pool's lock
};

RV_CHECKED ruvllm_status rv_worker_pool_open(struct rv_worker_pool **out, int n_threads, struct ruvllm_error *err);
/* Does all work that waits, then ends the threads. Nothing may be handed in after. */
void rv_worker_pool_close(struct rv_worker_pool *pool);
/* First come, first served. Any thread. */
void rv_worker_pool_push(struct rv_worker_pool *pool, struct rv_work *work);

#endif
