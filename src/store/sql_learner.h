/* The SQL of where learning stands, for every engine. */
#ifndef RV_STORE_SQL_LEARNER_H
#define RV_STORE_SQL_LEARNER_H

#include "store/sql_db.h"

/* Adds it, or takes the place of the one of its tenant and model; others are told. */
RV_CHECKED ruvllm_status rv_sql_learner_put(struct rv_store_db *db, const struct rv_store_learner *state,
                                            struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_sql_learner_get(struct rv_store_db *db, const char *tenant, const char *model,
                                            struct rv_store_learner *out, bool *found, struct ruvllm_error *err);

/* See store_learner.h. */
RV_CHECKED ruvllm_status rv_sql_learner_look(struct rv_store_db *db, const char *tenant, const char *model,
                                             struct rv_store_look *out, struct ruvllm_error *err);

#endif
