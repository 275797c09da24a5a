/* The SQL of checkpoints. */
#include "store/sql_checkpoints.h"

#include "base/alloc.h"
#include "store/sql_statement.h"

#include <string.h>

/* PostgreSQL is told to keep the log's row as it is until the end: SQLite has one writer at a time in any case. */
#define PUT_IF_AS_READ(lock)                                                                                           \
    "WITH log AS (SELECT 1 FROM tenant_log WHERE tenant = $1 AND n_forgotten = $2" lock ")"                            \
    " INSERT INTO checkpoint (tenant, model, seq, content) SELECT $1, $3, $4, $5 FROM log WHERE true"                  \
    " ON CONFLICT (tenant, model) DO UPDATE SET seq = $4, content = $5"

static const char PUT_LITE[] = PUT_IF_AS_READ("");
static const char PUT_POSTGRES[] = PUT_IF_AS_READ(" FOR SHARE");
static const char GET[] = "SELECT seq, content FROM checkpoint WHERE tenant = $1 AND model = $2";
static const char DROP[] = "DELETE FROM checkpoint WHERE tenant = $1 AND seq >= $2";

ruvllm_status rv_sql_checkpoints_put(struct rv_store_db *db, const char *tenant, const char *model, int64_t seq,
                                     int64_t n_forgotten, const void *data, size_t len, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, db->sql->dialect == RV_SQL_POSTGRES ? PUT_POSTGRES : PUT_LITE,
                                              "write a checkpoint", err);

    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, tenant);
    rv_sql_statement_bind_int(&s, n_forgotten);
    rv_sql_statement_bind_text(&s, model);
    rv_sql_statement_bind_int(&s, seq);
    rv_sql_statement_bind_blob(&s, data, len);
    return rv_sql_statement_run(&s, err);
}

static ruvllm_status read_row(struct rv_sql_statement *s, int64_t *seq, void **out, size_t *len,
                              struct ruvllm_error *err)
{
    const void *bytes;
    ruvllm_status rc;

    *seq = rv_sql_statement_int(s);
    bytes = rv_sql_statement_bytes(s, RV_STORE_CHECKPOINT_MAX, len);
    rc = rv_sql_statement_status(s, err);
    if (rc)
        return rc;
    *out = rv_malloc(*len ? *len : 1);
    if (!*out)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a checkpoint of %zu bytes", *len);
    if (*len)
        memcpy(*out, bytes, *len);
    return RUVLLM_OK;
}

ruvllm_status rv_sql_checkpoints_get(struct rv_store_db *db, const char *tenant, const char *model, int64_t *seq,
                                     void **out, size_t *len, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    bool has_row;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, GET, "read a checkpoint", err);

    *out = NULL;
    *len = 0;
    *seq = 0;
    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, tenant);
    rv_sql_statement_bind_text(&s, model);
    rc = rv_sql_statement_step(&s, &has_row, err);
    if (!rc && has_row)
        rc = read_row(&s, seq, out, len, err);
    rv_sql_statement_end(&s);
    return rc;
}

ruvllm_status rv_sql_checkpoints_drop(struct rv_store_db *db, const char *tenant, int64_t seq, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, DROP, "remove checkpoints", err);

    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, tenant);
    rv_sql_statement_bind_int(&s, seq);
    return rv_sql_statement_run(&s, err);
}
