/*
 * Who runs what: loader_main and what it calls on the loader's thread, clerk_main likewise, the rest on callers'. Both
 * open the lock for files and callbacks, and look at everything anew afterwards.
 *
 * Only the first ticket in line that changes layers, and the first that does not, hold adapters before they have all of
 * theirs. The rest of what is held belongs to requests that run and end. With an eighth of the memory as the largest
 * adapter, both find room for four once those have ended, so no two wait for each other.
 */
#include "engine/adapter_threads.h"

#include "base/alloc.h"
#include "base/keyed_hash.h"
#include "base/log.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum { RETRY_MS = 1000 }; // after a file could not be written

/* ---- the line ------------------------------------------------------------------------------- */

bool rv_adapter_threads_is_layered(const struct rv_adapter_ticket *ticket)
{
    bool is_layered = false;

    for (int32_t i = 0; i < ticket->n; i++)
        is_layered = is_layered || ticket->versions[i]->body->digest.layers;
    return is_layered;
}

uint64_t rv_adapter_threads_layers(const struct rv_adapter_ticket *ticket)
{
    static const uint8_t no_key[RV_KEYED_HASH_KEY];
    struct {
        uint64_t layers;
        uint64_t weight;
    } parts[RV_ADAPTER_MIX_MAX] = {{0}};
    size_t n = 0;
    uint64_t hash;

    for (int32_t i = 0; i < ticket->n; i++) {
        double weight = (double)ticket->weights[i];

        parts[n].layers = ticket->versions[i]->body->digest.layers;
        _Static_assert(sizeof(weight) == sizeof(parts[n].weight), "a weight's bits fit");
        memcpy(&parts[n].weight, &weight, sizeof(weight));
        n += parts[n].layers != 0;
    }
    if (n == 0)
        return 0;
    hash = rv_keyed_hash64(no_key, parts, n * sizeof(parts[0]));
    return hash ? hash : 1;
}

void rv_adapter_threads_hold(struct rv_adapter_registry *registry, struct rv_adapter_ticket *ticket)
{
    while (ticket->n_held < ticket->n)
        rv_adapter_residency_hold(&registry->residency, ticket->versions[ticket->n_held++]->body);
    ticket->mix = (struct rv_adapter_mix){.n_adapters = ticket->n};
    for (int32_t i = 0; i < ticket->n; i++) {
        ticket->mix.adapters[i] = ticket->versions[i]->body->adapter;
        ticket->mix.weights[i] = ticket->weights[i];
    }
    ticket->state = RV_ADAPTER_TICKET_HELD;
}

void rv_adapter_threads_let_go(struct rv_adapter_registry *registry, struct rv_adapter_ticket *ticket)
{
    while (ticket->n_held > 0)
        rv_adapter_residency_let_go(&registry->residency, ticket->versions[--ticket->n_held]->body);
    if (registry->waiting)
        pthread_cond_signal(&registry->loader_work);
}

void rv_adapter_threads_fail(struct rv_adapter_registry *registry, struct rv_adapter_ticket *ticket,
                             ruvllm_status status, const char *why)
{
    rv_adapter_threads_let_go(registry, ticket);
    (void)rv_fail_kind(&ticket->error, status, RUVLLM_ERROR_ADAPTER, "%s", why);
    ticket->state = RV_ADAPTER_TICKET_FAILED;
}

void rv_adapter_threads_wait(struct rv_adapter_registry *registry, struct rv_adapter_ticket *ticket)
{
    struct rv_adapter_ticket **link = &registry->waiting;

    while (*link)
        link = &(*link)->next;
    *link = ticket;
    ticket->next = NULL;
    ticket->state = RV_ADAPTER_TICKET_WAITING;
    pthread_cond_signal(&registry->loader_work);
}

void rv_adapter_threads_unlink(struct rv_adapter_registry *registry, struct rv_adapter_ticket *ticket)
{
    struct rv_adapter_ticket **link = &registry->waiting;

    while (*link != ticket)
        link = &(*link)->next;
    *link = ticket->next;
    ticket->next = NULL;
}

/* ---- the loader ----------------------------------------------------------------------------- */

/* Tells the owner of a ticket that left the line; who waits for one of its own is woken. The lock is open meanwhile. */
static void announce(struct rv_adapter_registry *r, struct rv_adapter_ticket *ticket)
{
    if (!ticket->owner) {
        pthread_cond_broadcast(&r->settled); // the ticket may be gone as soon as the lock is open
        return;
    }
    pthread_mutex_unlock(&r->lock);
    r->config.on_ready(r->config.user, ticket);
    pthread_mutex_lock(&r->lock);
}

/* Reads a content for which room was made. The lock is open meanwhile. */
static void read_body(struct rv_adapter_registry *r, struct rv_adapter_ticket *ticket, struct rv_adapter_body *body)
{
    struct rv_adapter *adapter = NULL;
    struct ruvllm_error err = {0};
    ruvllm_status rc;

    rv_adapter_residency_count(&r->residency, body);
    r->served = ticket;
    pthread_mutex_unlock(&r->lock);
    rc = r->config.files->load(r->config.files->user, body->digest.hash, &adapter, &err);
    pthread_mutex_lock(&r->lock);
    r->served = NULL;
    if (rc) {
        rv_adapter_residency_uncount(&r->residency, body);
        rv_adapter_threads_unlink(r, ticket);
        rv_adapter_threads_fail(r, ticket, rc, err.message);
        announce(r, ticket);
        return;
    }
    rv_adapter_residency_install(&r->residency, body, adapter);
    ticket->n_held++;
    r->n_loaded++;
}

/*
 * Gets a ticket one adapter further, or out of the line. False, with the lock closed all the time, when there is no
 * room and none could be made.
 */
static bool advance(struct rv_adapter_registry *r, struct rv_adapter_ticket *ticket)
{
    struct rv_adapter_residency_trash trash = {.n = 0};
    struct rv_adapter_body *body = NULL;
    bool has_room;

    while (ticket->n_held < ticket->n) {
        body = ticket->versions[ticket->n_held]->body;
        if (!body->adapter)
            break;
        rv_adapter_residency_hold(&r->residency, body);
        ticket->n_held++;
    }
    if (ticket->n_held == ticket->n) {
        rv_adapter_threads_unlink(r, ticket);
        rv_adapter_threads_hold(r, ticket);
        announce(r, ticket);
        return true;
    }
    has_room = rv_adapter_residency_make_room(&r->residency, body->n_bytes, body->digest.layers != 0, &trash);
    if (has_room)
        read_body(r, ticket, body);
    if (trash.n == 0)
        return has_room;
    pthread_mutex_unlock(&r->lock);
    rv_adapter_residency_empty(&trash);
    pthread_mutex_lock(&r->lock);
    return true;
}

/* One step for the first ticket that can take one. Those of heads alone need not wait for places of layers. */
static bool serve(struct rv_adapter_registry *r)
{
    bool has_layered = false, has_other = false;

    for (struct rv_adapter_ticket *ticket = r->waiting; ticket; ticket = ticket->next) {
        bool *is_taken = rv_adapter_threads_is_layered(ticket) ? &has_layered : &has_other;

        if (*is_taken)
            continue;
        if (advance(r, ticket))
            return true;
        *is_taken = true;
    }
    return false;
}

static void *loader_main(void *registry)
{
    struct rv_adapter_registry *r = registry;

    pthread_mutex_lock(&r->lock);
    while (!r->is_stopping) {
        if (!serve(r) && !r->is_stopping)
            pthread_cond_wait(&r->loader_work, &r->lock);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* ---- the clerk ------------------------------------------------------------------------------ */

void rv_adapter_threads_queue(struct rv_adapter_registry *registry, struct rv_adapter_body *body)
{
    struct rv_adapter_registry *r = registry;

    if (body->is_queued)
        return;
    body->is_queued = true;
    body->next_queued = NULL;
    *(r->queue_end ? &r->queue_end->next_queued : &r->queue) = body;
    r->queue_end = body;
    r->n_queued++;
    pthread_cond_signal(&r->clerk_work);
}

static struct rv_adapter_body *take_queued(struct rv_adapter_registry *r)
{
    struct rv_adapter_body *body = r->queue;

    r->queue = body->next_queued;
    if (!r->queue)
        r->queue_end = NULL;
    body->is_queued = false;
    return body;
}

/* Memory and file of a content that no version has. When the same content came anew, the file is its to remove. */
static void clear_away(struct rv_adapter_registry *r, struct rv_adapter_body *body)
{
    const struct rv_adapter_registry_files *files = r->config.files;
    struct rv_adapter_body *heir = rv_adapter_index_body(&r->index, body->digest.hash);
    bool has_file = body->has_file || body->has_old_file;

    if (heir)
        heir->has_old_file = has_file;
    pthread_mutex_unlock(&r->lock);
    rv_adapter_unref(body->adapter);
    if (body->source)
        files->close_source(files->user, body->source);
    if (has_file && !heir)
        files->remove(files->user, body->digest.hash);
    rv_free(body);
    pthread_mutex_lock(&r->lock);
}

static void pause_until_retry(struct rv_adapter_registry *r)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += RETRY_MS / 1000;
    until.tv_nsec += (long)(RETRY_MS % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    while (!r->is_closing && pthread_cond_timedwait(&r->clerk_work, &r->lock, &until) != ETIMEDOUT) {
    }
}

static void note_unsaved(struct rv_adapter_registry *r, struct rv_adapter_body *body, const struct ruvllm_error *err)
{
    r->n_unsaved++;
    rv_log(RUVLLM_LOG_WARN, "an adapter stays in memory alone for now: %s", err->message);
    if (body->is_doomed)
        return; // it is in the queue once more, to be cleared away
    rv_adapter_threads_queue(r, body);
    pause_until_retry(r);
}

static void write_body(struct rv_adapter_registry *r, struct rv_adapter_body *body)
{
    const struct rv_adapter_registry_files *files = r->config.files;
    struct rv_adapter_residency_trash trash = {.n = 0};
    struct ruvllm_error err = {0};
    void *source = body->source;
    uint64_t n_bytes = 0;
    ruvllm_status rc;

    /* Until it has a file it stays in memory, and only this thread frees bodies: nothing is lost while it is open. */
    pthread_mutex_unlock(&r->lock);
    rc = files->save(files->user, body->digest.hash, body->adapter, source, &n_bytes, &err);
    if (!rc && source)
        files->close_source(files->user, source);
    pthread_mutex_lock(&r->lock);
    if (rc) {
        note_unsaved(r, body, &err);
        return;
    }
    body->source = NULL;
    body->has_file = true;
    body->file_bytes = n_bytes;
    pthread_cond_broadcast(&r->settled); // somebody may want this very file
    if (body->is_doomed)
        return;
    r->n_unwritten--;
    rv_adapter_residency_settle(&r->residency, body);
    rv_adapter_residency_trim(&r->residency, &trash);
    if (r->waiting)
        pthread_cond_signal(&r->loader_work);
    pthread_mutex_unlock(&r->lock);
    rv_adapter_residency_empty(&trash);
    pthread_mutex_lock(&r->lock);
}

static void *clerk_main(void *registry)
{
    struct rv_adapter_registry *r = registry;

    pthread_mutex_lock(&r->lock);
    for (;;) {
        struct rv_adapter_body *body;

        while (!r->queue && !r->is_closing)
            pthread_cond_wait(&r->clerk_work, &r->lock);
        if (!r->queue)
            break;
        body = take_queued(r);
        if (body->is_doomed)
            clear_away(r, body);
        else if (r->config.files && !r->is_closing)
            write_body(r, body);
        r->n_queued--; // only now: who waits for the clerk waits for what it has in hand, too
        if (r->n_queued == 0)
            pthread_cond_broadcast(&r->settled);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* ---- life ----------------------------------------------------------------------------------- */

void rv_adapter_threads_init(struct rv_adapter_registry *registry)
{
    pthread_condattr_t attributes;

    pthread_mutex_init(&registry->lock, NULL);
    pthread_cond_init(&registry->loader_work, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&registry->clerk_work, &attributes);
    pthread_cond_init(&registry->settled, &attributes);
    pthread_condattr_destroy(&attributes);
}

ruvllm_status rv_adapter_threads_start(struct rv_adapter_registry *registry, struct ruvllm_error *err)
{
    int rc = pthread_create(&registry->clerk, NULL, clerk_main, registry);

    registry->has_clerk = rc == 0;
    if (rc == 0) {
        rc = pthread_create(&registry->loader, NULL, loader_main, registry);
        registry->has_loader = rc == 0;
    }
    return rc ? rv_fail_errno(err, rc, "cannot start a thread of the registry of adapters") : RUVLLM_OK;
}

void rv_adapter_threads_stop(struct rv_adapter_registry *registry)
{
    struct rv_adapter_registry *r = registry;

    pthread_mutex_lock(&r->lock);
    r->is_stopping = true;
    pthread_cond_signal(&r->loader_work);
    pthread_mutex_unlock(&r->lock);
    if (r->has_loader)
        pthread_join(r->loader, NULL);
    r->has_loader = false;
    pthread_mutex_lock(&r->lock);
    while (r->waiting) {
        struct rv_adapter_ticket *ticket = r->waiting;

        rv_adapter_threads_unlink(r, ticket);
        rv_adapter_threads_fail(r, ticket, RUVLLM_CANCELLED, "the engine closes");
        announce(r, ticket);
    }
    pthread_mutex_unlock(&r->lock);
}

void rv_adapter_threads_join(struct rv_adapter_registry *registry)
{
    pthread_mutex_lock(&registry->lock);
    registry->is_closing = true;
    pthread_cond_signal(&registry->clerk_work);
    pthread_mutex_unlock(&registry->lock);
    if (registry->has_clerk)
        pthread_join(registry->clerk, NULL);
    registry->has_clerk = false;
}

void rv_adapter_threads_release(struct rv_adapter_registry *registry)
{
    pthread_mutex_destroy(&registry->lock);
    pthread_cond_destroy(&registry->loader_work);
    pthread_cond_destroy(&registry->clerk_work);
    pthread_cond_destroy(&registry->settled);
}
