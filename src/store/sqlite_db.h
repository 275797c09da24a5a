/*
 * SQLite as an engine: how a connection is opened, its statements, its transactions, and what its failures mean.
 */
#ifndef RV_STORE_SQLITE_DB_H
#define RV_STORE_SQLITE_DB_H

#include "store/sql_db.h"

#include <sqlite3.h>

enum { RV_SQLITE_STATEMENTS_MAX = 64 };

struct rv_sqlite_db {
    struct rv_store_db base; // first: what others hold is a pointer to it
    sqlite3 *handle;
    struct {
        const char *sql; // the constant it was made from: compared as a pointer
        sqlite3_stmt *made;
    } statements[RV_SQLITE_STATEMENTS_MAX]; // kept from call to call
    size_t n_statements;
    int64_t news_seen; // how many times something had changed at the last look for news; -1: never looked
    int64_t news_row;  // of the last event that was told of
    int64_t log_pages; // after the last commit; counted once rv_sqlite_db_leave_log() was called
};

/*
 * Opens the file at `path`, which exists. Nothing is written, not even on close, until rv_sqlite_db_settle() is called;
 * so a database that turns out to be somebody else's stays as it is.
 */
RV_CHECKED ruvllm_status rv_sqlite_db_open(struct rv_store_db **out, const char *path, int32_t busy_timeout_ms,
                                           struct ruvllm_error *err);
/* WAL, full synchronisation, checkpoint on close: from here on it is ours. */
RV_CHECKED ruvllm_status rv_sqlite_db_settle(struct rv_store_db *db, int32_t busy_timeout_ms, struct ruvllm_error *err);

/*
 * Commits of this connection leave the write-ahead log alone, however long it is, and count its pages: somebody else
 * sees to it that it is brought into the file.
 */
void rv_sqlite_db_leave_log(struct rv_store_db *db);

/* What of a connection is SQLite's. */
struct rv_sqlite_db *rv_sqlite_db_of(struct rv_store_db *db);
/* Reports a failure of SQLite: `code` is what it returned, `doing` a verb and its object ("read a key"). */
ruvllm_status rv_sqlite_db_fail(struct rv_store_db *db, int code, const char *doing, struct ruvllm_error *err);

#endif
