/* SHA-256, the name of a run of bytes. */
#ifndef RV_BASE_SHA256_H
#define RV_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define RV_SHA256_HEX_LEN 64

/* A digest being computed; the content is the implementation's. May be copied to fork the computation. */
struct rv_sha256 {
    uint64_t state[13];
};

/* Writes the digest of data[0..len) as 64 lower-case hex digits and a NUL. */
void rv_sha256_hex(const void *data, size_t len, char hex[RV_SHA256_HEX_LEN + 1]);

/* The same in pieces: init, any number of adds, then finish, after which only init may follow. */
void rv_sha256_init(struct rv_sha256 *sha);
void rv_sha256_add(struct rv_sha256 *sha, const void *data, size_t len);
void rv_sha256_finish(struct rv_sha256 *sha, char hex[RV_SHA256_HEX_LEN + 1]);

#endif
