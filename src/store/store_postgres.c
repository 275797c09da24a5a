/* PostgreSQL as a store: opening a connection for its role, and its lines in the list of backends. */
#include "store/store_postgres.h"

#include "store/migration.h"
#include "store/postgres_db.h"

static ruvllm_status prepare(struct rv_store_db *db, enum rv_store_role role, const struct ruvllm_store_params *params,
                             struct ruvllm_error *err)
{
    int32_t version;
    ruvllm_status rc = rv_migration_version(db, &version, err);

    if (!rc && role == RV_STORE_ROLE_FIRST)
        rv_postgres_db_warn_of_age(db); // no reason to keep everybody from working
    if (!rc && role == RV_STORE_ROLE_FIRST && params->must_exist && version == 0)
        rc = rv_fail_kind(err, RUVLLM_NOT_FOUND, RUVLLM_ERROR_STORAGE, "there is no store in this database");
    if (!rc && role == RV_STORE_ROLE_FIRST)
        rc = rv_migration_run(db, rv_migration_newest(), err);
    return rc;
}

static ruvllm_status postgres_open(struct rv_store_db **out, const char *location, enum rv_store_role role,
                                   const struct ruvllm_store_params *params, struct ruvllm_error *err)
{
    struct rv_store_db *db;
    ruvllm_status rc = rv_postgres_db_open(&db, location, role == RV_STORE_ROLE_READER, err);

    *out = NULL;
    if (rc)
        return rc;
    rc = prepare(db, role, params, err);
    if (rc)
        rv_sql_db_close(db);
    else
        *out = db;
    return rc;
}

const struct rv_store_backend rv_store_postgres = {
    .scheme = "postgres",
    .takes_url = true,
    .has_spool = true,
    .open = postgres_open,
};

const struct rv_store_backend rv_store_postgresql = {
    .scheme = "postgresql",
    .takes_url = true,
    .has_spool = true,
    .open = postgres_open,
};
