/*
 * Three parties meet at `lock`. Callers put a ticket in the queue and sleep on it; the ticket and the events are
 * theirs, on their stacks, which stay as they are because they sleep. The writer takes what waits, up to a batch, and
 * writes it without the lock; then it marks the tickets and wakes their owners. A caller who finds nobody writing does
 * it himself: on a busy machine, waking the writer and being woken by it may take longer than the disk.
 *
 * The tidier sleeps until the engine's log has grown, and brings what is new to where it belongs and to the disk,
 * behind the writer's back and a little at a time: the disk is the writer's too, and a commit waits for what was handed
 * to the disk before it. A log can begin anew only when all of it is tidied and nobody writes: so the writer does the
 * rest when it is long, and nobody waits for it.
 *
 * With a spool, the order of a tenant's events is kept: while anything waits in the spool, what is new goes there too.
 */
#include "store/event_writer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/time_slice.h"
#include "store/sql_events.h"

#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum {
    BATCH = 512,                   // events of one transaction
    BATCH_BYTES = 8 * 1024 * 1024, // of their texts and bytes
    WAITING_MAX = 8192,            // callers in the queue
    TIDY_PAGES = 256,              // that the log grows by before the tidier looks
    TIDY_NICE = 10,                // the tidier gives way
    LONG_PAGES = 16384,            // of the log, 64 MiB: the writer sees to it that it begins anew
    EVENT_OVERHEAD = 4096,         // what a row costs beside its bytes, roughly
    RETRY_US = 1000000             // how often a database that is away is asked for
};

/* A caller in the queue. */
struct ticket {
    struct rv_store_event *events;
    size_t n;
    size_t bytes;
    struct ticket *next;
    pthread_cond_t done;
    bool is_done; // guarded by lock, as the two below
    ruvllm_status rc;
    struct ruvllm_error failure;
};

struct rv_event_writer {
    struct rv_store_db *db; // of whoever is_busy, as spool, batch and retry_us
    struct rv_event_spool *spool;
    struct rv_store_event *batch[BATCH];
    int64_t retry_us;            // when to try to empty the spool
    struct rv_store_db *tidy_db; // the tidier's
    pthread_t thread;
    pthread_t tidier;

    pthread_mutex_t lock;
    pthread_cond_t wake;   // the writer
    pthread_cond_t untidy; // the tidier
    struct ticket *first;  // guarded by lock, as all below
    struct ticket **last;  // where the next one goes
    size_t n_waiting;
    int64_t n_log;        // pages of the engine's log
    int64_t n_tidy;       // of those, that the tidier has seen to
    int64_t n_begun_anew; // pages of the log when the writer last tried that
    bool is_busy;         // somebody writes, without the lock
    bool is_tidying;      // the tidier does
    bool is_over;
    struct rv_event_writer_stats stats;
};

/* ---- the writer ---------------------------------------------------------------------------- */

static void collect(struct rv_event_writer *w, struct ticket *tickets, size_t *n)
{
    *n = 0;
    for (struct ticket *t = tickets; t; t = t->next) {
        for (size_t i = 0; i < t->n; i++)
            w->batch[(*n)++] = &t->events[i];
    }
}

/* To the database, or, when that is away or the spool has older ones, to the spool. */
static ruvllm_status write_batch(struct rv_event_writer *w, size_t n, struct ruvllm_error *err)
{
    bool was_tried = !w->spool || !rv_event_spool_n(w->spool);
    ruvllm_status rc = RUVLLM_OK;

    if (was_tried) {
        rc = rv_sql_events_write(w->db, w->batch, n, err);
        if (!rc || !w->spool || !rv_sql_db_is_lost(w->db))
            return rc;
        rv_log(RUVLLM_LOG_WARN, "events go to the spool: %.200s", err->message);
        w->retry_us = rv_clock_us() + RETRY_US;
    }
    rc = rv_event_spool_write(w->spool, w->batch, n, err);
    if (rc && was_tried) // whether the database has them nobody knows: "no space" would say that it has not
        rc = rv_fail_kind(err, RUVLLM_IO, RUVLLM_ERROR_STORAGE, "the database went away, and its spool fails");
    return rc;
}

/* Whether a failure is the same for everybody in the batch, so that trying each alone is of no use. */
static bool is_everybodys(ruvllm_status rc)
{
    return rc == RUVLLM_NO_SPACE || rc == RUVLLM_IO || rc == RUVLLM_BUSY || rc == RUVLLM_NO_MEMORY;
}

static void write_alone(struct rv_event_writer *w, struct ticket *t)
{
    struct ticket *next = t->next;
    size_t n;

    t->next = NULL;
    collect(w, t, &n);
    t->rc = write_batch(w, n, &t->failure);
    t->next = next;
}

/* Without the lock: the tickets are not in the queue any more. One event that cannot be written fails its owner alone.
 */
static void write_tickets(struct rv_event_writer *w, struct ticket *tickets)
{
    struct ruvllm_error failure = {0};
    size_t n;
    ruvllm_status rc;

    collect(w, tickets, &n);
    rc = write_batch(w, n, &failure);
    for (struct ticket *t = tickets; t; t = t->next) {
        if (rc && tickets->next && !is_everybodys(rc)) {
            write_alone(w, t);
            continue;
        }
        t->rc = rc;
        t->failure = failure;
    }
}

/* With the lock held: up to a batch out of the queue, in order; NULL when nobody waits. */
static struct ticket *take(struct rv_event_writer *w)
{
    struct ticket *tickets = w->first, **end = &w->first;
    size_t n = 0, bytes = 0;

    while (*end && (n == 0 || (n + (*end)->n <= BATCH && bytes + (*end)->bytes <= BATCH_BYTES))) {
        n += (*end)->n;
        bytes += (*end)->bytes;
        w->n_waiting--;
        end = &(*end)->next;
    }
    w->first = *end;
    *end = NULL;
    if (!w->first)
        w->last = &w->first;
    return n ? tickets : NULL;
}

/* With the lock held. A ticket is its owner's again, and gone, as soon as he is told. */
static void tell_owners(struct rv_event_writer *w, struct ticket *tickets)
{
    w->stats.n_batches++;
    while (tickets) {
        struct ticket *t = tickets;

        tickets = t->next;
        w->stats.n_events += t->rc ? 0 : t->n;
        w->stats.n_failed += t->rc ? t->n : 0;
        w->stats.n_spooled += !t->rc && t->events[0].fate == RV_STORE_EVENT_SPOOLED ? t->n : 0;
        t->is_done = true;
        pthread_cond_signal(&t->done);
    }
}

/* With the lock held: how long the log is now, for the tidier. */
static void note_log(struct rv_event_writer *w)
{
    int64_t pages = w->tidy_db ? w->db->sql->log_pages(w->db) : 0;

    if (pages < w->n_log) // it began anew
        w->n_tidy = w->n_begun_anew = 0;
    w->n_log = pages;
    if (w->n_log - w->n_tidy >= TIDY_PAGES)
        pthread_cond_signal(&w->untidy);
}

/* With the lock held. Where it could not begin anew it is tried again when it has grown. */
static bool is_log_long(const struct rv_event_writer *w)
{
    return w->n_log >= LONG_PAGES && w->n_log >= w->n_begun_anew + TIDY_PAGES;
}

/* With the lock held, which is released while it works, and is_busy set. */
static void shorten_log(struct rv_event_writer *w)
{
    struct ruvllm_error failure = {0};

    if (!is_log_long(w))
        return;
    while (w->is_tidying) // two at once do nothing, and the log would grow for as long as that takes
        pthread_cond_wait(&w->wake, &w->lock);
    w->n_begun_anew = w->n_log;
    pthread_mutex_unlock(&w->lock);
    if (w->db->sql->tidy(w->db, &failure))
        rv_log(RUVLLM_LOG_WARN, "%.240s", failure.message);
    pthread_mutex_lock(&w->lock);
}

/* With the lock held, which is released while it works: gives to the database what waits in the spool. */
static void empty_spool(struct rv_event_writer *w)
{
    struct ruvllm_error failure = {0};
    ruvllm_status rc;

    if (!w->spool || !rv_event_spool_n(w->spool) || rv_clock_us() < w->retry_us)
        return;
    pthread_mutex_unlock(&w->lock);
    rc = rv_event_spool_deliver(w->spool, w->db, BATCH, &failure);
    if (rc) {
        w->retry_us = rv_clock_us() + RETRY_US;
        rv_log(RUVLLM_LOG_WARN, "events stay in the spool: %.200s", failure.message);
    } else if (!rv_event_spool_n(w->spool)) {
        rv_log(RUVLLM_LOG_INFO, "the spool is empty again");
    }
    pthread_mutex_lock(&w->lock);
    w->stats.n_in_spool = rv_event_spool_n(w->spool);
}

/* With the lock held: until somebody comes, the end, or the time to look at the spool. */
static void wait_for_work(struct rv_event_writer *w)
{
    struct timespec until;
    bool has_spooled;

    if (w->is_busy) { // a caller, who wakes us when there is more
        pthread_cond_wait(&w->wake, &w->lock);
        return;
    }
    has_spooled = w->spool && rv_event_spool_n(w->spool);
    until = (struct timespec){.tv_sec = w->retry_us / 1000000, .tv_nsec = w->retry_us % 1000000 * 1000};
    if (w->first || w->is_over || is_log_long(w) || (has_spooled && rv_clock_us() >= w->retry_us))
        return;
    if (has_spooled)
        pthread_cond_timedwait(&w->wake, &w->lock, &until);
    else
        pthread_cond_wait(&w->wake, &w->lock);
}

/* With the lock held, which is released while it works, and is_busy set: writes what waits, up to a batch. */
static void write_waiting(struct rv_event_writer *w)
{
    struct ticket *tickets = take(w);

    if (!tickets)
        return;
    pthread_mutex_unlock(&w->lock);
    write_tickets(w, tickets);
    pthread_mutex_lock(&w->lock);
    w->stats.n_in_spool = w->spool ? rv_event_spool_n(w->spool) : 0;
    tell_owners(w, tickets);
    note_log(w);
}

static void *write_events(void *arg)
{
    struct rv_event_writer *w = arg;

    (void)rv_time_slice_set(RV_TIME_SLICE_WAITED_FOR); // as its callers
    pthread_mutex_lock(&w->lock);
    while (w->first || !w->is_over) {
        wait_for_work(w);
        if (w->is_busy)
            continue;
        w->is_busy = true;
        shorten_log(w);
        empty_spool(w);
        write_waiting(w);
        w->is_busy = false;
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- the tidier ---------------------------------------------------------------------------- */

static void *tidy_up(void *arg)
{
    struct rv_event_writer *w = arg;

#ifdef __linux__ // where that is the thread's alone
    /* Nobody waits for it, and it shall keep nobody who waits from a processor. Without it, it works all the same. */
    (void)setpriority(PRIO_PROCESS, 0, TIDY_NICE);
#endif
    pthread_mutex_lock(&w->lock);
    while (!w->is_over) {
        struct ruvllm_error failure = {0};
        int64_t pages = w->n_log;

        if (pages - w->n_tidy < TIDY_PAGES) {
            pthread_cond_wait(&w->untidy, &w->lock);
            continue;
        }
        w->is_tidying = true;
        pthread_mutex_unlock(&w->lock);
        if (w->tidy_db->sql->tidy(w->tidy_db, &failure))
            rv_log(RUVLLM_LOG_WARN, "%.240s", failure.message); // the writer does it in the end
        pthread_mutex_lock(&w->lock);
        w->is_tidying = false;
        pthread_cond_signal(&w->wake);
        w->n_tidy = w->n_log < pages ? 0 : pages; // it may have begun anew
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- opening and closing ------------------------------------------------------------------- */

static void end_thread(struct rv_event_writer *w, pthread_t thread)
{
    pthread_mutex_lock(&w->lock);
    w->is_over = true;
    pthread_cond_signal(&w->wake);
    pthread_cond_signal(&w->untidy);
    pthread_mutex_unlock(&w->lock);
    pthread_join(thread, NULL);
}

static ruvllm_status start(struct rv_event_writer *w, struct ruvllm_error *err)
{
    int failed = pthread_create(&w->thread, NULL, write_events, w);

    if (failed)
        return rv_fail_errno(err, failed, "cannot start the writer of events");
    failed = w->tidy_db ? pthread_create(&w->tidier, NULL, tidy_up, w) : 0;
    if (!failed)
        return RUVLLM_OK;
    end_thread(w, w->thread);
    return rv_fail_errno(err, failed, "cannot start the tidier of events");
}

static void release(struct rv_event_writer *w)
{
    pthread_cond_destroy(&w->untidy);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    rv_free(w);
}

ruvllm_status rv_event_writer_open(struct rv_event_writer **out, struct rv_store_db *db, struct rv_store_db *tidy_db,
                                   struct rv_event_spool *spool, struct ruvllm_error *err)
{
    struct rv_event_writer *w = rv_calloc(1, sizeof(*w));
    pthread_condattr_t monotonic;
    ruvllm_status rc;

    *out = NULL;
    if (!w)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a writer of events");
    w->db = db;
    w->tidy_db = tidy_db;
    w->spool = spool;
    w->last = &w->first;
    w->stats.n_in_spool = spool ? rv_event_spool_n(spool) : 0;
    pthread_mutex_init(&w->lock, NULL); // cannot fail with default attributes, as the rest
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_cond_init(&w->untidy, NULL);
    rc = start(w, err);
    if (rc)
        release(w);
    else
        *out = w;
    return rc;
}

void rv_event_writer_close(struct rv_event_writer *w)
{
    if (!w)
        return;
    end_thread(w, w->thread);
    if (w->tidy_db)
        pthread_join(w->tidier, NULL);
    rv_sql_db_close(w->tidy_db);
    rv_sql_db_close(w->db);
    rv_event_spool_close(w->spool);
    release(w);
}

/* ---- callers ------------------------------------------------------------------------------- */

static size_t bytes_of(const struct rv_store_event *events, size_t n)
{
    size_t bytes = 0;

    for (size_t i = 0; i < n; i++) {
        const struct rv_store_event *e = &events[i];

        bytes += EVENT_OVERHEAD + e->prompt.len + e->answer.len + e->correction.len + e->reason.len + e->result.len +
                 e->memory.len + e->delta.len;
    }
    return bytes;
}

ruvllm_status rv_event_writer_write(struct rv_event_writer *w, struct rv_store_event *events, size_t n,
                                    struct ruvllm_error *err)
{
    struct ticket t = {.events = events, .n = n, .bytes = bytes_of(events, n)};
    ruvllm_status rc = RUVLLM_OK;
    int64_t slice;

    if (n > BATCH)
        return rv_fail(err, RUVLLM_TOO_LARGE, "%zu events at once are more than %d", n, BATCH);
    if (n == 0)
        return RUVLLM_OK;
    /* A commit waits for the disk several times over, and must not wait for a processor after each. */
    slice = rv_time_slice_set(RV_TIME_SLICE_WAITED_FOR);
    pthread_cond_init(&t.done, NULL);
    pthread_mutex_lock(&w->lock);
    if (w->n_waiting >= WAITING_MAX) {
        rc = rv_fail_kind(err, RUVLLM_BUSY, RUVLLM_ERROR_STORAGE, "%d events wait to be written; try again later",
                          WAITING_MAX);
    } else {
        w->n_waiting++;
        *w->last = &t;
        w->last = &t.next;
        if (!w->is_busy && !is_log_long(w) && w->first == &t) {
            w->is_busy = true;
            write_waiting(w);
            w->is_busy = false;
        }
        if (w->first || is_log_long(w) || w->stats.n_in_spool > 0)
            pthread_cond_signal(&w->wake);
        while (!t.is_done)
            pthread_cond_wait(&t.done, &w->lock);
        rc = t.rc;
    }
    pthread_mutex_unlock(&w->lock);
    pthread_cond_destroy(&t.done);
    (void)rv_time_slice_set(slice);
    if (t.is_done && rc && err)
        *err = t.failure;
    return rc;
}

void rv_event_writer_stats(struct rv_event_writer *w, struct rv_event_writer_stats *out)
{
    pthread_mutex_lock(&w->lock);
    *out = w->stats;
    pthread_mutex_unlock(&w->lock);
}
