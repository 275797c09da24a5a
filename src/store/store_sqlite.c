/* SQLite as a store: opening a connection for its role, and its line in the list of backends. */
#include "store/store_sqlite.h"

#include "store/migration.h"
#include "store/sqlite_db.h"
#include "store/store_path.h"

/* The look at the version comes before anything is written. */
static ruvllm_status prepare(struct rv_store_db *db, enum rv_store_role role, const struct ruvllm_store_params *params,
                             struct ruvllm_error *err)
{
    int32_t version;
    ruvllm_status rc = rv_migration_version(db, &version, err);

    if (!rc)
        rc = rv_sqlite_db_settle(db, params->busy_timeout_ms, err);
    if (!rc && role == RV_STORE_ROLE_FIRST)
        rc = rv_migration_run(db, rv_migration_newest(), err);
    if (!rc && role == RV_STORE_ROLE_READER)
        rc = rv_sql_db_run(db, "PRAGMA query_only=ON", "prepare the connection", err);
    /* A commit that brings the log into the file takes many times as long, and somebody waits for it. */
    if (!rc && role == RV_STORE_ROLE_EVENTS)
        rv_sqlite_db_leave_log(db);
    /* Entries go to the end of the table: pages that are full are not looked at again. */
    if (!rc && role == RV_STORE_ROLE_WRITER)
        rc = rv_sql_db_run(db, "PRAGMA cache_size=-128", "prepare the connection", err);
    return rc;
}

static ruvllm_status sqlite_open(struct rv_store_db **out, const char *location, enum rv_store_role role,
                                 const struct ruvllm_store_params *params, struct ruvllm_error *err)
{
    struct rv_store_db *db;
    ruvllm_status rc;

    *out = NULL;
    /* SQLite would take these for databases in memory: each connection would see its own. */
    if (location[0] == '\0' || location[0] == ':')
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_STORAGE,
                            "a store is a file; for a name that begins with ':' write './:name'");
    rc = rv_store_path_make(location, params->must_exist || role != RV_STORE_ROLE_FIRST, err);
    if (!rc)
        rc = rv_sqlite_db_open(&db, location, params->busy_timeout_ms, err);
    if (rc)
        return rc;
    rc = prepare(db, role, params, err);
    if (rc)
        rv_sql_db_close(db);
    else
        *out = db;
    return rc;
}

const struct rv_store_backend rv_store_sqlite = {
    .scheme = "sqlite",
    .open = sqlite_open,
};
