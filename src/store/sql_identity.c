/* The SQL of the database's identity. */
#include "store/sql_identity.h"

#include "store/sql_statement.h"

#include <string.h>

ruvllm_status rv_sql_identity_read(struct rv_store_db *db, char id[RV_SQL_IDENTITY_LEN + 1], struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    bool has_row = false;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, "SELECT id FROM identity", "read the database's identity", err);

    id[0] = '\0';
    if (rc)
        return rc;
    rc = rv_sql_statement_step(&s, &has_row, err);
    if (!rc && has_row) {
        rv_sql_statement_text(&s, id, RV_SQL_IDENTITY_LEN);
        rc = rv_sql_statement_status(&s, err);
    }
    rv_sql_statement_end(&s);
    if (!rc && strspn(id, "0123456789abcdef") != RV_SQL_IDENTITY_LEN)
        rc = rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_STORAGE, "the database's identity is damaged");
    return rc;
}
