/* The SQL of sessions. Every text is bound to a tenant: there is no way to ask for a session without saying whose. */
#include "store/sql_sessions.h"

#include "base/alloc.h"
#include "store/sql_statement.h"

#include <string.h>

#define COLUMNS "id, model, title, snapshot, n_tokens, created_us, updated_us"

static const char PUT[] =
    "INSERT INTO session (tenant, " COLUMNS ", messages) VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8)"
    " ON CONFLICT (tenant, id) DO UPDATE SET model = $3, title = $4, snapshot = $5, n_tokens = $6, updated_us = $7,"
    " messages = $8";
static const char GET[] = "SELECT " COLUMNS ", messages FROM session WHERE tenant = $1 AND id = $2";
static const char LIST[] = "SELECT " COLUMNS " FROM session WHERE tenant = $1 AND (updated_us, id) < ($2, $3)"
                           " ORDER BY updated_us DESC, id DESC LIMIT $4";
static const char DELETE[] = "DELETE FROM session WHERE tenant = $1 AND id = $2";

ruvllm_status rv_sql_sessions_put(struct rv_store_db *db, const struct ruvllm_session *session, int64_t now_us,
                                  struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, PUT, "save a session", err);

    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, session->tenant);
    rv_sql_statement_bind_text(&s, session->id);
    rv_sql_statement_bind_text(&s, session->model);
    rv_sql_statement_bind_text(&s, session->title);
    rv_sql_statement_bind_text(&s, session->snapshot);
    rv_sql_statement_bind_int(&s, session->n_tokens);
    rv_sql_statement_bind_int(&s, now_us);
    rv_sql_statement_bind_str(&s, session->messages, session->messages_len);
    return rv_sql_statement_run(&s, err);
}

static ruvllm_status read_row(struct rv_sql_statement *s, struct rv_store_session *out, struct ruvllm_error *err)
{
    out->numbers = (struct ruvllm_session){.struct_size = sizeof(out->numbers)};
    rv_sql_statement_text(s, out->id, RV_STORE_SESSION_ID_MAX);
    rv_sql_statement_text(s, out->model, RV_STORE_MODEL_MAX);
    rv_sql_statement_text(s, out->title, RV_STORE_TITLE_MAX);
    rv_sql_statement_text(s, out->snapshot, RV_STORE_SNAPSHOT_MAX);
    out->numbers.n_tokens = rv_sql_statement_int(s);
    out->numbers.created_us = rv_sql_statement_int(s);
    out->numbers.updated_us = rv_sql_statement_int(s);
    return rv_sql_statement_status(s, err);
}

/* What a caller gets: the struct first, so that freeing it frees all. */
struct whole_session {
    struct ruvllm_session session;
    struct rv_store_session row;
    char tenant[RV_STORE_TENANT_MAX + 1];
    char messages[];
};

static ruvllm_status make_whole(struct rv_sql_statement *s, const char *tenant, struct ruvllm_session **out,
                                struct ruvllm_error *err)
{
    struct rv_store_session row;
    struct whole_session *w;
    const char *messages;
    size_t len;
    ruvllm_status rc = read_row(s, &row, err);

    if (rc)
        return rc;
    messages = rv_sql_statement_str(s, RV_STORE_MESSAGES_MAX, &len);
    rc = rv_sql_statement_status(s, err);
    if (rc)
        return rc;
    w = rv_calloc(1, sizeof(*w) + len + 1);
    if (!w)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a session of %zu bytes", len);
    w->row = row;
    w->session = row.numbers;
    memcpy(w->tenant, tenant, strlen(tenant)); // was found by it, so it fits
    if (len)
        memcpy(w->messages, messages, len);
    w->session.tenant = w->tenant;
    w->session.id = w->row.id;
    w->session.model = w->row.model;
    w->session.title = w->row.title;
    w->session.snapshot = w->row.snapshot;
    w->session.messages = w->messages;
    w->session.messages_len = len;
    *out = &w->session;
    return RUVLLM_OK;
}

ruvllm_status rv_sql_sessions_get(struct rv_store_db *db, const char *tenant, const char *id,
                                  struct ruvllm_session **out, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    bool has_row;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, GET, "read a session", err);

    *out = NULL;
    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, tenant);
    rv_sql_statement_bind_text(&s, id);
    rc = rv_sql_statement_step(&s, &has_row, err);
    if (!rc && has_row)
        rc = make_whole(&s, tenant, out, err);
    rv_sql_statement_end(&s);
    return rc;
}

ruvllm_status rv_sql_sessions_list(struct rv_store_db *db, const char *tenant, int64_t before_us, const char *before_id,
                                   int32_t limit, struct rv_store_session *out, size_t *n, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    bool has_row = true;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, LIST, "list sessions", err);

    *n = 0;
    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, tenant);
    rv_sql_statement_bind_int(&s, before_us);
    rv_sql_statement_bind_text(&s, before_id);
    rv_sql_statement_bind_int(&s, limit);
    while (!rc && has_row && *n < (size_t)limit) {
        rc = rv_sql_statement_step(&s, &has_row, err);
        if (!rc && has_row)
            rc = read_row(&s, &out[*n], err);
        *n += !rc && has_row;
    }
    rv_sql_statement_end(&s);
    return rc;
}

ruvllm_status rv_sql_sessions_delete(struct rv_store_db *db, const char *tenant, const char *id, bool *found,
                                     struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, DELETE, "delete a session", err);

    *found = false;
    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, tenant);
    rv_sql_statement_bind_text(&s, id);
    rc = rv_sql_statement_run(&s, err);
    *found = !rc && db->n_changed > 0;
    return rc;
}
