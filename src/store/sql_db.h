/*
 * One connection to a database that speaks SQL, whichever it is. What an engine has to do is the table below; the
 * files sql_*.c hold the SQL, once for all engines.
 *
 * Every SQL text is a constant of the program: values get into it by binding alone (check_source.py holds us to it).
 * Values are written $1, $2, ... and appear for the first time in that order, which SQLite and PostgreSQL read alike.
 *
 * A connection belongs to one thread at a time: who holds it holds its lock.
 */
#ifndef RV_STORE_SQL_DB_H
#define RV_STORE_SQL_DB_H

#include "store/store_rows.h"

struct rv_sql_statement;
struct rv_sql_value;

/* Which of the texts a step of the tables has. */
enum rv_sql_dialect { RV_SQL_SQLITE, RV_SQL_POSTGRES, RV_SQL_N_DIALECTS };

struct rv_sql_ops {
    enum rv_sql_dialect dialect;
    void (*close)(struct rv_store_db *db);

    /* Statements; sql_statement.h says what a caller sees of them. Start prepares, stop makes ready for other values.
     */
    ruvllm_status (*start)(struct rv_sql_statement *s, struct ruvllm_error *err);
    ruvllm_status (*step)(struct rv_sql_statement *s, bool *has_row, struct ruvllm_error *err);
    void (*stop)(struct rv_sql_statement *s);
    /* The column as out->type; its bytes are borrowed until the next step. False: it is NULL or of another type. */
    bool (*column)(struct rv_sql_statement *s, int i, struct rv_sql_value *out);

    ruvllm_status (*run)(struct rv_store_db *db, const char *sql, const char *doing, struct ruvllm_error *err);
    ruvllm_status (*begin)(struct rv_store_db *db, struct ruvllm_error *err);
    ruvllm_status (*end)(struct rv_store_db *db, ruvllm_status rc, struct ruvllm_error *err);
    /* As begin, and nobody else changes the tables' form until the end. */
    ruvllm_status (*begin_alone)(struct rv_store_db *db, struct ruvllm_error *err);
    /* Which version the tables have; 0: there are none. FORMAT: a database, but not a store. Reads only. */
    ruvllm_status (*version)(struct rv_store_db *db, int64_t *version, struct ruvllm_error *err);
    /* Whether the last failure was one of the connection, and not of what was asked: later it may work. */
    bool (*is_lost)(const struct rv_store_db *db);
    /*
     * Brings what commits have left in a log to where it belongs, and that to the disk, while another connection goes
     * on writing; NULL: there is no such log.
     */
    ruvllm_status (*tidy)(struct rv_store_db *db, struct ruvllm_error *err);
    /* How many pages the log had after this connection's last commit; NULL as `tidy` is. */
    int64_t (*log_pages)(const struct rv_store_db *db);
    /* Waits until something happened to a log anywhere, or for `ms`; see store_news.h. */
    ruvllm_status (*wait_news)(struct rv_store_db *db, int32_t ms, rv_store_news_fn fn, void *user,
                               struct ruvllm_error *err);
};

/* The beginning of every engine's connection. */
struct rv_store_db {
    const struct rv_sql_ops *sql;
    int64_t n_changed; // rows that the last statement added, changed or deleted
};

/* NULL is fine. */
void rv_sql_db_close(struct rv_store_db *db);
/* Runs constant SQL that takes no values and gives no rows. */
RV_CHECKED ruvllm_status rv_sql_db_run(struct rv_store_db *db, const char *sql, const char *doing,
                                       struct ruvllm_error *err);
/* Begins to write. */
RV_CHECKED ruvllm_status rv_sql_db_begin(struct rv_store_db *db, struct ruvllm_error *err);
/*
 * Ends what begin began: all of it is on the disk when `rc` is OK and this is. Otherwise none, unless the failure was
 * that the connection was lost on the way: then nobody knows.
 */
RV_CHECKED ruvllm_status rv_sql_db_end(struct rv_store_db *db, ruvllm_status rc, struct ruvllm_error *err);
bool rv_sql_db_is_lost(const struct rv_store_db *db);

#endif
