/* The SQL of policies, for every engine. Each function is for the thread that has the connection. */
#ifndef RV_STORE_SQL_POLICIES_H
#define RV_STORE_SQL_POLICIES_H

#include "base/arena.h"
#include "store/sql_db.h"

struct rv_sql_policies_page {
    struct rv_store_policy *rows;
    size_t n;
    struct rv_arena arena;
};

/* Adds it, or takes the place of the one of its tenant and name. */
RV_CHECKED ruvllm_status rv_sql_policies_put(struct rv_store_db *db, const struct rv_store_policy *policy,
                                             struct ruvllm_error *err);
/* Up to `max` of a tenant whose names come after `after`, in the order of names. The page is released by the caller. */
RV_CHECKED ruvllm_status rv_sql_policies_read(struct rv_store_db *db, const char *tenant, const char *after, size_t max,
                                              struct rv_sql_policies_page *page, struct ruvllm_error *err);
/* The same for the one of this name, if there is one. */
RV_CHECKED ruvllm_status rv_sql_policies_find(struct rv_store_db *db, const char *tenant, const char *name,
                                              struct rv_sql_policies_page *page, struct ruvllm_error *err);
void rv_sql_policies_page_release(struct rv_sql_policies_page *page);
RV_CHECKED ruvllm_status rv_sql_policies_delete(struct rv_store_db *db, const char *tenant, const char *name,
                                                bool *found, struct ruvllm_error *err);

#endif
