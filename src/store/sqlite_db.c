/*
 * Opening is careful because the file may be anybody's: limits are lowered, the schema is not trusted, triggers and
 * views are off (a store has none), and cells are checked as they are read.
 */
#include "store/sqlite_db.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "store/sql_statement.h"
#include "store/sqlite_statement.h"

#include <errno.h>
#include <time.h>

_Static_assert(SQLITE_VERSION_NUMBER >= 3037000, "the tables are STRICT, which SQLite knows since 3.37");

enum { LOOK_MS = 100 }; // how often the file is looked at for what others did: nobody feels it as waiting

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
    case SQLITE_CONSTRAINT: // our rows fit our tables, so these are others
        return RUVLLM_FORMAT;
    case SQLITE_FULL:
        return RUVLLM_NO_SPACE;
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

struct rv_sqlite_db *rv_sqlite_db_of(struct rv_store_db *db)
{
    return (struct rv_sqlite_db *)db;
}

ruvllm_status rv_sqlite_db_fail(struct rv_store_db *db, int code, const char *doing, struct ruvllm_error *err)
{
    sqlite3 *handle = rv_sqlite_db_of(db)->handle;
    const char *why =
        handle && (sqlite3_errcode(handle) & 0xFF) == (code & 0xFF) ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
    ruvllm_status status = status_of(code);

    if ((code & 0xFF) == SQLITE_IOERR && handle && sqlite3_system_errno(handle) == ENOSPC)
        status = RUVLLM_NO_SPACE;
    if (status == RUVLLM_BUSY)
        why = "another process keeps it locked; try again, or end that process";
    else if (status == RUVLLM_NO_SPACE)
        why = "the disk is full; make room, and it goes on by itself";
    else if ((code & 0xFF) == SQLITE_NOTADB)
        why = "the file is not a SQLite database, or its beginning is damaged";
    return rv_fail_kind(err, status, status == RUVLLM_NO_MEMORY ? RUVLLM_ERROR_OUT_OF_MEMORY : RUVLLM_ERROR_STORAGE,
                        "cannot %s: %s", doing, why);
}

static ruvllm_status run(struct rv_store_db *db, const char *sql, const char *doing, struct ruvllm_error *err)
{
    int code = sqlite3_exec(rv_sqlite_db_of(db)->handle, sql, NULL, NULL, NULL);

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

static void pause_ms(long ms)
{
    struct timespec pause = {.tv_nsec = ms * 1000000};

    nanosleep(&pause, NULL);
}

static void close_db(struct rv_store_db *base)
{
    struct rv_sqlite_db *db = rv_sqlite_db_of(base);

    for (size_t i = 0; i < db->n_statements; i++)
        sqlite3_finalize(db->statements[i].made);
    sqlite3_close(db->handle);
    rv_free(db);
}

/* Takes the right to write at once, so that a transaction never fails halfway because another process writes. */
static ruvllm_status begin(struct rv_store_db *db, struct ruvllm_error *err)
{
    return run(db, "BEGIN IMMEDIATE", "begin to write", err);
}

static ruvllm_status end(struct rv_store_db *db, ruvllm_status rc, struct ruvllm_error *err)
{
    sqlite3 *handle = rv_sqlite_db_of(db)->handle;

    if (!rc)
        rc = run(db, "COMMIT", "write to the disk", err);
    /* A failure may have rolled back by itself; doing so again is an error nobody needs to hear of. */
    if (rc && !sqlite3_get_autocommit(handle))
        (void)sqlite3_exec(handle, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

/* ---- whose database it is ------------------------------------------------------------------ */

/* "RuvL", in the header of every store: tells one from other programs' databases. */
enum { APPLICATION_ID = 0x5275764C };

static ruvllm_status read_number(struct rv_store_db *db, const char *sql, int64_t *out, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    bool has_row;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, sql, "read the version of the database", err);

    if (rc)
        return rc;
    rc = rv_sql_statement_step(&s, &has_row, err);
    if (!rc) {
        *out = has_row ? rv_sql_statement_int(&s) : 0;
        rc = rv_sql_statement_status(&s, err);
    }
    rv_sql_statement_end(&s);
    return rc;
}

static ruvllm_status read_version(struct rv_store_db *db, int64_t *version, struct ruvllm_error *err)
{
    int64_t application, n_tables;
    ruvllm_status rc = read_number(db, "PRAGMA user_version", version, err);

    if (!rc)
        rc = read_number(db, "PRAGMA application_id", &application, err);
    if (!rc)
        rc = read_number(db, "SELECT count(*) FROM sqlite_schema", &n_tables, err);
    if (rc)
        return rc;
    if (application != APPLICATION_ID && (*version || n_tables))
        return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_STORAGE,
                            "it is a database of another program; give another path");
    return RUVLLM_OK;
}

/* All of it as of one moment: between two of its reads another process may be making the tables. */
static ruvllm_status version_of(struct rv_store_db *db, int64_t *version, struct ruvllm_error *err)
{
    bool is_inside = !sqlite3_get_autocommit(rv_sqlite_db_of(db)->handle); // a transaction of the caller's
    ruvllm_status rc = is_inside ? RUVLLM_OK : run(db, "BEGIN", "begin to read", err);

    if (rc)
        return rc;
    rc = read_version(db, version, err);
    return is_inside ? rc : end(db, rc, err);
}

/* ---- what takes more than one process ------------------------------------------------------ */

static bool is_lost(const struct rv_store_db *db)
{
    (void)db; // a file is there or fails: there is nobody who comes back later
    return false;
}

/* Where the log ends, and a number that everything counts up which changes what is in it. */
static ruvllm_status read_ends(struct rv_store_db *db, int64_t *n, int64_t *row, struct ruvllm_error *err)
{
    static const char ENDS[] = "SELECT n, COALESCE((SELECT max(row) FROM event), 0) FROM news";
    struct rv_sql_statement s;
    bool has_row;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, ENDS, "look for news", err);

    if (rc)
        return rc;
    rc = rv_sql_statement_step(&s, &has_row, err);
    *n = !rc && has_row ? rv_sql_statement_int(&s) : 0;
    *row = !rc && has_row ? rv_sql_statement_int(&s) : 0;
    if (!rc)
        rc = rv_sql_statement_status(&s, err);
    rv_sql_statement_end(&s);
    return rc;
}

/* Rows are numbered in the order of their commits: there is one writer at a time. Of a row its first bytes are read. */
static ruvllm_status tell_events(struct rv_store_db *base, rv_store_news_fn fn, void *user, struct ruvllm_error *err)
{
    static const char LATER[] = "SELECT row, tenant, seq, model FROM event WHERE row > $1 ORDER BY row LIMIT 1000";
    struct rv_sqlite_db *db = rv_sqlite_db_of(base);
    struct rv_store_news news = {.kind = RV_STORE_NEWS_EVENTS};
    struct rv_sql_statement s;
    bool has_row = true;
    int64_t row;
    ruvllm_status rc = rv_sql_statement_begin(&s, base, LATER, "look for news", err);

    if (rc)
        return rc;
    rv_sql_statement_bind_int(&s, db->news_row);
    while (!rc && has_row) {
        rc = rv_sql_statement_step(&s, &has_row, err);
        if (rc || !has_row)
            break;
        row = rv_sql_statement_int(&s);
        rv_sql_statement_text(&s, news.tenant, RV_STORE_TENANT_MAX);
        news.seq = rv_sql_statement_int(&s);
        rv_sql_statement_text(&s, news.model, RV_STORE_MODEL_MAX);
        rc = rv_sql_statement_status(&s, err);
        if (!rc) {
            db->news_row = row;
            fn(user, &news);
        }
    }
    rv_sql_statement_end(&s);
    return rc;
}

/* Another process cannot call: so it is looked for, every LOOK_MS. */
static ruvllm_status wait_news(struct rv_store_db *base, int32_t ms, rv_store_news_fn fn, void *user,
                               struct ruvllm_error *err)
{
    struct rv_sqlite_db *db = rv_sqlite_db_of(base);
    int64_t deadline = rv_clock_us() + (int64_t)ms * 1000, n = 0, row = 0;
    ruvllm_status rc;

    for (;;) {
        rc = read_ends(base, &n, &row, err);
        if (rc || n != db->news_seen || row > db->news_row || rv_clock_us() >= deadline)
            break;
        pause_ms(LOOK_MS);
    }
    if (rc)
        return rc;
    if (db->news_seen < 0)
        db->news_row = row; // ANY stands for all before
    if (n != db->news_seen)
        fn(user, &(struct rv_store_news){.kind = RV_STORE_NEWS_ANY});
    db->news_seen = n;
    return row > db->news_row ? tell_events(base, fn, user, err) : RUVLLM_OK;
}

/* What was copied out of the log: SQLite syncs it only when nobody wrote meanwhile, and it would pile up until then. */
static int sync_file(sqlite3 *handle)
{
    sqlite3_file *file = NULL;
    int code = sqlite3_file_control(handle, "main", SQLITE_FCNTL_FILE_POINTER, &file);

    return code == SQLITE_OK && file && file->pMethods ? file->pMethods->xSync(file, SQLITE_SYNC_NORMAL) : code;
}

/* Copies what is in the log into the file, as far as nobody reads it, while others write on. */
static ruvllm_status tidy(struct rv_store_db *db, struct ruvllm_error *err)
{
    sqlite3 *handle = rv_sqlite_db_of(db)->handle;
    int code = sqlite3_wal_checkpoint_v2(handle, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);

    if (code == SQLITE_OK)
        code = sync_file(handle);
    /* Busy: another connection is at it. */
    return code == SQLITE_OK || (code & 0xFF) == SQLITE_BUSY
               ? RUVLLM_OK
               : rv_sqlite_db_fail(db, code, "bring the log into the file", err);
}

static int64_t log_pages(const struct rv_store_db *db)
{
    return ((const struct rv_sqlite_db *)db)->log_pages;
}

static const struct rv_sql_ops engine = {
    .dialect = RV_SQL_SQLITE,
    .close = close_db,
    .start = rv_sqlite_statement_start,
    .step = rv_sqlite_statement_step,
    .stop = rv_sqlite_statement_stop,
    .column = rv_sqlite_statement_column,
    .run = run,
    .begin = begin,
    .end = end,
    .begin_alone = begin, // who writes is alone
    .version = version_of,
    .is_lost = is_lost,
    .tidy = tidy,
    .log_pages = log_pages,
    .wait_news = wait_news,
};

/* ---- opening ------------------------------------------------------------------------------- */

ruvllm_status rv_sqlite_db_open(struct rv_store_db **out, const char *path, int32_t busy_timeout_ms,
                                struct ruvllm_error *err)
{
    struct rv_sqlite_db *db = rv_calloc(1, sizeof(*db));
    ruvllm_status rc;
    int code;

    *out = NULL;
    if (!db)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a connection");
    db->base.sql = &engine;
    db->news_seen = -1;
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
        rc = rv_sqlite_db_fail(&db->base, code, "open the database", err);
        goto fail;
    }
    lower_limits(db->handle);
    rc = run(&db->base, "PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY", "prepare the connection", err);
    if (rc)
        goto fail;
    *out = &db->base;
    return RUVLLM_OK;
fail:
    close_db(&db->base);
    return rc;
}

/* Going over to WAL needs the file alone, and SQLite does not wait for that by itself: two processes may come at once.
 */
static ruvllm_status use_wal(struct rv_store_db *db, int32_t busy_timeout_ms, struct ruvllm_error *err)
{
    int64_t deadline = rv_clock_us() + (int64_t)busy_timeout_ms * 1000;
    ruvllm_status rc;

    for (;;) {
        rc = run(db, "PRAGMA journal_mode=WAL", "use a write-ahead log", err);
        if (rc != RUVLLM_BUSY || rv_clock_us() >= deadline)
            return rc;
        pause_ms(1);
    }
}

ruvllm_status rv_sqlite_db_settle(struct rv_store_db *db, int32_t busy_timeout_ms, struct ruvllm_error *err)
{
    ruvllm_status rc = use_wal(db, busy_timeout_ms, err);
    int code;

    /*
     * 512 KiB of pages: rows are found by key or written at the end, and a server's memory should not grow for them.
     * What is forgotten is overwritten, also where SQLite was built not to. Not before the log is there: it reads the
     * schema, which somebody else may just be making.
     */
    if (!rc)
        rc = run(db, "PRAGMA synchronous=FULL; PRAGMA cache_size=-512; PRAGMA secure_delete=ON",
                 "prepare the connection", err);
    if (rc)
        return rc;
    code = sqlite3_db_config(rv_sqlite_db_of(db)->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    return code == SQLITE_OK ? RUVLLM_OK : rv_sqlite_db_fail(db, code, "prepare the connection", err);
}

/* In the place of SQLite's own, which would bring the log into the file. */
static int on_commit(void *user, sqlite3 *handle, const char *name, int n_pages)
{
    struct rv_sqlite_db *db = user;

    (void)handle;
    (void)name;
    db->log_pages = n_pages;
    return SQLITE_OK;
}

void rv_sqlite_db_leave_log(struct rv_store_db *db)
{
    struct rv_sqlite_db *ours = rv_sqlite_db_of(db);

    (void)sqlite3_wal_hook(ours->handle, on_commit, ours); // what was there before is SQLite's
}
