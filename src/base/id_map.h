/*
 * A hash table from 64-bit ids to numbers of table rows, with room fixed when it is made. Nothing allocates after
 * rv_id_map_init. The hash is seeded per map, so whoever chooses ids cannot make them collide.
 */
#ifndef RV_BASE_ID_MAP_H
#define RV_BASE_ID_MAP_H

#include "base/error.h"

struct rv_id_map_slot {
    uint64_t id;
    int32_t value; // -1: free
};

struct rv_id_map {
    struct rv_id_map_slot *slots;
    size_t n_slots; // a power of two
    size_t n_ids;
    size_t max_ids;
    uint64_t seed;
};

RV_CHECKED ruvllm_status rv_id_map_init(struct rv_id_map *map, size_t max_ids, struct ruvllm_error *err);
void rv_id_map_release(struct rv_id_map *map);
/* Adds id -> value (at least 0) and returns true; false, changing nothing, when the id is there or the map is full. */
bool rv_id_map_add(struct rv_id_map *map, uint64_t id, int32_t value);
/* The value of an id, or -1. */
int32_t rv_id_map_find(const struct rv_id_map *map, uint64_t id);
/* Takes an id out; false when it is not there. */
bool rv_id_map_remove(struct rv_id_map *map, uint64_t id);

#endif
