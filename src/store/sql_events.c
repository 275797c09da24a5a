/*
 * The SQL of the event log. A tenant's numbers come from its row in tenant_log: who counts it up keeps it locked until
 * his transaction ends, so numbers are committed in their order and without gaps, also from several machines.
 */
#include "store/sql_events.h"

#include "store/sql_checkpoints.h"
#include "store/sql_news.h"
#include "store/sql_statement.h"

#include <string.h>

enum { PAGE_BYTES = 16 * 1024 * 1024 }; // of rows that are read at once

#define GIVEN                                                                                                          \
    "tenant, uid, time_us, kind, model, response_id, generation, score, is_forgotten, prompt, answer, correction,"     \
    " reason, result, memory, delta"

static const char COUNT_UP[] = "INSERT INTO tenant_log (tenant, last_seq) VALUES ($1, 1) ON CONFLICT (tenant)"
                               " DO UPDATE SET last_seq = tenant_log.last_seq + 1 RETURNING last_seq";
static const char COUNT_DOWN[] = "UPDATE tenant_log SET last_seq = last_seq - 1 WHERE tenant = $1";
static const char FIND[] = "SELECT seq FROM event WHERE tenant = $1 AND uid = $2";
static const char ADD[] =
    "INSERT INTO event (" GIVEN ", seq) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, $9, $10, $11, $12, $13, $14, $15,"
    " $16) ON CONFLICT (tenant, uid) DO NOTHING";
/* The same as COUNT_UP and ADD in one go to the server and back. SQLite, which is no way off, does not know this form.
 */
#define COUNT_UP_THEN                                                                                                  \
    "WITH one AS (INSERT INTO tenant_log (tenant, last_seq) VALUES ($1, 1) ON CONFLICT (tenant)"                       \
    " DO UPDATE SET last_seq = tenant_log.last_seq + 1 RETURNING last_seq)"
#define ADD_COUNTED                                                                                                    \
    " INSERT INTO event (" GIVEN ", seq) SELECT $1, $2, $3, $4, $5, $6, $7, $8, 0, $9, $10, $11, $12, $13, $14, $15,"  \
    " last_seq FROM one ON CONFLICT (tenant, uid) DO NOTHING RETURNING seq"

static const char COUNT_UP_AND_ADD[] = COUNT_UP_THEN ADD_COUNTED;
/* And with the news of it, as rv_sql_news_tell sends them. */
static const char COUNT_UP_ADD_AND_TELL[] =
    COUNT_UP_THEN ADD_COUNTED ", pg_notify('" RV_SQL_NEWS_CHANNEL "', $1 || ' ' || seq || ' ' || $5)";
static const char READ[] = "SELECT row, seq, " GIVEN " FROM event WHERE tenant = $1 AND seq > $2 ORDER BY seq LIMIT $3";
static const char READ_ALL[] = "SELECT row, seq, " GIVEN " FROM event WHERE row > $1 ORDER BY row LIMIT $2";
static const char LAST[] = "SELECT last_seq FROM tenant_log WHERE tenant = $1";
static const char ABOUT[] = "SELECT seq FROM event WHERE tenant = $1 AND response_id = $2 ORDER BY seq DESC LIMIT 1";
#define EMPTY                                                                                                          \
    "UPDATE event SET is_forgotten = 1, prompt = '', answer = '', correction = '', reason = '', result = $1,"          \
    " memory = $1, delta = $1 WHERE tenant = $2"

static const char FORGET[] = EMPTY " AND seq = $3";
static const char FORGET_LATER[] = EMPTY " AND model = $3 AND seq > $4 AND kind = $5";
static const char SET_DELTA[] = "UPDATE event SET delta = $1 WHERE tenant = $2 AND seq = $3 AND is_forgotten = 0";
static const char FORGOTTEN[] = "UPDATE tenant_log SET n_forgotten = n_forgotten + 1 WHERE tenant = $1";
static const char DROP[] = "DELETE FROM event WHERE row = $1 AND uid = $2";
static const char COUNT[] = "SELECT count(*) FROM event";

/* ---- writing ------------------------------------------------------------------------------- */

static void bind_str(struct rv_sql_statement *s, struct rv_str text)
{
    rv_sql_statement_bind_str(s, text.len ? text.data : "", text.len);
}

static void bind_event(struct rv_sql_statement *s, const struct rv_store_event *e)
{
    rv_sql_statement_bind_text(s, e->tenant);
    rv_sql_statement_bind_blob(s, e->uid, sizeof(e->uid));
    rv_sql_statement_bind_int(s, e->time_us);
    rv_sql_statement_bind_int(s, e->kind);
    rv_sql_statement_bind_text(s, e->model);
    rv_sql_statement_bind_text(s, e->response_id);
    rv_sql_statement_bind_int(s, e->generation);
    rv_sql_statement_bind_real(s, e->score);
    bind_str(s, e->prompt);
    bind_str(s, e->answer);
    bind_str(s, e->correction);
    bind_str(s, e->reason);
    rv_sql_statement_bind_blob(s, e->result.data, e->result.len);
    rv_sql_statement_bind_blob(s, e->memory.data, e->memory.len);
    rv_sql_statement_bind_blob(s, e->delta.data, e->delta.len);
}

/* One number out of a statement whose values are bound; *found false when it has no row. */
static ruvllm_status take_number(struct rv_sql_statement *s, int64_t *number, bool *found, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_sql_statement_step(s, found, err);

    if (!rc && *found) {
        *number = rv_sql_statement_int(s);
        rc = rv_sql_statement_status(s, err);
    }
    rv_sql_statement_end(s);
    return rc;
}

static ruvllm_status count(struct rv_store_db *db, const char *sql, const char *tenant, int64_t *seq,
                           struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    bool found;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, sql, "number an event", err);

    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, tenant);
    return take_number(&s, seq, &found, err);
}

/* The number of the event that has this one's uid already. */
static ruvllm_status find(struct rv_store_db *db, struct rv_store_event *e, bool *found, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, FIND, "look for an event", err);

    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, e->tenant);
    rv_sql_statement_bind_blob(&s, e->uid, sizeof(e->uid));
    return take_number(&s, &e->seq, found, err);
}

/* Counting and adding, each its own way to the engine. */
static ruvllm_status add_in_two(struct rv_store_db *db, struct rv_store_event *e, bool *added, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    int64_t seq = 0;
    ruvllm_status rc = count(db, COUNT_UP, e->tenant, &seq, err);

    if (!rc)
        rc = rv_sql_statement_begin(&s, db, ADD, "write an event", err);
    if (rc)
        return rc;
    bind_event(&s, e);
    rv_sql_statement_bind_int(&s, seq);
    rc = rv_sql_statement_run(&s, err);
    *added = !rc && db->n_changed > 0;
    e->seq = seq;
    return rc;
}

static ruvllm_status add_at_once(struct rv_store_db *db, struct rv_store_event *e, bool tells, bool *added,
                                 struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc =
        rv_sql_statement_begin(&s, db, tells ? COUNT_UP_ADD_AND_TELL : COUNT_UP_AND_ADD, "write an event", err);

    if (rc)
        return rc;
    bind_event(&s, e);
    return take_number(&s, &e->seq, added, err);
}

static ruvllm_status add(struct rv_store_db *db, struct rv_store_event *e, bool tells, struct ruvllm_error *err)
{
    bool added = false, found = false;
    int64_t ignored;
    ruvllm_status rc =
        db->sql->dialect == RV_SQL_POSTGRES ? add_at_once(db, e, tells, &added, err) : add_in_two(db, e, &added, err);

    e->fate = RV_STORE_EVENT_ADDED;
    if (rc || added)
        return rc;
    e->fate = RV_STORE_EVENT_KNOWN;
    rc = count(db, COUNT_DOWN, e->tenant, &ignored, err);
    if (!rc)
        rc = find(db, e, &found, err);
    if (!rc && !found)
        rc =
            rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_STORAGE, "cannot write an event: the log contradicts itself");
    return rc;
}

/*
 * By tenant, and within one as they came: rows of tenant_log stay locked, so two machines that took them in different
 * orders would wait for each other for ever.
 */
static void put_in_order(struct rv_store_event **events, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct rv_store_event *e = events[i];
        size_t at = i;

        for (; at > 0 && strcmp(events[at - 1]->tenant, e->tenant) > 0; at--)
            events[at] = events[at - 1];
        events[at] = e;
    }
}

static bool are_of_one(const struct rv_store_event *a, const struct rv_store_event *b)
{
    return strcmp(a->tenant, b->tenant) == 0 && strcmp(a->model, b->model) == 0;
}

/*
 * Others are told once of all that follow each other of a tenant and model, with the last of them, on the same way to
 * the server. Where that one was known already, those before it are told of by themselves.
 */
static ruvllm_status add_all(struct rv_store_db *db, struct rv_store_event **events, size_t n, struct ruvllm_error *err)
{
    const struct rv_store_event *untold = NULL;
    ruvllm_status rc = RUVLLM_OK;

    for (size_t i = 0; !rc && i < n; i++) {
        bool is_last = i + 1 == n || !are_of_one(events[i], events[i + 1]);

        rc = add(db, events[i], is_last, err);
        if (events[i]->fate == RV_STORE_EVENT_ADDED)
            untold = is_last ? NULL : events[i];
        if (!rc && is_last && untold)
            rc = rv_sql_news_tell(db, untold->tenant, untold->model, untold->seq, err);
        if (is_last)
            untold = NULL;
    }
    return rc;
}

ruvllm_status rv_sql_events_write(struct rv_store_db *db, struct rv_store_event **events, size_t n,
                                  struct ruvllm_error *err)
{
    ruvllm_status rc = rv_sql_db_begin(db, err);

    if (rc)
        return rc;
    put_in_order(events, n);
    return rv_sql_db_end(db, add_all(db, events, n, err), err);
}

/* ---- reading ------------------------------------------------------------------------------- */

static void read_row(struct rv_sql_statement *s, struct rv_store_event *e, int64_t *number, struct rv_arena *arena)
{
    int64_t kind;

    *e = (struct rv_store_event){.fate = RV_STORE_EVENT_ADDED};
    *number = rv_sql_statement_int(s);
    e->seq = rv_sql_statement_int(s);
    e->tenant = rv_sql_statement_dup_text(s, RV_STORE_TENANT_MAX, arena);
    rv_sql_statement_blob(s, e->uid, sizeof(e->uid));
    e->time_us = rv_sql_statement_int(s);
    kind = rv_sql_statement_int(s);
    e->model = rv_sql_statement_dup_text(s, RV_STORE_MODEL_MAX, arena);
    e->response_id = rv_sql_statement_dup_text(s, RV_STORE_REQUEST_ID_MAX, arena);
    e->generation = rv_sql_statement_int(s);
    e->score = rv_sql_statement_real(s);
    e->is_forgotten = rv_sql_statement_int(s) == 1;
    e->prompt = rv_sql_statement_dup_str(s, RV_STORE_EVENT_BYTES_MAX, arena);
    e->answer = rv_sql_statement_dup_str(s, RV_STORE_EVENT_BYTES_MAX, arena);
    e->correction = rv_sql_statement_dup_str(s, RV_STORE_EVENT_BYTES_MAX, arena);
    e->reason = rv_sql_statement_dup_str(s, RV_STORE_EVENT_BYTES_MAX, arena);
    e->result = rv_sql_statement_dup_bytes(s, RV_STORE_EVENT_BYTES_MAX, arena);
    e->memory = rv_sql_statement_dup_bytes(s, RV_STORE_EVENT_BYTES_MAX, arena);
    e->delta = rv_sql_statement_dup_bytes(s, RV_STORE_EVENT_BYTES_MAX, arena);
    if (kind < RV_STORE_EVENT_VOTE || kind > RV_STORE_EVENT_DEEP)
        s->is_broken = true;
    e->kind = (enum rv_store_event_kind)kind;
}

static ruvllm_status read_rows(struct rv_sql_statement *s, size_t max, struct rv_sql_events_page *page,
                               struct ruvllm_error *err)
{
    bool has_row = true;
    ruvllm_status rc = RUVLLM_OK;

    page->rows = rv_arena_calloc(&page->arena, max, sizeof(*page->rows));
    page->numbers = rv_arena_calloc(&page->arena, max, sizeof(*page->numbers));
    while (!rc && page->numbers && has_row && page->n < max && page->arena.reserved < PAGE_BYTES) {
        rc = rv_sql_statement_step(s, &has_row, err);
        if (rc || !has_row)
            break;
        read_row(s, &page->rows[page->n], &page->numbers[page->n], &page->arena);
        rc = rv_sql_statement_status(s, err);
        if (page->arena.failed)
            break;
        page->n += !rc;
    }
    if (!rc && page->arena.failed)
        rc = rv_fail(err, page->arena.failed, "cannot keep %zu events in memory", page->n + 1);
    return rc;
}

ruvllm_status rv_sql_events_read(struct rv_store_db *db, const char *tenant, int64_t after, size_t max,
                                 struct rv_sql_events_page *page, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc;

    *page = (struct rv_sql_events_page){0};
    rv_arena_init(&page->arena, PAGE_BYTES + 4 * RV_STORE_EVENT_BYTES_MAX);
    rc = rv_sql_statement_begin(&s, db, tenant ? READ : READ_ALL, "read the event log", err);
    if (rc)
        return rc;
    if (tenant)
        rv_sql_statement_bind_text(&s, tenant);
    rv_sql_statement_bind_int(&s, after);
    rv_sql_statement_bind_int(&s, (int64_t)max);
    rc = read_rows(&s, max, page, err);
    rv_sql_statement_end(&s);
    return rc;
}

void rv_sql_events_page_release(struct rv_sql_events_page *page)
{
    rv_arena_release(&page->arena);
    page->n = 0;
}

ruvllm_status rv_sql_events_last(struct rv_store_db *db, const char *tenant, int64_t *seq, struct ruvllm_error *err)
{
    *seq = 0;
    return count(db, LAST, tenant, seq, err);
}

ruvllm_status rv_sql_events_about(struct rv_store_db *db, const char *tenant, const char *response_id, int64_t *seq,
                                  struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    bool found;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, ABOUT, "look for events about a response", err);

    *seq = 0;
    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, tenant);
    rv_sql_statement_bind_text(&s, response_id);
    return take_number(&s, seq, &found, err);
}

/*
 * In the transaction that emptied events: what they came to is in no checkpoint any more, and whoever has it in memory
 * gets to know. The count comes first: it keeps those away who would write a checkpoint of what was before.
 */
static ruvllm_status note_forgotten(struct rv_store_db *db, const char *tenant, const char *model, int64_t first,
                                    bool is_any, struct ruvllm_error *err)
{
    int64_t ignored;
    ruvllm_status rc = is_any ? count(db, FORGOTTEN, tenant, &ignored, err) : RUVLLM_OK;

    if (!rc)
        rc = rv_sql_checkpoints_drop(db, tenant, first, err);
    return rc || !is_any ? rc : rv_sql_news_tell(db, tenant, model, 0, err);
}

ruvllm_status rv_sql_events_forget(struct rv_store_db *db, const char *tenant, int64_t seq, bool *found,
                                   struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_db_begin(db, err);

    *found = false;
    if (rc)
        return rc;
    rc = rv_sql_statement_begin(&s, db, FORGET, "forget an event", err);
    if (!rc) {
        rv_sql_statement_bind_blob(&s, NULL, 0);
        rv_sql_statement_bind_text(&s, tenant);
        rv_sql_statement_bind_int(&s, seq);
        rc = rv_sql_statement_run(&s, err);
        *found = !rc && db->n_changed > 0;
    }
    if (!rc)
        rc = note_forgotten(db, tenant, "", seq, *found, err);
    return rv_sql_db_end(db, rc, err);
}

ruvllm_status rv_sql_events_forget_later(struct rv_store_db *db, const char *tenant, const char *model, int64_t after,
                                         enum rv_store_event_kind kind, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_db_begin(db, err);

    if (rc)
        return rc;
    rc = rv_sql_statement_begin(&s, db, FORGET_LATER, "forget what came of an event", err);
    if (!rc) {
        rv_sql_statement_bind_blob(&s, NULL, 0);
        rv_sql_statement_bind_text(&s, tenant);
        rv_sql_statement_bind_text(&s, model);
        rv_sql_statement_bind_int(&s, after);
        rv_sql_statement_bind_int(&s, kind);
        rc = rv_sql_statement_run(&s, err);
    }
    if (!rc)
        rc = note_forgotten(db, tenant, model, after, db->n_changed > 0, err);
    return rv_sql_db_end(db, rc, err);
}

ruvllm_status rv_sql_events_set_delta(struct rv_store_db *db, const char *tenant, int64_t seq, struct rv_str delta,
                                      struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, SET_DELTA, "change an event", err);

    if (rc)
        return rc;
    rv_sql_statement_bind_blob(&s, delta.data, delta.len);
    rv_sql_statement_bind_text(&s, tenant);
    rv_sql_statement_bind_int(&s, seq);
    return rv_sql_statement_run(&s, err);
}

static ruvllm_status drop_one(struct rv_store_db *db, int64_t number, const struct rv_store_event *e,
                              struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, DROP, "remove events", err);

    if (rc)
        return rc;
    rv_sql_statement_bind_int(&s, number);
    rv_sql_statement_bind_blob(&s, e->uid, sizeof(e->uid));
    return rv_sql_statement_run(&s, err);
}

ruvllm_status rv_sql_events_drop(struct rv_store_db *db, const struct rv_sql_events_page *page,
                                 struct ruvllm_error *err)
{
    ruvllm_status rc = rv_sql_db_begin(db, err);

    if (rc)
        return rc;
    for (size_t i = 0; !rc && i < page->n; i++)
        rc = drop_one(db, page->numbers[i], &page->rows[i], err);
    return rv_sql_db_end(db, rc, err);
}

ruvllm_status rv_sql_events_count(struct rv_store_db *db, uint64_t *n, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    int64_t number = 0;
    bool found;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, COUNT, "count events", err);

    if (!rc)
        rc = take_number(&s, &number, &found, err);
    *n = rc ? 0 : (uint64_t)number;
    return rc;
}
