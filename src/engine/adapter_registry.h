/*
 * The adapters of an engine. An id has generations 1, 2, 3, ..., which never change; publishing one is compare and
 * swap. A request pins the generations it begins with and keeps them to its end, whatever is published or unloaded
 * meanwhile.
 *
 * Contents are in memory, in files, or both. At most `max_layered` of those that change layers, and `max_bytes` of all,
 * are in memory; what was not used longest leaves it. A request whose adapters are not there waits until they are: in
 * turn, and as long as it takes when requests that run hold every place. It does not fail for that. Without files
 * everything stays in memory: what has no room there is refused when it is published, after old generations that
 * nobody uses were forgotten for it.
 *
 * Threads. Every function may be called from any thread; none waits for a disk but fetch, await_file, settle and close.
 * The registry has two threads of its own. The loader reads what waiting requests need.
 * The clerk writes what is new, removes files of what is gone, and frees memory; it alone writes and removes, so a file
 * is never removed after it was written anew. `lock` guards everything; it is held for looking up and linking, never
 * during a callback or while a file is read or written. It may be taken while an engine's lock is held, not the other
 * way round.
 */
#ifndef RV_ENGINE_ADAPTER_REGISTRY_H
#define RV_ENGINE_ADAPTER_REGISTRY_H

#include "engine/adapter_residency.h"
#include "graph/batch.h"
#include "ruvllm_adapter.h"

enum { RV_ADAPTER_REGISTRY_MAX_ID = 127 }; // bytes of an id

struct rv_adapter_registry;

/* Where contents are kept besides memory. */
struct rv_adapter_registry_files {
    /* Writes the content under its hash, from the adapter and what came with it (`source`, which may be NULL). */
    ruvllm_status (*save)(void *user, const char *hash, const struct rv_adapter *adapter, void *source,
                          uint64_t *n_bytes, struct ruvllm_error *err);
    ruvllm_status (*load)(void *user, const char *hash, struct rv_adapter **out, struct ruvllm_error *err);
    void (*remove)(void *user, const char *hash);
    void (*close_source)(void *user, void *source);
    void *user;
};

enum rv_adapter_ticket_state {
    RV_ADAPTER_TICKET_NONE,    // nothing is pinned
    RV_ADAPTER_TICKET_PINNED,  // generations are chosen
    RV_ADAPTER_TICKET_WAITING, // for its turn
    RV_ADAPTER_TICKET_HELD,    // all are in memory and stay there
    RV_ADAPTER_TICKET_FAILED   // `error` says why
};

/* What a request has of a registry. The caller's memory, all zero at first; it stays where it is while it has any. */
struct rv_adapter_ticket {
    int32_t n;
    struct rv_adapter_version *versions[RV_ADAPTER_MIX_MAX];
    float weights[RV_ADAPTER_MIX_MAX];
    int64_t generation; // of the first
    uint64_t layers;    // what keys and values of the request depend on; 0: nothing but the model
    void *owner;        // for on_ready

    /* The registry's until the ticket is held or failed, then the owner's to read. */
    enum rv_adapter_ticket_state state;
    struct rv_adapter_mix mix; // HELD
    struct ruvllm_error error; // FAILED
    int32_t n_held;
    int64_t since_us;
    struct rv_adapter_ticket *next;
};

struct rv_adapter_registry_config {
    int32_t max_layered;                           // at least RV_ADAPTER_MIX_MAX
    uint64_t max_bytes;                            // one adapter may have an eighth of it
    int32_t max_generations;                       // of an id that requests find; older ones are forgotten
    const struct rv_adapter_registry_files *files; // NULL: none
    /* A ticket that waited is held or failed. Called without the lock, by the loader or by who stops the registry. */
    void (*on_ready)(void *user, struct rv_adapter_ticket *ticket);
    void *user;
};

struct rv_adapter_choice {
    const char *id;
    int64_t generation; // 0: the newest
    float weight;
};

struct rv_adapter_registry_stats {
    size_t n_ids;         // that have a generation
    size_t n_generations; // that requests find
    size_t n_contents;
    size_t n_resident;
    size_t n_layered;   // of those, with changes of layers
    size_t n_waiting;   // tickets
    size_t n_unwritten; // contents that only memory has, though there are files
    uint64_t n_bytes;   // of memory
    uint64_t n_loaded;  // since the start: contents read from files
    uint64_t n_evicted; // contents that left memory for others
    uint64_t n_unsaved; // attempts to write that failed
};

RV_CHECKED ruvllm_status rv_adapter_registry_open(struct rv_adapter_registry **out,
                                                  const struct rv_adapter_registry_config *config,
                                                  struct ruvllm_error *err);
/* Fails what waits (CANCELLED, by on_ready) and everything that comes to wait from now on. */
void rv_adapter_registry_stop(struct rv_adapter_registry *registry);
/* Every ticket was released. Removes the files. Accepts NULL. */
void rv_adapter_registry_close(struct rv_adapter_registry *registry);

/*
 * Makes the adapter, of which a reference is taken, the next generation of the id. CONFLICT, with nothing done, unless
 * the newest is `expected` (0: there is none; -1: whatever it is). Touches no disk: the file is written later, with
 * `source`, which becomes the registry's on success only. INVALID for an id that is not 1 to 127 letters, digits and
 * "._-/", TOO_LARGE for an adapter that finds no room; BUSY when it would if the clerk had written more.
 */
struct rv_adapter_offer {
    const char *id;
    int64_t expected;
    struct rv_adapter *adapter;
    void *source;     // NULL, as always without files: there is nothing but the adapter
    const char *hash; // of the source's content, in hex; NULL: that of the adapter's numbers is taken
};
RV_CHECKED ruvllm_status rv_adapter_registry_publish(struct rv_adapter_registry *registry,
                                                     const struct rv_adapter_offer *offer, int64_t *generation,
                                                     struct ruvllm_error *err);
/* Requests no longer find a generation, or any (0). NOT_FOUND when they did not before. */
RV_CHECKED ruvllm_status rv_adapter_registry_forget(struct rv_adapter_registry *registry, const char *id,
                                                    int64_t generation, struct ruvllm_error *err);

/* Chooses generations; from here on they are this ticket's. n is up to RV_ADAPTER_MIX_MAX. */
RV_CHECKED ruvllm_status rv_adapter_registry_pin(struct rv_adapter_registry *registry, struct rv_adapter_ticket *ticket,
                                                 const struct rv_adapter_choice *choices, int32_t n,
                                                 struct ruvllm_error *err);
/* Has the adapters of a pinned ticket in memory. True when they are, or it failed; false: on_ready will be called. */
bool rv_adapter_registry_enter(struct rv_adapter_registry *registry, struct rv_adapter_ticket *ticket);
/* Fails a ticket that waits and returns true; the owner goes on as after on_ready, which is not called. */
bool rv_adapter_registry_withdraw(struct rv_adapter_registry *registry, struct rv_adapter_ticket *ticket);
/* Gives back what a ticket has and makes it NONE, which it may be already. It must not be waiting. */
void rv_adapter_registry_release(struct rv_adapter_registry *registry, struct rv_adapter_ticket *ticket);
/* Pins and waits until all are held; on failure the ticket is released. */
RV_CHECKED ruvllm_status rv_adapter_registry_fetch(struct rv_adapter_registry *registry,
                                                   struct rv_adapter_ticket *ticket,
                                                   const struct rv_adapter_choice *choices, int32_t n,
                                                   struct ruvllm_error *err);
/* Waits, a few seconds at most, until the file of a held ticket's first adapter is written; BUSY when it is not. */
RV_CHECKED ruvllm_status rv_adapter_registry_await_file(struct rv_adapter_registry *registry,
                                                        const struct rv_adapter_ticket *ticket,
                                                        struct ruvllm_error *err);

/* As ruvllm_engine_adapter_list. */
RV_CHECKED ruvllm_status rv_adapter_registry_list(struct rv_adapter_registry *registry, const char *prefix,
                                                  struct ruvllm_adapter_info **infos, size_t *n,
                                                  struct ruvllm_error *err);
void rv_adapter_registry_stats_get(struct rv_adapter_registry *registry, struct rv_adapter_registry_stats *out);
/* Waits until the clerk has nothing to do; for tests and benches. */
void rv_adapter_registry_settle(struct rv_adapter_registry *registry);

#endif
