#include "store/store_news.h"

#include "base/alloc.h"
#include "store/sql_db.h"

struct rv_store_news_listener {
    struct rv_store_db *db;
};

ruvllm_status rv_store_news_open(struct rv_store_news_listener **out, struct ruvllm_store *store,
                                 struct ruvllm_error *err)
{
    struct rv_store_news_listener *listener = rv_calloc(1, sizeof(*listener));
    ruvllm_status rc;

    *out = NULL;
    if (!listener)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a listener");
    rc = rv_store_connect(store, RV_STORE_ROLE_READER, &listener->db, err);
    if (rc)
        rv_free(listener);
    else
        *out = listener;
    return rc;
}

void rv_store_news_close(struct rv_store_news_listener *listener)
{
    if (!listener)
        return;
    rv_sql_db_close(listener->db);
    rv_free(listener);
}

ruvllm_status rv_store_news_wait(struct rv_store_news_listener *listener, int32_t ms, rv_store_news_fn fn, void *user,
                                 struct ruvllm_error *err)
{
    return listener->db->sql->wait_news(listener->db, ms, fn, user, err);
}
