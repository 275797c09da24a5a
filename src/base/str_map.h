/*
 * A hash table from byte strings to int32 values, built once and then only read. Keys are borrowed: they must
 * outlive the map. The hash is seeded per map, so a hostile file cannot make all keys collide.
 */
#ifndef RV_BASE_STR_MAP_H
#define RV_BASE_STR_MAP_H

#include "base/error.h"

struct rv_str_map_slot {
    const char *key; // NULL: free
    uint32_t len;
    uint32_t hash;
    int32_t value;
};

struct rv_str_map {
    struct rv_str_map_slot *slots;
    size_t n_slots; // a power of two
    size_t n_keys;
    uint64_t seed;
};

/* Room for n_keys keys; more are refused by rv_str_map_add. */
RV_CHECKED ruvllm_status rv_str_map_init(struct rv_str_map *map, size_t n_keys, struct ruvllm_error *err);
void rv_str_map_release(struct rv_str_map *map);
/* Adds key -> value and returns true; false, changing nothing, when the key is there already. */
bool rv_str_map_add(struct rv_str_map *map, const char *key, size_t len, int32_t value);
/* The value of key, or -1. */
int32_t rv_str_map_find(const struct rv_str_map *map, const char *key, size_t len);
/* A 64-bit hash of bytes under a seed, good enough for tables, not for secrets. */
uint64_t rv_str_map_hash(uint64_t seed, const char *data, size_t len);

#endif
