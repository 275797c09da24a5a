/*
 * Where the learning of a tenant's model stands. Every call may be made from any thread and waits for the store's lock.
 */
#ifndef RV_STORE_STORE_LEARNER_H
#define RV_STORE_STORE_LEARNER_H

#include "store/store.h"

/* *out is all 0 but its names when nothing was kept yet. */
RV_CHECKED ruvllm_status rv_store_learner_get(struct ruvllm_store *store, const char *tenant, const char *model,
                                              struct rv_store_learner *out, struct ruvllm_error *err);
/* Keeps it in place of what was kept before; updated_us is filled in. Others who share the store are told. */
RV_CHECKED ruvllm_status rv_store_learner_put(struct ruvllm_store *store, struct rv_store_learner *state,
                                              struct ruvllm_error *err);

/* Where a tenant's log ends, and what else there is to know before it is read, or instead: one short question. */
RV_CHECKED ruvllm_status rv_store_learner_look(struct ruvllm_store *store, const char *tenant, const char *model,
                                               struct rv_store_look *out, struct ruvllm_error *err);

#endif
