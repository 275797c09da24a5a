/* The SQL of the witness log. A query with a tenant and one without are two texts, so that each uses its own index. */
#include "store/sql_witness.h"

#include "store/sql_keys.h"
#include "store/sql_statement.h"

#define COLUMNS                                                                                                        \
    "time_us, tenant, key_id, request_id, model, endpoint, finish_reason, adapter_generation, status, prompt_tokens,"  \
    " cached_tokens, generated_tokens, queue_us, prefill_us, decode_us, total_us"
#define WITHIN "time_us >= $1 AND time_us < $2 AND ($3 IS NULL OR model = $3)"
#define NEWEST_FIRST " ORDER BY time_us DESC, row DESC LIMIT "

static const char ADD[] = "INSERT INTO witness (" COLUMNS ") "
                          " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
static const char QUERY[] = "SELECT " COLUMNS " FROM witness WHERE " WITHIN NEWEST_FIRST "$4";
static const char QUERY_TENANT[] = "SELECT " COLUMNS " FROM witness WHERE " WITHIN " AND tenant = $4" NEWEST_FIRST "$5";
static const char PRUNE[] =
    "DELETE FROM witness WHERE row IN (SELECT row FROM witness WHERE time_us < $1 ORDER BY time_us LIMIT $2)";

static ruvllm_status add(struct rv_sql_statement *s, const struct rv_store_witness *row, struct ruvllm_error *err)
{
    const struct ruvllm_witness *w = &row->numbers;

    rv_sql_statement_bind_int(s, w->time_us);
    rv_sql_statement_bind_text(s, row->tenant);
    rv_sql_statement_bind_text(s, row->key_id);
    rv_sql_statement_bind_text(s, row->request_id);
    rv_sql_statement_bind_text(s, row->model);
    rv_sql_statement_bind_text(s, row->endpoint);
    rv_sql_statement_bind_text(s, row->finish_reason);
    rv_sql_statement_bind_int(s, w->adapter_generation);
    rv_sql_statement_bind_int(s, w->status);
    rv_sql_statement_bind_int(s, w->prompt_tokens);
    rv_sql_statement_bind_int(s, w->cached_tokens);
    rv_sql_statement_bind_int(s, w->generated_tokens);
    rv_sql_statement_bind_int(s, w->queue_us);
    rv_sql_statement_bind_int(s, w->prefill_us);
    rv_sql_statement_bind_int(s, w->decode_us);
    rv_sql_statement_bind_int(s, w->total_us);
    return rv_sql_statement_run(s, err);
}

ruvllm_status rv_sql_witness_write(struct rv_store_db *db, const struct rv_store_witness *rows, size_t n_rows,
                                   const struct rv_store_touch *touches, size_t n_touches, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_db_begin(db, err);

    if (rc)
        return rc;
    rc = rv_sql_statement_begin(&s, db, ADD, "write the witness log", err);
    for (size_t i = 0; !rc && i < n_rows; i++)
        rc = add(&s, &rows[i], err);
    if (!rc)
        rc = rv_sql_keys_touch(db, touches, n_touches, err);
    return rv_sql_db_end(db, rc, err);
}

static ruvllm_status read_row(struct rv_sql_statement *s, struct rv_store_witness *out, struct ruvllm_error *err)
{
    struct ruvllm_witness *w = &out->numbers;

    *w = (struct ruvllm_witness){.struct_size = sizeof(*w)};
    w->time_us = rv_sql_statement_int(s);
    rv_sql_statement_text(s, out->tenant, RV_STORE_TENANT_MAX);
    rv_sql_statement_text(s, out->key_id, RV_STORE_KEY_ID_LEN);
    rv_sql_statement_text(s, out->request_id, RV_STORE_REQUEST_ID_MAX);
    rv_sql_statement_text(s, out->model, RV_STORE_MODEL_MAX);
    rv_sql_statement_text(s, out->endpoint, RV_STORE_ENDPOINT_MAX);
    rv_sql_statement_text(s, out->finish_reason, RV_STORE_FINISH_MAX);
    w->adapter_generation = rv_sql_statement_int(s);
    w->status = rv_sql_statement_int32(s);
    w->prompt_tokens = rv_sql_statement_int32(s);
    w->cached_tokens = rv_sql_statement_int32(s);
    w->generated_tokens = rv_sql_statement_int32(s);
    w->queue_us = rv_sql_statement_int(s);
    w->prefill_us = rv_sql_statement_int(s);
    w->decode_us = rv_sql_statement_int(s);
    w->total_us = rv_sql_statement_int(s);
    return rv_sql_statement_status(s, err);
}

ruvllm_status rv_sql_witness_query(struct rv_store_db *db, const struct ruvllm_witness_filter *filter,
                                   struct rv_store_witness *out, size_t *n, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    bool has_row = true;
    ruvllm_status rc =
        rv_sql_statement_begin(&s, db, filter->tenant ? QUERY_TENANT : QUERY, "read the witness log", err);

    *n = 0;
    if (rc)
        return rc;
    rv_sql_statement_bind_int(&s, filter->since_us);
    rv_sql_statement_bind_int(&s, filter->before_us ? filter->before_us : INT64_MAX);
    rv_sql_statement_bind_text(&s, filter->model);
    if (filter->tenant)
        rv_sql_statement_bind_text(&s, filter->tenant);
    rv_sql_statement_bind_int(&s, filter->limit);
    while (!rc && has_row && *n < (size_t)filter->limit) {
        rc = rv_sql_statement_step(&s, &has_row, err);
        if (!rc && has_row)
            rc = read_row(&s, &out[*n], err);
        *n += !rc && has_row;
    }
    rv_sql_statement_end(&s);
    return rc;
}

ruvllm_status rv_sql_witness_prune(struct rv_store_db *db, int64_t before_us, int32_t max, uint64_t *n_deleted,
                                   struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, PRUNE, "delete from the witness log", err);

    *n_deleted = 0;
    if (rc)
        return rc;
    rv_sql_statement_bind_int(&s, before_us);
    rv_sql_statement_bind_int(&s, max);
    rc = rv_sql_statement_run(&s, err);
    if (!rc)
        *n_deleted = (uint64_t)db->n_changed;
    return rc;
}
