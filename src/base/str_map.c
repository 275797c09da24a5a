/* Open addressing with linear probing at a load of at most one half. */
#include "base/str_map.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <string.h>

__extension__ typedef unsigned __int128 wide; // what -Wpedantic wants said aloud

/* Multiply-and-fold over 8-byte words (the construction of wyhash: two 64-bit halves of a product, xored). */
static uint64_t fold(uint64_t a, uint64_t b)
{
    wide product = (wide)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t rv_str_map_hash(uint64_t seed, const char *data, size_t len)
{
    uint64_t hash = seed ^ (len * UINT64_C(0x9E3779B97F4A7C15));

    while (len >= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        hash = fold(hash ^ word, UINT64_C(0xD6E8FEB86659FD93));
        data += 8;
        len -= 8;
    }
    if (len) {
        uint64_t word = 0;
        memcpy(&word, data, len);
        hash = fold(hash ^ word, UINT64_C(0xA0761D6478BD642F));
    }
    return fold(hash, UINT64_C(0xE7037ED1A0B428DB));
}

ruvllm_status rv_str_map_init(struct rv_str_map *map, size_t n_keys, struct ruvllm_error *err)
{
    size_t n_slots = 16;

    *map = (struct rv_str_map){0};
    if (n_keys > SIZE_MAX / 64)
        return rv_fail(err, RUVLLM_TOO_LARGE, "cannot index %zu strings", n_keys);
    while (n_slots < n_keys * 2)
        n_slots *= 2;
    map->slots = rv_calloc(n_slots, sizeof(*map->slots));
    if (!map->slots)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an index of %zu strings", n_keys);
    map->n_slots = n_slots;
    map->seed = rv_rng_seed_from_system();
    return RUVLLM_OK;
}

void rv_str_map_release(struct rv_str_map *map)
{
    rv_free(map->slots);
    *map = (struct rv_str_map){0};
}

/* The slot that holds the key, or the free one where it would go. */
static struct rv_str_map_slot *probe(const struct rv_str_map *map, const char *key, size_t len, uint32_t hash)
{
    size_t i = hash & (map->n_slots - 1);

    for (;;) {
        struct rv_str_map_slot *slot = &map->slots[i];
        if (!slot->key || (slot->hash == hash && slot->len == len && memcmp(slot->key, key, len) == 0))
            return slot;
        i = (i + 1) & (map->n_slots - 1);
    }
}

bool rv_str_map_add(struct rv_str_map *map, const char *key, size_t len, int32_t value)
{
    uint32_t hash = (uint32_t)rv_str_map_hash(map->seed, key, len);
    struct rv_str_map_slot *slot;

    if (len > UINT32_MAX || map->n_keys * 2 > map->n_slots)
        return false;
    slot = probe(map, key, len, hash);
    if (slot->key)
        return false;
    *slot = (struct rv_str_map_slot){.key = key, .len = (uint32_t)len, .hash = hash, .value = value};
    map->n_keys++;
    return true;
}

int32_t rv_str_map_find(const struct rv_str_map *map, const char *key, size_t len)
{
    const struct rv_str_map_slot *slot;

    if (!map->slots || len > UINT32_MAX)
        return -1;
    slot = probe(map, key, len, (uint32_t)rv_str_map_hash(map->seed, key, len));
    return slot->key ? slot->value : -1;
}
