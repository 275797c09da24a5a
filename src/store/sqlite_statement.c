/*
 * Statements are kept because preparing costs more than running. What comes out of a file is judged here: types,
 * lengths and ranges, whatever the table's own constraints say, since a damaged file need not honour them.
 */
#include "store/sqlite_statement.h"

#include <string.h>

/* The kept statement of a constant; NULL when there is none yet. */
static sqlite3_stmt *find(const struct rv_store_db *db, const char *sql)
{
    for (size_t i = 0; i < db->n_statements; i++) {
        if (db->statements[i].sql == sql)
            return db->statements[i].made;
    }
    return NULL;
}

static int make(struct rv_store_db *db, const char *sql, sqlite3_stmt **out)
{
    int code = sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);

    if (code != SQLITE_OK)
        return code;
    RV_ASSERT(db->n_statements < RV_SQLITE_STATEMENTS_MAX); // as many as there are constants
    db->statements[db->n_statements].sql = sql;
    db->statements[db->n_statements++].made = *out;
    return SQLITE_OK;
}

ruvllm_status rv_sqlite_statement_begin(struct rv_sqlite_statement *s, struct rv_store_db *db, const char *sql,
                                        const char *doing, struct ruvllm_error *err)
{
    int code = SQLITE_OK;

    *s = (struct rv_sqlite_statement){.db = db, .doing = doing, .i_bind = 1, .made = find(db, sql)};
    if (!s->made)
        code = make(db, sql, &s->made);
    return code == SQLITE_OK ? RUVLLM_OK : rv_sqlite_db_fail(db, code, doing, err);
}

void rv_sqlite_statement_end(struct rv_sqlite_statement *s)
{
    sqlite3_reset(s->made); // repeats the failure of the last step, which was reported then
    sqlite3_clear_bindings(s->made);
}

static void note(struct rv_sqlite_statement *s, int code)
{
    if (s->code == SQLITE_OK)
        s->code = code;
}

void rv_sqlite_statement_bind_str(struct rv_sqlite_statement *s, const char *text, size_t len)
{
    note(s, sqlite3_bind_text64(s->made, s->i_bind++, text, len, SQLITE_STATIC, SQLITE_UTF8));
}

void rv_sqlite_statement_bind_text(struct rv_sqlite_statement *s, const char *text)
{
    rv_sqlite_statement_bind_str(s, text, text ? strlen(text) : 0);
}

void rv_sqlite_statement_bind_blob(struct rv_sqlite_statement *s, const void *data, size_t len)
{
    note(s, sqlite3_bind_blob64(s->made, s->i_bind++, data, len, SQLITE_STATIC));
}

void rv_sqlite_statement_bind_int(struct rv_sqlite_statement *s, int64_t value)
{
    note(s, sqlite3_bind_int64(s->made, s->i_bind++, value));
}

void rv_sqlite_statement_bind_real(struct rv_sqlite_statement *s, double value)
{
    note(s, sqlite3_bind_double(s->made, s->i_bind++, value));
}

ruvllm_status rv_sqlite_statement_step(struct rv_sqlite_statement *s, bool *has_row, struct ruvllm_error *err)
{
    int code = s->code;

    *has_row = false;
    s->i_column = 0;
    if (code == SQLITE_OK)
        code = sqlite3_step(s->made);
    *has_row = code == SQLITE_ROW;
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        return RUVLLM_OK;
    return rv_sqlite_db_fail(s->db, code, s->doing, err);
}

ruvllm_status rv_sqlite_statement_run(struct rv_sqlite_statement *s, struct ruvllm_error *err)
{
    bool has_row;
    ruvllm_status rc = rv_sqlite_statement_step(s, &has_row, err);

    rv_sqlite_statement_end(s);
    s->i_bind = 1;
    return rc;
}

const char *rv_sqlite_statement_str(struct rv_sqlite_statement *s, size_t max, size_t *len)
{
    int i = s->i_column++;
    bool is_text = sqlite3_column_type(s->made, i) == SQLITE_TEXT;
    const char *text = is_text ? (const char *)sqlite3_column_text(s->made, i) : NULL;

    *len = text ? (size_t)sqlite3_column_bytes(s->made, i) : 0;
    if (text && *len <= max && !memchr(text, '\0', *len))
        return text;
    *len = 0;
    s->is_broken = true;
    return NULL;
}

void rv_sqlite_statement_text(struct rv_sqlite_statement *s, char *out, size_t max)
{
    size_t len;
    const char *text = rv_sqlite_statement_str(s, max, &len);

    if (len)
        memcpy(out, text, len);
    out[len] = '\0';
}

void rv_sqlite_statement_blob(struct rv_sqlite_statement *s, void *out, size_t len)
{
    int i = s->i_column++;
    const void *data = sqlite3_column_blob(s->made, i);

    if (data && (size_t)sqlite3_column_bytes(s->made, i) == len)
        memcpy(out, data, len);
    else
        s->is_broken = true;
}

int64_t rv_sqlite_statement_int(struct rv_sqlite_statement *s)
{
    int i = s->i_column++;

    if (sqlite3_column_type(s->made, i) != SQLITE_INTEGER)
        s->is_broken = true;
    return sqlite3_column_int64(s->made, i);
}

int32_t rv_sqlite_statement_int32(struct rv_sqlite_statement *s)
{
    int64_t value = rv_sqlite_statement_int(s);

    if (value >= 0 && value <= INT32_MAX)
        return (int32_t)value;
    s->is_broken = true;
    return 0;
}

double rv_sqlite_statement_real(struct rv_sqlite_statement *s)
{
    int i = s->i_column++;

    if (sqlite3_column_type(s->made, i) != SQLITE_FLOAT)
        s->is_broken = true;
    return sqlite3_column_double(s->made, i);
}

ruvllm_status rv_sqlite_statement_status(const struct rv_sqlite_statement *s, struct ruvllm_error *err)
{
    /* SQLite says that a column could not be had for want of memory only here. */
    if (s->is_broken && sqlite3_errcode(s->db->handle) == SQLITE_NOMEM)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot %s: out of memory", s->doing);
    if (s->is_broken)
        return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_STORAGE, "cannot %s: a row of the database is damaged",
                            s->doing);
    return RUVLLM_OK;
}
