/*
 * Policies: settings of a tenant that were learned or given, by name. Every call may be made from any thread and waits
 * for the store's lock.
 */
#ifndef RV_STORE_STORE_POLICIES_H
#define RV_STORE_STORE_POLICIES_H

#include "store/store.h"

/* Adds it, or takes the place of the one of its name. A name is 1 to 128 of A-Z a-z 0-9 . _ -, a value UTF-8. */
RV_CHECKED ruvllm_status rv_store_policies_put(struct ruvllm_store *store, const char *tenant, const char *name,
                                               const char *value, size_t value_len, struct ruvllm_error *err);
/* *value is the caller's, with a NUL behind it: rv_free. *found false, with *value NULL, when there is none. */
RV_CHECKED ruvllm_status rv_store_policies_get(struct ruvllm_store *store, const char *tenant, const char *name,
                                               char **value, bool *found, struct ruvllm_error *err);

/* Borrowed for the call, which is made with nothing locked. False: no more of them. */
typedef bool (*rv_store_policies_fn)(void *user, const struct rv_store_policy *policy);

/* All of a tenant, in the order of names. */
RV_CHECKED ruvllm_status rv_store_policies_list(struct ruvllm_store *store, const char *tenant, rv_store_policies_fn fn,
                                                void *user, struct ruvllm_error *err);
/* NOT_FOUND when there is none. */
RV_CHECKED ruvllm_status rv_store_policies_delete(struct ruvllm_store *store, const char *tenant, const char *name,
                                                  struct ruvllm_error *err);

#endif
