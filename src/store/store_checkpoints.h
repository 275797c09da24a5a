/*
 * Where a tenant's log need not be read from its beginning: what its events up to one number came to, in the learner's
 * own form. Nothing depends on them but time: without one the whole log gives the same. Forgetting an event removes
 * those it is in. Every call may be made from any thread and waits for the store's lock.
 */
#ifndef RV_STORE_STORE_CHECKPOINTS_H
#define RV_STORE_STORE_CHECKPOINTS_H

#include "store/store.h"

/*
 * Takes the place of the one before. `n_forgotten` is what rv_store_learner_look said before the events were read: when
 * something was forgotten since, by whomever, nothing is kept, because it would bring that back. TOO_LARGE above
 * RV_STORE_CHECKPOINT_MAX.
 */
RV_CHECKED ruvllm_status rv_store_checkpoints_put(struct ruvllm_store *store, const char *tenant, const char *model,
                                                  int64_t seq, int64_t n_forgotten, const void *data, size_t len,
                                                  struct ruvllm_error *err);
/* The last one, the caller's to rv_free; NULL when there is none. */
RV_CHECKED ruvllm_status rv_store_checkpoints_get(struct ruvllm_store *store, const char *tenant, const char *model,
                                                  int64_t *seq, void **out, size_t *len, struct ruvllm_error *err);

#endif
