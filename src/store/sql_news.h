/* Telling others who share the store what happened, in the transaction in which it did; store_news.h is who hears. */
#ifndef RV_STORE_SQL_NEWS_H
#define RV_STORE_SQL_NEWS_H

#include "store/sql_db.h"

/* The channel of PostgreSQL, as SQL wants it; a message is a tenant, a space, a number, a space and a model. */
#define RV_SQL_NEWS_CHANNEL "ruvllm_log"

/*
 * The log of a tenant has events of a model up to this number; 0: something else of the tenant's was changed. SQLite
 * needs no word of events: who listens finds them in the log.
 */
RV_CHECKED ruvllm_status rv_sql_news_tell(struct rv_store_db *db, const char *tenant, const char *model, int64_t seq,
                                          struct ruvllm_error *err);

#endif
