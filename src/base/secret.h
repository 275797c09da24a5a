/* Secrets that prove who somebody is: made of random bytes, kept as hashes, compared without telling how far they
 * agree. */
#ifndef RV_BASE_SECRET_H
#define RV_BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RV_SECRET_BYTES = 32, // of a secret, and of its hash
    RV_SECRET_TEXT = 43   // characters that spell a secret
};

/* A secret nobody can guess, from the operating system, spelled in base64url without padding; a NUL comes after it. */
void rv_secret_make(char text[RV_SECRET_TEXT + 1]);
/* BLAKE2b-256 of data[0..len). */
void rv_secret_hash(uint8_t hash[RV_SECRET_BYTES], const void *data, size_t len);
/* Takes the same time wherever they differ. */
bool rv_secret_is_equal(const uint8_t a[RV_SECRET_BYTES], const uint8_t b[RV_SECRET_BYTES]);
/* Overwrites memory that held a secret, also where the compiler sees no use in that. */
void rv_secret_wipe(void *data, size_t len);

#endif
