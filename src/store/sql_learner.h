/* The SQL of where learning stands, for every engine, and of leases, for those that have no locks of their own. */
#ifndef RV_STORE_SQL_LEARNER_H
#define RV_STORE_SQL_LEARNER_H

#include "store/sql_db.h"

/* Adds it, or takes the place of the one of its tenant and model. */
RV_CHECKED ruvllm_status rv_sql_learner_put(struct rv_store_db *db, const struct rv_store_learner *state,
                                            struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_sql_learner_get(struct rv_store_db *db, const char *tenant, const char *model,
                                            struct rv_store_learner *out, bool *found, struct ruvllm_error *err);

/* As learner_take and learner_leave of struct rv_sql_ops, by a row that says until when. */
RV_CHECKED ruvllm_status rv_sql_learner_lease_take(struct rv_store_db *db, const struct rv_store_claim *claim,
                                                   enum rv_store_claimed *out, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_sql_learner_lease_leave(struct rv_store_db *db, const struct rv_store_claim *claim,
                                                    struct ruvllm_error *err);

#endif
