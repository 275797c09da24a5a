/*
 * Table rows ordered by a key, smallest first: a binary heap that knows where each row is, so that a key may change and
 * a row leave at any time, in O(log n). Rows are numbers below the size it was made for; each is in it at most once.
 * Nothing allocates after rv_id_heap_init.
 */
#ifndef RV_BASE_ID_HEAP_H
#define RV_BASE_ID_HEAP_H

#include "base/error.h"

struct rv_id_heap {
    int32_t *ids;    // the first n, in heap order
    int32_t *places; // by id: where it is in ids, or -1
    uint64_t *keys;  // by id
    int32_t n;
    int32_t max_ids;
};

RV_CHECKED ruvllm_status rv_id_heap_init(struct rv_id_heap *heap, int32_t max_ids, struct ruvllm_error *err);
void rv_id_heap_release(struct rv_id_heap *heap);
/* Puts an id in, or moves it to its new key. */
void rv_id_heap_put(struct rv_id_heap *heap, int32_t id, uint64_t key);
/* Takes it out; nothing happens when it is not there. */
void rv_id_heap_remove(struct rv_id_heap *heap, int32_t id);
bool rv_id_heap_has(const struct rv_id_heap *heap, int32_t id);
/* The id with the smallest key, or -1. */
int32_t rv_id_heap_first(const struct rv_id_heap *heap);
/* True when order and places agree; for tests. */
bool rv_id_heap_check(const struct rv_id_heap *heap);

#endif
