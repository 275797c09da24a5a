/* A thin layer over libsodium; its plain hash needs no sodium_init(). */
#include "base/sha256.h"

#include <sodium.h>

_Static_assert(crypto_hash_sha256_BYTES * 2 == RV_SHA256_HEX_LEN, "a SHA-256 digest is 32 bytes");
_Static_assert(sizeof(crypto_hash_sha256_state) <= sizeof(struct rv_sha256), "libsodium's state fits into ours");
_Static_assert(_Alignof(crypto_hash_sha256_state) <= _Alignof(struct rv_sha256), "and may lie there");

static void spell(const unsigned char digest[crypto_hash_sha256_BYTES], char hex[RV_SHA256_HEX_LEN + 1])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < crypto_hash_sha256_BYTES; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[RV_SHA256_HEX_LEN] = '\0';
}

void rv_sha256_hex(const void *data, size_t len, char hex[RV_SHA256_HEX_LEN + 1])
{
    unsigned char digest[crypto_hash_sha256_BYTES];

    crypto_hash_sha256(digest, data, len);
    spell(digest, hex);
}

void rv_sha256_init(struct rv_sha256 *sha)
{
    crypto_hash_sha256_init((crypto_hash_sha256_state *)(void *)sha->state);
}

void rv_sha256_add(struct rv_sha256 *sha, const void *data, size_t len)
{
    crypto_hash_sha256_update((crypto_hash_sha256_state *)(void *)sha->state, data, len);
}

void rv_sha256_finish(struct rv_sha256 *sha, char hex[RV_SHA256_HEX_LEN + 1])
{
    unsigned char digest[crypto_hash_sha256_BYTES];

    crypto_hash_sha256_final((crypto_hash_sha256_state *)(void *)sha->state, digest);
    spell(digest, hex);
}
