/*
 * Two parties meet at `lock`: callers, who append, ask for a flush or read the counters, and the writer thread, which
 * waits for one of these: a batch is full, the oldest entry has waited long enough, somebody wants a flush, the end.
 * The lock is never held across SQL. Entries are numbered as they come. Those in the ring are always the last ones, so
 * between two rounds of the writer everything before them has met its fate, written or dropped: that number is
 * `settled_to`, and a flush waits until it has passed the last entry there was when the flush began.
 */
#include "store/store_witness.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "store/sql_witness.h"
#include "store/store.h"
#include "store/store_name.h"
#include "store/witness_ring.h"

#include <string.h>
#include <time.h>

enum { TOUCHES_MAX = 256, PRUNE_BATCH = 1000 };

struct rv_store_log {
    struct rv_store_db *db; // the writer's, as batch and touched
    struct rv_store_witness *batch;
    struct rv_store_touch touched[TOUCHES_MAX];
    int64_t flush_us;
    pthread_t thread;

    pthread_mutex_t lock;
    pthread_cond_t wake;                        // the writer
    pthread_cond_t settled;                     // who flushes
    struct rv_witness_ring ring;                // guarded by lock, as all below
    struct rv_store_touch touches[TOUCHES_MAX]; // one a key
    size_t n_touches;
    int64_t due_us; // when what waits is to be written; 0: nothing waits
    bool has_flush; // somebody waits for it
    bool is_over;
    uint64_t appended, written, dropped, failed;
    uint64_t settled_to;                // how many of `appended` have met their fate
    uint64_t touched_all, touches_done; // how many touches came, how many of them are written
    uint64_t flush_to, flush_touches;   // how far the last flush wants these two
    struct ruvllm_error failure;        // of the last round; status OK: it succeeded
};

/* ---- the writer ---------------------------------------------------------------------------- */

static void wait_until(struct rv_store_log *log, int64_t us)
{
    struct timespec until = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

    pthread_cond_timedwait(&log->wake, &log->lock, &until);
}

/* With the lock held: returns when there is something to do. */
static void wait_for_work(struct rv_store_log *log)
{
    while (!log->is_over && !log->has_flush) {
        if (!log->due_us)
            pthread_cond_wait(&log->wake, &log->lock);
        else if (rv_clock_us() >= log->due_us || (log->ring.n >= RV_STORE_LOG_BATCH && !log->failure.status))
            return;
        else
            wait_until(log, log->due_us);
    }
}

/* With the lock held: one entry a key; what finds no room is forgotten, which costs a minute's precision. */
static bool add_touch(struct rv_store_log *log, const struct rv_store_touch *touch)
{
    size_t i = 0;

    while (i < log->n_touches && strcmp(log->touches[i].id, touch->id) != 0)
        i++;
    if (i < log->n_touches || i == TOUCHES_MAX)
        return false;
    log->touches[log->n_touches++] = *touch;
    return true;
}

/* With the lock held: what could not be written waits again. */
static void take_back(struct rv_store_log *log, size_t n, size_t n_touches)
{
    log->failed++;
    log->dropped += rv_witness_ring_unpop(&log->ring, log->batch, n);
    for (size_t i = 0; i < n_touches; i++)
        (void)add_touch(log, &log->touched[i]);
}

/* With the lock held, which is released while the disk works. */
static void write_round(struct rv_store_log *log)
{
    size_t n = rv_witness_ring_pop(&log->ring, log->batch, RV_STORE_LOG_BATCH), n_touches = log->n_touches;
    uint64_t touched_all = log->touched_all;
    struct ruvllm_error failure = {0};
    ruvllm_status rc = RUVLLM_OK;

    memcpy(log->touched, log->touches, n_touches * sizeof(log->touches[0]));
    log->n_touches = 0;
    pthread_mutex_unlock(&log->lock);
    if (n || n_touches)
        rc = rv_sql_witness_write(log->db, log->batch, n, log->touched, n_touches, &failure);
    pthread_mutex_lock(&log->lock);
    log->failure = failure;
    if (rc) {
        take_back(log, n, n_touches);
        return;
    }
    log->written += n;
    log->touches_done = touched_all;
}

/* With the lock held: when the writer has to look again, and who may stop waiting. */
static void settle(struct rv_store_log *log)
{
    log->settled_to = log->appended - log->ring.n;
    if (log->failure.status || (log->settled_to >= log->flush_to && log->touches_done >= log->flush_touches))
        log->has_flush = false;
    log->due_us = log->ring.n || log->n_touches ? rv_clock_us() + log->flush_us : 0;
    pthread_cond_broadcast(&log->settled);
}

static void *write_log(void *arg)
{
    struct rv_store_log *log = arg;

    pthread_mutex_lock(&log->lock);
    for (;;) {
        wait_for_work(log);
        if (log->is_over && !log->ring.n && !log->n_touches)
            break;
        write_round(log);
        settle(log);
        if (log->is_over && log->failure.status)
            break; // tried once more at the end; close tells what is lost
    }
    pthread_mutex_unlock(&log->lock);
    return NULL;
}

/* ---- opening and closing ------------------------------------------------------------------- */

static void release(struct rv_store_log *log)
{
    pthread_cond_destroy(&log->settled);
    pthread_cond_destroy(&log->wake);
    pthread_mutex_destroy(&log->lock);
    rv_witness_ring_release(&log->ring);
    rv_free(log->batch);
    rv_free(log);
}

static ruvllm_status start(struct rv_store_log *log, const struct ruvllm_store_params *params, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_witness_ring_init(&log->ring, (size_t)params->witness_buffer, err);
    int failed;

    if (rc)
        return rc;
    log->batch = rv_calloc(RV_STORE_LOG_BATCH, sizeof(*log->batch));
    if (!log->batch)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a batch of the witness log");
    failed = pthread_create(&log->thread, NULL, write_log, log);
    return failed ? rv_fail_errno(err, failed, "cannot start the writer of the witness log") : RUVLLM_OK;
}

ruvllm_status rv_store_witness_open(struct rv_store_log **out, struct rv_store_db *db,
                                    const struct ruvllm_store_params *params, struct ruvllm_error *err)
{
    struct rv_store_log *log = rv_calloc(1, sizeof(*log));
    pthread_condattr_t monotonic;
    ruvllm_status rc;

    *out = NULL;
    if (!log)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a witness log");
    log->db = db;
    log->flush_us = (int64_t)params->witness_flush_ms * 1000;
    pthread_mutex_init(&log->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&log->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_cond_init(&log->settled, NULL);
    rc = start(log, params, err);
    if (rc)
        release(log);
    else
        *out = log;
    return rc;
}

void rv_store_witness_close(struct rv_store_log *log)
{
    if (!log)
        return;
    pthread_mutex_lock(&log->lock);
    log->is_over = true;
    pthread_cond_signal(&log->wake);
    pthread_mutex_unlock(&log->lock);
    pthread_join(log->thread, NULL);
    if (log->ring.n)
        rv_log(RUVLLM_LOG_ERROR, "%zu entries of the witness log are lost: %s", log->ring.n, log->failure.message);
    rv_sql_db_close(log->db);
    release(log);
}

/* ---- callers ------------------------------------------------------------------------------- */

static ruvllm_status check_strings(const struct ruvllm_witness *e, struct ruvllm_error *err)
{
    const struct {
        const char *text;
        size_t max;
        const char *what;
    } fields[] = {
        {e->tenant, RV_STORE_TENANT_MAX, "the tenant"},
        {e->key_id, RV_STORE_KEY_ID_LEN, "the id of the key"},
        {e->request_id, RV_STORE_REQUEST_ID_MAX, "the id of the request"},
        {e->model, RV_STORE_MODEL_MAX, "the name of the model"},
        {e->endpoint, RV_STORE_ENDPOINT_MAX, "the endpoint"},
        {e->finish_reason, RV_STORE_FINISH_MAX, "the finish reason"},
    };
    ruvllm_status rc = RUVLLM_OK;

    for (size_t i = 0; !rc && i < sizeof(fields) / sizeof(fields[0]); i++)
        rc = rv_store_name_text(fields[i].text, fields[i].max, fields[i].what, err);
    return rc;
}

static ruvllm_status check_entry(const struct ruvllm_witness *e, struct ruvllm_error *err)
{
    if (e->time_us < 0 || e->adapter_generation < 0 || e->status < 0 || e->prompt_tokens < 0 || e->cached_tokens < 0 ||
        e->generated_tokens < 0 || e->queue_us < 0 || e->prefill_us < 0 || e->decode_us < 0 || e->total_us < 0)
        return rv_fail(err, RUVLLM_INVALID, "a number of the witness entry is negative");
    return check_strings(e, err);
}

static void copy_entry(struct rv_store_witness *row, const struct ruvllm_witness *e)
{
    row->numbers = *e;
    if (!e->time_us)
        row->numbers.time_us = rv_clock_unix_us();
    rv_store_name_copy(row->tenant, RV_STORE_TENANT_MAX, e->tenant);
    rv_store_name_copy(row->key_id, RV_STORE_KEY_ID_LEN, e->key_id);
    rv_store_name_copy(row->request_id, RV_STORE_REQUEST_ID_MAX, e->request_id);
    rv_store_name_copy(row->model, RV_STORE_MODEL_MAX, e->model);
    rv_store_name_copy(row->endpoint, RV_STORE_ENDPOINT_MAX, e->endpoint);
    rv_store_name_copy(row->finish_reason, RV_STORE_FINISH_MAX, e->finish_reason);
}

/* With the lock held: something waits from now on. */
static void make_due(struct rv_store_log *log)
{
    if (!log->due_us)
        log->due_us = rv_clock_us() + log->flush_us;
    else if (log->ring.n != RV_STORE_LOG_BATCH)
        return; // the writer knows already
    pthread_cond_signal(&log->wake);
}

ruvllm_status rv_store_witness_append(struct rv_store_log *log, const struct ruvllm_witness *entry,
                                      struct ruvllm_error *err)
{
    struct rv_store_witness row;
    ruvllm_status rc = check_entry(entry, err);

    if (rc)
        return rv_fail_in(err, rc, "cannot append to the witness log");
    copy_entry(&row, entry);
    pthread_mutex_lock(&log->lock);
    log->appended++;
    log->dropped += rv_witness_ring_push(&log->ring, &row);
    make_due(log);
    pthread_mutex_unlock(&log->lock);
    return RUVLLM_OK;
}

void rv_store_witness_touch(struct rv_store_log *log, const char *key_id, int64_t time)
{
    struct rv_store_touch touch = {.time = time};

    rv_store_name_copy(touch.id, RV_STORE_KEY_ID_LEN, key_id);
    pthread_mutex_lock(&log->lock);
    if (add_touch(log, &touch)) {
        log->touched_all++;
        make_due(log);
    }
    pthread_mutex_unlock(&log->lock);
}

ruvllm_status rv_store_witness_flush(struct rv_store_log *log, struct ruvllm_error *err)
{
    uint64_t goal, touches, failed;
    ruvllm_status rc = RUVLLM_OK;

    pthread_mutex_lock(&log->lock);
    goal = log->appended;
    touches = log->touched_all;
    failed = log->failed;
    log->flush_to = goal;
    log->flush_touches = touches;
    log->has_flush = true;
    pthread_cond_signal(&log->wake);
    while ((log->settled_to < goal || log->touches_done < touches) && log->failed == failed)
        pthread_cond_wait(&log->settled, &log->lock);
    if (log->failed != failed) {
        struct ruvllm_error failure = log->failure;

        rc = rv_fail_kind(err, failure.status, failure.kind, "cannot flush the witness log: %s", failure.message);
    }
    pthread_mutex_unlock(&log->lock);
    return rc;
}

void rv_store_witness_stats(struct rv_store_log *log, struct ruvllm_witness_stats *out)
{
    pthread_mutex_lock(&log->lock);
    *out = (struct ruvllm_witness_stats){.struct_size = sizeof(*out),
                                         .appended = log->appended,
                                         .written = log->written,
                                         .waiting = log->appended - log->written - log->dropped,
                                         .dropped = log->dropped,
                                         .failed_flushes = log->failed};
    pthread_mutex_unlock(&log->lock);
}

/* ---- what was written ---------------------------------------------------------------------- */

static ruvllm_status check_filter(const struct ruvllm_witness_filter *filter, struct ruvllm_error *err)
{
    bool is_somebody = filter->tenant && *filter->tenant; // "": entries of nobody in particular
    ruvllm_status rc = is_somebody ? rv_store_name_tenant(filter->tenant, err) : RUVLLM_OK;

    if (!rc)
        rc = rv_store_name_text(filter->model, RV_STORE_MODEL_MAX, "the name of the model", err);
    if (!rc && (filter->limit < 1 || filter->limit > RV_STORE_LIMIT_MAX))
        rc = rv_fail(err, RUVLLM_INVALID, "'limit' is %d; it goes from 1 to %d", filter->limit, RV_STORE_LIMIT_MAX);
    if (!rc && (filter->since_us < 0 || filter->before_us < 0))
        rc = rv_fail(err, RUVLLM_INVALID, "a time is negative");
    return rc;
}

static const struct ruvllm_witness *entry_of(struct rv_store_witness *row)
{
    row->numbers.tenant = row->tenant;
    row->numbers.key_id = row->key_id;
    row->numbers.request_id = row->request_id;
    row->numbers.model = row->model;
    row->numbers.endpoint = row->endpoint;
    row->numbers.finish_reason = row->finish_reason;
    return &row->numbers;
}

ruvllm_status rv_store_witness_query(struct ruvllm_store *store, const struct ruvllm_witness_filter *filter,
                                     ruvllm_witness_fn fn, void *user, struct ruvllm_error *err)
{
    struct rv_store_witness *rows;
    size_t n = 0;
    ruvllm_status rc = check_filter(filter, err);

    if (rc)
        return rc;
    rows = rv_calloc((size_t)filter->limit, sizeof(*rows));
    if (!rows)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %d rows", filter->limit);
    rc = rv_sql_witness_query(rv_store_lock(store), filter, rows, &n, err);
    rv_store_unlock(store);
    for (size_t i = 0; !rc && i < n; i++) {
        if (!fn(user, entry_of(&rows[i])))
            break;
    }
    rv_free(rows);
    return rc;
}

ruvllm_status rv_store_witness_prune(struct ruvllm_store *store, int32_t days, uint64_t *n_deleted,
                                     struct ruvllm_error *err)
{
    int64_t before_us = rv_clock_unix_us() - (int64_t)days * 86400 * 1000000;
    uint64_t n = PRUNE_BATCH, all = 0;
    ruvllm_status rc = RUVLLM_OK;

    if (days < 0)
        return rv_fail(err, RUVLLM_INVALID, "'days' is negative");
    /* In pieces, so that others get their turn. */
    while (!rc && n == PRUNE_BATCH) {
        rc = rv_sql_witness_prune(rv_store_lock(store), before_us, PRUNE_BATCH, &n, err);
        rv_store_unlock(store);
        all += n;
    }
    if (n_deleted)
        *n_deleted = all;
    return rc;
}
