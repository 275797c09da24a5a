/*
 * What is published, found, pinned and listed; waiting and the two threads are adapter_threads.c. Everything here runs
 * on callers' threads.
 */
#include "engine/adapter_registry.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/adapter_threads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LIST_BUCKETS = 1024,  // looked at in one go while listing
    PATIENCE_US = 250000, // how long requests whose adapters are there may pass one whose are not
    FILE_PATIENCE_S = 5
};

static bool is_id(const char *id)
{
    size_t len = strnlen(id, RV_ADAPTER_REGISTRY_MAX_ID + 1);

    for (size_t i = 0; i < len; i++) {
        char c = id[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("._-/", c)))
            return false;
    }
    return len > 0 && len <= RV_ADAPTER_REGISTRY_MAX_ID;
}

static ruvllm_status check_id(const char *id, struct ruvllm_error *err)
{
    if (id && is_id(id))
        return RUVLLM_OK;
    return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_ADAPTER,
                        "an adapter is named by 1 to %d letters (A-Z, a-z), digits, '.', '_', '-' or '/'",
                        RV_ADAPTER_REGISTRY_MAX_ID);
}

/* ---- versions, under the lock --------------------------------------------------------------- */

/* Nobody finds or uses it any more. */
static void free_version(struct rv_adapter_registry *r, struct rv_adapter_version *version)
{
    struct rv_adapter_body *body = version->body;

    rv_free(version);
    if (--body->n_versions > 0)
        return;
    rv_adapter_index_remove_body(&r->index, body);
    rv_adapter_residency_retire(&r->residency, body);
    if (r->config.files && !body->has_file)
        r->n_unwritten--;
    body->is_doomed = true;
    rv_adapter_threads_queue(r, body);
    if (r->waiting)
        pthread_cond_signal(&r->loader_work); // there may be room now
}

static void remove_version(struct rv_adapter_registry *r, struct rv_adapter_version *version)
{
    struct rv_adapter_name *name = version->name;

    rv_adapter_index_remove_version(&r->index, version);
    if (!name->newest)
        r->n_ids--;
    if (version->n_users == 0)
        free_version(r, version);
}

static struct rv_adapter_version *oldest_of(const struct rv_adapter_name *name)
{
    struct rv_adapter_version *version = name->newest;

    while (version->older)
        version = version->older;
    return version;
}

/* The longest kept generation of a name that has a newer one and no user, of layers if such is wanted; NULL: none. */
static struct rv_adapter_version *superseded(const struct rv_adapter_name *name, bool is_layered)
{
    struct rv_adapter_version *found = NULL;

    for (struct rv_adapter_version *v = name->newest ? name->newest->older : NULL; v; v = v->older) {
        if (v->n_users == 0 && (!is_layered || v->body->digest.layers))
            found = v;
    }
    return found;
}

/* Without files: forgets one generation that a newer one has replaced. Goes on where it left off. */
static bool forget_superseded(struct rv_adapter_registry *r, bool is_layered)
{
    for (size_t i = 0; i < r->index.n_name_buckets; i++) {
        size_t bucket = (r->hand + i) & (r->index.n_name_buckets - 1);

        for (struct rv_adapter_name *name = r->index.names[bucket]; name; name = name->next) {
            struct rv_adapter_version *version = superseded(name, is_layered);

            if (!version)
                continue;
            r->hand = bucket;
            remove_version(r, version);
            return true;
        }
    }
    return false;
}

/* ---- publishing ----------------------------------------------------------------------------- */

static ruvllm_status fit_without_files(struct rv_adapter_registry *r, uint64_t n_bytes, bool is_layered,
                                       struct ruvllm_error *err)
{
    const struct rv_adapter_registry_config *c = &r->config;

    while (is_layered && r->residency.n_layered >= c->max_layered) {
        if (!forget_superseded(r, true))
            return rv_fail_kind(err, RUVLLM_TOO_LARGE, RUVLLM_ERROR_ADAPTER,
                                "%d adapters with changes of layers are the most that may be in memory, and there is "
                                "no folder for more; unload one or give the engine a folder",
                                c->max_layered);
    }
    while (r->residency.n_bytes + n_bytes > c->max_bytes) {
        if (!forget_superseded(r, false))
            return rv_fail_kind(err, RUVLLM_TOO_LARGE, RUVLLM_ERROR_ADAPTER,
                                "the memory for adapters, %llu bytes, is full, and there is no folder for more; unload "
                                "one or give the engine a folder",
                                (unsigned long long)c->max_bytes);
    }
    return RUVLLM_OK;
}

static ruvllm_status fit(struct rv_adapter_registry *r, uint64_t n_bytes, bool is_layered,
                         struct rv_adapter_residency_trash *trash, struct ruvllm_error *err)
{
    if (n_bytes > r->config.max_bytes / 8)
        return rv_fail_kind(err, RUVLLM_TOO_LARGE, RUVLLM_ERROR_ADAPTER,
                            "the adapter takes %llu bytes; one may take an eighth of the %llu there are for all",
                            (unsigned long long)n_bytes, (unsigned long long)r->config.max_bytes);
    if (!r->config.files)
        return fit_without_files(r, n_bytes, is_layered, err);
    if (rv_adapter_residency_make_room(&r->residency, n_bytes, is_layered, trash) ||
        rv_adapter_residency_make_bytes(&r->residency, n_bytes, trash))
        return RUVLLM_OK;
    return rv_fail_kind(err, RUVLLM_BUSY, RUVLLM_ERROR_ADAPTER,
                        "%zu adapters are not written yet and those in use leave no room for another; try again later",
                        r->n_unwritten);
}

/* The content, counted and in memory; one that is known already stays as it is. */
static ruvllm_status enter_body(struct rv_adapter_registry *r, const struct rv_adapter_offer *offer,
                                const struct rv_adapter_digest *digest, struct rv_adapter_body **out,
                                struct rv_adapter_residency_trash *trash, struct ruvllm_error *err)
{
    struct rv_adapter_body *body = rv_adapter_index_body(&r->index, digest->hash);
    ruvllm_status rc;

    *out = body;
    if (body)
        return RUVLLM_OK;
    rc = fit(r, offer->adapter->n_bytes, digest->layers != 0, trash, err);
    if (rc)
        return rc;
    body = rv_adapter_index_add_body(&r->index, digest);
    if (!body)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an adapter's entry");
    body->adapter = rv_adapter_ref(offer->adapter);
    body->n_bytes = offer->adapter->n_bytes;
    body->max_rank = offer->adapter->max_rank;
    body->used = ++r->residency.n_uses;
    rv_adapter_residency_count(&r->residency, body);
    *out = body;
    return RUVLLM_OK;
}

/* A content that got no version. */
static void undo_body(struct rv_adapter_registry *r, struct rv_adapter_body *body)
{
    rv_adapter_index_remove_body(&r->index, body);
    rv_adapter_residency_retire(&r->residency, body);
    rv_adapter_unref(body->adapter);
    rv_free(body);
}

static ruvllm_status publish(struct rv_adapter_registry *r, const struct rv_adapter_offer *offer,
                             const struct rv_adapter_digest *digest, bool *is_known, int64_t *generation,
                             struct rv_adapter_residency_trash *trash, struct ruvllm_error *err)
{
    struct rv_adapter_name *name = rv_adapter_index_find(&r->index, offer->id);
    int64_t newest = name && name->newest ? name->newest->generation : 0;
    struct rv_adapter_version *version = NULL;
    struct rv_adapter_body *body;
    ruvllm_status rc;

    if (offer->expected >= 0 && offer->expected != newest)
        return rv_fail_kind(err, RUVLLM_CONFLICT, RUVLLM_ERROR_ADAPTER,
                            "the newest generation of adapter '%s' is %lld, not %lld", offer->id, (long long)newest,
                            (long long)offer->expected);
    rc = enter_body(r, offer, digest, &body, trash, err);
    if (rc)
        return rc;
    *is_known = body->n_versions > 0;
    name = rv_adapter_index_name(&r->index, offer->id);
    if (name)
        version = rv_adapter_index_add_version(&r->index, name, body);
    if (!version) {
        if (!*is_known)
            undo_body(r, body);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an adapter's entry");
    }
    r->n_ids += !version->older;
    *generation = version->generation;
    if (!*is_known && r->config.files) {
        body->source = offer->source;
        r->n_unwritten++;
        rv_adapter_threads_queue(r, body);
    }
    while (name->n_versions > r->config.max_generations)
        remove_version(r, oldest_of(name));
    return RUVLLM_OK;
}

ruvllm_status rv_adapter_registry_publish(struct rv_adapter_registry *registry, const struct rv_adapter_offer *offer,
                                          int64_t *generation, struct ruvllm_error *err)
{
    struct rv_adapter_registry *r = registry;
    struct rv_adapter_residency_trash trash = {.n = 0};
    struct rv_adapter_digest digest;
    bool is_known = false;
    ruvllm_status rc = check_id(offer->id, err);

    RV_ASSERT(r->config.files || !offer->source);
    *generation = 0;
    if (!rc)
        rc = rv_adapter_digest(&digest, offer->adapter, err);
    if (rc)
        return rc;
    if (digest.n_pairs == 0 && !digest.changes_head)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_ADAPTER, "the adapter changes nothing");
    if (offer->hash)
        memcpy(digest.hash, offer->hash, sizeof(digest.hash));
    pthread_mutex_lock(&r->lock);
    rc = publish(r, offer, &digest, &is_known, generation, &trash, err);
    pthread_mutex_unlock(&r->lock);
    rv_adapter_residency_empty(&trash);
    if (!rc && offer->source && is_known)
        r->config.files->close_source(r->config.files->user, offer->source);
    return rc;
}

static ruvllm_status fail_not_found(const char *id, int64_t generation, struct ruvllm_error *err)
{
    if (generation)
        return rv_fail_kind(err, RUVLLM_NOT_FOUND, RUVLLM_ERROR_ADAPTER, "there is no generation %lld of adapter '%s'",
                            (long long)generation, id);
    return rv_fail_kind(err, RUVLLM_NOT_FOUND, RUVLLM_ERROR_ADAPTER, "there is no adapter '%s'", id);
}

/* NULL when there is none, also for what is no id. */
static struct rv_adapter_version *find(const struct rv_adapter_registry *r, const char *id, int64_t generation)
{
    struct rv_adapter_name *name = is_id(id) ? rv_adapter_index_find(&r->index, id) : NULL;

    return name && generation >= 0 ? rv_adapter_index_version(name, generation) : NULL;
}

ruvllm_status rv_adapter_registry_forget(struct rv_adapter_registry *registry, const char *id, int64_t generation,
                                         struct ruvllm_error *err)
{
    struct rv_adapter_registry *r = registry;
    struct rv_adapter_version *version;
    ruvllm_status rc = check_id(id, err);

    if (rc)
        return rc;
    pthread_mutex_lock(&r->lock);
    version = find(r, id, generation);
    if (!version)
        rc = fail_not_found(id, generation, err);
    while (version) {
        remove_version(r, version);
        version = generation == 0 ? find(r, id, 0) : NULL;
    }
    pthread_mutex_unlock(&r->lock);
    return rc;
}

/* ---- tickets -------------------------------------------------------------------------------- */

/* Gives versions back, under the lock. */
static void unpin(struct rv_adapter_registry *r, struct rv_adapter_ticket *ticket)
{
    for (int32_t i = 0; i < ticket->n; i++) {
        struct rv_adapter_version *version = ticket->versions[i];

        if (--version->n_users == 0 && version->is_gone)
            free_version(r, version);
    }
    ticket->n = 0;
    ticket->state = RV_ADAPTER_TICKET_NONE;
}

ruvllm_status rv_adapter_registry_pin(struct rv_adapter_registry *registry, struct rv_adapter_ticket *ticket,
                                      const struct rv_adapter_choice *choices, int32_t n, struct ruvllm_error *err)
{
    struct rv_adapter_registry *r = registry;
    ruvllm_status rc = RUVLLM_OK;

    RV_ASSERT(ticket->state == RV_ADAPTER_TICKET_NONE);
    if (n < 1 || n > RV_ADAPTER_MIX_MAX)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_ADAPTER, "a request takes 1 to %d adapters, not %d",
                            RV_ADAPTER_MIX_MAX, n);
    pthread_mutex_lock(&r->lock);
    ticket->n = 0;
    for (int32_t i = 0; i < n && !rc; i++) {
        struct rv_adapter_version *version = find(r, choices[i].id, choices[i].generation);

        if (!version) {
            rc = fail_not_found(choices[i].id, choices[i].generation, err);
            break;
        }
        version->n_users++;
        ticket->versions[ticket->n] = version;
        ticket->weights[ticket->n++] = choices[i].weight;
    }
    if (rc) {
        unpin(r, ticket);
    } else {
        ticket->generation = ticket->versions[0]->generation;
        ticket->layers = rv_adapter_threads_layers(ticket);
        ticket->state = RV_ADAPTER_TICKET_PINNED;
    }
    pthread_mutex_unlock(&r->lock);
    return rc;
}

/* Whether it may be held before those that wait. */
static bool may_pass(const struct rv_adapter_registry *r, const struct rv_adapter_ticket *ticket)
{
    const struct rv_adapter_ticket *first = r->waiting;

    while (first && !rv_adapter_threads_is_layered(first))
        first = first->next;
    return !first || !rv_adapter_threads_is_layered(ticket) || rv_clock_us() - first->since_us < PATIENCE_US;
}

static bool are_all_resident(const struct rv_adapter_ticket *ticket)
{
    bool all = true;

    for (int32_t i = 0; i < ticket->n; i++)
        all = all && ticket->versions[i]->body->adapter;
    return all;
}

bool rv_adapter_registry_enter(struct rv_adapter_registry *registry, struct rv_adapter_ticket *ticket)
{
    struct rv_adapter_registry *r = registry;
    bool is_ready = true;

    RV_ASSERT(ticket->state == RV_ADAPTER_TICKET_PINNED);
    pthread_mutex_lock(&r->lock);
    ticket->since_us = rv_clock_us();
    ticket->n_held = 0;
    if (r->is_stopping) {
        rv_adapter_threads_fail(r, ticket, RUVLLM_CANCELLED, "the engine closes");
    } else if (are_all_resident(ticket) && may_pass(r, ticket)) {
        rv_adapter_threads_hold(r, ticket);
    } else {
        is_ready = false;
        rv_adapter_threads_wait(r, ticket);
    }
    pthread_mutex_unlock(&r->lock);
    return is_ready;
}

bool rv_adapter_registry_withdraw(struct rv_adapter_registry *registry, struct rv_adapter_ticket *ticket)
{
    struct rv_adapter_registry *r = registry;
    bool was_waiting;

    pthread_mutex_lock(&r->lock);
    /* What the loader reads for at the moment is the loader's to finish. */
    was_waiting = ticket->state == RV_ADAPTER_TICKET_WAITING && r->served != ticket;
    if (was_waiting) {
        rv_adapter_threads_unlink(r, ticket);
        rv_adapter_threads_fail(r, ticket, RUVLLM_CANCELLED, "the request was cancelled");
    }
    pthread_mutex_unlock(&r->lock);
    return was_waiting;
}

void rv_adapter_registry_release(struct rv_adapter_registry *registry, struct rv_adapter_ticket *ticket)
{
    struct rv_adapter_registry *r = registry;

    if (ticket->state == RV_ADAPTER_TICKET_NONE)
        return;
    pthread_mutex_lock(&r->lock);
    RV_ASSERT(ticket->state != RV_ADAPTER_TICKET_WAITING);
    rv_adapter_threads_let_go(r, ticket);
    unpin(r, ticket);
    pthread_mutex_unlock(&r->lock);
}

ruvllm_status rv_adapter_registry_fetch(struct rv_adapter_registry *registry, struct rv_adapter_ticket *ticket,
                                        const struct rv_adapter_choice *choices, int32_t n, struct ruvllm_error *err)
{
    struct rv_adapter_registry *r = registry;
    ruvllm_status rc;

    *ticket = (struct rv_adapter_ticket){0}; // without an owner: it is waited for
    rc = rv_adapter_registry_pin(r, ticket, choices, n, err);
    if (rc)
        return rc;
    if (!rv_adapter_registry_enter(r, ticket)) {
        pthread_mutex_lock(&r->lock);
        while (ticket->state == RV_ADAPTER_TICKET_WAITING)
            pthread_cond_wait(&r->settled, &r->lock);
        pthread_mutex_unlock(&r->lock);
    }
    if (ticket->state == RV_ADAPTER_TICKET_HELD)
        return RUVLLM_OK;
    rc = ticket->error.status;
    if (err)
        *err = ticket->error;
    rv_adapter_registry_release(r, ticket);
    return rc;
}

ruvllm_status rv_adapter_registry_await_file(struct rv_adapter_registry *registry,
                                             const struct rv_adapter_ticket *ticket, struct ruvllm_error *err)
{
    const struct rv_adapter_body *body = ticket->versions[0]->body;
    struct timespec until;
    bool has_file;
    int rc = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += FILE_PATIENCE_S;
    pthread_mutex_lock(&registry->lock);
    while (!body->has_file && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&registry->settled, &registry->lock, &until);
    has_file = body->has_file;
    pthread_mutex_unlock(&registry->lock);
    if (has_file)
        return RUVLLM_OK;
    return rv_fail_kind(err, RUVLLM_BUSY, RUVLLM_ERROR_ADAPTER,
                        "the adapter's file is not written yet; try again later");
}

/* ---- telling -------------------------------------------------------------------------------- */

/* A list that grows. */
struct listing {
    struct ruvllm_adapter_info *infos;
    size_t n, cap;
};

static bool list_version(struct listing *l, const struct rv_adapter_version *v)
{
    const struct rv_adapter_body *body = v->body;
    struct ruvllm_adapter_info *info;

    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;

        info = rv_realloc_array(l->infos, cap, sizeof(*info));
        if (!info)
            return false;
        l->infos = info;
        l->cap = cap;
    }
    info = &l->infos[l->n++];
    *info = (struct ruvllm_adapter_info){.struct_size = sizeof(*info),
                                         .generation = v->generation,
                                         .max_rank = body->max_rank,
                                         .n_pairs = body->digest.n_pairs,
                                         .changes_head = body->digest.changes_head,
                                         .changes_layers = body->digest.layers != 0,
                                         .is_resident = body->adapter != NULL,
                                         .n_bytes = body->n_bytes,
                                         .file_bytes = body->file_bytes,
                                         .n_users = v->n_users,
                                         .norm = body->digest.norm};
    memcpy(info->id, v->name->id, strlen(v->name->id) + 1);
    memcpy(info->hash, body->digest.hash, sizeof(info->hash));
    return true;
}

/* Some buckets, under the lock. */
static bool list_buckets(struct listing *l, const struct rv_adapter_registry *r, size_t first, const char *prefix)
{
    for (size_t i = first; i < first + LIST_BUCKETS && i < r->index.n_name_buckets; i++) {
        for (const struct rv_adapter_name *name = r->index.names[i]; name; name = name->next) {
            if (strncmp(name->id, prefix, strlen(prefix)) != 0)
                continue;
            for (const struct rv_adapter_version *v = name->newest; v; v = v->older) {
                if (!list_version(l, v))
                    return false;
            }
        }
    }
    return true;
}

static int by_id_and_generation(const void *a, const void *b)
{
    const struct ruvllm_adapter_info *x = a, *y = b;
    int order = strcmp(x->id, y->id);

    return order ? order : (x->generation > y->generation) - (x->generation < y->generation);
}

ruvllm_status rv_adapter_registry_list(struct rv_adapter_registry *registry, const char *prefix,
                                       struct ruvllm_adapter_info **infos, size_t *n, struct ruvllm_error *err)
{
    struct rv_adapter_registry *r = registry;
    struct listing l = {0};
    size_t n_buckets = 0, at = 0;
    bool fits = true, is_over = false;

    while (fits && !is_over) {
        pthread_mutex_lock(&r->lock);
        if (n_buckets != r->index.n_name_buckets) { // the first time, or the table has grown: from the start
            n_buckets = r->index.n_name_buckets;
            at = 0;
            l.n = 0;
        }
        fits = list_buckets(&l, r, at, prefix ? prefix : "");
        at += LIST_BUCKETS;
        is_over = at >= n_buckets;
        pthread_mutex_unlock(&r->lock);
    }
    *infos = fits ? l.infos : NULL;
    *n = fits ? l.n : 0;
    if (!fits) {
        rv_free(l.infos);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the list of adapters");
    }
    if (l.n > 1)
        qsort(l.infos, l.n, sizeof(*l.infos), by_id_and_generation);
    return RUVLLM_OK;
}

void rv_adapter_registry_stats_get(struct rv_adapter_registry *registry, struct rv_adapter_registry_stats *out)
{
    struct rv_adapter_registry *r = registry;

    pthread_mutex_lock(&r->lock);
    *out = (struct rv_adapter_registry_stats){.n_ids = r->n_ids,
                                              .n_generations = r->index.n_versions,
                                              .n_contents = r->index.n_bodies,
                                              .n_resident = r->residency.n_resident,
                                              .n_layered = (size_t)r->residency.n_layered,
                                              .n_unwritten = r->n_unwritten,
                                              .n_bytes = r->residency.n_bytes,
                                              .n_loaded = r->n_loaded,
                                              .n_evicted = r->residency.n_evicted,
                                              .n_unsaved = r->n_unsaved};
    for (const struct rv_adapter_ticket *t = r->waiting; t; t = t->next)
        out->n_waiting++;
    pthread_mutex_unlock(&r->lock);
}

/* ---- life ----------------------------------------------------------------------------------- */

ruvllm_status rv_adapter_registry_open(struct rv_adapter_registry **out,
                                       const struct rv_adapter_registry_config *config, struct ruvllm_error *err)
{
    struct rv_adapter_registry *r = rv_calloc(1, sizeof(*r));
    ruvllm_status rc;

    *out = NULL;
    RV_ASSERT(config->max_layered >= RV_ADAPTER_MIX_MAX && config->max_generations >= 1);
    if (!r)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the registry of adapters");
    r->config = *config;
    r->residency.max_layered = config->max_layered;
    r->residency.max_bytes = config->max_bytes;
    rv_adapter_threads_init(r);
    rc = rv_adapter_index_init(&r->index, err);
    if (!rc)
        rc = rv_adapter_threads_start(r, err);
    if (rc) {
        rv_adapter_registry_close(r);
        return rc;
    }
    *out = r;
    return RUVLLM_OK;
}

void rv_adapter_registry_stop(struct rv_adapter_registry *registry)
{
    rv_adapter_threads_stop(registry);
}

void rv_adapter_registry_close(struct rv_adapter_registry *registry)
{
    struct rv_adapter_registry *r = registry;

    if (!r)
        return;
    rv_adapter_threads_stop(r);
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; r->index.names && i < r->index.n_name_buckets; i++) {
        for (struct rv_adapter_name *name = r->index.names[i]; name; name = name->next) {
            while (name->newest)
                remove_version(r, name->newest);
        }
    }
    pthread_mutex_unlock(&r->lock);
    rv_adapter_threads_join(r); // the clerk clears away what was doomed
    RV_ASSERT(r->index.n_bodies == 0);
    rv_adapter_index_release(&r->index);
    rv_adapter_threads_release(r);
    rv_free(r);
}

void rv_adapter_registry_settle(struct rv_adapter_registry *registry)
{
    pthread_mutex_lock(&registry->lock);
    while (registry->n_queued > 0)
        pthread_cond_wait(&registry->settled, &registry->lock);
    pthread_mutex_unlock(&registry->lock);
}
