/* What an event may be is decided here. */
#include "store/store_events.h"

#include "base/clock.h"
#include "base/secret.h"
#include "base/utf8.h"
#include "store/store_name.h"

#include <math.h>
#include <string.h>

enum { PAGE = 64 };

static ruvllm_status check_texts(const struct rv_store_event *e, struct ruvllm_error *err)
{
    const struct rv_str texts[] = {e->prompt, e->answer, e->correction, e->reason};
    size_t bytes = e->result.len + e->memory.len + e->delta.len;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (texts[i].len > RV_STORE_EVENT_BYTES_MAX)
            bytes = RV_STORE_EVENT_BYTES_MAX;
        else if (texts[i].len &&
                 (memchr(texts[i].data, '\0', texts[i].len) || !rv_utf8_valid(texts[i].data, texts[i].len)))
            return rv_fail(err, RUVLLM_INVALID, "the texts of an event must be UTF-8 without NUL");
        bytes += texts[i].len;
    }
    if (bytes > RV_STORE_EVENT_BYTES_MAX)
        return rv_fail(err, RUVLLM_TOO_LARGE, "the event has more than %d bytes", RV_STORE_EVENT_BYTES_MAX);
    return RUVLLM_OK;
}

static ruvllm_status check_event(const struct rv_store_event *e, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_store_name_tenant(e->tenant, err);

    if (!rc)
        rc = rv_store_name_text(e->model, RV_STORE_MODEL_MAX, "the name of the model", err);
    if (!rc)
        rc = rv_store_name_text(e->response_id, RV_STORE_REQUEST_ID_MAX, "the id of the response", err);
    if (!rc && (e->kind < RV_STORE_EVENT_VOTE || e->kind > RV_STORE_EVENT_DEEP))
        rc = rv_fail(err, RUVLLM_INVALID, "there is no kind %d of event", (int)e->kind);
    if (!rc && !isfinite(e->score))
        rc = rv_fail(err, RUVLLM_INVALID, "the score of an event is not a number");
    if (!rc && (e->time_us < 0 || e->generation < 0))
        rc = rv_fail(err, RUVLLM_INVALID, "a number of the event is negative");
    if (!rc && (e->result.len > RV_STORE_EVENT_BYTES_MAX || e->memory.len > RV_STORE_EVENT_BYTES_MAX ||
                e->delta.len > RV_STORE_EVENT_BYTES_MAX))
        rc = rv_fail(err, RUVLLM_TOO_LARGE, "the event has more than %d bytes", RV_STORE_EVENT_BYTES_MAX);
    return rc ? rc : check_texts(e, err);
}

/* Nothing is left to the database to fill in: what goes to the spool is the same as what goes to the log. */
static void fill_in(struct rv_store_event *e)
{
    static const uint8_t none[RV_STORE_UID_BYTES];
    uint8_t luck[RV_SECRET_BYTES];
    char text[RV_SECRET_TEXT + 1];

    if (!e->model)
        e->model = "";
    if (!e->response_id)
        e->response_id = "";
    if (!e->time_us)
        e->time_us = rv_clock_unix_us();
    e->is_forgotten = false;
    if (memcmp(e->uid, none, sizeof(none)) != 0)
        return;
    rv_secret_make(text);
    rv_secret_hash(luck, text, RV_SECRET_TEXT);
    memcpy(e->uid, luck, sizeof(e->uid));
}

ruvllm_status rv_store_events_append(struct ruvllm_store *store, struct rv_store_event *events, size_t n,
                                     struct ruvllm_error *err)
{
    struct rv_event_writer *writer = NULL;
    ruvllm_status rc = RUVLLM_OK;

    for (size_t i = 0; !rc && i < n; i++)
        rc = check_event(&events[i], err);
    for (size_t i = 0; !rc && i < n; i++)
        fill_in(&events[i]);
    if (!rc)
        rc = rv_store_events_writer(store, &writer, err);
    if (!rc)
        rc = rv_event_writer_write(writer, events, n, err);
    return rc ? rv_fail_in(err, rc, "cannot add to the event log") : RUVLLM_OK;
}

/* One page; *after goes on to its last event, *go_on tells whether there may be more that are wanted. */
static ruvllm_status replay_page(struct ruvllm_store *store, const char *tenant, int64_t *after, rv_store_events_fn fn,
                                 void *user, bool *go_on, struct ruvllm_error *err)
{
    struct rv_sql_events_page page;
    ruvllm_status rc = rv_sql_events_read(rv_store_lock(store), tenant, *after, PAGE, &page, err);

    rv_store_unlock(store);
    *go_on = !rc && page.n > 0;
    for (size_t i = 0; *go_on && i < page.n; i++) {
        *after = page.rows[i].seq;
        *go_on = fn(user, &page.rows[i]);
    }
    rv_sql_events_page_release(&page);
    return rc;
}

ruvllm_status rv_store_events_replay(struct ruvllm_store *store, const char *tenant, int64_t after,
                                     rv_store_events_fn fn, void *user, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_store_name_tenant(tenant, err);
    bool go_on = true;

    while (!rc && go_on)
        rc = replay_page(store, tenant, &after, fn, user, &go_on, err);
    return rc;
}

ruvllm_status rv_store_events_last(struct ruvllm_store *store, const char *tenant, int64_t *seq,
                                   struct ruvllm_error *err)
{
    ruvllm_status rc = rv_store_name_tenant(tenant, err);

    *seq = 0;
    if (rc)
        return rc;
    rc = rv_sql_events_last(rv_store_lock(store), tenant, seq, err);
    rv_store_unlock(store);
    return rc;
}

ruvllm_status rv_store_events_about(struct ruvllm_store *store, const char *tenant, const char *response_id,
                                    int64_t *seq, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_store_name_tenant(tenant, err);

    *seq = 0;
    if (!rc)
        rc = rv_store_name_text(response_id, RV_STORE_REQUEST_ID_MAX, "the id of the response", err);
    if (rc)
        return rc;
    rc = rv_sql_events_about(rv_store_lock(store), tenant, response_id ? response_id : "", seq, err);
    rv_store_unlock(store);
    return rc;
}

ruvllm_status rv_store_events_forget(struct ruvllm_store *store, const char *tenant, int64_t seq,
                                     struct ruvllm_error *err)
{
    bool found = false;
    ruvllm_status rc = rv_store_name_tenant(tenant, err);

    if (rc)
        return rc;
    rc = rv_sql_events_forget(rv_store_lock(store), tenant, seq, &found, err);
    rv_store_unlock(store);
    if (!rc && !found)
        rc = rv_fail(err, RUVLLM_NOT_FOUND, "there is no event %lld", (long long)seq);
    return rc;
}

ruvllm_status rv_store_events_set_delta(struct ruvllm_store *store, const char *tenant, int64_t seq,
                                        struct rv_str delta, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_store_name_tenant(tenant, err);

    if (rc)
        return rc;
    rc = rv_sql_events_set_delta(rv_store_lock(store), tenant, seq, delta, err);
    rv_store_unlock(store);
    return rc;
}

bool rv_store_events_are_spooled(struct ruvllm_store *store)
{
    struct rv_event_writer_stats stats;

    return store->spool_path && !rv_store_events_stats(store, &stats, NULL) && stats.n_in_spool;
}

ruvllm_status rv_store_events_forget_later(struct ruvllm_store *store, const char *tenant, const char *model,
                                           int64_t after, enum rv_store_event_kind kind, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_store_name_tenant(tenant, err);

    if (!rc)
        rc = rv_store_name_text(model, RV_STORE_MODEL_MAX, "the name of the model", err);
    if (rc)
        return rc;
    rc = rv_sql_events_forget_later(rv_store_lock(store), tenant, model ? model : "", after, kind, err);
    rv_store_unlock(store);
    return rc;
}

ruvllm_status rv_store_events_stats(struct ruvllm_store *store, struct rv_event_writer_stats *out,
                                    struct ruvllm_error *err)
{
    struct rv_event_writer *writer = NULL;
    ruvllm_status rc = rv_store_events_writer(store, &writer, err);

    if (!rc)
        rv_event_writer_stats(writer, out);
    return rc;
}
