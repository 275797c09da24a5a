/* Open addressing with linear probing at a load of at most one half; removing closes the gap, so no slot is ever dead.
 */
#include "base/id_map.h"

#include "base/alloc.h"
#include "base/rng.h"

enum { FREE = -1 };

/* The finisher of splitmix64: every bit of the id moves every bit of the result. */
static size_t home_of(const struct rv_id_map *map, uint64_t id)
{
    uint64_t z = id ^ map->seed;

    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (size_t)(z ^ z >> 31) & (map->n_slots - 1);
}

ruvllm_status rv_id_map_init(struct rv_id_map *map, size_t max_ids, struct ruvllm_error *err)
{
    size_t n_slots = 16;

    *map = (struct rv_id_map){0};
    if (max_ids > SIZE_MAX / 64)
        return rv_fail(err, RUVLLM_TOO_LARGE, "cannot index %zu ids", max_ids);
    while (n_slots < max_ids * 2)
        n_slots *= 2;
    map->slots = rv_calloc(n_slots, sizeof(*map->slots));
    if (!map->slots)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an index of %zu ids", max_ids);
    for (size_t i = 0; i < n_slots; i++)
        map->slots[i].value = FREE;
    map->n_slots = n_slots;
    map->max_ids = max_ids;
    map->seed = rv_rng_seed_from_system();
    return RUVLLM_OK;
}

void rv_id_map_release(struct rv_id_map *map)
{
    rv_free(map->slots);
    *map = (struct rv_id_map){0};
}

/* The slot that holds the id, or the free one where it would go. */
static size_t probe(const struct rv_id_map *map, uint64_t id)
{
    size_t i = home_of(map, id);

    while (map->slots[i].value != FREE && map->slots[i].id != id)
        i = (i + 1) & (map->n_slots - 1);
    return i;
}

bool rv_id_map_add(struct rv_id_map *map, uint64_t id, int32_t value)
{
    size_t i = probe(map, id);

    RV_ASSERT(value >= 0);
    if (map->slots[i].value != FREE || map->n_ids == map->max_ids)
        return false;
    map->slots[i] = (struct rv_id_map_slot){.id = id, .value = value};
    map->n_ids++;
    return true;
}

int32_t rv_id_map_find(const struct rv_id_map *map, uint64_t id)
{
    return map->slots[probe(map, id)].value;
}

bool rv_id_map_remove(struct rv_id_map *map, uint64_t id)
{
    size_t mask = map->n_slots - 1, gap = probe(map, id), i = gap;

    if (map->slots[gap].value == FREE)
        return false;
    /* What follows in the run moves into the gap, unless that lies before its home. */
    for (;;) {
        i = (i + 1) & mask;
        if (map->slots[i].value == FREE)
            break;
        if (((i - home_of(map, map->slots[i].id)) & mask) >= ((i - gap) & mask)) {
            map->slots[gap] = map->slots[i];
            gap = i;
        }
    }
    map->slots[gap].value = FREE;
    map->n_ids--;
    return true;
}
