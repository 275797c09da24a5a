/*
 * Values go to the server and rows come back in its binary form, so that nothing is ever spelled out and read again:
 * integers and floats of 8 bytes, the highest first; texts and bytes as they are.
 */
#include "store/postgres_statement.h"

#include "store/postgres_ask.h"

#include <stdlib.h>
#include <string.h>

/* Types by the numbers they have in every server. */
enum { BYTEA = 17, INT8 = 20, INT4 = 23, TEXT = 25, FLOAT8 = 701 };

/* Values as libpq takes them. */
struct values {
    Oid types[RV_SQL_VALUES_MAX];
    const char *data[RV_SQL_VALUES_MAX];
    int lens[RV_SQL_VALUES_MAX];
    int formats[RV_SQL_VALUES_MAX];
    char numbers[RV_SQL_VALUES_MAX][8];
};

static void put_number(char out[8], uint64_t value)
{
    for (int i = 0; i < 8; i++)
        out[i] = (char)(value >> (56 - 8 * i));
}

static uint64_t get_number(const char *in, int len)
{
    uint64_t value = 0;

    for (int i = 0; i < len; i++)
        value = value << 8 | (uint8_t)in[i];
    return value;
}

static void set_value(struct values *v, int i, const struct rv_sql_value *value)
{
    static const Oid types[] = {
        [RV_SQL_INT] = INT8, [RV_SQL_REAL] = FLOAT8, [RV_SQL_TEXT] = TEXT, [RV_SQL_BLOB] = BYTEA};
    uint64_t bits = (uint64_t)value->number;

    v->types[i] = types[value->type];
    v->formats[i] = 1;
    if (value->type == RV_SQL_TEXT || value->type == RV_SQL_BLOB) {
        v->data[i] = value->data;
        v->lens[i] = (int)value->len; // the store's limits are far below
        return;
    }
    if (value->type == RV_SQL_REAL)
        memcpy(&bits, &value->real, sizeof(bits));
    put_number(v->numbers[i], bits);
    v->data[i] = v->numbers[i];
    v->lens[i] = 8;
}

static PGresult *execute(struct rv_sql_statement *s)
{
    struct values v;

    for (int i = 0; i < s->n_values; i++)
        set_value(&v, i, &s->values[i]);
    return rv_postgres_ask(
        rv_postgres_db_of(s->db), s->sql,
        &(struct rv_postgres_values){
            .n = s->n_values, .types = v.types, .data = v.data, .lens = v.lens, .formats = v.formats});
}

ruvllm_status rv_postgres_statement_start(struct rv_sql_statement *s, struct ruvllm_error *err)
{
    (void)s;
    (void)err;
    return RUVLLM_OK; // there is nothing to do before the values are known
}

/*
 * Whether it may be asked a second time: it only reads, nothing before it would be lost, and it was not silence that
 * ended the first, of which there would be more.
 */
static bool is_repeatable(const struct rv_sql_statement *s)
{
    const struct rv_postgres_db *db = rv_postgres_db_of(s->db);

    return strncmp(s->sql, "SELECT", 6) == 0 && !db->is_inside && !db->is_silent;
}

static bool is_good(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

/* A server that was started anew has dropped connections which look alive until they are used. */
static ruvllm_status begin(struct rv_sql_statement *s, struct ruvllm_error *err)
{
    PGresult *result = NULL;
    ruvllm_status rc;

    for (int tries = 0; tries < 2; tries++) {
        rc = rv_postgres_db_revive(s->db, s->doing, err);
        if (rc)
            return rc;
        result = execute(s);
        if (is_good(result)) {
            s->made = result;
            s->i_row = -1;
            s->is_begun = true;
            s->db->n_changed = strtoll(PQcmdTuples(result), NULL, 10);
            return RUVLLM_OK;
        }
        rc = rv_postgres_db_fail(s->db, result, s->doing, err);
        PQclear(result);
        if (!rv_sql_db_is_lost(s->db) || !is_repeatable(s))
            break;
    }
    return rc;
}

ruvllm_status rv_postgres_statement_step(struct rv_sql_statement *s, bool *has_row, struct ruvllm_error *err)
{
    ruvllm_status rc = s->is_begun ? RUVLLM_OK : begin(s, err);

    *has_row = !rc && ++s->i_row < PQntuples(s->made);
    return rc;
}

void rv_postgres_statement_stop(struct rv_sql_statement *s)
{
    PQclear(s->made);
    s->made = NULL;
}

bool rv_postgres_statement_column(struct rv_sql_statement *s, int i, struct rv_sql_value *out)
{
    const PGresult *result = s->made;
    const char *data;
    uint64_t bits;
    Oid type;
    int len;

    if (i >= PQnfields(result) || PQgetisnull(result, s->i_row, i))
        return false;
    data = PQgetvalue(result, s->i_row, i);
    len = PQgetlength(result, s->i_row, i);
    type = PQftype(result, i);
    switch (out->type) {
    case RV_SQL_INT:
        if ((type != INT8 || len != 8) && (type != INT4 || len != 4))
            return false;
        bits = get_number(data, len);
        out->number = len == 4 ? (int64_t)(int32_t)(uint32_t)bits : (int64_t)bits;
        return true;
    case RV_SQL_REAL:
        if (type != FLOAT8 || len != 8)
            return false;
        bits = get_number(data, len);
        memcpy(&out->real, &bits, sizeof(bits));
        return true;
    case RV_SQL_TEXT:
    case RV_SQL_BLOB:
        out->data = data;
        out->len = (size_t)len;
        return type == (out->type == RV_SQL_TEXT ? TEXT : BYTEA);
    }
    return false;
}
