/*
 * A step, once released, never changes: databases in the world stand on it. New forms are new steps. Each script ends
 * with the version it leads to, written out: a PRAGMA takes no bound values.
 */
#include "store/migration.h"

#include "store/sqlite_statement.h"

/* "RuvL", in the header of every store: tells one from other programs' databases. */
enum { APPLICATION_ID = 0x5275764C };

struct migration {
    const char *name; // what a failure says could not be done
    const char *up;
    const char *down;
};

static const struct migration migrations[] = {
    {
        .name = "change the tables of keys",
        .up = "CREATE TABLE api_key ("
              "  row INTEGER PRIMARY KEY,"
              "  id TEXT NOT NULL UNIQUE CHECK (length(id) = 8),"
              "  hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),"
              "  tenant TEXT NOT NULL,"
              "  name TEXT NOT NULL,"
              "  requests_per_minute INTEGER NOT NULL,"
              "  share REAL NOT NULL,"
              "  is_admin INTEGER NOT NULL,"
              "  created INTEGER NOT NULL,"
              "  last_used INTEGER NOT NULL,"
              "  expires INTEGER NOT NULL,"
              "  revoked INTEGER NOT NULL"
              ") STRICT;"
              "PRAGMA application_id = 0x5275764C;"
              "PRAGMA user_version = 1",
        .down = "DROP TABLE api_key;"
                "PRAGMA user_version = 0",
    },
    {
        .name = "change the tables of the witness log",
        .up = "CREATE TABLE witness ("
              "  row INTEGER PRIMARY KEY,"
              "  time_us INTEGER NOT NULL,"
              "  tenant TEXT NOT NULL,"
              "  key_id TEXT NOT NULL,"
              "  request_id TEXT NOT NULL,"
              "  model TEXT NOT NULL,"
              "  endpoint TEXT NOT NULL,"
              "  finish_reason TEXT NOT NULL,"
              "  adapter_generation INTEGER NOT NULL,"
              "  status INTEGER NOT NULL,"
              "  prompt_tokens INTEGER NOT NULL,"
              "  cached_tokens INTEGER NOT NULL,"
              "  generated_tokens INTEGER NOT NULL,"
              "  queue_us INTEGER NOT NULL,"
              "  prefill_us INTEGER NOT NULL,"
              "  decode_us INTEGER NOT NULL,"
              "  total_us INTEGER NOT NULL"
              ") STRICT;"
              "CREATE INDEX witness_by_time ON witness (time_us);"
              "CREATE INDEX witness_by_tenant ON witness (tenant, time_us);"
              "PRAGMA user_version = 2",
        .down = "DROP TABLE witness;"
                "PRAGMA user_version = 1",
    },
    {
        .name = "change the tables of sessions",
        .up = "CREATE TABLE session ("
              "  tenant TEXT NOT NULL,"
              "  id TEXT NOT NULL,"
              "  model TEXT NOT NULL,"
              "  title TEXT NOT NULL,"
              "  snapshot TEXT NOT NULL,"
              "  n_tokens INTEGER NOT NULL,"
              "  created_us INTEGER NOT NULL,"
              "  updated_us INTEGER NOT NULL,"
              "  messages TEXT NOT NULL," // last, so that lists need not read past it
              "  PRIMARY KEY (tenant, id)"
              ") STRICT;"
              "CREATE INDEX session_by_update ON session (tenant, updated_us, id);"
              "PRAGMA user_version = 3",
        .down = "DROP TABLE session;"
                "PRAGMA user_version = 2",
    },
};

enum { NEWEST = sizeof(migrations) / sizeof(migrations[0]) };

int32_t rv_migration_newest(void)
{
    return NEWEST;
}

static ruvllm_status read_number(struct rv_store_db *db, const char *sql, int64_t *out, struct ruvllm_error *err)
{
    struct rv_sqlite_statement s;
    bool has_row;
    ruvllm_status rc = rv_sqlite_statement_begin(&s, db, sql, "read the version of the database", err);

    if (rc)
        return rc;
    rc = rv_sqlite_statement_step(&s, &has_row, err);
    if (!rc) {
        *out = has_row ? rv_sqlite_statement_int(&s) : 0;
        rc = rv_sqlite_statement_status(&s, err);
    }
    rv_sqlite_statement_end(&s);
    return rc;
}

static ruvllm_status read_version(struct rv_store_db *db, int32_t *version, struct ruvllm_error *err)
{
    int64_t stands_on, application, n_tables;
    ruvllm_status rc = read_number(db, "PRAGMA user_version", &stands_on, err);

    if (!rc)
        rc = read_number(db, "PRAGMA application_id", &application, err);
    if (!rc)
        rc = read_number(db, "SELECT count(*) FROM sqlite_schema", &n_tables, err);
    if (rc)
        return rc;
    if (application != APPLICATION_ID && (stands_on || n_tables))
        return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_STORAGE,
                            "it is a database of another program; give another path");
    if (stands_on < 0)
        return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_STORAGE, "the version of the database is damaged");
    if (stands_on > NEWEST)
        return rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_STORAGE,
                            "it has version %lld and this program knows up to %d: use the newer program that wrote it",
                            (long long)stands_on, NEWEST);
    *version = (int32_t)stands_on;
    return RUVLLM_OK;
}

/* All of it as of one moment: between two of its reads another process may be making the tables. */
ruvllm_status rv_migration_version(struct rv_store_db *db, int32_t *version, struct ruvllm_error *err)
{
    bool is_inside = !sqlite3_get_autocommit(db->handle); // a transaction of the caller's
    ruvllm_status rc = is_inside ? RUVLLM_OK : rv_sqlite_db_run(db, "BEGIN", "begin to read", err);

    if (rc)
        return rc;
    rc = read_version(db, version, err);
    return is_inside ? rc : rv_sqlite_db_end(db, rc, err);
}

/* One step towards the target, if there is still one to go. */
static ruvllm_status step(struct rv_store_db *db, int32_t target, int32_t *version, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_sqlite_db_begin(db, err);

    if (rc)
        return rc;
    rc = rv_migration_version(db, version, err); // again: another process may just have done it
    if (!rc && *version < target) {
        rc = rv_sqlite_db_run(db, migrations[*version].up, migrations[*version].name, err);
        *version += 1;
    } else if (!rc && *version > target) {
        rc = rv_sqlite_db_run(db, migrations[*version - 1].down, migrations[*version - 1].name, err);
        *version -= 1;
    }
    return rv_sqlite_db_end(db, rc, err);
}

ruvllm_status rv_migration_run(struct rv_store_db *db, int32_t target, struct ruvllm_error *err)
{
    int32_t version;
    ruvllm_status rc = rv_migration_version(db, &version, err);

    RV_ASSERT(target >= 0 && target <= NEWEST);
    while (!rc && version != target)
        rc = step(db, target, &version, err);
    if (rc)
        return rv_fail_in(err, rc, "cannot bring the tables to version %d", target);
    return RUVLLM_OK;
}
