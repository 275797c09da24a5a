/* The SQL of news. */
#include "store/sql_news.h"

#include "store/sql_statement.h"

static const char TELL_LITE[] = "UPDATE news SET n = n + 1";
static const char TELL_POSTGRES[] =
    "SELECT 1 FROM pg_notify('" RV_SQL_NEWS_CHANNEL "', $1 || ' ' || $2::bigint || ' ' || $3)";

ruvllm_status rv_sql_news_tell(struct rv_store_db *db, const char *tenant, const char *model, int64_t seq,
                               struct ruvllm_error *err)
{
    bool is_message = db->sql->dialect == RV_SQL_POSTGRES;
    struct rv_sql_statement s;
    ruvllm_status rc;

    if (!is_message && seq > 0)
        return RUVLLM_OK;
    rc = rv_sql_statement_begin(&s, db, is_message ? TELL_POSTGRES : TELL_LITE, "tell others", err);
    if (rc)
        return rc;
    if (is_message) {
        rv_sql_statement_bind_text(&s, tenant);
        rv_sql_statement_bind_int(&s, seq);
        rv_sql_statement_bind_text(&s, model);
    }
    return rv_sql_statement_run(&s, err);
}
