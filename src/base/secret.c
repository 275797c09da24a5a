/* A thin layer over libsodium. */
#include "base/secret.h"

#include "base/error.h"

#include <sodium.h>

_Static_assert(RV_SECRET_BYTES == crypto_generichash_BYTES, "a hash has the length libsodium recommends");
_Static_assert(RV_SECRET_TEXT + 1 ==
                   sodium_base64_ENCODED_LEN(RV_SECRET_BYTES, sodium_base64_VARIANT_URLSAFE_NO_PADDING),
               "the text spells all bytes");

void rv_secret_make(char text[RV_SECRET_TEXT + 1])
{
    uint8_t bytes[RV_SECRET_BYTES];
    int rc = sodium_init();

    RV_ASSERT(rc >= 0); // fails where the system has no source of randomness at all
    randombytes_buf(bytes, sizeof(bytes));
    sodium_bin2base64(text, RV_SECRET_TEXT + 1, bytes, sizeof(bytes), sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    sodium_memzero(bytes, sizeof(bytes));
}

void rv_secret_hash(uint8_t hash[RV_SECRET_BYTES], const void *data, size_t len)
{
    int rc = crypto_generichash(hash, RV_SECRET_BYTES, data, len, NULL, 0);

    RV_ASSERT(rc == 0); // fails for lengths out of range only
}

bool rv_secret_is_equal(const uint8_t a[RV_SECRET_BYTES], const uint8_t b[RV_SECRET_BYTES])
{
    return sodium_memcmp(a, b, RV_SECRET_BYTES) == 0;
}

void rv_secret_wipe(void *data, size_t len)
{
    sodium_memzero(data, len);
}
