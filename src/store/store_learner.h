/*
 * Where the learning of a tenant's model stands, and who may go on with it: among all processes and machines that share
 * the store, one at a time. Every call may be made from any thread and waits for the store's lock.
 */
#ifndef RV_STORE_STORE_LEARNER_H
#define RV_STORE_STORE_LEARNER_H

#include "store/store.h"

/* *out is all 0 but its names when nothing was kept yet. */
RV_CHECKED ruvllm_status rv_store_learner_get(struct ruvllm_store *store, const char *tenant, const char *model,
                                              struct rv_store_learner *out, struct ruvllm_error *err);
/* Keeps it in place of what was kept before; updated_us is filled in. */
RV_CHECKED ruvllm_status rv_store_learner_put(struct ruvllm_store *store, struct rv_store_learner *state,
                                              struct ruvllm_error *err);

/*
 * Tries to become, or to stay, the one who teaches. Whoever is must ask again within RV_STORE_LEARNER_SECONDS: with
 * SQLite the claim ends then by itself, with PostgreSQL it ends with the connection. TAKEN means that somebody else may
 * have taught before: read the state and the log again.
 */
enum { RV_STORE_LEARNER_SECONDS = 30 };
RV_CHECKED ruvllm_status rv_store_learner_take(struct ruvllm_store *store, const char *tenant, const char *model,
                                               enum rv_store_claimed *out, struct ruvllm_error *err);
/* Lets others. Without having it, nothing happens. */
RV_CHECKED ruvllm_status rv_store_learner_leave(struct ruvllm_store *store, const char *tenant, const char *model,
                                                struct ruvllm_error *err);

#endif
