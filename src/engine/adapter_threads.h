/*
 * The inside of a registry of adapters: its memory, the line of tickets that wait, and its two threads. Everything that
 * takes a ticket or a body is called under the lock.
 */
#ifndef RV_ENGINE_ADAPTER_THREADS_H
#define RV_ENGINE_ADAPTER_THREADS_H

#include "engine/adapter_registry.h"

#include <pthread.h>

struct rv_adapter_registry {
    struct rv_adapter_registry_config config;
    pthread_mutex_t lock;
    pthread_cond_t loader_work; // somebody waits; something was let go or written
    pthread_cond_t clerk_work;
    pthread_cond_t settled; // a ticket without an owner is ready, a file is written, or the clerk is done
    pthread_t loader;
    pthread_t clerk;
    bool has_loader;
    bool has_clerk;

    /* Guarded by lock. */
    struct rv_adapter_index index;
    struct rv_adapter_residency residency;
    struct rv_adapter_ticket *waiting;      // in the order they came
    const struct rv_adapter_ticket *served; // for whom the loader reads now
    struct rv_adapter_body *queue;          // the clerk's, oldest first
    struct rv_adapter_body *queue_end;
    size_t n_queued; // and being worked on
    size_t n_ids;
    size_t n_unwritten;
    size_t hand; // the bucket where forgetting goes on
    uint64_t n_loaded;
    uint64_t n_unsaved;
    bool is_stopping; // nobody waits any more
    bool is_closing;
};

void rv_adapter_threads_init(struct rv_adapter_registry *registry);
RV_CHECKED ruvllm_status rv_adapter_threads_start(struct rv_adapter_registry *registry, struct ruvllm_error *err);
/* Ends the loader and fails all that waits. Without the lock, as the next two. */
void rv_adapter_threads_stop(struct rv_adapter_registry *registry);
/* The clerk ends when it has cleared away what is doomed; what is not written stays so. */
void rv_adapter_threads_join(struct rv_adapter_registry *registry);
void rv_adapter_threads_release(struct rv_adapter_registry *registry);

/* Gives the clerk a content to write, or, doomed, to clear away. */
void rv_adapter_threads_queue(struct rv_adapter_registry *registry, struct rv_adapter_body *body);

bool rv_adapter_threads_is_layered(const struct rv_adapter_ticket *ticket);
/* Contents below the head with their weights; order counts, as sums of rounded numbers depend on it. 0: none. */
uint64_t rv_adapter_threads_layers(const struct rv_adapter_ticket *ticket);
/* Holds what is left to hold of a ticket whose adapters are all in memory, and makes it HELD. */
void rv_adapter_threads_hold(struct rv_adapter_registry *registry, struct rv_adapter_ticket *ticket);
void rv_adapter_threads_let_go(struct rv_adapter_registry *registry, struct rv_adapter_ticket *ticket);
/* Lets go and makes it FAILED. It is not in the line. */
void rv_adapter_threads_fail(struct rv_adapter_registry *registry, struct rv_adapter_ticket *ticket,
                             ruvllm_status status, const char *why);
/* At the end of the line; out of it. */
void rv_adapter_threads_wait(struct rv_adapter_registry *registry, struct rv_adapter_ticket *ticket);
void rv_adapter_threads_unlink(struct rv_adapter_registry *registry, struct rv_adapter_ticket *ticket);

#endif
