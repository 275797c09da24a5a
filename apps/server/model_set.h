/*
 * The models a server offers, by name. A model is loaded when it is first asked for, by a thread of the set's own while
 * whoever asked waits in a list, and unloaded when nobody used it for a while or when another one needs its memory.
 *
 * A lease keeps an engine from being unloaded: take it, use the engine from any thread, release it. Names are looked up
 * in the table, never used as paths.
 *
 * Threads: any may call; one lock, never held while a model is opened or closed. Waiters are called on the loader's.
 */
#ifndef RV_SERVER_MODEL_SET_H
#define RV_SERVER_MODEL_SET_H

#include "base/error.h"

enum { RV_MODEL_SET_MAX = 64, RV_MODEL_SET_NAME = 128 };

struct rv_model_set;

struct rv_model_set_model {
    const char *name;
    const char *path;
};

struct rv_model_set_config {
    const struct rv_model_set_model *models; // copied; the first is the default
    size_t n_models;
    struct ruvllm_engine_params engine; // of each; its `model` and `kv` must outlive the set
    const char *adapter_cache; // folder in which each engine gets one for its adapters; NULL: none; outlives it
    uint64_t memory_budget;    // bytes of weights, keys and values of all loaded models; 0: no limit
    int32_t idle_unload_s;     // 0: never
    int32_t max_waiting;       // who may wait for models to load
    /*
     * An engine was opened and nobody can take it yet; a failure is one of the load. On the loader's thread, which
     * waits. May be NULL.
     */
    ruvllm_status (*on_opened)(void *user, size_t i_model, ruvllm_engine *engine, struct ruvllm_error *err);
    /* A load ended: OK, or why not. On the loader's thread; must return at once. May be NULL. */
    void (*on_loaded)(void *user, size_t i_model, ruvllm_status status, const char *message);
    void *user;
};

/* Somebody who waits for a model; lives until `fn` was called. */
struct rv_model_set_waiter {
    void (*fn)(void *user);
    void *user;
    struct rv_model_set_waiter *next; // guarded by the set's lock
};

enum rv_model_set_taken {
    RV_MODEL_SET_TAKEN,
    RV_MODEL_SET_WAITS, // the waiter will be called: try again then
    RV_MODEL_SET_FAILED // err says why: it does not load, no memory, too many wait
};

/* True for 1 to 128 of A-Z a-z 0-9 . _ : / - */
bool rv_model_set_is_name(const char *name);

/* INVALID names a model whose name is not one or is there twice. Nothing is loaded yet. */
RV_CHECKED ruvllm_status rv_model_set_open(struct rv_model_set **out, const struct rv_model_set_config *config,
                                           struct ruvllm_error *err);
/* No lease may be held. Calls those who still wait. */
void rv_model_set_close(struct rv_model_set *set);
/* Calls those who wait, and from now on nobody waits: for a server that ends. */
void rv_model_set_stop(struct rv_model_set *set);

size_t rv_model_set_count(const struct rv_model_set *set);
const char *rv_model_set_name(const struct rv_model_set *set, size_t i_model);
/* A ruvllm_progress_fn of whatever a loading model does: false once the set closes. */
bool rv_model_set_goes_on(void *model_set, float fraction);
int64_t rv_model_set_created(const struct rv_model_set *set, size_t i_model); // of the file, Unix time; 0: unknown
/* The number of a model, or -1. */
int32_t rv_model_set_find(const struct rv_model_set *set, const char *name);
/* Starts loading without waiting for it. */
void rv_model_set_want(struct rv_model_set *set, size_t i_model);
/* True, once, after a model found no room because others are in use. */
bool rv_model_set_was_short(struct rv_model_set *set);
/* False while the default model is loading, or was never loaded. */
bool rv_model_set_is_ready(struct rv_model_set *set);

/*
 * A lease of a model. TAKEN fills *engine; WAITS keeps the waiter, after which the caller's state belongs to whoever
 * runs next.
 */
enum rv_model_set_taken rv_model_set_take(struct rv_model_set *set, size_t i_model, struct rv_model_set_waiter *waiter,
                                          ruvllm_engine **engine, struct ruvllm_error *err);
/* A lease only if the model is loaded right now; else NULL. Does not count as use. */
ruvllm_engine *rv_model_set_peek(struct rv_model_set *set, size_t i_model);
void rv_model_set_release(struct rv_model_set *set, size_t i_model, bool was_use);
/* From now on the model is not unloaded to make room: it has what no file would bring back. */
void rv_model_set_keep(struct rv_model_set *set, size_t i_model);

#endif
