/* What a session may be is decided here; whose it is, by every query of the backend. */
#include "store/store_sessions.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "store/sql_sessions.h"
#include "store/store_name.h"

#include <string.h>

static ruvllm_status check_names(const char *tenant, const char *id, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_store_name_tenant(tenant, err);

    return rc ? rc : rv_store_name_session(id, err);
}

static ruvllm_status check_messages(const struct ruvllm_session *session, struct ruvllm_error *err)
{
    if (session->messages_len > RV_STORE_MESSAGES_MAX)
        return rv_fail(err, RUVLLM_TOO_LARGE, "the messages have %zu bytes; a session holds up to %d",
                       session->messages_len, RV_STORE_MESSAGES_MAX);
    if (session->messages_len && (memchr(session->messages, '\0', session->messages_len) ||
                                  !rv_utf8_valid(session->messages, session->messages_len)))
        return rv_fail(err, RUVLLM_INVALID, "the messages must be UTF-8 without NUL");
    return RUVLLM_OK;
}

static ruvllm_status check_session(const struct ruvllm_session *session, struct ruvllm_error *err)
{
    ruvllm_status rc = check_names(session->tenant, session->id, err);

    if (!rc)
        rc = rv_store_name_text(session->model, RV_STORE_MODEL_MAX, "the name of the model", err);
    if (!rc)
        rc = rv_store_name_text(session->title, RV_STORE_TITLE_MAX, "the title", err);
    if (!rc)
        rc = rv_store_name_snapshot(session->snapshot, err);
    if (!rc && session->n_tokens < 0)
        rc = rv_fail(err, RUVLLM_INVALID, "'n_tokens' is negative");
    return rc ? rc : check_messages(session, err);
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

ruvllm_status rv_store_sessions_put(struct ruvllm_store *store, const struct ruvllm_session *session,
                                    struct ruvllm_error *err)
{
    struct ruvllm_session whole = *session;
    ruvllm_status rc = check_session(session, err);

    if (rc)
        return rv_fail_in(err, rc, "cannot save a session");
    whole.model = or_empty(session->model);
    whole.title = or_empty(session->title);
    whole.snapshot = or_empty(session->snapshot);
    whole.messages = or_empty(session->messages);
    rc = rv_sql_sessions_put(rv_store_lock(store), &whole, rv_clock_unix_us(), err);
    rv_store_unlock(store);
    return rc;
}

static ruvllm_status none(const char *id, struct ruvllm_error *err)
{
    return rv_fail_kind(err, RUVLLM_NOT_FOUND, RUVLLM_ERROR_SESSION, "there is no session '%s'", id);
}

ruvllm_status rv_store_sessions_get(struct ruvllm_store *store, const char *tenant, const char *id,
                                    struct ruvllm_session **out, struct ruvllm_error *err)
{
    ruvllm_status rc = check_names(tenant, id, err);

    *out = NULL;
    if (rc)
        return rc;
    rc = rv_sql_sessions_get(rv_store_lock(store), tenant, id, out, err);
    rv_store_unlock(store);
    return rc || *out ? rc : none(id, err);
}

static const struct ruvllm_session *session_of(struct rv_store_session *row, const char *tenant)
{
    row->numbers.tenant = tenant;
    row->numbers.id = row->id;
    row->numbers.model = row->model;
    row->numbers.title = row->title;
    row->numbers.snapshot = row->snapshot;
    return &row->numbers;
}

static ruvllm_status check_page(const char *tenant, int64_t before_us, const char *before_id, int32_t limit,
                                struct ruvllm_error *err)
{
    ruvllm_status rc = rv_store_name_tenant(tenant, err);

    if (!rc && before_id)
        rc = rv_store_name_session(before_id, err);
    if (!rc && (before_us < 0 || (before_us > 0) != (before_id != NULL)))
        rc = rv_fail(err, RUVLLM_INVALID,
                     "to go on, give both the time and the id of the last session; 0 and NULL "
                     "begin");
    if (!rc && (limit < 1 || limit > RV_STORE_LIMIT_MAX))
        rc = rv_fail(err, RUVLLM_INVALID, "'limit' is %d; it goes from 1 to %d", limit, RV_STORE_LIMIT_MAX);
    return rc;
}

ruvllm_status rv_store_sessions_list(struct ruvllm_store *store, const char *tenant, int64_t before_us,
                                     const char *before_id, int32_t limit, ruvllm_session_fn fn, void *user,
                                     struct ruvllm_error *err)
{
    struct rv_store_session *rows;
    size_t n = 0;
    ruvllm_status rc = check_page(tenant, before_us, before_id, limit, err);

    if (rc)
        return rc;
    rows = rv_calloc((size_t)limit, sizeof(*rows));
    if (!rows)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %d rows", limit);
    rc = rv_sql_sessions_list(rv_store_lock(store), tenant, before_us ? before_us : INT64_MAX, or_empty(before_id),
                              limit, rows, &n, err);
    rv_store_unlock(store);
    for (size_t i = 0; !rc && i < n; i++) {
        if (!fn(user, session_of(&rows[i], tenant)))
            break;
    }
    rv_free(rows);
    return rc;
}

ruvllm_status rv_store_sessions_delete(struct ruvllm_store *store, const char *tenant, const char *id,
                                       struct ruvllm_error *err)
{
    bool found = false;
    ruvllm_status rc = check_names(tenant, id, err);

    if (rc)
        return rc;
    rc = rv_sql_sessions_delete(rv_store_lock(store), tenant, id, &found, err);
    rv_store_unlock(store);
    return rc || found ? rc : none(id, err);
}
