/*
 * Threads: the caller of rv_team_run and n - 1 helpers. Parts of a round are handed out by an atomic counter. A helper
 * joins a round that is open; the caller closes it when no part is left and waits for those that joined, so nobody
 * touches the work of a round that is over, and nobody is waited for who was asleep. Rounds follow each other within
 * microseconds and waking a thread takes longer than most of them, so all look for a while before they sleep on a
 * condition.
 */
#define _GNU_SOURCE // SCHED_IDLE
#include "learn/team.h"

#include "base/alloc.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { MAX_THREADS = 256, N_LOOKS = 20000 }; // looks: about a millisecond

/* What `state` holds: the round's number, whether it is open, how many helpers are inside. */
#define INSIDE UINT64_C(0xffff)
#define OPEN UINT64_C(0x10000)
#define ROUND UINT64_C(0x20000)

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
    /*
     * Who sleeps says so, then looks once more; who changes what is slept for does that, then looks who sleeps. All in
     * one order (seq_cst), so one of the two sees the other; the lock is taken for sleepers alone.
     */
    _Atomic uint64_t state; // publishes a round's work, and at its end what the parts wrote
    atomic_int n_asleep;    // helpers on `begun`
    atomic_bool is_awaited; // the caller is on `ended`
    bool is_over;           // guarded by lock
    rv_team_fn fn;
    void *work;
    int32_t n_parts;
    atomic_int next_part; // relaxed: only hands out numbers
};

static void look_again(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void compute(struct rv_team *t, int32_t thread)
{
    for (;;) {
        int32_t part = atomic_fetch_add_explicit(&t->next_part, 1, memory_order_relaxed);

        if (part >= t->n_parts)
            return;
        t->fn(t->work, part, thread);
    }
}

/* Joins an open round that is not *last, and makes it that: false when there is none. */
static bool join(struct rv_team *t, uint64_t *last)
{
    uint64_t state = atomic_load(&t->state);

    while ((state & OPEN) && state / ROUND != *last)
        if (atomic_compare_exchange_weak(&t->state, &state, state + 1)) {
            *last = state / ROUND;
            return true;
        }
    return false;
}

/* Waits until it can join a round: false when the team is over. */
static bool wait_to_join(struct rv_team *t, uint64_t *last)
{
    bool has_joined = false;

    for (int i = 0; i < N_LOOKS; i++) {
        if (join(t, last))
            return true;
        look_again();
    }
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->n_asleep, 1);
    while (!t->is_over && !(has_joined = join(t, last)))
        pthread_cond_wait(&t->begun, &t->lock);
    atomic_fetch_sub(&t->n_asleep, 1);
    pthread_mutex_unlock(&t->lock);
    return has_joined;
}

static void leave(struct rv_team *t)
{
    if ((atomic_fetch_sub(&t->state, 1) & INSIDE) > 1 || !atomic_load(&t->is_awaited))
        return;
    pthread_mutex_lock(&t->lock);
    pthread_cond_signal(&t->ended);
    pthread_mutex_unlock(&t->lock);
}

static void wait_for_helpers(struct rv_team *t)
{
    for (int i = 0; i < N_LOOKS; i++) {
        if (!(atomic_load(&t->state) & INSIDE))
            return;
        look_again();
    }
    pthread_mutex_lock(&t->lock);
    atomic_store(&t->is_awaited, true);
    while (atomic_load(&t->state) & INSIDE)
        pthread_cond_wait(&t->ended, &t->lock);
    atomic_store(&t->is_awaited, false);
    pthread_mutex_unlock(&t->lock);
}

static void *help(void *arg)
{
    struct helper *h = arg;
    struct rv_team *t = h->team;
    uint64_t last = 0;

#ifdef SCHED_IDLE
    if (t->is_idle)
        /* Without it the work is done all the same, only less politely. */
        (void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &(struct sched_param){0});
#endif
    while (wait_to_join(t, &last)) {
        compute(t, h->number);
        leave(t);
    }
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
    t->fn = fn;
    t->work = work;
    t->n_parts = n_parts;
    atomic_store_explicit(&t->next_part, 0, memory_order_relaxed);
    atomic_fetch_add(&t->state, ROUND | OPEN);
    if (atomic_load(&t->n_asleep) > 0) {
        pthread_mutex_lock(&t->lock);
        pthread_cond_broadcast(&t->begun);
        pthread_mutex_unlock(&t->lock);
    }
    compute(t, 0);
    atomic_fetch_and(&t->state, ~OPEN);
    wait_for_helpers(t);
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
