/* Stores for tests: fresh folders, short ways to open and fill, and lists of what comes back. */
#ifndef RV_TESTS_SUPPORT_STORE_FIXTURE_H
#define RV_TESTS_SUPPORT_STORE_FIXTURE_H

#include "support/test.h"

#include "ruvllm_store.h"

#include <stdbool.h>

/* The path "<fresh folder>/store.db"; the folder and its files are removed at exit. Eight stay valid at a time. */
const char *store_temp_path(void);
/* The same where nobody waits for a disk, if there is such a place: for suites that open a store a thousand times. */
const char *store_memory_path(void);
/*
 * Where a fresh store is, of the kind this run is about: a path as above, or, under with_postgres.py, the URL of a
 * database of its own, whose spool is in a fresh folder. Eight stay valid at a time.
 */
const char *store_temp_url(void);
/* Whether that is so. */
bool store_is_postgres(void);
/* Takes the server away, brings it back. Under with_postgres.py only. */
void store_postgres_stop(void);
void store_postgres_start(void);
/* Has all of its processes stand still, with every connection open, and go on. */
void store_postgres_freeze(void);
void store_postgres_thaw(void);
/* Removes the files of a store: it, its -wal and its -shm. */
void store_remove(const char *path);
/* Opens with defaults, or fails the case. */
ruvllm_store *store_open(const char *path);
/* Makes a key for a tenant, or fails the case. */
void store_make_key(ruvllm_store *store, const char *tenant, char key[RUVLLM_KEY_SIZE], struct ruvllm_key_info *info);
/* The verdict on a key; fails the case when the store cannot tell. */
ruvllm_key_verdict store_check(ruvllm_store *store, const char *key, struct ruvllm_key_info *info);
/* An entry with every field set, distinguishable by `i`. */
struct ruvllm_witness store_witness(int32_t i, const char *tenant, const char *model);

/* What a list gave, as text: one "a b c\n" a row; see the functions for what. */
struct store_rows {
    char text[65536];
    size_t n;
    size_t stop_after; // 0: never
};

bool store_row_key(void *user, const struct ruvllm_key_info *key);        // "tenant name"
bool store_row_witness(void *user, const struct ruvllm_witness *entry);   // "tenant model prompt_tokens"
bool store_row_session(void *user, const struct ruvllm_session *session); // "tenant id title"

#endif
