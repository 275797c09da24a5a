/*
 * Threads: anybody pushes jobs onto a stack by compare-and-swap and rings a semaphore; the computing thread takes the
 * whole stack at once, turns it round and works; results go the same way to the thread that hands them over. No lock is
 * taken on the way, so a computing thread that the system lets sleep for seconds delays nobody.
 */
#define _GNU_SOURCE // SCHED_IDLE
#include "learn/background.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

struct lane {
    _Atomic(struct rv_background_job *) newest; // release to push, acquire to take: the job's content goes along
    sem_t rings;
};

struct rv_background {
    struct rv_tick tick; // the computing thread's
    rv_background_fn on_made;
    void *user;
    struct lane asked, made;
    atomic_bool is_over;
    pthread_t computing, handing;
};

/* ---- jobs ----------------------------------------------------------------------------------- */

ruvllm_status rv_background_job_new(struct rv_background_job **out, const char *tenant, struct rv_study *study,
                                    bool with_answers, const struct rv_head_adapter *now, struct ruvllm_error *err)
{
    struct rv_background_job *job = rv_calloc(1, sizeof(*job));
    ruvllm_status rc;

    *out = NULL;
    if (!job)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a tick");
    job->tenant = rv_strdup(tenant);
    rc = job->tenant ? rv_head_adapter_init(&job->now, now->n_dims, now->rank, err)
                     : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a tick");
    if (!rc)
        rc = rv_head_adapter_init(&job->made, now->n_dims, now->rank, err);
    if (rc) {
        rv_background_job_free(job);
        return rc;
    }
    rv_head_adapter_copy(&job->now, now);
    job->study = rv_study_ref(study);
    job->n_undone = study->n_undone;
    job->n_answers = with_answers ? rv_rehearsal_take(&study->rehearsal, job->answers) : 0;
    *out = job;
    return RUVLLM_OK;
}

void rv_background_job_free(struct rv_background_job *job)
{
    if (!job)
        return;
    for (size_t i = 0; i < job->n_answers; i++)
        rv_rehearsal_unref(job->answers[i]);
    rv_head_adapter_release(&job->now);
    rv_head_adapter_release(&job->made);
    rv_study_unref(job->study);
    rv_free(job->tenant);
    rv_free(job);
}

/* ---- lanes ---------------------------------------------------------------------------------- */

static void push(struct lane *lane, struct rv_background_job *job)
{
    job->next = atomic_load_explicit(&lane->newest, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&lane->newest, &job->next, job, memory_order_release,
                                                  memory_order_relaxed))
        ;
    sem_post(&lane->rings);
}

/* All that is there, the oldest first. */
static struct rv_background_job *take_all(struct lane *lane)
{
    struct rv_background_job *job = atomic_exchange_explicit(&lane->newest, NULL, memory_order_acquire), *first = NULL;

    while (job) {
        struct rv_background_job *next = job->next;

        job->next = first;
        first = job;
        job = next;
    }
    return first;
}

static void free_all(struct rv_background_job *job)
{
    while (job) {
        struct rv_background_job *next = job->next;

        rv_background_job_free(job);
        job = next;
    }
}

static void wait_for(struct lane *lane)
{
    while (sem_wait(&lane->rings) != 0) // interrupted by a signal
        ;
}

/* ---- the threads ---------------------------------------------------------------------------- */

static void compute(struct rv_background *b, struct rv_background_job *job)
{
    int64_t start = rv_clock_us();

    rv_tick_begin(&b->tick, &job->now);
    job->rc = rv_tick_run(&b->tick, job->study, job->answers, job->n_answers, job->mean,
                          start + (int64_t)RV_BACKGROUND_TICK_MS * 1000, &job->result, &job->err);
    rv_head_adapter_copy(&job->made, &b->tick.made);
    job->took_us = rv_clock_us() - start;
}

static void *run_computing(void *arg)
{
    struct rv_background *b = arg;

#ifdef SCHED_IDLE
    /* Without it the work is done all the same, only less politely. */
    (void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &(struct sched_param){0});
#endif
    while (!atomic_load(&b->is_over)) {
        struct rv_background_job *job;

        wait_for(&b->asked);
        job = take_all(&b->asked);
        while (job && !atomic_load(&b->is_over)) {
            struct rv_background_job *next = job->next;

            compute(b, job);
            push(&b->made, job);
            job = next;
        }
        free_all(job);
    }
    return NULL;
}

static void *run_handing(void *arg)
{
    struct rv_background *b = arg;

    while (!atomic_load(&b->is_over)) {
        struct rv_background_job *job;

        wait_for(&b->made);
        job = take_all(&b->made);
        while (job) {
            struct rv_background_job *next = job->next;

            b->on_made(b->user, job);
            job = next;
        }
    }
    return NULL;
}

/* ---- life ----------------------------------------------------------------------------------- */

static void free_background(struct rv_background *b)
{
    free_all(take_all(&b->asked));
    free_all(take_all(&b->made));
    sem_destroy(&b->asked.rings);
    sem_destroy(&b->made.rings);
    rv_tick_release(&b->tick);
    rv_free(b);
}

static void end_thread(struct rv_background *b, struct lane *lane, pthread_t thread)
{
    atomic_store(&b->is_over, true);
    sem_post(&lane->rings);
    pthread_join(thread, NULL);
}

ruvllm_status rv_background_open(struct rv_background **out, const struct rv_tick_config *config,
                                 rv_background_fn on_made, void *user, struct ruvllm_error *err)
{
    struct rv_background *b = rv_calloc(1, sizeof(*b));
    ruvllm_status rc;

    *out = NULL;
    if (!b)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the background loop");
    b->on_made = on_made;
    b->user = user;
    sem_init(&b->asked.rings, 0, 0);
    sem_init(&b->made.rings, 0, 0);
    rc = rv_tick_init(&b->tick, config, err);
    if (rc) {
        free_background(b);
        return rc;
    }
    if (pthread_create(&b->computing, NULL, run_computing, b)) {
        free_background(b);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot start the background loop");
    }
    if (pthread_create(&b->handing, NULL, run_handing, b)) {
        end_thread(b, &b->asked, b->computing);
        free_background(b);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot start the background loop");
    }
    *out = b;
    return RUVLLM_OK;
}

void rv_background_close(struct rv_background *background)
{
    if (!background)
        return;
    end_thread(background, &background->asked, background->computing);
    end_thread(background, &background->made, background->handing);
    free_background(background);
}

void rv_background_ask(struct rv_background *background, struct rv_background_job *job)
{
    push(&background->asked, job);
}
