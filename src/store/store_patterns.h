/*
 * Patterns: what was asked and how it went, one tenant's and model's at a time. Every call may be made from any thread
 * and waits for the store's lock.
 */
#ifndef RV_STORE_STORE_PATTERNS_H
#define RV_STORE_STORE_PATTERNS_H

#include "store/store.h"

/* Fills in row, and time_us where it is 0. */
RV_CHECKED ruvllm_status rv_store_patterns_add(struct ruvllm_store *store, struct rv_store_pattern *pattern,
                                               struct ruvllm_error *err);
/* All of them, or none. */
RV_CHECKED ruvllm_status rv_store_patterns_add_all(struct ruvllm_store *store, struct rv_store_pattern *patterns,
                                                   size_t n, struct ruvllm_error *err);

/* Borrowed for the call, which is made with nothing locked. False: no more of them. */
typedef bool (*rv_store_patterns_fn)(void *user, const struct rv_store_pattern *pattern);

/* All with a row beyond `after`, oldest first. */
RV_CHECKED ruvllm_status rv_store_patterns_list(struct ruvllm_store *store, const char *tenant, const char *model,
                                                int64_t after, rv_store_patterns_fn fn, void *user,
                                                struct ruvllm_error *err);
/* Removes one, or all for row 0. `n_deleted` may be NULL. */
RV_CHECKED ruvllm_status rv_store_patterns_delete(struct ruvllm_store *store, const char *tenant, const char *model,
                                                  int64_t row, uint64_t *n_deleted, struct ruvllm_error *err);
/*
 * Removes those that came from an event: that have its number, or none (0) and its time. `n_deleted` may be NULL.
 */
RV_CHECKED ruvllm_status rv_store_patterns_delete_event(struct ruvllm_store *store, const char *tenant,
                                                        const char *model, int64_t seq, int64_t time_us,
                                                        uint64_t *n_deleted, struct ruvllm_error *err);
/* Removes all but the newest `n`. `n_deleted` may be NULL. */
RV_CHECKED ruvllm_status rv_store_patterns_keep_newest(struct ruvllm_store *store, const char *tenant,
                                                       const char *model, size_t n, uint64_t *n_deleted,
                                                       struct ruvllm_error *err);

#endif
