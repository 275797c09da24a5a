/* Chained buckets; a table doubles when it has as many entries as buckets. */
#include "engine/adapter_index.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "base/str_map.h"

#include <string.h>

enum { FIRST_BUCKETS = 64 };

ruvllm_status rv_adapter_index_init(struct rv_adapter_index *index, struct ruvllm_error *err)
{
    *index = (struct rv_adapter_index){.n_name_buckets = FIRST_BUCKETS, .n_body_buckets = FIRST_BUCKETS};
    index->names = rv_calloc(FIRST_BUCKETS, sizeof(struct rv_adapter_name *));
    index->bodies = rv_calloc(FIRST_BUCKETS, sizeof(struct rv_adapter_body *));
    index->seed = rv_rng_seed_from_system();
    if (index->names && index->bodies)
        return RUVLLM_OK;
    rv_adapter_index_release(index);
    return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the index of adapters");
}

static void free_name(struct rv_adapter_name *name)
{
    while (name->newest) {
        struct rv_adapter_version *version = name->newest;

        name->newest = version->older;
        rv_free(version);
    }
    rv_free(name);
}

void rv_adapter_index_release(struct rv_adapter_index *index)
{
    for (size_t i = 0; index->names && i < index->n_name_buckets; i++) {
        while (index->names[i]) {
            struct rv_adapter_name *name = index->names[i];

            index->names[i] = name->next;
            free_name(name);
        }
    }
    for (size_t i = 0; index->bodies && i < index->n_body_buckets; i++) {
        while (index->bodies[i]) {
            struct rv_adapter_body *body = index->bodies[i];

            index->bodies[i] = body->next;
            rv_free(body);
        }
    }
    rv_free(index->names);
    rv_free(index->bodies);
    *index = (struct rv_adapter_index){0};
}

static size_t bucket_of(const struct rv_adapter_index *index, const char *key, size_t n_buckets)
{
    return rv_str_map_hash(index->seed, key, strlen(key)) & (n_buckets - 1);
}

/* ---- names --------------------------------------------------------------------------------- */

struct rv_adapter_name *rv_adapter_index_find(const struct rv_adapter_index *index, const char *id)
{
    struct rv_adapter_name *name = index->names[bucket_of(index, id, index->n_name_buckets)];

    while (name && strcmp(name->id, id) != 0)
        name = name->next;
    return name;
}

/* When there is no memory for it the buckets stay, and lists get longer. */
static void grow_names(struct rv_adapter_index *index)
{
    size_t n = 2 * index->n_name_buckets;
    struct rv_adapter_name **grown = rv_calloc(n, sizeof(struct rv_adapter_name *));

    if (!grown)
        return;
    for (size_t i = 0; i < index->n_name_buckets; i++) {
        while (index->names[i]) {
            struct rv_adapter_name *name = index->names[i];
            size_t bucket = bucket_of(index, name->id, n);

            index->names[i] = name->next;
            name->next = grown[bucket];
            grown[bucket] = name;
        }
    }
    rv_free(index->names);
    index->names = grown;
    index->n_name_buckets = n;
}

struct rv_adapter_name *rv_adapter_index_name(struct rv_adapter_index *index, const char *id)
{
    struct rv_adapter_name *name = rv_adapter_index_find(index, id);
    size_t len = strlen(id), bucket;

    if (name)
        return name;
    name = rv_calloc(1, sizeof(*name) + len + 1);
    if (!name)
        return NULL;
    if (index->n_names >= index->n_name_buckets)
        grow_names(index);
    memcpy(name->id, id, len + 1);
    bucket = bucket_of(index, id, index->n_name_buckets);
    name->next = index->names[bucket];
    index->names[bucket] = name;
    index->n_names++;
    return name;
}

/* ---- contents ------------------------------------------------------------------------------ */

struct rv_adapter_body *rv_adapter_index_body(const struct rv_adapter_index *index, const char *hash)
{
    struct rv_adapter_body *body = index->bodies[bucket_of(index, hash, index->n_body_buckets)];

    while (body && strcmp(body->digest.hash, hash) != 0)
        body = body->next;
    return body;
}

static void grow_bodies(struct rv_adapter_index *index)
{
    size_t n = 2 * index->n_body_buckets;
    struct rv_adapter_body **grown = rv_calloc(n, sizeof(struct rv_adapter_body *));

    if (!grown)
        return;
    for (size_t i = 0; i < index->n_body_buckets; i++) {
        while (index->bodies[i]) {
            struct rv_adapter_body *body = index->bodies[i];
            size_t bucket = bucket_of(index, body->digest.hash, n);

            index->bodies[i] = body->next;
            body->next = grown[bucket];
            grown[bucket] = body;
        }
    }
    rv_free(index->bodies);
    index->bodies = grown;
    index->n_body_buckets = n;
}

struct rv_adapter_body *rv_adapter_index_add_body(struct rv_adapter_index *index,
                                                  const struct rv_adapter_digest *digest)
{
    struct rv_adapter_body *body = rv_calloc(1, sizeof(*body));
    size_t bucket;

    if (!body)
        return NULL;
    if (index->n_bodies >= index->n_body_buckets)
        grow_bodies(index);
    body->digest = *digest;
    bucket = bucket_of(index, digest->hash, index->n_body_buckets);
    body->next = index->bodies[bucket];
    index->bodies[bucket] = body;
    index->n_bodies++;
    return body;
}

void rv_adapter_index_remove_body(struct rv_adapter_index *index, struct rv_adapter_body *body)
{
    struct rv_adapter_body **link = &index->bodies[bucket_of(index, body->digest.hash, index->n_body_buckets)];

    while (*link != body)
        link = &(*link)->next;
    *link = body->next;
    body->next = NULL;
    index->n_bodies--;
}

/* ---- generations --------------------------------------------------------------------------- */

struct rv_adapter_version *rv_adapter_index_add_version(struct rv_adapter_index *index, struct rv_adapter_name *name,
                                                        struct rv_adapter_body *body)
{
    struct rv_adapter_version *version = rv_calloc(1, sizeof(*version));

    if (!version)
        return NULL;
    version->name = name;
    version->body = body;
    version->generation = ++name->last;
    version->older = name->newest;
    name->newest = version;
    name->n_versions++;
    body->n_versions++;
    index->n_versions++;
    return version;
}

struct rv_adapter_version *rv_adapter_index_version(const struct rv_adapter_name *name, int64_t generation)
{
    struct rv_adapter_version *version = name->newest;

    while (version && generation != 0 && version->generation != generation)
        version = version->older;
    return version;
}

void rv_adapter_index_remove_version(struct rv_adapter_index *index, struct rv_adapter_version *version)
{
    struct rv_adapter_version **link = &version->name->newest;

    while (*link != version)
        link = &(*link)->older;
    *link = version->older;
    version->older = NULL;
    version->is_gone = true;
    version->name->n_versions--;
    index->n_versions--;
}
