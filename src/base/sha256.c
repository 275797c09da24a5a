/* A thin layer over libsodium; its plain hash needs no sodium_init(). */
#include "base/sha256.h"

#include <sodium.h>

_Static_assert(crypto_hash_sha256_BYTES * 2 == RV_SHA256_HEX_LEN, "a SHA-256 digest is 32 bytes");

void rv_sha256_hex(const void *data, size_t len, char hex[RV_SHA256_HEX_LEN + 1])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[crypto_hash_sha256_BYTES];

    crypto_hash_sha256(digest, data, len);
    for (size_t i = 0; i < sizeof(digest); i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[RV_SHA256_HEX_LEN] = '\0';
}
