/* API keys: making, judging and listing them. As the public calls of the same names. */
#ifndef RV_STORE_STORE_KEYS_H
#define RV_STORE_STORE_KEYS_H

#include "store/store.h"

struct ruvllm_key_params rv_store_keys_params_default(void);
RV_CHECKED ruvllm_status rv_store_keys_create(struct ruvllm_store *store, const struct ruvllm_key_params *params,
                                              char key[RUVLLM_KEY_SIZE], struct ruvllm_key_info *info,
                                              struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_store_keys_list(struct ruvllm_store *store, const char *tenant, ruvllm_key_fn fn,
                                            void *user, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_store_keys_count(struct ruvllm_store *store, uint64_t *n, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_store_keys_revoke(struct ruvllm_store *store, const char *id, struct ruvllm_error *err);
/* `info` is filled for every verdict but UNKNOWN. */
RV_CHECKED ruvllm_status rv_store_keys_check(struct ruvllm_store *store, const char *key, size_t key_len,
                                             ruvllm_key_verdict *verdict, struct ruvllm_key_info *info,
                                             struct ruvllm_error *err);

#endif
