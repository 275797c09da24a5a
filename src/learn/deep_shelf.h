/*
 * Results of deep runs in the store: numbered for a tenant and model, known by the hash of their content, and the one
 * that answers, ready to compute with.
 */
#ifndef RV_LEARN_DEEP_SHELF_H
#define RV_LEARN_DEEP_SHELF_H

#include "learn/deep_content.h"
#include "store/store.h"

enum { RV_DEEP_SHELF_REF_BYTES = 8 + RV_SHA256_HEX_LEN };

/* Whose results. */
struct rv_deep_shelf_place {
    struct ruvllm_store *store;
    const char *tenant;
    const char *model; // up to 120 bytes
    const struct rv_hparams *hparams;
    const struct rv_manifest *manifest;
};

/* The one that answers; zeroed: none. */
struct rv_deep_shelf {
    int64_t number;
    struct rv_adapter *adapter; // a reference
    uint64_t layers;            // what keys and values depend on by it
};

/* Takes that one from the store, 0: none. On failure the shelf is as it was. */
RV_CHECKED ruvllm_status rv_deep_shelf_set(struct rv_deep_shelf *shelf, const struct rv_deep_shelf_place *place,
                                           int64_t number, struct ruvllm_error *err);
void rv_deep_shelf_release(struct rv_deep_shelf *shelf);

/* Adds a result; of gen parent, applied_seq and metrics are read, the rest is filled in. */
RV_CHECKED ruvllm_status rv_deep_shelf_add(const struct rv_deep_shelf_place *place, struct rv_store_generation *gen,
                                           struct rv_str content, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_deep_shelf_content(const struct rv_deep_shelf_place *place, int64_t number,
                                               struct rv_deep_content *out, struct ruvllm_error *err);
/* Removes what was made of an event: the results of all runs that have read it. */
RV_CHECKED ruvllm_status rv_deep_shelf_forget(const struct rv_deep_shelf_place *place, int64_t seq,
                                              struct ruvllm_error *err);

/* Number and hash as bytes of an event, which borrow `out`. */
struct rv_str rv_deep_shelf_write_ref(const struct rv_store_generation *gen, uint8_t out[RV_DEEP_SHELF_REF_BYTES]);
/*
 * FORMAT for bytes that are none, or when the store has another content under that number. *is_forgotten: it has none
 * any more, though the event is there: it was written in the very moment in which the content was forgotten.
 */
RV_CHECKED ruvllm_status rv_deep_shelf_read_ref(const struct rv_deep_shelf_place *place, struct rv_str bytes,
                                                int64_t *number, bool *is_forgotten, struct ruvllm_error *err);

#endif
