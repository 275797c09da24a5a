/*
 * One connection to a SQLite database: how it is opened, its statements, its transactions, and what its failures mean.
 * The files sqlite_keys.c, sqlite_witness.c and sqlite_sessions.c hold the SQL; store_sqlite.c makes a backend of them.
 *
 * Every SQL text is a constant of the program: values get into it by binding alone (check_source.py holds us to it).
 */
#ifndef RV_STORE_SQLITE_DB_H
#define RV_STORE_SQLITE_DB_H

#include "store/store_ops.h"

#include <sqlite3.h>

enum { RV_SQLITE_STATEMENTS_MAX = 24 };

struct rv_store_db {
    sqlite3 *handle;
    struct {
        const char *sql; // the constant it was made from: compared as a pointer
        sqlite3_stmt *made;
    } statements[RV_SQLITE_STATEMENTS_MAX]; // kept from call to call
    size_t n_statements;
};

/*
 * Opens the file at `path`, which exists. Nothing is written, not even on close, until rv_sqlite_db_settle() is called;
 * so a database that turns out to be somebody else's stays as it is.
 */
RV_CHECKED ruvllm_status rv_sqlite_db_open(struct rv_store_db **out, const char *path, int32_t busy_timeout_ms,
                                           struct ruvllm_error *err);
/* WAL, full synchronisation, checkpoint on close: from here on it is ours. */
RV_CHECKED ruvllm_status rv_sqlite_db_settle(struct rv_store_db *db, int32_t busy_timeout_ms, struct ruvllm_error *err);
/* NULL is fine. */
void rv_sqlite_db_close(struct rv_store_db *db);

/* Reports a failure of SQLite: `code` is what it returned, `doing` a verb and its object ("read a key"). */
ruvllm_status rv_sqlite_db_fail(struct rv_store_db *db, int code, const char *doing, struct ruvllm_error *err);

/* Runs constant SQL that takes no values and gives no rows. */
RV_CHECKED ruvllm_status rv_sqlite_db_run(struct rv_store_db *db, const char *sql, const char *doing,
                                          struct ruvllm_error *err);
/* Takes the right to write at once, so that a transaction never fails halfway because another process writes. */
RV_CHECKED ruvllm_status rv_sqlite_db_begin(struct rv_store_db *db, struct ruvllm_error *err);
/* Ends what begin began: all of it is on the disk when `rc` is OK and this is; otherwise none. Returns the failure. */
RV_CHECKED ruvllm_status rv_sqlite_db_end(struct rv_store_db *db, ruvllm_status rc, struct ruvllm_error *err);

#endif
