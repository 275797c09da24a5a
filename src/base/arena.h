/*
 * Memory that is given back all at once: many small pieces, one release. It is born with a ceiling; asking for
 * more gives NULL and sets `failed`, and everything handed out before stays valid.
 */
#ifndef RV_BASE_ARENA_H
#define RV_BASE_ARENA_H

#include "base/error.h"

struct rv_arena_block;

struct rv_arena {
    struct rv_arena_block *blocks; // newest first
    size_t reserved;               // bytes of all blocks
    size_t max;                    // ceiling on them
    ruvllm_status failed;          // OK, TOO_LARGE or NO_MEMORY
};

void rv_arena_init(struct rv_arena *arena, size_t max);
void rv_arena_release(struct rv_arena *arena);
/* Uninitialised bytes aligned for any pointer, integer or double; never NULL for 0 bytes unless it failed. */
void *rv_arena_alloc(struct rv_arena *arena, size_t bytes);
/* The same for n elements of `size` bytes each, zeroed. */
void *rv_arena_calloc(struct rv_arena *arena, size_t n, size_t size);

#endif
