/* A table in which a key has one place, by its hash; who comes later takes it. */
#include "store/key_memory.h"

#include "base/alloc.h"

#include <string.h>

enum { N_PLACES = 1024 };

struct place {
    struct rv_store_key key;
    int64_t time_us; // 0: empty
};

struct rv_key_memory {
    struct place places[N_PLACES];
};

struct rv_key_memory *rv_key_memory_new(void)
{
    return rv_calloc(1, sizeof(struct rv_key_memory));
}

void rv_key_memory_free(struct rv_key_memory *memory)
{
    rv_free(memory);
}

/* Hashes of keys are spread evenly already. */
static size_t place_of(const uint8_t hash[RV_SECRET_BYTES])
{
    return ((size_t)hash[0] << 8 | hash[1]) % N_PLACES;
}

void rv_key_memory_put(struct rv_key_memory *memory, const struct rv_store_key *key, int64_t now_us)
{
    struct place *place = &memory->places[place_of(key->hash)];

    place->key = *key;
    place->time_us = now_us;
}

void rv_key_memory_drop(struct rv_key_memory *memory, const uint8_t hash[RV_SECRET_BYTES])
{
    struct place *place = &memory->places[place_of(hash)];

    if (rv_secret_is_equal(place->key.hash, hash))
        memset(place, 0, sizeof(*place));
}

bool rv_key_memory_find(const struct rv_key_memory *memory, const uint8_t hash[RV_SECRET_BYTES], int64_t now_us,
                        struct rv_store_key *out)
{
    const struct place *place = &memory->places[place_of(hash)];

    if (!place->time_us || now_us - place->time_us > (int64_t)RV_KEY_MEMORY_SECONDS * 1000000 ||
        !rv_secret_is_equal(place->key.hash, hash))
        return false;
    *out = place->key;
    return true;
}
