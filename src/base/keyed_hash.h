/*
 * A hash under a secret key (BLAKE2b). Without the key nobody can make two inputs that have the same hash, nor tell
 * from a hash what went in.
 */
#ifndef RV_BASE_KEYED_HASH_H
#define RV_BASE_KEYED_HASH_H

#include <stddef.h>
#include <stdint.h>

enum { RV_KEYED_HASH_KEY = 32 }; // bytes of a key

/* 16 bytes as two words, to be compared and copied whole. */
struct rv_keyed_hash {
    uint64_t words[2];
};

/* The hash of data[0..len). */
struct rv_keyed_hash rv_keyed_hash(const uint8_t key[RV_KEYED_HASH_KEY], const void *data, size_t len);
/* Half of it, where a number is wanted. */
uint64_t rv_keyed_hash64(const uint8_t key[RV_KEYED_HASH_KEY], const void *data, size_t len);
/* A key nobody can guess, from the operating system. */
void rv_keyed_hash_make_key(uint8_t key[RV_KEYED_HASH_KEY]);

#endif
