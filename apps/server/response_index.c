/* A ring of entries, and a chain of entries for each hash of an id. What is forgotten stays in the ring until its turn.
 */
#include "server/response_index.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "base/str_map.h"

#include <pthread.h>
#include <string.h>

enum { NONE = -1 };

struct entry {
    char id[RV_RESPONSE_INDEX_ID + 1]; // "": free, or forgotten
    char tenant[RV_RESPONSE_INDEX_TENANT + 1];
    int32_t choice;
    int32_t next; // with the same hash
    size_t i_model;
    uint64_t answer;
};

struct rv_response_index {
    pthread_mutex_t lock;
    uint64_t seed;
    size_t n_entries;
    size_t oldest;         // guarded by lock: the next to be overwritten
    struct entry *entries; // guarded by lock
    int32_t *chains;       // guarded by lock: n_entries of them
};

ruvllm_status rv_response_index_new(struct rv_response_index **out, size_t n_answers, struct ruvllm_error *err)
{
    struct rv_response_index *index = rv_calloc(1, sizeof(*index));

    RV_ASSERT(n_answers > 0 && n_answers < INT32_MAX);
    *out = NULL;
    if (!index)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the index of answers");
    pthread_mutex_init(&index->lock, NULL);
    index->seed = rv_rng_seed_from_system();
    index->n_entries = n_answers;
    index->entries = rv_calloc(n_answers, sizeof(*index->entries));
    index->chains = rv_calloc(n_answers, sizeof(*index->chains));
    if (!index->entries || !index->chains) {
        rv_response_index_free(index);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the index of answers");
    }
    for (size_t i = 0; i < n_answers; i++)
        index->chains[i] = NONE;
    *out = index;
    return RUVLLM_OK;
}

void rv_response_index_free(struct rv_response_index *index)
{
    if (!index)
        return;
    pthread_mutex_destroy(&index->lock);
    rv_free(index->entries);
    rv_free(index->chains);
    rv_free(index);
}

/* ---- under the lock ----------------------------------------------------------------------------- */

static int32_t *chain_of(struct rv_response_index *index, const char *id)
{
    return &index->chains[rv_str_map_hash(index->seed, id, strlen(id)) % index->n_entries];
}

static void unlink_entry(struct rv_response_index *index, struct entry *entry)
{
    int32_t *link;

    if (!entry->id[0])
        return;
    link = chain_of(index, entry->id);
    while (&index->entries[*link] != entry)
        link = &index->entries[*link].next;
    *link = entry->next;
    entry->id[0] = '\0';
}

/* ---- doors ---------------------------------------------------------------------------------------- */

void rv_response_index_add(struct rv_response_index *index, const char *id, int32_t choice, const char *tenant,
                           size_t i_model, uint64_t answer)
{
    size_t id_len = strlen(id), tenant_len = strlen(tenant);
    struct entry *entry;
    int32_t *chain;

    if (id_len == 0 || id_len > RV_RESPONSE_INDEX_ID || tenant_len > RV_RESPONSE_INDEX_TENANT)
        return;
    pthread_mutex_lock(&index->lock);
    entry = &index->entries[index->oldest];
    unlink_entry(index, entry);
    memcpy(entry->id, id, id_len + 1);
    memcpy(entry->tenant, tenant, tenant_len + 1);
    entry->choice = choice;
    entry->i_model = i_model;
    entry->answer = answer;
    chain = chain_of(index, id);
    entry->next = *chain;
    *chain = (int32_t)index->oldest;
    index->oldest = (index->oldest + 1) % index->n_entries;
    pthread_mutex_unlock(&index->lock);
}

bool rv_response_index_find(struct rv_response_index *index, const char *id, int32_t choice, const char *tenant,
                            size_t *i_model, uint64_t *answer)
{
    bool is_there = false;

    pthread_mutex_lock(&index->lock);
    for (int32_t i = *chain_of(index, id); i != NONE && !is_there; i = index->entries[i].next) {
        const struct entry *entry = &index->entries[i];

        is_there = entry->choice == choice && strcmp(entry->id, id) == 0 && strcmp(entry->tenant, tenant) == 0;
        if (is_there) {
            *i_model = entry->i_model;
            *answer = entry->answer;
        }
    }
    pthread_mutex_unlock(&index->lock);
    return is_there;
}

void rv_response_index_forget(struct rv_response_index *index, size_t i_model)
{
    pthread_mutex_lock(&index->lock);
    for (size_t i = 0; i < index->n_entries; i++) {
        if (index->entries[i].i_model == i_model)
            unlink_entry(index, &index->entries[i]);
    }
    pthread_mutex_unlock(&index->lock);
}
