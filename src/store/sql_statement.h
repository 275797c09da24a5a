/*
 * A statement in use: values go in from left to right, rows come out.
 *
 *     struct rv_sql_statement s;
 *     rc = rv_sql_statement_begin(&s, db, SQL, "read a key", err);
 *     if (rc)
 *         return rc;
 *     rv_sql_statement_bind_text(&s, id);
 *     rc = rv_sql_statement_step(&s, &has_row, err);
 *     ...
 *     rv_sql_statement_end(&s);
 *
 * A column that is not what the table promises is remembered: rv_sql_statement_status() tells.
 */
#ifndef RV_STORE_SQL_STATEMENT_H
#define RV_STORE_SQL_STATEMENT_H

#include "base/arena.h"
#include "base/str.h"
#include "store/sql_db.h"

enum { RV_SQL_VALUES_MAX = 24 };

enum rv_sql_type { RV_SQL_INT, RV_SQL_REAL, RV_SQL_TEXT, RV_SQL_BLOB };

struct rv_sql_value {
    enum rv_sql_type type;
    int64_t number;
    double real;
    const void *data; // of text and bytes; NULL: NULL in SQL
    size_t len;
};

struct rv_sql_statement {
    struct rv_store_db *db;
    const char *sql;
    const char *doing;
    int n_values;
    int i_column;   // of the next column, from 0
    bool is_begun;  // the values were handed to the engine
    bool is_broken; // a column was not what the table promises
    bool is_hungry; // it could not be had for want of memory
    void *made;     // the engine's: a prepared statement, or a result
    int i_row;      // the engine's
    struct rv_sql_value values[RV_SQL_VALUES_MAX];
};

/* `sql` is a constant. After a failure there is nothing to end. */
RV_CHECKED ruvllm_status rv_sql_statement_begin(struct rv_sql_statement *s, struct rv_store_db *db, const char *sql,
                                                const char *doing, struct ruvllm_error *err);
void rv_sql_statement_end(struct rv_sql_statement *s);

/* Values are borrowed until the statement ends. NULL text: NULL in SQL. */
void rv_sql_statement_bind_text(struct rv_sql_statement *s, const char *text);
void rv_sql_statement_bind_str(struct rv_sql_statement *s, const char *text, size_t len);
void rv_sql_statement_bind_blob(struct rv_sql_statement *s, const void *data, size_t len);
void rv_sql_statement_bind_int(struct rv_sql_statement *s, int64_t value);
void rv_sql_statement_bind_real(struct rv_sql_statement *s, double value);

/* Goes to the next row. */
RV_CHECKED ruvllm_status rv_sql_statement_step(struct rv_sql_statement *s, bool *has_row, struct ruvllm_error *err);
/* Runs a statement that gives no rows, then makes it ready for other values. */
RV_CHECKED ruvllm_status rv_sql_statement_run(struct rv_sql_statement *s, struct ruvllm_error *err);

/* Columns from left to right. A text longer than `max` or with a NUL inside is a damaged row; `out` has room for max
 * + 1. */
void rv_sql_statement_text(struct rv_sql_statement *s, char *out, size_t max);
void rv_sql_statement_blob(struct rv_sql_statement *s, void *out, size_t len);
int64_t rv_sql_statement_int(struct rv_sql_statement *s);
/* The same for numbers that must not be negative and fit 32 bits. */
int32_t rv_sql_statement_int32(struct rv_sql_statement *s);
double rv_sql_statement_real(struct rv_sql_statement *s);
/* Borrowed until the next step; NULL and 0 for a damaged one. */
const char *rv_sql_statement_str(struct rv_sql_statement *s, size_t max, size_t *len);
/* As str, for bytes. */
const void *rv_sql_statement_bytes(struct rv_sql_statement *s, size_t max, size_t *len);
/* Copies in an arena: texts with a NUL behind them. A failure is the arena's to tell. */
const char *rv_sql_statement_dup_text(struct rv_sql_statement *s, size_t max, struct rv_arena *arena);
struct rv_str rv_sql_statement_dup_str(struct rv_sql_statement *s, size_t max, struct rv_arena *arena);
struct rv_str rv_sql_statement_dup_bytes(struct rv_sql_statement *s, size_t max, struct rv_arena *arena);
/* Whether all columns of this row were as the table promises. */
RV_CHECKED ruvllm_status rv_sql_statement_status(const struct rv_sql_statement *s, struct ruvllm_error *err);

#endif
