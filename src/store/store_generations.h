/*
 * Generations of what a tenant's model has learned: their content by hash, where each came from, which one is active.
 * Every call may be made from any thread and waits for the store's lock.
 */
#ifndef RV_STORE_STORE_GENERATIONS_H
#define RV_STORE_STORE_GENERATIONS_H

#include "store/store.h"

/*
 * Adds one with its content (up to 1 GiB) in one transaction: on the disk when this returns. Of `gen` tenant, model,
 * parent, kind, applied_seq, metrics and is_active are read; the rest is filled in. Equal content is kept once.
 */
RV_CHECKED ruvllm_status rv_store_generations_add(struct ruvllm_store *store, struct rv_store_generation *gen,
                                                  const void *data, size_t len, struct ruvllm_error *err);
/* The one of a number. NOT_FOUND. */
RV_CHECKED ruvllm_status rv_store_generations_get(struct ruvllm_store *store, const char *tenant, const char *model,
                                                  int64_t generation, struct rv_store_generation *out,
                                                  struct ruvllm_error *err);
/* The active one; *found false when there is none. */
RV_CHECKED ruvllm_status rv_store_generations_active(struct ruvllm_store *store, const char *tenant, const char *model,
                                                     struct rv_store_generation *out, bool *found,
                                                     struct ruvllm_error *err);
/* Those before a number (0: from the newest), newest first, up to `max` (1 to 1000) into `out`. */
RV_CHECKED ruvllm_status rv_store_generations_list(struct ruvllm_store *store, const char *tenant, const char *model,
                                                   int64_t before, struct rv_store_generation *out, size_t max,
                                                   size_t *n, struct ruvllm_error *err);
/* From now on this one answers; 0: none, the model as it came. NOT_FOUND, with nothing changed. */
RV_CHECKED ruvllm_status rv_store_generations_activate(struct ruvllm_store *store, const char *tenant,
                                                       const char *model, int64_t generation, struct ruvllm_error *err);
/*
 * Removes content and metrics of all that have read the event of this number (applied_seq); none of them is active any
 * more. Their own numbers stay, so that no other one gets them.
 */
RV_CHECKED ruvllm_status rv_store_generations_forget(struct ruvllm_store *store, const char *tenant, const char *model,
                                                     int64_t seq, struct ruvllm_error *err);
/* Its content, gen->n_bytes at *out, the caller's to rv_free. FORMAT: it is not what its hash says. */
RV_CHECKED ruvllm_status rv_store_generations_content(struct ruvllm_store *store, const struct rv_store_generation *gen,
                                                      void **out, struct ruvllm_error *err);

#endif
