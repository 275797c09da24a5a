/* Threads: any pushes; the pool's own pop. One lock, never held while working. */
#include "server/worker_pool.h"

#include "base/alloc.h"

#include <pthread.h>

enum { MAX_THREADS = 16 };

struct rv_worker_pool {
    pthread_mutex_t lock;
    pthread_cond_t has_work;
    struct rv_work *first; // guarded by lock
    struct rv_work *last;  // guarded by lock
    bool is_closing;       // guarded by lock
    pthread_t threads[MAX_THREADS];
    int n_threads;
};

static struct rv_work *pop(struct rv_worker_pool *pool)
{
    struct rv_work *work;

    pthread_mutex_lock(&pool->lock);
    while (!pool->first && !pool->is_closing)
        pthread_cond_wait(&pool->has_work, &pool->lock);
    work = pool->first;
    if (work) {
        pool->first = work->next;
        if (!pool->first)
            pool->last = NULL;
        work->next = NULL;
    }
    pthread_mutex_unlock(&pool->lock);
    return work;
}

static void *run(void *user)
{
    struct rv_worker_pool *pool = user;
    struct rv_work *work;

    while ((work = pop(pool)))
        work->fn(work->user);
    return NULL;
}

ruvllm_status rv_worker_pool_open(struct rv_worker_pool **out, int n_threads, struct ruvllm_error *err)
{
    struct rv_worker_pool *pool = rv_calloc(1, sizeof(*pool));

    *out = NULL;
    if (!pool)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate workers");
    RV_ASSERT(n_threads > 0 && n_threads <= MAX_THREADS);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->has_work, NULL);
    for (; pool->n_threads < n_threads; pool->n_threads++) {
        int rc = pthread_create(&pool->threads[pool->n_threads], NULL, run, pool);

        if (rc) {
            rv_worker_pool_close(pool);
            return rv_fail_errno(err, rc, "cannot start a worker thread");
        }
    }
    *out = pool;
    return RUVLLM_OK;
}

void rv_worker_pool_close(struct rv_worker_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->is_closing = true;
    pthread_cond_broadcast(&pool->has_work);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->n_threads; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->has_work);
    rv_free(pool);
}

void rv_worker_pool_push(struct rv_worker_pool *pool, struct rv_work *work)
{
    pthread_mutex_lock(&pool->lock);
    work->next = NULL;
    if (pool->last)
        pool->last->next = work;
    else
        pool->first = work;
    pool->last = work;
    pthread_cond_signal(&pool->has_work);
    pthread_mutex_unlock(&pool->lock);
}
