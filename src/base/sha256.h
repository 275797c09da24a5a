/* SHA-256, the name of a run of bytes. */
#ifndef RV_BASE_SHA256_H
#define RV_BASE_SHA256_H

#include <stddef.h>

#define RV_SHA256_HEX_LEN 64

/* Writes the digest of data[0..len) as 64 lower-case hex digits and a NUL. */
void rv_sha256_hex(const void *data, size_t len, char hex[RV_SHA256_HEX_LEN + 1]);

#endif
