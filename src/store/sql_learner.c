/* The SQL of where learning stands. */
#include "store/sql_learner.h"

#include "store/sql_news.h"
#include "store/sql_statement.h"

#include <string.h>

static const char PUT[] =
    "INSERT INTO learner (tenant, model, applied_seq, n_votes, mean, deviation, kl_spent, is_paused, updated_us, extra)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (tenant, model) DO UPDATE SET applied_seq = $3,"
    " n_votes = $4, mean = $5, deviation = $6, kl_spent = $7, is_paused = $8, updated_us = $9, extra = $10";
static const char GET[] = "SELECT applied_seq, n_votes, mean, deviation, kl_spent, is_paused, updated_us, extra"
                          " FROM learner WHERE tenant = $1 AND model = $2";
static const char LOOK[] = "SELECT COALESCE((SELECT last_seq FROM tenant_log WHERE tenant = $1), 0),"
                           " COALESCE((SELECT n_forgotten FROM tenant_log WHERE tenant = $1), 0),"
                           " COALESCE((SELECT is_paused FROM learner WHERE tenant = $1 AND model = $2), 0)";

static ruvllm_status put(struct rv_store_db *db, const struct rv_store_learner *state, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, PUT, "write where learning stands", err);

    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, state->tenant);
    rv_sql_statement_bind_text(&s, state->model);
    rv_sql_statement_bind_int(&s, state->applied_seq);
    rv_sql_statement_bind_int(&s, state->n_votes);
    rv_sql_statement_bind_real(&s, state->mean);
    rv_sql_statement_bind_real(&s, state->deviation);
    rv_sql_statement_bind_real(&s, state->kl_spent);
    rv_sql_statement_bind_int(&s, state->is_paused);
    rv_sql_statement_bind_int(&s, state->updated_us);
    rv_sql_statement_bind_blob(&s, state->extra, state->extra_len);
    return rv_sql_statement_run(&s, err);
}

ruvllm_status rv_sql_learner_put(struct rv_store_db *db, const struct rv_store_learner *state, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_sql_db_begin(db, err);

    if (rc)
        return rc;
    rc = put(db, state, err);
    if (!rc)
        rc = rv_sql_news_tell(db, state->tenant, state->model, 0, err);
    return rv_sql_db_end(db, rc, err);
}

static ruvllm_status read_row(struct rv_sql_statement *s, struct rv_store_learner *out, struct ruvllm_error *err)
{
    const void *extra;

    out->applied_seq = rv_sql_statement_int(s);
    out->n_votes = rv_sql_statement_int(s);
    out->mean = rv_sql_statement_real(s);
    out->deviation = rv_sql_statement_real(s);
    out->kl_spent = rv_sql_statement_real(s);
    out->is_paused = rv_sql_statement_int(s) == 1;
    out->updated_us = rv_sql_statement_int(s);
    extra = rv_sql_statement_bytes(s, RV_STORE_EXTRA_MAX, &out->extra_len);
    if (out->extra_len)
        memcpy(out->extra, extra, out->extra_len);
    return rv_sql_statement_status(s, err);
}

ruvllm_status rv_sql_learner_get(struct rv_store_db *db, const char *tenant, const char *model,
                                 struct rv_store_learner *out, bool *found, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, GET, "read where learning stands", err);

    *found = false;
    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, tenant);
    rv_sql_statement_bind_text(&s, model);
    rc = rv_sql_statement_step(&s, found, err);
    if (!rc && *found)
        rc = read_row(&s, out, err);
    rv_sql_statement_end(&s);
    return rc;
}

ruvllm_status rv_sql_learner_look(struct rv_store_db *db, const char *tenant, const char *model,
                                  struct rv_store_look *out, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    bool has_row;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, LOOK, "look where a log ends", err);

    *out = (struct rv_store_look){0};
    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, tenant);
    rv_sql_statement_bind_text(&s, model);
    rc = rv_sql_statement_step(&s, &has_row, err);
    if (!rc && has_row) {
        out->last_seq = rv_sql_statement_int(&s);
        out->n_forgotten = rv_sql_statement_int(&s);
        out->is_paused = rv_sql_statement_int(&s) == 1;
        rc = rv_sql_statement_status(&s, err);
    }
    rv_sql_statement_end(&s);
    return rc;
}
