/*
 * Which adapters there are: ids with their generations, and the contents these stand for. A content may be that of
 * several generations. Two hash tables that grow; an entry is as small as its id allows, for there may be hundreds of
 * thousands.
 *
 * No lock and no policy: adapter_registry.h has both.
 */
#ifndef RV_ENGINE_ADAPTER_INDEX_H
#define RV_ENGINE_ADAPTER_INDEX_H

#include "model/adapter_digest.h"

struct rv_adapter_body {
    struct rv_adapter_digest digest;
    int32_t max_rank;
    int32_t n_versions;         // that have this content
    int32_t n_holds;            // of requests that compute with it, or are about to
    struct rv_adapter *adapter; // NULL: not in memory
    void *source;               // what its file is to be written from besides; NULL: nothing
    uint64_t n_bytes;           // of memory, when it is there
    uint64_t file_bytes;
    uint64_t used; // when it was held last, counted
    bool has_file;
    bool has_old_file;                     // one of the same content that went before, until its own is written
    bool is_queued;                        // for the clerk
    bool is_doomed;                        // no version has it
    struct rv_adapter_body *next;          // of the same bucket
    struct rv_adapter_body *newer, *older; // among those that may leave memory
    struct rv_adapter_body *next_queued;
};

struct rv_adapter_name;

struct rv_adapter_version {
    struct rv_adapter_name *name;
    struct rv_adapter_body *body;
    int64_t generation;
    int32_t n_users;                  // requests that begin or go on with it
    bool is_gone;                     // no new request finds it
    struct rv_adapter_version *older; // of the same id
};

struct rv_adapter_name {
    struct rv_adapter_name *next;      // of the same bucket
    struct rv_adapter_version *newest; // NULL: all are gone
    int64_t last;                      // generation given last: numbers are never used again
    int32_t n_versions;                // found by requests
    char id[];
};

struct rv_adapter_index {
    struct rv_adapter_name **names; // n_name_buckets, a power of two
    struct rv_adapter_body **bodies;
    size_t n_name_buckets;
    size_t n_body_buckets;
    size_t n_names;
    size_t n_bodies;
    size_t n_versions; // found by requests
    uint64_t seed;
};

RV_CHECKED ruvllm_status rv_adapter_index_init(struct rv_adapter_index *index, struct ruvllm_error *err);
/* Frees names, and versions and bodies that are still in it; adapters and sources are the caller's business before. */
void rv_adapter_index_release(struct rv_adapter_index *index);

/* NULL when there is none. */
struct rv_adapter_name *rv_adapter_index_find(const struct rv_adapter_index *index, const char *id);
/* The same, made when there is none; NULL when memory is out. */
struct rv_adapter_name *rv_adapter_index_name(struct rv_adapter_index *index, const char *id);
struct rv_adapter_body *rv_adapter_index_body(const struct rv_adapter_index *index, const char *hash);
/* Makes an empty body with this digest; NULL when memory is out. */
struct rv_adapter_body *rv_adapter_index_add_body(struct rv_adapter_index *index,
                                                  const struct rv_adapter_digest *digest);
/* Takes it out; it is the caller's to free. */
void rv_adapter_index_remove_body(struct rv_adapter_index *index, struct rv_adapter_body *body);

/* The next generation of a name, with this content; NULL when memory is out. */
struct rv_adapter_version *rv_adapter_index_add_version(struct rv_adapter_index *index, struct rv_adapter_name *name,
                                                        struct rv_adapter_body *body);
/* A generation that requests find; 0 is the newest. NULL when there is none. */
struct rv_adapter_version *rv_adapter_index_version(const struct rv_adapter_name *name, int64_t generation);
/* Requests no longer find it. It stays the caller's, who frees it when nobody uses it. */
void rv_adapter_index_remove_version(struct rv_adapter_index *index, struct rv_adapter_version *version);

#endif
