/*
 * Threads: the caller of rv_team_run and n - 1 helpers, which wait for a round on a condition between computations. A
 * round's work is published under the lock; parts are handed out by an atomic counter; the caller waits until the last
 * helper has left the round, so nobody touches the work of one that is over.
 */
#define _GNU_SOURCE // SCHED_IDLE
#include "learn/team.h"

#include "base/alloc.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { MAX_THREADS = 256 };

struct helper {
    struct rv_team *team;
    pthread_t thread;
    int32_t number;
};

struct rv_team {
    int32_t n_threads;
    int32_t n_helpers; // started
    bool is_idle;
    struct helper *helpers;
    pthread_mutex_t lock;
    pthread_cond_t begun;
    pthread_cond_t ended;
    uint64_t round;   // guarded by lock
    int32_t n_inside; // guarded by lock: helpers that have not left this round
    bool is_over;     // guarded by lock
    rv_team_fn fn;    // of the round: written under the lock before it begins
    void *work;
    int32_t n_parts;
    atomic_int next_part; // relaxed: only hands out numbers; the lock orders what parts wrote
};

static void compute(struct rv_team *t, int32_t thread)
{
    for (;;) {
        int32_t part = atomic_fetch_add_explicit(&t->next_part, 1, memory_order_relaxed);

        if (part >= t->n_parts)
            return;
        t->fn(t->work, part, thread);
    }
}

static void *help(void *arg)
{
    struct helper *h = arg;
    struct rv_team *t = h->team;
    uint64_t seen = 0;

#ifdef SCHED_IDLE
    if (t->is_idle)
        /* Without it the work is done all the same, only less politely. */
        (void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &(struct sched_param){0});
#endif
    pthread_mutex_lock(&t->lock);
    for (;;) {
        while (t->round == seen && !t->is_over)
            pthread_cond_wait(&t->begun, &t->lock);
        if (t->is_over)
            break;
        seen = t->round;
        pthread_mutex_unlock(&t->lock);
        compute(t, h->number);
        pthread_mutex_lock(&t->lock);
        if (--t->n_inside == 0)
            pthread_cond_signal(&t->ended);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

void rv_team_run(struct rv_team *team, int32_t n_parts, rv_team_fn fn, void *work)
{
    struct rv_team *t = team;

    if (t->n_helpers == 0 || n_parts <= 1) {
        for (int32_t i = 0; i < n_parts; i++)
            fn(work, i, 0);
        return;
    }
    pthread_mutex_lock(&t->lock);
    t->fn = fn;
    t->work = work;
    t->n_parts = n_parts;
    atomic_store_explicit(&t->next_part, 0, memory_order_relaxed);
    t->n_inside = t->n_helpers;
    t->round++;
    pthread_cond_broadcast(&t->begun);
    pthread_mutex_unlock(&t->lock);
    compute(t, 0);
    pthread_mutex_lock(&t->lock);
    while (t->n_inside > 0)
        pthread_cond_wait(&t->ended, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

ruvllm_status rv_team_open(struct rv_team **out, int32_t n_threads, bool is_idle, struct ruvllm_error *err)
{
    struct rv_team *t;

    *out = NULL;
    if (n_threads < 1 || n_threads > MAX_THREADS)
        return rv_fail(err, RUVLLM_INVALID, "%d threads are not between 1 and %d", n_threads, MAX_THREADS);
    t = rv_calloc(1, sizeof(*t));
    if (t)
        t->helpers = rv_calloc((size_t)n_threads, sizeof(*t->helpers));
    if (!t || !t->helpers) {
        rv_free(t);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a team of %d threads", n_threads);
    }
    t->n_threads = n_threads;
    t->is_idle = is_idle;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->begun, NULL);
    pthread_cond_init(&t->ended, NULL);
    for (int32_t i = 1; i < n_threads; i++) {
        struct helper *h = &t->helpers[t->n_helpers];

        *h = (struct helper){.team = t, .number = i};
        if (pthread_create(&h->thread, NULL, help, h) != 0) {
            rv_team_close(t);
            return rv_fail(err, RUVLLM_BACKEND, "cannot start %d threads", n_threads);
        }
        t->n_helpers++;
    }
    *out = t;
    return RUVLLM_OK;
}

void rv_team_close(struct rv_team *team)
{
    if (!team)
        return;
    pthread_mutex_lock(&team->lock);
    team->is_over = true;
    pthread_cond_broadcast(&team->begun);
    pthread_mutex_unlock(&team->lock);
    for (int32_t i = 0; i < team->n_helpers; i++)
        pthread_join(team->helpers[i].thread, NULL);
    pthread_mutex_destroy(&team->lock);
    pthread_cond_destroy(&team->begun);
    pthread_cond_destroy(&team->ended);
    rv_free(team->helpers);
    rv_free(team);
}

int32_t rv_team_n_threads(const struct rv_team *team)
{
    return team->n_threads;
}
