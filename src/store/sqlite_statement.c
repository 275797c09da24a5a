/* Statements are kept with their connection because preparing costs more than running. */
#include "store/sqlite_statement.h"

#include "store/sqlite_db.h"

#include <string.h>

/* The kept statement of a constant; NULL when there is none yet. */
static sqlite3_stmt *find(const struct rv_sqlite_db *db, const char *sql)
{
    for (size_t i = 0; i < db->n_statements; i++) {
        if (db->statements[i].sql == sql)
            return db->statements[i].made;
    }
    return NULL;
}

/* "$7" is a name to SQLite: its number is when it appeared first. Ours appear in order, or other values would be meant.
 */
static bool is_in_order(sqlite3_stmt *made)
{
    for (int i = 1; i <= sqlite3_bind_parameter_count(made); i++) {
        const char name[] = {'$', (char)('0' + (i < 10 ? i : i / 10)), i < 10 ? '\0' : (char)('0' + i % 10), '\0'};
        const char *given = sqlite3_bind_parameter_name(made, i);

        if (!given || strcmp(given, name) != 0)
            return false;
    }
    return true;
}

static int make(struct rv_sqlite_db *db, const char *sql, sqlite3_stmt **out)
{
    int code = sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);

    if (code != SQLITE_OK)
        return code;
    RV_ASSERT(is_in_order(*out));
    RV_ASSERT(db->n_statements < RV_SQLITE_STATEMENTS_MAX); // as many as there are constants
    db->statements[db->n_statements].sql = sql;
    db->statements[db->n_statements++].made = *out;
    return SQLITE_OK;
}

ruvllm_status rv_sqlite_statement_start(struct rv_sql_statement *s, struct ruvllm_error *err)
{
    struct rv_sqlite_db *db = rv_sqlite_db_of(s->db);
    sqlite3_stmt *made = find(db, s->sql);
    int code = made ? SQLITE_OK : make(db, s->sql, &made);

    s->made = made;
    return code == SQLITE_OK ? RUVLLM_OK : rv_sqlite_db_fail(s->db, code, s->doing, err);
}

void rv_sqlite_statement_stop(struct rv_sql_statement *s)
{
    sqlite3_reset(s->made); // repeats the failure of the last step, which was reported then
    sqlite3_clear_bindings(s->made);
}

static int bind(sqlite3_stmt *made, int i, const struct rv_sql_value *value)
{
    switch (value->type) {
    case RV_SQL_INT:
        return sqlite3_bind_int64(made, i, value->number);
    case RV_SQL_REAL:
        return sqlite3_bind_double(made, i, value->real);
    case RV_SQL_TEXT:
        return sqlite3_bind_text64(made, i, value->data, value->len, SQLITE_STATIC, SQLITE_UTF8);
    case RV_SQL_BLOB:
        return sqlite3_bind_blob64(made, i, value->data, value->len, SQLITE_STATIC);
    }
    return SQLITE_MISUSE;
}

ruvllm_status rv_sqlite_statement_step(struct rv_sql_statement *s, bool *has_row, struct ruvllm_error *err)
{
    sqlite3 *handle = rv_sqlite_db_of(s->db)->handle;
    int code = SQLITE_OK;

    for (int i = 0; !s->is_begun && code == SQLITE_OK && i < s->n_values; i++)
        code = bind(s->made, i + 1, &s->values[i]);
    s->is_begun = true;
    if (code == SQLITE_OK)
        code = sqlite3_step(s->made);
    *has_row = code == SQLITE_ROW;
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return rv_sqlite_db_fail(s->db, code, s->doing, err);
    s->db->n_changed = sqlite3_changes(handle);
    return RUVLLM_OK;
}

static bool is_of_type(int given, enum rv_sql_type wanted)
{
    static const int types[] = {[RV_SQL_INT] = SQLITE_INTEGER,
                                [RV_SQL_REAL] = SQLITE_FLOAT,
                                [RV_SQL_TEXT] = SQLITE_TEXT,
                                [RV_SQL_BLOB] = SQLITE_BLOB};

    return given == types[wanted];
}

/* Bytes of a column; NULL for none is no failure when there are none. */
static bool bytes_of(struct rv_sql_statement *s, int i, struct rv_sql_value *out)
{
    out->data =
        out->type == RV_SQL_TEXT ? (const void *)sqlite3_column_text(s->made, i) : sqlite3_column_blob(s->made, i);
    out->len = (size_t)sqlite3_column_bytes(s->made, i);
    if (out->data)
        return true;
    /* SQLite says that a column could not be had for want of memory only here. */
    s->is_hungry = s->is_hungry || sqlite3_errcode(rv_sqlite_db_of(s->db)->handle) == SQLITE_NOMEM;
    return !s->is_hungry && out->len == 0;
}

bool rv_sqlite_statement_column(struct rv_sql_statement *s, int i, struct rv_sql_value *out)
{
    if (!is_of_type(sqlite3_column_type(s->made, i), out->type))
        return false;
    if (out->type == RV_SQL_INT)
        out->number = sqlite3_column_int64(s->made, i);
    else if (out->type == RV_SQL_REAL)
        out->real = sqlite3_column_double(s->made, i);
    else
        return bytes_of(s, i, out);
    return true;
}
