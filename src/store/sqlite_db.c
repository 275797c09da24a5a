/*
 * Opening is careful because the file may be anybody's: limits are lowered, the schema is not trusted, triggers and
 * views are off (a store has none), and cells are checked as they are read.
 */
#include "store/sqlite_db.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <string.h>
#include <time.h>

_Static_assert(SQLITE_VERSION_NUMBER >= 3037000, "the tables are STRICT, which SQLite knows since 3.37");

static ruvllm_status status_of(int code)
{
    switch (code & 0xFF) {
    case SQLITE_NOMEM:
        return RUVLLM_NO_MEMORY;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return RUVLLM_BUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR: // SQL that does not fit the schema: ours is constant, so it is the schema
    case SQLITE_SCHEMA:
    case SQLITE_MISMATCH:
        return RUVLLM_FORMAT;
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_PROTOCOL:
    case SQLITE_NOLFS:
        return RUVLLM_IO;
    case SQLITE_TOOBIG:
        return RUVLLM_TOO_LARGE;
    default:
        return RUVLLM_INTERNAL;
    }
}

ruvllm_status rv_sqlite_db_fail(struct rv_store_db *db, int code, const char *doing, struct ruvllm_error *err)
{
    const char *why = db && db->handle && (sqlite3_errcode(db->handle) & 0xFF) == (code & 0xFF)
                          ? sqlite3_errmsg(db->handle)
                          : sqlite3_errstr(code);
    ruvllm_status status = status_of(code);

    if (status == RUVLLM_BUSY)
        why = "another process keeps it locked; try again, or end that process";
    else if ((code & 0xFF) == SQLITE_NOTADB)
        why = "the file is not a SQLite database, or its beginning is damaged";
    return rv_fail_kind(err, status, status == RUVLLM_NO_MEMORY ? RUVLLM_ERROR_OUT_OF_MEMORY : RUVLLM_ERROR_STORAGE,
                        "cannot %s: %s", doing, why);
}

ruvllm_status rv_sqlite_db_run(struct rv_store_db *db, const char *sql, const char *doing, struct ruvllm_error *err)
{
    int code = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);

    return code == SQLITE_OK ? RUVLLM_OK : rv_sqlite_db_fail(db, code, doing, err);
}

/* Settings that live in the connection and touch no file. */
static int configure(sqlite3 *handle, int32_t busy_timeout_ms)
{
    static const int switches[][2] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},   {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},   {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
        {SQLITE_DBCONFIG_ENABLE_VIEW, 0}, {SQLITE_DBCONFIG_ENABLE_FKEY, 1},      {SQLITE_DBCONFIG_DQS_DML, 0},
        {SQLITE_DBCONFIG_DQS_DDL, 0},     {SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1},
    };
    int code = sqlite3_busy_timeout(handle, busy_timeout_ms);

    for (size_t i = 0; code == SQLITE_OK && i < sizeof(switches) / sizeof(switches[0]); i++)
        code = sqlite3_db_config(handle, switches[i][0], switches[i][1], NULL);
    return code;
}

/* A hostile file can ask for no more than a store needs. */
static void lower_limits(sqlite3 *handle)
{
    sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, RV_STORE_MESSAGES_MAX + 65536);
    sqlite3_limit(handle, SQLITE_LIMIT_SQL_LENGTH, 65536);
    sqlite3_limit(handle, SQLITE_LIMIT_COLUMN, 64);
    sqlite3_limit(handle, SQLITE_LIMIT_EXPR_DEPTH, 50);
    sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_limit(handle, SQLITE_LIMIT_TRIGGER_DEPTH, 1);
    sqlite3_limit(handle, SQLITE_LIMIT_WORKER_THREADS, 0);
}

ruvllm_status rv_sqlite_db_open(struct rv_store_db **out, const char *path, int32_t busy_timeout_ms,
                                struct ruvllm_error *err)
{
    struct rv_store_db *db = rv_calloc(1, sizeof(*db));
    ruvllm_status rc;
    int code;

    *out = NULL;
    if (!db)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a connection");
    if (!sqlite3_threadsafe()) {
        rc = rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_STORAGE, "this SQLite was built for a single thread");
        goto fail;
    }
    /* No mutex of SQLite's: a connection has one user at a time, which the store's locks see to. */
    code =
        sqlite3_open_v2(path, &db->handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    if (code == SQLITE_OK)
        code = configure(db->handle, busy_timeout_ms);
    if (code != SQLITE_OK) {
        rc = rv_sqlite_db_fail(db, code, "open the database", err);
        goto fail;
    }
    lower_limits(db->handle);
    rc = rv_sqlite_db_run(db, "PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY", "prepare the connection", err);
    if (rc)
        goto fail;
    *out = db;
    return RUVLLM_OK;
fail:
    rv_sqlite_db_close(db);
    return rc;
}

static void pause_a_millisecond(void)
{
    struct timespec pause = {.tv_nsec = 1000000};

    nanosleep(&pause, NULL);
}

/* Going over to WAL needs the file alone, and SQLite does not wait for that by itself: two processes may come at once.
 */
static ruvllm_status use_wal(struct rv_store_db *db, int32_t busy_timeout_ms, struct ruvllm_error *err)
{
    int64_t deadline = rv_clock_us() + (int64_t)busy_timeout_ms * 1000;
    ruvllm_status rc;

    for (;;) {
        rc = rv_sqlite_db_run(db, "PRAGMA journal_mode=WAL", "use a write-ahead log", err);
        if (rc != RUVLLM_BUSY || rv_clock_us() >= deadline)
            return rc;
        pause_a_millisecond();
    }
}

ruvllm_status rv_sqlite_db_settle(struct rv_store_db *db, int32_t busy_timeout_ms, struct ruvllm_error *err)
{
    ruvllm_status rc = use_wal(db, busy_timeout_ms, err);
    int code;

    /*
     * 512 KiB of pages: rows are found by key or written at the end, and a server's memory should not grow for them.
     * Not before the log is there: it reads the schema, which somebody else may just be making.
     */
    if (!rc)
        rc = rv_sqlite_db_run(db, "PRAGMA synchronous=FULL; PRAGMA cache_size=-512", "prepare the connection", err);
    if (rc)
        return rc;
    code = sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    return code == SQLITE_OK ? RUVLLM_OK : rv_sqlite_db_fail(db, code, "prepare the connection", err);
}

void rv_sqlite_db_close(struct rv_store_db *db)
{
    if (!db)
        return;
    for (size_t i = 0; i < db->n_statements; i++)
        sqlite3_finalize(db->statements[i].made);
    sqlite3_close(db->handle);
    rv_free(db);
}

ruvllm_status rv_sqlite_db_begin(struct rv_store_db *db, struct ruvllm_error *err)
{
    return rv_sqlite_db_run(db, "BEGIN IMMEDIATE", "begin to write", err);
}

ruvllm_status rv_sqlite_db_end(struct rv_store_db *db, ruvllm_status rc, struct ruvllm_error *err)
{
    if (!rc)
        rc = rv_sqlite_db_run(db, "COMMIT", "write to the disk", err);
    /* A failure may have rolled back by itself; doing so again is an error nobody needs to hear of. */
    if (rc && !sqlite3_get_autocommit(db->handle))
        (void)sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}
