/*
 * A statement in use: values go in from left to right, rows come out.
 *
 *     struct rv_sqlite_statement s;
 *     rc = rv_sqlite_statement_begin(&s, db, SQL, "read a key", err);
 *     if (rc)
 *         return rc;
 *     rv_sqlite_statement_bind_text(&s, id);
 *     rc = rv_sqlite_statement_step(&s, &has_row, err);
 *     ...
 *     rv_sqlite_statement_end(&s);
 *
 * A bind or a read that fails is remembered: the next step, or rv_sqlite_statement_status(), tells.
 */
#ifndef RV_STORE_SQLITE_STATEMENT_H
#define RV_STORE_SQLITE_STATEMENT_H

#include "store/sqlite_db.h"

struct rv_sqlite_statement {
    struct rv_store_db *db;
    sqlite3_stmt *made; // borrowed from db
    const char *doing;
    int i_bind;     // of the next value, from 1
    int i_column;   // of the next column, from 0
    int code;       // first failure of a bind
    bool is_broken; // a column was not what the schema promises
};

/* `sql` is a constant; the statement made from it is kept with the connection. After a failure there is nothing to end.
 */
RV_CHECKED ruvllm_status rv_sqlite_statement_begin(struct rv_sqlite_statement *s, struct rv_store_db *db,
                                                   const char *sql, const char *doing, struct ruvllm_error *err);
void rv_sqlite_statement_end(struct rv_sqlite_statement *s);

/* Values are borrowed until the statement ends. NULL text: NULL in SQL. */
void rv_sqlite_statement_bind_text(struct rv_sqlite_statement *s, const char *text);
void rv_sqlite_statement_bind_str(struct rv_sqlite_statement *s, const char *text, size_t len);
void rv_sqlite_statement_bind_blob(struct rv_sqlite_statement *s, const void *data, size_t len);
void rv_sqlite_statement_bind_int(struct rv_sqlite_statement *s, int64_t value);
void rv_sqlite_statement_bind_real(struct rv_sqlite_statement *s, double value);

/* Goes to the next row. */
RV_CHECKED ruvllm_status rv_sqlite_statement_step(struct rv_sqlite_statement *s, bool *has_row,
                                                  struct ruvllm_error *err);
/* Runs a statement that gives no rows, then makes it ready for other values. */
RV_CHECKED ruvllm_status rv_sqlite_statement_run(struct rv_sqlite_statement *s, struct ruvllm_error *err);

/* Columns from left to right. A text longer than `max` or with a NUL inside is a damaged row; `out` has room for max
 * + 1. */
void rv_sqlite_statement_text(struct rv_sqlite_statement *s, char *out, size_t max);
void rv_sqlite_statement_blob(struct rv_sqlite_statement *s, void *out, size_t len);
int64_t rv_sqlite_statement_int(struct rv_sqlite_statement *s);
/* The same for numbers that must not be negative and fit 32 bits. */
int32_t rv_sqlite_statement_int32(struct rv_sqlite_statement *s);
double rv_sqlite_statement_real(struct rv_sqlite_statement *s);
/* Borrowed until the next step; NULL and 0 for a damaged one. */
const char *rv_sqlite_statement_str(struct rv_sqlite_statement *s, size_t max, size_t *len);
/* Whether all columns of this row were as the schema promises. */
RV_CHECKED ruvllm_status rv_sqlite_statement_status(const struct rv_sqlite_statement *s, struct ruvllm_error *err);

#endif
