/*
 * What a database last said of keys, for the time it is away: requests whose key was good a few minutes ago are still
 * answered then. Asked of only when the database cannot be; holds no lock: its owner does.
 */
#ifndef RV_STORE_KEY_MEMORY_H
#define RV_STORE_KEY_MEMORY_H

#include "store/store_rows.h"

enum { RV_KEY_MEMORY_SECONDS = 600 }; // how long a word of the database counts

struct rv_key_memory;

/* NULL: out of memory. */
struct rv_key_memory *rv_key_memory_new(void);
/* Accepts NULL. */
void rv_key_memory_free(struct rv_key_memory *memory);
/* A key as the database has it at `now_us` (of a clock that does not jump). May take the place of another. */
void rv_key_memory_put(struct rv_key_memory *memory, const struct rv_store_key *key, int64_t now_us);
/* The database does not have it. */
void rv_key_memory_drop(struct rv_key_memory *memory, const uint8_t hash[RV_SECRET_BYTES]);
/* False: unknown, or too long ago. */
bool rv_key_memory_find(const struct rv_key_memory *memory, const uint8_t hash[RV_SECRET_BYTES], int64_t now_us,
                        struct rv_store_key *out);

#endif
