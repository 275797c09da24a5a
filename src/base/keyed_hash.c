/* A thin layer over libsodium. Its BLAKE2b needs no sodium_init(); after one it takes the machine's vector code. */
#include "base/keyed_hash.h"

#include "base/error.h"

#include <sodium.h>

_Static_assert(RV_KEYED_HASH_KEY == crypto_generichash_KEYBYTES, "a key has the length libsodium recommends");
_Static_assert(sizeof(struct rv_keyed_hash) == crypto_generichash_BYTES_MIN, "the hash is the shortest BLAKE2b offers");

struct rv_keyed_hash rv_keyed_hash(const uint8_t key[RV_KEYED_HASH_KEY], const void *data, size_t len)
{
    struct rv_keyed_hash hash;
    int rc = crypto_generichash((unsigned char *)hash.words, sizeof(hash.words), data, len, key, RV_KEYED_HASH_KEY);

    RV_ASSERT(rc == 0); // fails for lengths out of range only
    return hash;
}

uint64_t rv_keyed_hash64(const uint8_t key[RV_KEYED_HASH_KEY], const void *data, size_t len)
{
    return rv_keyed_hash(key, data, len).words[0];
}

void rv_keyed_hash_make_key(uint8_t key[RV_KEYED_HASH_KEY])
{
    int rc = sodium_init();

    RV_ASSERT(rc >= 0); // fails where the system has no source of randomness at all
    randombytes_buf(key, RV_KEYED_HASH_KEY);
}
