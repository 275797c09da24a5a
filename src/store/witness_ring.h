/* A ring of witness entries in the order they came. Holds no lock: its owner does. */
#ifndef RV_STORE_WITNESS_RING_H
#define RV_STORE_WITNESS_RING_H

#include "store/store_rows.h"

struct rv_witness_ring {
    struct rv_store_witness *rows;
    size_t cap;
    size_t i_first; // the oldest
    size_t n;
};

RV_CHECKED ruvllm_status rv_witness_ring_init(struct rv_witness_ring *ring, size_t cap, struct ruvllm_error *err);
void rv_witness_ring_release(struct rv_witness_ring *ring);
/* Adds the newest. True: the oldest had to go for it. */
bool rv_witness_ring_push(struct rv_witness_ring *ring, const struct rv_store_witness *row);
/* Takes out up to `max` of the oldest, in their order. */
size_t rv_witness_ring_pop(struct rv_witness_ring *ring, struct rv_store_witness *out, size_t max);
/* Puts back what pop gave, before all others; returns how many of its oldest found no room. */
size_t rv_witness_ring_unpop(struct rv_witness_ring *ring, const struct rv_store_witness *rows, size_t n);

#endif
