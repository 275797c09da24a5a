/* The SQL of keys. */
#include "store/sql_keys.h"

#include "store/sql_statement.h"

#define COLUMNS                                                                                                        \
    "row, hash, id, tenant, name, requests_per_minute, share, is_admin, created, last_used, expires, revoked"

static const char ADD[] =
    "INSERT INTO api_key (hash, id, tenant, name, requests_per_minute, share, is_admin, created, last_used, expires,"
    " revoked) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, $9, 0) ON CONFLICT DO NOTHING";
static const char FIND[] = "SELECT " COLUMNS " FROM api_key WHERE hash = $1";
static const char LIST[] = "SELECT " COLUMNS " FROM api_key WHERE row > $1 AND ($2 IS NULL OR tenant = $2)"
                           " ORDER BY row LIMIT $3";
static const char COUNT[] = "SELECT count(*) FROM api_key WHERE revoked = 0 AND (expires = 0 OR expires > $1)";
static const char REVOKE[] = "UPDATE api_key SET revoked = CASE revoked WHEN 0 THEN $1 ELSE revoked END WHERE id = $2";
static const char TOUCH[] = "UPDATE api_key SET last_used = $1 WHERE id = $2 AND last_used < $1";

ruvllm_status rv_sql_keys_add(struct rv_store_db *db, const struct rv_store_key *key, bool *taken,
                              struct ruvllm_error *err)
{
    const struct ruvllm_key_info *info = &key->info;
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, ADD, "add a key", err);

    if (rc)
        return rc;
    rv_sql_statement_bind_blob(&s, key->hash, sizeof(key->hash));
    rv_sql_statement_bind_text(&s, info->id);
    rv_sql_statement_bind_text(&s, info->tenant);
    rv_sql_statement_bind_text(&s, info->name);
    rv_sql_statement_bind_int(&s, info->requests_per_minute);
    rv_sql_statement_bind_real(&s, (double)info->share);
    rv_sql_statement_bind_int(&s, info->is_admin);
    rv_sql_statement_bind_int(&s, info->created);
    rv_sql_statement_bind_int(&s, info->expires);
    rc = rv_sql_statement_run(&s, err);
    *taken = !rc && db->n_changed == 0;
    return rc;
}

static ruvllm_status read_row(struct rv_sql_statement *s, struct rv_store_key *out, struct ruvllm_error *err)
{
    struct ruvllm_key_info *info = &out->info;

    *out = (struct rv_store_key){.info.struct_size = sizeof(*info)};
    out->row = rv_sql_statement_int(s);
    rv_sql_statement_blob(s, out->hash, sizeof(out->hash));
    rv_sql_statement_text(s, info->id, RV_STORE_KEY_ID_LEN);
    rv_sql_statement_text(s, info->tenant, RV_STORE_TENANT_MAX);
    rv_sql_statement_text(s, info->name, RV_STORE_KEY_NAME_MAX);
    info->requests_per_minute = rv_sql_statement_int32(s);
    info->share = (float)rv_sql_statement_real(s);
    info->is_admin = rv_sql_statement_int(s) == 1;
    info->created = rv_sql_statement_int(s);
    info->last_used = rv_sql_statement_int(s);
    info->expires = rv_sql_statement_int(s);
    info->revoked = rv_sql_statement_int(s);
    return rv_sql_statement_status(s, err);
}

ruvllm_status rv_sql_keys_find(struct rv_store_db *db, const uint8_t hash[RV_SECRET_BYTES], struct rv_store_key *out,
                               bool *found, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, FIND, "look up a key", err);

    *found = false;
    if (rc)
        return rc;
    rv_sql_statement_bind_blob(&s, hash, RV_SECRET_BYTES);
    rc = rv_sql_statement_step(&s, found, err);
    if (!rc && *found)
        rc = read_row(&s, out, err);
    rv_sql_statement_end(&s);
    return rc;
}

ruvllm_status rv_sql_keys_list(struct rv_store_db *db, const char *tenant, int64_t after, struct rv_store_key *out,
                               size_t max, size_t *n, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    bool has_row = true;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, LIST, "list keys", err);

    *n = 0;
    if (rc)
        return rc;
    rv_sql_statement_bind_int(&s, after);
    rv_sql_statement_bind_text(&s, tenant);
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

ruvllm_status rv_sql_keys_count(struct rv_store_db *db, int64_t now, uint64_t *n, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    bool has_row;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, COUNT, "count keys", err);

    if (rc)
        return rc;
    rv_sql_statement_bind_int(&s, now);
    rc = rv_sql_statement_step(&s, &has_row, err);
    if (!rc)
        *n = has_row ? (uint64_t)rv_sql_statement_int(&s) : 0;
    rv_sql_statement_end(&s);
    return rc;
}

ruvllm_status rv_sql_keys_revoke(struct rv_store_db *db, const char *id, int64_t now, bool *found,
                                 struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, REVOKE, "revoke a key", err);

    if (rc)
        return rc;
    rv_sql_statement_bind_int(&s, now);
    rv_sql_statement_bind_text(&s, id);
    rc = rv_sql_statement_run(&s, err);
    *found = !rc && db->n_changed > 0;
    return rc;
}

ruvllm_status rv_sql_keys_touch(struct rv_store_db *db, const struct rv_store_touch *touches, size_t n,
                                struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, TOUCH, "note that keys were used", err);

    for (size_t i = 0; !rc && i < n; i++) {
        rv_sql_statement_bind_int(&s, touches[i].time);
        rv_sql_statement_bind_text(&s, touches[i].id);
        rc = rv_sql_statement_run(&s, err);
    }
    return rc;
}
