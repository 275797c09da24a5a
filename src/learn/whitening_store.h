/* A model's whitening in the store, so that learning goes on with the same bits after a restart. */
#ifndef RV_LEARN_WHITENING_STORE_H
#define RV_LEARN_WHITENING_STORE_H

#include "learn/whitening.h"
#include "store/store.h"

/*
 * The first that was kept, whoever kept more: replicas that begin together may save one each, and then all take this
 * one. Leaves *out empty when there is none, or no store (NULL). FORMAT for one that is damaged or of another width.
 */
RV_CHECKED ruvllm_status rv_whitening_store_load(struct ruvllm_store *store, const char *model, int32_t n_dims,
                                                 struct rv_whitening *out, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_whitening_store_save(struct ruvllm_store *store, const char *model,
                                                 const struct rv_whitening *whitening, struct ruvllm_error *err);

#endif
