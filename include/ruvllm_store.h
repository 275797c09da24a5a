/*
 * What a node keeps on disk: API keys, the witness log (who asked for what, never the words), and an index of saved
 * sessions. Everything else of libruvllm is in ruvllm.h, whose rules on errors, ownership and struct_size hold here
 * too.
 *
 *     ruvllm_store *store;
 *     char key[RUVLLM_KEY_SIZE];
 *     struct ruvllm_key_params params = ruvllm_key_params_default();
 *     params.tenant = "acme";
 *     if (ruvllm_store_open(&store, "/var/lib/ruvllm/ruvllm.db", NULL, &err) == RUVLLM_OK &&
 *         ruvllm_keys_create(store, &params, key, NULL, &err) == RUVLLM_OK)
 *         puts(key);
 *     ruvllm_store_close(store);
 *
 * Threads: every call but close may be made from any thread at any time. Calls that write wait for each other and for
 * the disk. ruvllm_keys_check() never waits for a writer, and ruvllm_witness_append() never waits for the disk: both
 * are for threads that must go on. Several processes may have the same store open.
 *
 * What was reported as done is on the disk: it is there after a crash of the process or of the machine. The witness log
 * and the time a key was last used are written up to a second later.
 */
#ifndef RUVLLM_STORE_H
#define RUVLLM_STORE_H

#include "ruvllm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the store ------------------------------------------------------------------------------- */

typedef struct ruvllm_store ruvllm_store;

struct ruvllm_store_params {
    size_t struct_size;
    bool must_exist;          // false: a missing file and its folder are made, for the owner alone (0600, 0700)
    int32_t busy_timeout_ms;  // how long to wait while another process writes; 5000
    int32_t witness_buffer;   // entries of the witness log that may wait to be written; 4096; 256 to 1048576
    int32_t witness_flush_ms; // how long an entry waits at most; 1000; 10 to 60000
    /*
     * For a store in PostgreSQL: the file in which events wait while the server is away, of this database alone. NULL:
     * "spool-<identity of the database>.db" beside the default path.
     */
    const char *spool_path;
};

RUVLLM_API struct ruvllm_store_params ruvllm_store_params_default(void);

/* Where the store of this user is, from $XDG_STATE_HOME or $HOME. *path is the caller's, freed with ruvllm_free(). */
RUVLLM_API ruvllm_status ruvllm_store_default_path(char **path, struct ruvllm_error *err);

/*
 * Opens the store at `url`, a file's path, "sqlite:" and a path, or "postgresql://..." as libpq takes it, and brings
 * its tables to this version's form. One that a newer version wrote is RUVLLM_UNSUPPORTED and stays as it is; a damaged
 * file, or one that is no store, is RUVLLM_FORMAT. On failure *out is NULL.
 */
RUVLLM_API ruvllm_status ruvllm_store_open(ruvllm_store **out, const char *url,
                                           const struct ruvllm_store_params *params, struct ruvllm_error *err);
/* Writes what waits, then closes. No other call may be under way. NULL is fine. */
RUVLLM_API void ruvllm_store_close(ruvllm_store *store);

/* ---- keys ------------------------------------------------------------------------------------ */

/* Room for a key and its NUL: "rv-" and 43 letters, digits, '-' or '_'. */
#define RUVLLM_KEY_SIZE 47

struct ruvllm_key_params {
    size_t struct_size;
    const char *tenant;          // whose key it is: 1 to 64 of A-Z a-z 0-9 . _ -
    const char *name;            // for people; UTF-8 without control characters, up to 128 bytes; NULL: ""
    int32_t requests_per_minute; // 0: no limit
    float share;                 // of the engine among tenants that wait, by weight; 1; more than 0, at most 1000
    bool is_admin;
    int64_t expires; // Unix time in seconds, in the future; 0: never
};

RUVLLM_API struct ruvllm_key_params ruvllm_key_params_default(void);

/* All that is known of a key. The key itself is not: only its hash is kept. */
struct ruvllm_key_info {
    size_t struct_size;
    char id[9]; // public: the key's first 8 characters after "rv-"; what lists, logs and revoke name it by
    char tenant[65];
    char name[129];
    int32_t requests_per_minute; // 0: no limit
    float share;
    bool is_admin;
    int64_t created;   // Unix time in seconds, as the next three
    int64_t last_used; // 0: never; to the minute
    int64_t expires;   // 0: never
    int64_t revoked;   // 0: not
};

/*
 * Makes a key from 32 random bytes. This is the only time it can be seen: show it, then forget it. `info` may be NULL.
 */
RUVLLM_API ruvllm_status ruvllm_keys_create(ruvllm_store *store, const struct ruvllm_key_params *params,
                                            char key[RUVLLM_KEY_SIZE], struct ruvllm_key_info *info,
                                            struct ruvllm_error *err);

/* One row; borrowed for the call, which is made on the caller's thread with nothing locked. False: no more of them. */
typedef bool (*ruvllm_key_fn)(void *user, const struct ruvllm_key_info *key);

/* Every key, revoked and expired ones too, oldest first. NULL tenant: of all tenants. */
RUVLLM_API ruvllm_status ruvllm_keys_list(ruvllm_store *store, const char *tenant, ruvllm_key_fn fn, void *user,
                                          struct ruvllm_error *err);
/* How many keys are neither revoked nor expired. */
RUVLLM_API ruvllm_status ruvllm_keys_count(ruvllm_store *store, uint64_t *n, struct ruvllm_error *err);
/* From now on the key is refused. It stays in the list. RUVLLM_NOT_FOUND; a revoked one is revoked again in silence. */
RUVLLM_API ruvllm_status ruvllm_keys_revoke(ruvllm_store *store, const char *id, struct ruvllm_error *err);

typedef enum ruvllm_key_verdict {
    RUVLLM_KEY_VALID,
    RUVLLM_KEY_UNKNOWN, // no such key, or not the form of one
    RUVLLM_KEY_EXPIRED,
    RUVLLM_KEY_REVOKED
} ruvllm_key_verdict;

/* "valid", "unknown", "expired", "revoked" */
RUVLLM_API const char *ruvllm_key_verdict_name(ruvllm_key_verdict verdict);

/*
 * Whether the `key_len` bytes at `key`, as a client sent them, are a key. `info` (its struct_size set) is filled for
 * every verdict but UNKNOWN; it may be NULL. A failure is one of the store: the key was not judged, so refuse.
 */
RUVLLM_API ruvllm_status ruvllm_keys_check(ruvllm_store *store, const char *key, size_t key_len,
                                           ruvllm_key_verdict *verdict, struct ruvllm_key_info *info,
                                           struct ruvllm_error *err);

/* ---- the witness log ------------------------------------------------------------------------- */

/*
 * One request that was answered or refused. Strings are UTF-8 without control characters; NULL counts as "". There is
 * no room for a prompt or an answer, on purpose.
 */
struct ruvllm_witness {
    size_t struct_size;
    int64_t time_us;           // Unix time in microseconds; append takes 0 as now
    const char *tenant;        // up to 64 bytes
    const char *key_id;        // up to 8
    const char *request_id;    // up to 64
    const char *model;         // up to 128
    const char *endpoint;      // such as "/v1/chat/completions"; up to 64
    const char *finish_reason; // such as "stop"; up to 32
    int64_t adapter_generation;
    int32_t status; // of HTTP: 200, 429
    int32_t prompt_tokens;
    int32_t cached_tokens;
    int32_t generated_tokens;
    int64_t queue_us;
    int64_t prefill_us;
    int64_t decode_us;
    int64_t total_us;
};

/*
 * Puts a copy where the writer finds it and returns: no disk, no waiting. When `witness_buffer` entries wait already,
 * the oldest of them is dropped and counted. A string that is too long or a negative number is RUVLLM_INVALID.
 */
RUVLLM_API ruvllm_status ruvllm_witness_append(ruvllm_store *store, const struct ruvllm_witness *entry,
                                               struct ruvllm_error *err);
/* Waits until all that was appended before is written; fails, with the writer's reason, when that does not succeed. */
RUVLLM_API ruvllm_status ruvllm_witness_flush(ruvllm_store *store, struct ruvllm_error *err);

struct ruvllm_witness_filter {
    size_t struct_size;
    const char *tenant; // NULL: all; "": those without one
    const char *model;  // NULL: all
    int64_t since_us;   // this time and later; 0: from the beginning
    int64_t before_us;  // earlier than this: to page, the time of the last row; 0: to the end
    int32_t limit;      // 100; 1 to 1000
};

RUVLLM_API struct ruvllm_witness_filter ruvllm_witness_filter_default(void);

/* One row; borrowed for the call, which is made on the caller's thread with nothing locked. False: no more of them. */
typedef bool (*ruvllm_witness_fn)(void *user, const struct ruvllm_witness *entry);

/* What was written, newest first. Entries that still wait are not in it: flush first to see them. NULL: default. */
RUVLLM_API ruvllm_status ruvllm_witness_query(ruvllm_store *store, const struct ruvllm_witness_filter *filter,
                                              ruvllm_witness_fn fn, void *user, struct ruvllm_error *err);

/* Since the store was opened. */
struct ruvllm_witness_stats {
    size_t struct_size;
    uint64_t appended; // = written + waiting + dropped
    uint64_t written;
    uint64_t waiting;
    uint64_t dropped;        // lost because the writer could not keep up
    uint64_t failed_flushes; // tries that did not reach the disk; their entries wait for the next
};

RUVLLM_API ruvllm_status ruvllm_witness_stats_get(ruvllm_store *store, struct ruvllm_witness_stats *out,
                                                  struct ruvllm_error *err);
/* Deletes what is older than `days` days (0: all), a thousand rows at a time. `n_deleted` may be NULL. */
RUVLLM_API ruvllm_status ruvllm_witness_prune(ruvllm_store *store, int32_t days, uint64_t *n_deleted,
                                              struct ruvllm_error *err);

/* ---- sessions -------------------------------------------------------------------------------- */

/* A saved conversation. Id and tenant together name it: one tenant never sees, changes or hides another's. */
struct ruvllm_session {
    size_t struct_size;
    const char *tenant;   // as of a key
    const char *id;       // 1 to 64 of A-Z a-z 0-9 _ -
    const char *model;    // up to 128 bytes
    const char *title;    // up to 256 bytes
    const char *snapshot; // file name of its keys and values, 1 to 128 of A-Z a-z 0-9 . _ - and no '.' first; "": none
    const char *messages; // JSON text, kept as it is, up to 16 MiB; NULL in lists
    size_t messages_len;
    int64_t n_tokens;
    int64_t created_us; // Unix time in microseconds; put ignores both
    int64_t updated_us;
};

/* Adds it, or takes the place of the one with its tenant and id, which keeps the time it was created. NULL counts as
 * "". */
RUVLLM_API ruvllm_status ruvllm_sessions_put(ruvllm_store *store, const struct ruvllm_session *session,
                                             struct ruvllm_error *err);
/* *out, one piece of memory with its strings, is the caller's: ruvllm_free(). RUVLLM_NOT_FOUND with *out NULL. */
RUVLLM_API ruvllm_status ruvllm_sessions_get(ruvllm_store *store, const char *tenant, const char *id,
                                             struct ruvllm_session **out, struct ruvllm_error *err);

/* One row; borrowed for the call, which is made on the caller's thread with nothing locked. False: no more of them. */
typedef bool (*ruvllm_session_fn)(void *user, const struct ruvllm_session *session);

/*
 * Sessions of a tenant without their messages, last updated first, `limit` (1 to 1000) of them. To go on, pass the last
 * one's updated_us and id; 0 and NULL begin.
 */
RUVLLM_API ruvllm_status ruvllm_sessions_list(ruvllm_store *store, const char *tenant, int64_t before_us,
                                              const char *before_id, int32_t limit, ruvllm_session_fn fn, void *user,
                                              struct ruvllm_error *err);
/* RUVLLM_NOT_FOUND when the tenant has none of that id. Its snapshot is the caller's to remove. */
RUVLLM_API ruvllm_status ruvllm_sessions_delete(ruvllm_store *store, const char *tenant, const char *id,
                                                struct ruvllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
