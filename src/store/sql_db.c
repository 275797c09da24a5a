/* Calls through the engine's table. */
#include "store/sql_db.h"

void rv_sql_db_close(struct rv_store_db *db)
{
    if (db)
        db->sql->close(db);
}

ruvllm_status rv_sql_db_run(struct rv_store_db *db, const char *sql, const char *doing, struct ruvllm_error *err)
{
    return db->sql->run(db, sql, doing, err);
}

ruvllm_status rv_sql_db_begin(struct rv_store_db *db, struct ruvllm_error *err)
{
    return db->sql->begin(db, err);
}

ruvllm_status rv_sql_db_end(struct rv_store_db *db, ruvllm_status rc, struct ruvllm_error *err)
{
    return db->sql->end(db, rc, err);
}

bool rv_sql_db_is_lost(const struct rv_store_db *db)
{
    return db->sql->is_lost(db);
}
