/* The arena: a list of blocks filled from the front. Blocks grow with what is in use, up to 1 MiB. */
#include "base/arena.h"

#include "base/alloc.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ALIGNMENT 8u
#define BLOCK_MIN ((size_t)4096)
#define BLOCK_MAX ((size_t)1 << 20)

struct rv_arena_block {
    struct rv_arena_block *next;
    size_t used;
    size_t cap; // bytes of data
    char data[];
};

_Static_assert(offsetof(struct rv_arena_block, data) % ALIGNMENT == 0, "the data of a block must be aligned");

void rv_arena_init(struct rv_arena *arena, size_t max)
{
    *arena = (struct rv_arena){.max = max};
}

void rv_arena_release(struct rv_arena *arena)
{
    struct rv_arena_block *block = arena->blocks, *next;

    for (; block; block = next) {
        next = block->next;
        rv_free(block);
    }
    *arena = (struct rv_arena){0};
}

static struct rv_arena_block *add_block(struct rv_arena *arena, size_t bytes)
{
    size_t room = arena->max - arena->reserved;
    size_t cap = arena->reserved;
    struct rv_arena_block *block;

    if (bytes > room) {
        arena->failed = RUVLLM_TOO_LARGE;
        return NULL;
    }
    if (cap < BLOCK_MIN)
        cap = BLOCK_MIN;
    if (cap > BLOCK_MAX)
        cap = BLOCK_MAX;
    if (cap > room)
        cap = room;
    if (cap < bytes)
        cap = bytes;
    block = rv_malloc(sizeof(*block) + cap);
    if (!block) {
        arena->failed = RUVLLM_NO_MEMORY;
        return NULL;
    }
    *block = (struct rv_arena_block){.next = arena->blocks, .cap = cap};
    arena->blocks = block;
    arena->reserved += cap;
    return block;
}

void *rv_arena_alloc(struct rv_arena *arena, size_t bytes)
{
    struct rv_arena_block *block = arena->blocks;
    void *piece;

    if (arena->failed)
        return NULL;
    if (bytes > arena->max || bytes > SIZE_MAX - ALIGNMENT) {
        arena->failed = RUVLLM_TOO_LARGE;
        return NULL;
    }
    bytes = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (!block || block->cap - block->used < bytes)
        block = add_block(arena, bytes);
    if (!block)
        return NULL;
    piece = block->data + block->used;
    block->used += bytes;
    return piece;
}

void *rv_arena_calloc(struct rv_arena *arena, size_t n, size_t size)
{
    size_t bytes;
    void *piece;

    if (!rv_size_mul(n, size, &bytes)) {
        arena->failed = RUVLLM_TOO_LARGE;
        return NULL;
    }
    piece = rv_arena_alloc(arena, bytes);
    if (piece)
        memset(piece, 0, bytes);
    return piece;
}
