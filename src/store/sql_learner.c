/* The SQL of where learning stands, and of leases. */
#include "store/sql_learner.h"

#include "store/sql_statement.h"

#include <string.h>

static const char PUT[] =
    "INSERT INTO learner (tenant, model, applied_seq, n_votes, mean, deviation, kl_spent, is_paused, updated_us, extra)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (tenant, model) DO UPDATE SET applied_seq = $3,"
    " n_votes = $4, mean = $5, deviation = $6, kl_spent = $7, is_paused = $8, updated_us = $9, extra = $10";
static const char GET[] = "SELECT applied_seq, n_votes, mean, deviation, kl_spent, is_paused, updated_us, extra"
                          " FROM learner WHERE tenant = $1 AND model = $2";
static const char WHO[] = "SELECT owner, until_us FROM lease WHERE tenant = $1 AND model = $2";
static const char TAKE[] = "INSERT INTO lease (tenant, model, owner, until_us) VALUES ($1, $2, $3, $4)"
                           " ON CONFLICT (tenant, model) DO UPDATE SET owner = $3, until_us = $4";
static const char LEAVE[] = "DELETE FROM lease WHERE tenant = $1 AND model = $2 AND owner = $3";

ruvllm_status rv_sql_learner_put(struct rv_store_db *db, const struct rv_store_learner *state, struct ruvllm_error *err)
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

/* ---- leases -------------------------------------------------------------------------------- */

static ruvllm_status look(struct rv_store_db *db, const struct rv_store_claim *claim, enum rv_store_claimed *out,
                          struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    uint8_t owner[RV_STORE_UID_BYTES];
    bool found;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, WHO, "look who teaches", err);

    *out = RV_STORE_CLAIM_TAKEN;
    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, claim->tenant);
    rv_sql_statement_bind_text(&s, claim->model);
    rc = rv_sql_statement_step(&s, &found, err);
    if (!rc && found) {
        bool is_current;

        rv_sql_statement_blob(&s, owner, sizeof(owner));
        is_current = rv_sql_statement_int(&s) > claim->now_us;
        rc = rv_sql_statement_status(&s, err);
        if (!rc && is_current)
            *out = memcmp(owner, claim->owner, sizeof(owner)) == 0 ? RV_STORE_CLAIM_KEPT : RV_STORE_CLAIM_OTHER;
    }
    rv_sql_statement_end(&s);
    return rc;
}

static ruvllm_status take(struct rv_store_db *db, const struct rv_store_claim *claim, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, TAKE, "become the one who teaches", err);

    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, claim->tenant);
    rv_sql_statement_bind_text(&s, claim->model);
    rv_sql_statement_bind_blob(&s, claim->owner, sizeof(claim->owner));
    rv_sql_statement_bind_int(&s, claim->until_us);
    return rv_sql_statement_run(&s, err);
}

ruvllm_status rv_sql_learner_lease_take(struct rv_store_db *db, const struct rv_store_claim *claim,
                                        enum rv_store_claimed *out, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_sql_db_begin(db, err);

    *out = RV_STORE_CLAIM_OTHER;
    if (rc)
        return rc;
    rc = look(db, claim, out, err);
    if (!rc && *out != RV_STORE_CLAIM_OTHER)
        rc = take(db, claim, err);
    return rv_sql_db_end(db, rc, err);
}

ruvllm_status rv_sql_learner_lease_leave(struct rv_store_db *db, const struct rv_store_claim *claim,
                                         struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, LEAVE, "stop teaching", err);

    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, claim->tenant);
    rv_sql_statement_bind_text(&s, claim->model);
    rv_sql_statement_bind_blob(&s, claim->owner, sizeof(claim->owner));
    return rv_sql_statement_run(&s, err);
}
