/*
 * Which contents of adapters are in memory, and which of them leave it for others: those that nobody holds and a file
 * has, the longest unused first. Contents that change layers are counted besides being weighed.
 *
 * No lock: adapter_registry.h has it.
 */
#ifndef RV_ENGINE_ADAPTER_RESIDENCY_H
#define RV_ENGINE_ADAPTER_RESIDENCY_H

#include "engine/adapter_index.h"

/* In memory, not held, in a file: by last use. */
struct rv_adapter_residency_list {
    struct rv_adapter_body *newest, *oldest;
};

struct rv_adapter_residency {
    int32_t max_layered;
    uint64_t max_bytes;
    struct rv_adapter_residency_list idle[2]; // [1]: those that change layers
    size_t n_resident;
    int32_t n_layered;
    uint64_t n_bytes;
    uint64_t n_uses; // the clock of last uses
    uint64_t n_evicted;
};

/* Adapters that left memory, for the caller to drop once the lock is open: freeing megabytes takes its time. */
enum { RV_ADAPTER_RESIDENCY_TRASH = 32 };
struct rv_adapter_residency_trash {
    struct rv_adapter *adapters[RV_ADAPTER_RESIDENCY_TRASH];
    int32_t n;
};

/* True when n_bytes more, of layers or not, fit beside what is in memory, which may lose idle ones for it. */
bool rv_adapter_residency_make_room(struct rv_adapter_residency *residency, uint64_t n_bytes, bool is_layered,
                                    struct rv_adapter_residency_trash *trash);
/* The same for the bytes alone: contents that only memory has may be more than max_layered for a while. */
bool rv_adapter_residency_make_bytes(struct rv_adapter_residency *residency, uint64_t n_bytes,
                                     struct rv_adapter_residency_trash *trash);
/* Lets idle ones go until there are no more than there may be. */
void rv_adapter_residency_trim(struct rv_adapter_residency *residency, struct rv_adapter_residency_trash *trash);

/* Counts a content as being in memory, or about to; and no longer. */
void rv_adapter_residency_count(struct rv_adapter_residency *residency, const struct rv_adapter_body *body);
void rv_adapter_residency_uncount(struct rv_adapter_residency *residency, const struct rv_adapter_body *body);

/* Nobody may take it out of memory, until it is let go as often. */
void rv_adapter_residency_hold(struct rv_adapter_residency *residency, struct rv_adapter_body *body);
void rv_adapter_residency_let_go(struct rv_adapter_residency *residency, struct rv_adapter_body *body);
/* Enters a content among the idle ones when it is one: after its file was written. */
void rv_adapter_residency_settle(struct rv_adapter_residency *residency, struct rv_adapter_body *body);
/* Puts a counted content into memory and holds it. */
void rv_adapter_residency_install(struct rv_adapter_residency *residency, struct rv_adapter_body *body,
                                  struct rv_adapter *adapter);
/* Forgets a content that nobody holds and that is about to go; its adapter, if there is one, stays in it. */
void rv_adapter_residency_retire(struct rv_adapter_residency *residency, struct rv_adapter_body *body);

void rv_adapter_residency_empty(struct rv_adapter_residency_trash *trash);

#endif
