/*
 * The SQL of generations. Content lies in parts of 4 MiB, so that no row is larger than an engine likes, and is known
 * by its hash: generations that are equal share it.
 */
#include "store/sql_generations.h"

#include "store/sql_statement.h"

#include <string.h>

#define COLUMNS "tenant, model, generation, parent, kind, hash, n_bytes, applied_seq, created_us, is_active, metrics"
#define OF "tenant = $1 AND model = $2"

static const char ADD[] =
    "INSERT INTO generation (" COLUMNS ") VALUES ($1, $2, (SELECT coalesce(max(generation), 0) + 1"
    " FROM generation WHERE " OF "), $3, $4, $5, $6, $7, $8, $9, $10) RETURNING generation";
static const char HAS_PART[] = "SELECT 1 FROM blob_part WHERE hash = $1 AND part = 0";
static const char ADD_PART[] = "INSERT INTO blob_part (hash, part, bytes) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
static const char PARTS[] = "SELECT bytes FROM blob_part WHERE hash = $1 AND part = $2";
static const char FIND[] = "SELECT " COLUMNS " FROM generation WHERE " OF " AND generation = $3";
static const char FIND_ACTIVE[] = "SELECT " COLUMNS " FROM generation WHERE " OF " AND is_active = 1";
static const char LIST[] =
    "SELECT " COLUMNS " FROM generation WHERE " OF " AND generation < $3 ORDER BY generation DESC LIMIT $4";
static const char REST[] = "UPDATE generation SET is_active = 0 WHERE " OF " AND is_active = 1";
static const char ACTIVATE[] = "UPDATE generation SET is_active = 1 WHERE " OF " AND generation = $3";
static const char FORGET[] = "UPDATE generation SET hash = '', n_bytes = 0, metrics = '', is_active = 0 WHERE " OF
                             " AND applied_seq >= $3 AND hash <> ''";
static const char SWEEP[] =
    "DELETE FROM blob_part WHERE NOT EXISTS (SELECT 1 FROM generation WHERE generation.hash = blob_part.hash)";

/* ---- content ------------------------------------------------------------------------------- */

static ruvllm_status has_content(struct rv_store_db *db, const char *hash, bool *found, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, HAS_PART, "look for an adapter's content", err);

    *found = false;
    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, hash);
    rc = rv_sql_statement_step(&s, found, err);
    rv_sql_statement_end(&s);
    return rc;
}

static ruvllm_status add_content(struct rv_store_db *db, const char *hash, const uint8_t *data, size_t len,
                                 struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    bool found;
    ruvllm_status rc = has_content(db, hash, &found, err);

    if (rc || found)
        return rc;
    rc = rv_sql_statement_begin(&s, db, ADD_PART, "write an adapter's content", err);
    for (size_t at = 0, part = 0; !rc && (at < len || part == 0); at += RV_STORE_BLOB_PART, part++) {
        size_t rest = len - at;

        rv_sql_statement_bind_text(&s, hash);
        rv_sql_statement_bind_int(&s, (int64_t)part);
        rv_sql_statement_bind_blob(&s, data + at, rest < RV_STORE_BLOB_PART ? rest : RV_STORE_BLOB_PART);
        rc = rv_sql_statement_run(&s, err);
    }
    return rc;
}

static ruvllm_status read_part(struct rv_store_db *db, const char *hash, size_t part, uint8_t *out, size_t len,
                               bool *found, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    const void *bytes;
    size_t got;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, PARTS, "read an adapter's content", err);

    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, hash);
    rv_sql_statement_bind_int(&s, (int64_t)part);
    rc = rv_sql_statement_step(&s, found, err);
    if (!rc && *found) {
        bytes = rv_sql_statement_bytes(&s, RV_STORE_BLOB_PART, &got);
        rc = rv_sql_statement_status(&s, err);
        *found = !rc && got == len;
        if (*found && len)
            memcpy(out, bytes, len);
    }
    rv_sql_statement_end(&s);
    return rc;
}

ruvllm_status rv_sql_generations_content(struct rv_store_db *db, const char *hash, void *out, size_t len, bool *found,
                                         struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;

    *found = true;
    for (size_t at = 0, part = 0; !rc && *found && (at < len || part == 0); at += RV_STORE_BLOB_PART, part++) {
        size_t rest = len - at;

        rc = read_part(db, hash, part, (uint8_t *)out + at, rest < RV_STORE_BLOB_PART ? rest : RV_STORE_BLOB_PART,
                       found, err);
    }
    return rc;
}

/* ---- generations --------------------------------------------------------------------------- */

/* Runs a statement about a tenant's model and, unless negative, a number. */
static ruvllm_status change(struct rv_store_db *db, const char *sql, const char *tenant, const char *model,
                            int64_t generation, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, sql, "change generations", err);

    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, tenant);
    rv_sql_statement_bind_text(&s, model);
    if (generation >= 0)
        rv_sql_statement_bind_int(&s, generation);
    return rv_sql_statement_run(&s, err);
}

static ruvllm_status add_row(struct rv_store_db *db, struct rv_store_generation *gen, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    bool has_row;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, ADD, "add a generation", err);

    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, gen->tenant);
    rv_sql_statement_bind_text(&s, gen->model);
    rv_sql_statement_bind_int(&s, gen->parent);
    rv_sql_statement_bind_int(&s, gen->kind);
    rv_sql_statement_bind_text(&s, gen->hash);
    rv_sql_statement_bind_int(&s, (int64_t)gen->n_bytes);
    rv_sql_statement_bind_int(&s, gen->applied_seq);
    rv_sql_statement_bind_int(&s, gen->created_us);
    rv_sql_statement_bind_int(&s, gen->is_active);
    rv_sql_statement_bind_text(&s, gen->metrics);
    rc = rv_sql_statement_step(&s, &has_row, err);
    if (!rc && has_row) {
        gen->generation = rv_sql_statement_int(&s);
        rc = rv_sql_statement_status(&s, err);
    }
    rv_sql_statement_end(&s);
    return rc;
}

ruvllm_status rv_sql_generations_add(struct rv_store_db *db, struct rv_store_generation *gen, const void *data,
                                     size_t len, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_sql_db_begin(db, err);

    if (rc)
        return rc;
    rc = add_content(db, gen->hash, data, len, err);
    if (!rc && gen->is_active)
        rc = change(db, REST, gen->tenant, gen->model, -1, err);
    if (!rc)
        rc = add_row(db, gen, err);
    return rv_sql_db_end(db, rc, err);
}

static ruvllm_status read_row(struct rv_sql_statement *s, struct rv_store_generation *out, struct ruvllm_error *err)
{
    int64_t kind, n_bytes;

    rv_sql_statement_text(s, out->tenant, RV_STORE_TENANT_MAX);
    rv_sql_statement_text(s, out->model, RV_STORE_MODEL_MAX);
    out->generation = rv_sql_statement_int(s);
    out->parent = rv_sql_statement_int(s);
    kind = rv_sql_statement_int(s);
    rv_sql_statement_text(s, out->hash, RV_SHA256_HEX_LEN);
    n_bytes = rv_sql_statement_int(s);
    out->applied_seq = rv_sql_statement_int(s);
    out->created_us = rv_sql_statement_int(s);
    out->is_active = rv_sql_statement_int(s) == 1;
    rv_sql_statement_text(s, out->metrics, RV_STORE_METRICS_MAX);
    if (kind < RV_STORE_GENERATION_INSTANT || kind > RV_STORE_GENERATION_IMPORT || n_bytes < 0 ||
        n_bytes > RV_STORE_BLOB_MAX)
        s->is_broken = true;
    out->kind = (enum rv_store_generation_kind)kind;
    out->n_bytes = (uint64_t)n_bytes;
    return rv_sql_statement_status(s, err);
}

ruvllm_status rv_sql_generations_find(struct rv_store_db *db, const char *tenant, const char *model, int64_t generation,
                                      struct rv_store_generation *out, bool *found, struct ruvllm_error *err)
{
    bool is_active = generation == RV_SQL_GENERATIONS_ACTIVE;
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, is_active ? FIND_ACTIVE : FIND, "read a generation", err);

    *found = false;
    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, tenant);
    rv_sql_statement_bind_text(&s, model);
    if (!is_active)
        rv_sql_statement_bind_int(&s, generation);
    rc = rv_sql_statement_step(&s, found, err);
    if (!rc && *found)
        rc = read_row(&s, out, err);
    rv_sql_statement_end(&s);
    return rc;
}

ruvllm_status rv_sql_generations_list(struct rv_store_db *db, const char *tenant, const char *model, int64_t before,
                                      struct rv_store_generation *out, size_t max, size_t *n, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    bool has_row = true;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, LIST, "list generations", err);

    *n = 0;
    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, tenant);
    rv_sql_statement_bind_text(&s, model);
    rv_sql_statement_bind_int(&s, before);
    rv_sql_statement_bind_int(&s, (int64_t)max);
    while (!rc && has_row && *n < max) {
        rc = rv_sql_statement_step(&s, &has_row, err);
        if (!rc && has_row)
            rc = read_row(&s, &out[*n], err);
        *n += !rc && has_row;
    }
    rv_sql_statement_end(&s);
    return rc;
}

ruvllm_status rv_sql_generations_activate(struct rv_store_db *db, const char *tenant, const char *model,
                                          int64_t generation, bool *found, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_sql_db_begin(db, err);

    *found = false;
    if (rc)
        return rc;
    rc = change(db, REST, tenant, model, -1, err);
    if (!rc && generation)
        rc = change(db, ACTIVATE, tenant, model, generation, err);
    *found = !rc && (!generation || db->n_changed > 0);
    if (rc || *found)
        return rv_sql_db_end(db, rc, err);
    /* Nothing is to change, not even who was active before: the status says to undo, and comes back. */
    rc = rv_sql_db_end(db, RUVLLM_CANCELLED, err);
    return rc == RUVLLM_CANCELLED ? RUVLLM_OK : rc;
}

ruvllm_status rv_sql_generations_forget(struct rv_store_db *db, const char *tenant, const char *model, int64_t seq,
                                        struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    bool has_any = false;
    ruvllm_status rc = rv_sql_db_begin(db, err);

    if (rc)
        return rc;
    rc = change(db, FORGET, tenant, model, seq, err);
    if (!rc)
        has_any = db->n_changed > 0;
    if (has_any)
        rc = rv_sql_statement_begin(&s, db, SWEEP, "remove content that nobody has", err);
    if (!rc && has_any)
        rc = rv_sql_statement_run(&s, err);
    return rv_sql_db_end(db, rc, err);
}
