/* The SQL of keys. */
#include "store/sqlite_keys.h"

#include "store/sqlite_statement.h"

#define COLUMNS                                                                                                        \
    "row, hash, id, tenant, name, requests_per_minute, share, is_admin, created, last_used, expires, revoked"

static const char ADD[] =
    "INSERT INTO api_key (hash, id, tenant, name, requests_per_minute, share, is_admin, created, last_used, expires,"
    " revoked) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, 0) ON CONFLICT DO NOTHING";
static const char FIND[] = "SELECT " COLUMNS " FROM api_key WHERE hash = ?";
static const char LIST[] = "SELECT " COLUMNS " FROM api_key WHERE row > ?1 AND (?2 IS NULL OR tenant = ?2)"
                           " ORDER BY row LIMIT ?3";
static const char COUNT[] = "SELECT count(*) FROM api_key WHERE revoked = 0 AND (expires = 0 OR expires > ?)";
static const char REVOKE[] = "UPDATE api_key SET revoked = CASE revoked WHEN 0 THEN ? ELSE revoked END WHERE id = ?";
static const char TOUCH[] = "UPDATE api_key SET last_used = ?1 WHERE id = ?2 AND last_used < ?1";

ruvllm_status rv_sqlite_keys_add(struct rv_store_db *db, const struct rv_store_key *key, bool *taken,
                                 struct ruvllm_error *err)
{
    const struct ruvllm_key_info *info = &key->info;
    struct rv_sqlite_statement s;
    ruvllm_status rc = rv_sqlite_statement_begin(&s, db, ADD, "add a key", err);

    if (rc)
        return rc;
    rv_sqlite_statement_bind_blob(&s, key->hash, sizeof(key->hash));
    rv_sqlite_statement_bind_text(&s, info->id);
    rv_sqlite_statement_bind_text(&s, info->tenant);
    rv_sqlite_statement_bind_text(&s, info->name);
    rv_sqlite_statement_bind_int(&s, info->requests_per_minute);
    rv_sqlite_statement_bind_real(&s, (double)info->share);
    rv_sqlite_statement_bind_int(&s, info->is_admin);
    rv_sqlite_statement_bind_int(&s, info->created);
    rv_sqlite_statement_bind_int(&s, info->expires);
    rc = rv_sqlite_statement_run(&s, err);
    *taken = !rc && sqlite3_changes(db->handle) == 0;
    return rc;
}

static ruvllm_status read_row(struct rv_sqlite_statement *s, struct rv_store_key *out, struct ruvllm_error *err)
{
    struct ruvllm_key_info *info = &out->info;

    *out = (struct rv_store_key){.info.struct_size = sizeof(*info)};
    out->row = rv_sqlite_statement_int(s);
    rv_sqlite_statement_blob(s, out->hash, sizeof(out->hash));
    rv_sqlite_statement_text(s, info->id, RV_STORE_KEY_ID_LEN);
    rv_sqlite_statement_text(s, info->tenant, RV_STORE_TENANT_MAX);
    rv_sqlite_statement_text(s, info->name, RV_STORE_KEY_NAME_MAX);
    info->requests_per_minute = rv_sqlite_statement_int32(s);
    info->share = (float)rv_sqlite_statement_real(s);
    info->is_admin = rv_sqlite_statement_int(s) == 1;
    info->created = rv_sqlite_statement_int(s);
    info->last_used = rv_sqlite_statement_int(s);
    info->expires = rv_sqlite_statement_int(s);
    info->revoked = rv_sqlite_statement_int(s);
    return rv_sqlite_statement_status(s, err);
}

ruvllm_status rv_sqlite_keys_find(struct rv_store_db *db, const uint8_t hash[RV_SECRET_BYTES], struct rv_store_key *out,
                                  bool *found, struct ruvllm_error *err)
{
    struct rv_sqlite_statement s;
    ruvllm_status rc = rv_sqlite_statement_begin(&s, db, FIND, "look up a key", err);

    *found = false;
    if (rc)
        return rc;
    rv_sqlite_statement_bind_blob(&s, hash, RV_SECRET_BYTES);
    rc = rv_sqlite_statement_step(&s, found, err);
    if (!rc && *found)
        rc = read_row(&s, out, err);
    rv_sqlite_statement_end(&s);
    return rc;
}

ruvllm_status rv_sqlite_keys_list(struct rv_store_db *db, const char *tenant, int64_t after, struct rv_store_key *out,
                                  size_t max, size_t *n, struct ruvllm_error *err)
{
    struct rv_sqlite_statement s;
    bool has_row = true;
    ruvllm_status rc = rv_sqlite_statement_begin(&s, db, LIST, "list keys", err);

    *n = 0;
    if (rc)
        return rc;
    rv_sqlite_statement_bind_int(&s, after);
    rv_sqlite_statement_bind_text(&s, tenant);
    rv_sqlite_statement_bind_int(&s, (int64_t)max);
    while (!rc && has_row && *n < max) {
        rc = rv_sqlite_statement_step(&s, &has_row, err);
        if (!rc && has_row)
            rc = read_row(&s, &out[*n], err);
        *n += !rc && has_row;
    }
    rv_sqlite_statement_end(&s);
    return rc;
}

ruvllm_status rv_sqlite_keys_count(struct rv_store_db *db, int64_t now, uint64_t *n, struct ruvllm_error *err)
{
    struct rv_sqlite_statement s;
    bool has_row;
    ruvllm_status rc = rv_sqlite_statement_begin(&s, db, COUNT, "count keys", err);

    if (rc)
        return rc;
    rv_sqlite_statement_bind_int(&s, now);
    rc = rv_sqlite_statement_step(&s, &has_row, err);
    if (!rc)
        *n = has_row ? (uint64_t)rv_sqlite_statement_int(&s) : 0;
    rv_sqlite_statement_end(&s);
    return rc;
}

ruvllm_status rv_sqlite_keys_revoke(struct rv_store_db *db, const char *id, int64_t now, bool *found,
                                    struct ruvllm_error *err)
{
    struct rv_sqlite_statement s;
    ruvllm_status rc = rv_sqlite_statement_begin(&s, db, REVOKE, "revoke a key", err);

    if (rc)
        return rc;
    rv_sqlite_statement_bind_int(&s, now);
    rv_sqlite_statement_bind_text(&s, id);
    rc = rv_sqlite_statement_run(&s, err);
    *found = !rc && sqlite3_changes(db->handle) > 0;
    return rc;
}

ruvllm_status rv_sqlite_keys_touch(struct rv_store_db *db, const struct rv_store_touch *touches, size_t n,
                                   struct ruvllm_error *err)
{
    struct rv_sqlite_statement s;
    ruvllm_status rc = rv_sqlite_statement_begin(&s, db, TOUCH, "note that keys were used", err);

    for (size_t i = 0; !rc && i < n; i++) {
        rv_sqlite_statement_bind_int(&s, touches[i].time);
        rv_sqlite_statement_bind_text(&s, touches[i].id);
        rc = rv_sqlite_statement_run(&s, err);
    }
    return rc;
}
