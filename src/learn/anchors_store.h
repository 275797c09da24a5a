/* A model's anchors in the store, so that ticks go on with the same ones after a restart. */
#ifndef RV_LEARN_ANCHORS_STORE_H
#define RV_LEARN_ANCHORS_STORE_H

#include "learn/anchors.h"
#include "store/store.h"

/*
 * Leaves *out empty when there are none, or such as are to be made anew, or no store (NULL). FORMAT for some that are
 * damaged or of another model.
 */
RV_CHECKED ruvllm_status rv_anchors_store_load(struct ruvllm_store *store, const char *model, int32_t n_dims,
                                               int32_t n_vocab, struct rv_anchors *out, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_anchors_store_save(struct ruvllm_store *store, const char *model,
                                               const struct rv_anchors *anchors, struct ruvllm_error *err);
/* The same as bytes: what load and save do with the store's. The caller rv_frees *out. */
RV_CHECKED ruvllm_status rv_anchors_store_pack(const struct rv_anchors *anchors, char **out, size_t *len,
                                               struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_anchors_store_unpack(const char *bytes, size_t len, int32_t n_dims, int32_t n_vocab,
                                                 struct rv_anchors *out, struct ruvllm_error *err);

#endif
