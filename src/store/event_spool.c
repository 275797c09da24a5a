/* The spool is a SQLite store: what makes that one safe makes this one safe. */
#include "store/event_spool.h"

#include "base/alloc.h"
#include "store/sql_events.h"
#include "store/store_sqlite.h"

enum { PAGE = 64 }; // events that are delivered in one transaction

struct rv_event_spool {
    struct rv_store_db *db;
    uint64_t n;
};

ruvllm_status rv_event_spool_open(struct rv_event_spool **out, const char *path,
                                  const struct ruvllm_store_params *params, struct ruvllm_error *err)
{
    struct rv_event_spool *spool = rv_calloc(1, sizeof(*spool));
    struct ruvllm_store_params ours = *params;
    ruvllm_status rc;

    *out = NULL;
    if (!spool)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a spool");
    ours.must_exist = false;
    rc = rv_store_sqlite.open(&spool->db, path, RV_STORE_ROLE_FIRST, &ours, err);
    if (!rc)
        rc = rv_sql_events_count(spool->db, &spool->n, err);
    if (rc) {
        rv_event_spool_close(spool);
        return rv_fail_in(err, rc, "cannot open the spool '%.120s'", path);
    }
    *out = spool;
    return RUVLLM_OK;
}

void rv_event_spool_close(struct rv_event_spool *spool)
{
    if (!spool)
        return;
    rv_sql_db_close(spool->db);
    rv_free(spool);
}

uint64_t rv_event_spool_n(const struct rv_event_spool *spool)
{
    return spool->n;
}

ruvllm_status rv_event_spool_write(struct rv_event_spool *spool, struct rv_store_event **events, size_t n,
                                   struct ruvllm_error *err)
{
    ruvllm_status rc = rv_sql_events_write(spool->db, events, n, err);

    if (rc)
        return rv_fail_in(err, rc, "the database is away, and its spool fails");
    for (size_t i = 0; i < n; i++) {
        spool->n += events[i]->fate == RV_STORE_EVENT_ADDED;
        events[i]->fate = RV_STORE_EVENT_SPOOLED;
        events[i]->seq = 0; // the spool's number is not the log's
    }
    return RUVLLM_OK;
}

/* One page of it; *n is how many it had. */
static ruvllm_status deliver_page(struct rv_event_spool *spool, struct rv_store_db *db, size_t *n,
                                  struct ruvllm_error *err)
{
    struct rv_store_event *events[PAGE];
    struct rv_sql_events_page page;
    ruvllm_status rc = rv_sql_events_read(spool->db, NULL, 0, PAGE, &page, err);

    *n = rc ? 0 : page.n;
    for (size_t i = 0; i < *n; i++)
        events[i] = &page.rows[i];
    if (!rc && *n)
        rc = rv_sql_events_write(db, events, *n, err);
    if (!rc && *n)
        rc = rv_sql_events_drop(spool->db, &page, err);
    rv_sql_events_page_release(&page);
    if (!rc)
        rc = rv_sql_events_count(spool->db, &spool->n, err);
    return rc;
}

ruvllm_status rv_event_spool_deliver(struct rv_event_spool *spool, struct rv_store_db *db, size_t max,
                                     struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;
    size_t n = 1;

    for (size_t done = 0; !rc && n && done < max && spool->n; done += n)
        rc = deliver_page(spool, db, &n, err);
    return rc;
}
