/*
 * What comes out of a database is judged here: types, lengths and ranges, whatever the table's own constraints say,
 * since a damaged file need not honour them.
 */
#include "store/sql_statement.h"

#include <string.h>

ruvllm_status rv_sql_statement_begin(struct rv_sql_statement *s, struct rv_store_db *db, const char *sql,
                                     const char *doing, struct ruvllm_error *err)
{
    s->db = db;
    s->sql = sql;
    s->doing = doing;
    s->n_values = s->i_column = s->i_row = 0;
    s->is_begun = s->is_broken = s->is_hungry = false;
    s->made = NULL;
    return db->sql->start(s, err);
}

void rv_sql_statement_end(struct rv_sql_statement *s)
{
    s->db->sql->stop(s);
    s->n_values = 0;
    s->is_begun = false;
}

static struct rv_sql_value *next_value(struct rv_sql_statement *s, enum rv_sql_type type)
{
    struct rv_sql_value *value = &s->values[s->n_values++];

    RV_ASSERT(s->n_values <= RV_SQL_VALUES_MAX); // as many as the longest text has
    *value = (struct rv_sql_value){.type = type};
    return value;
}

void rv_sql_statement_bind_str(struct rv_sql_statement *s, const char *text, size_t len)
{
    struct rv_sql_value *value = next_value(s, RV_SQL_TEXT);

    value->data = text;
    value->len = len;
}

void rv_sql_statement_bind_text(struct rv_sql_statement *s, const char *text)
{
    rv_sql_statement_bind_str(s, text, text ? strlen(text) : 0);
}

void rv_sql_statement_bind_blob(struct rv_sql_statement *s, const void *data, size_t len)
{
    struct rv_sql_value *value = next_value(s, RV_SQL_BLOB);

    value->data = len ? data : ""; // no bytes are bytes, not NULL
    value->len = len;
}

void rv_sql_statement_bind_int(struct rv_sql_statement *s, int64_t value)
{
    next_value(s, RV_SQL_INT)->number = value;
}

void rv_sql_statement_bind_real(struct rv_sql_statement *s, double value)
{
    next_value(s, RV_SQL_REAL)->real = value;
}

ruvllm_status rv_sql_statement_step(struct rv_sql_statement *s, bool *has_row, struct ruvllm_error *err)
{
    *has_row = false;
    s->i_column = 0;
    return s->db->sql->step(s, has_row, err);
}

ruvllm_status rv_sql_statement_run(struct rv_sql_statement *s, struct ruvllm_error *err)
{
    bool has_row;
    ruvllm_status rc = rv_sql_statement_step(s, &has_row, err);

    rv_sql_statement_end(s);
    return rc;
}

/* The next column as a type; what it is not breaks the row. */
static struct rv_sql_value column(struct rv_sql_statement *s, enum rv_sql_type type, size_t max)
{
    struct rv_sql_value value = {.type = type};

    if (!s->db->sql->column(s, s->i_column++, &value) || value.len > max ||
        (type == RV_SQL_TEXT && value.len && memchr(value.data, '\0', value.len))) {
        s->is_broken = true;
        return (struct rv_sql_value){.type = type};
    }
    return value;
}

const char *rv_sql_statement_str(struct rv_sql_statement *s, size_t max, size_t *len)
{
    struct rv_sql_value value = column(s, RV_SQL_TEXT, max);

    *len = value.len;
    return value.data;
}

const void *rv_sql_statement_bytes(struct rv_sql_statement *s, size_t max, size_t *len)
{
    struct rv_sql_value value = column(s, RV_SQL_BLOB, max);

    *len = value.len;
    return value.data;
}

void rv_sql_statement_text(struct rv_sql_statement *s, char *out, size_t max)
{
    size_t len;
    const char *text = rv_sql_statement_str(s, max, &len);

    if (len)
        memcpy(out, text, len);
    out[len] = '\0';
}

void rv_sql_statement_blob(struct rv_sql_statement *s, void *out, size_t len)
{
    struct rv_sql_value value = column(s, RV_SQL_BLOB, len);

    if (value.len == len && len)
        memcpy(out, value.data, len);
    else
        s->is_broken = true;
}

int64_t rv_sql_statement_int(struct rv_sql_statement *s)
{
    return column(s, RV_SQL_INT, 0).number;
}

int32_t rv_sql_statement_int32(struct rv_sql_statement *s)
{
    int64_t value = rv_sql_statement_int(s);

    if (value >= 0 && value <= INT32_MAX)
        return (int32_t)value;
    s->is_broken = true;
    return 0;
}

double rv_sql_statement_real(struct rv_sql_statement *s)
{
    return column(s, RV_SQL_REAL, 0).real;
}

static struct rv_str dup(const struct rv_sql_value *value, struct rv_arena *arena)
{
    char *copy = rv_arena_alloc(arena, value->len + 1);

    if (!copy)
        return (struct rv_str){.data = ""};
    if (value->len)
        memcpy(copy, value->data, value->len);
    copy[value->len] = '\0';
    return (struct rv_str){.data = copy, .len = value->len};
}

struct rv_str rv_sql_statement_dup_str(struct rv_sql_statement *s, size_t max, struct rv_arena *arena)
{
    struct rv_sql_value value = column(s, RV_SQL_TEXT, max);

    return dup(&value, arena);
}

struct rv_str rv_sql_statement_dup_bytes(struct rv_sql_statement *s, size_t max, struct rv_arena *arena)
{
    struct rv_sql_value value = column(s, RV_SQL_BLOB, max);

    return dup(&value, arena);
}

const char *rv_sql_statement_dup_text(struct rv_sql_statement *s, size_t max, struct rv_arena *arena)
{
    return rv_sql_statement_dup_str(s, max, arena).data;
}

ruvllm_status rv_sql_statement_status(const struct rv_sql_statement *s, struct ruvllm_error *err)
{
    if (s->is_hungry)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot %s: out of memory", s->doing);
    if (s->is_broken)
        return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_STORAGE, "cannot %s: a row of the database is damaged",
                            s->doing);
    return RUVLLM_OK;
}
