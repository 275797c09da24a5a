/*
 * Threads: callers change states under the lock and wake the loader; the loader alone opens and closes engines, outside
 * the lock, while the state (LOADING, UNLOADING) keeps everybody else away from the entry.
 *
 *     COLD -> wanted -> LOADING -> READY -> UNLOADING -> COLD
 *                          `-----> COLD, with the failure remembered for a while
 */
#include "server/model_set.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/sha256.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { RETRY_US = 5000000, LOOK_MS = 500, PATH = 4096 };

enum state { COLD, LOADING, READY, UNLOADING };

struct entry {
    char *name;
    char *path;
    int64_t created;
    uint64_t file_bytes;

    /* Guarded by the set's lock. */
    enum state state;
    bool is_wanted;
    bool was_loaded;
    bool is_kept;
    ruvllm_engine *engine;
    int32_t n_leases;
    int64_t used_us;
    uint64_t bytes; // what it takes, or took when it was last loaded; 0: not known
    struct ruvllm_error failure;
    int64_t failed_us; // 0: it did not fail
};

struct rv_model_set {
    struct rv_model_set_config config;
    struct entry entries[RV_MODEL_SET_MAX];
    size_t n_entries;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct rv_model_set_waiter *waiters; // guarded by lock
    int32_t n_waiters;                   // guarded by lock
    bool is_closing;                     // guarded by lock
    bool was_short;                      // guarded by lock
};

/* ---- the loader: under the lock unless said otherwise ------------------------------------------ */

static void call_waiters(struct rv_model_set *set)
{
    struct rv_model_set_waiter *waiters = set->waiters;

    set->waiters = NULL;
    set->n_waiters = 0;
    pthread_mutex_unlock(&set->lock);
    while (waiters) {
        struct rv_model_set_waiter *next = waiters->next;

        waiters->fn(waiters->user);
        waiters = next;
    }
    pthread_mutex_lock(&set->lock);
}

static uint64_t bytes_loaded(const struct rv_model_set *set)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < set->n_entries; i++)
        bytes += set->entries[i].engine ? set->entries[i].bytes : 0;
    return bytes;
}

/* Unlocks while it closes. */
static void unload(struct rv_model_set *set, struct entry *entry)
{
    ruvllm_engine *engine = entry->engine;

    entry->state = UNLOADING;
    pthread_mutex_unlock(&set->lock);
    ruvllm_engine_close(engine);
    pthread_mutex_lock(&set->lock);
    entry->engine = NULL;
    entry->state = COLD;
}

/* The loaded model nobody uses that was used longest ago; NULL: all are in use. */
static struct entry *least_used(struct rv_model_set *set)
{
    struct entry *best = NULL;

    for (size_t i = 0; i < set->n_entries; i++) {
        struct entry *entry = &set->entries[i];

        if (entry->state == READY && !entry->is_kept && entry->n_leases == 0 &&
            (!best || entry->used_us < best->used_us))
            best = entry;
    }
    return best;
}

/* Unloads others until `bytes` more fit into the budget. */
static ruvllm_status make_room(struct rv_model_set *set, uint64_t bytes, struct ruvllm_error *err)
{
    uint64_t budget = set->config.memory_budget;

    if (budget && bytes > budget)
        return rv_fail(err, RUVLLM_NO_MEMORY,
                       "it needs %llu MiB and the memory budget is %llu MiB; raise --memory-budget or lower --kv-bytes",
                       (unsigned long long)(bytes >> 20), (unsigned long long)(budget >> 20));
    while (budget && bytes_loaded(set) + bytes > budget) {
        struct entry *victim = least_used(set);

        set->was_short |= !victim;
        if (!victim)
            return rv_fail(err, RUVLLM_BUSY, "models in use take all of the memory budget of %llu MiB; try again later",
                           (unsigned long long)(budget >> 20));
        unload(set, victim);
    }
    return RUVLLM_OK;
}

static uint64_t bytes_of(ruvllm_engine *engine)
{
    struct ruvllm_memory_stats memory = {.struct_size = sizeof(memory)};
    struct ruvllm_engine_stats stats = {.struct_size = sizeof(stats)};

    /* Neither can fail on an open engine; a zero would only make the budget generous. */
    if (ruvllm_memory_stats_get(ruvllm_engine_model(engine), &memory, NULL) ||
        ruvllm_engine_stats_get(engine, &stats, NULL))
        return 0;
    return memory.weights_mapped + memory.weights_allocated + memory.compute_bytes + stats.kv_budget;
}

bool rv_model_set_goes_on(void *model_set, float fraction)
{
    struct rv_model_set *set = model_set;
    bool is_closing;

    (void)fraction;
    pthread_mutex_lock(&set->lock);
    is_closing = set->is_closing;
    pthread_mutex_unlock(&set->lock);
    return !is_closing;
}

/* Outside the lock. */
static ruvllm_status open_engine(struct rv_model_set *set, const struct entry *entry, ruvllm_engine **out,
                                 struct ruvllm_error *err)
{
    struct ruvllm_engine_params params = set->config.engine;
    struct ruvllm_model_params model = params.model ? *params.model : ruvllm_model_params_default();
    char hex[RV_SHA256_HEX_LEN + 1], folder[PATH];

    if (set->config.adapter_cache) {
        rv_sha256_hex(entry->name, strlen(entry->name), hex); // names may hold a '/'
        if (snprintf(folder, sizeof(folder), "%s/%.16s", set->config.adapter_cache, hex) >= PATH)
            return rv_fail(err, RUVLLM_INVALID, "the path of the adapters' cache is too long");
        params.adapter_dir = folder;
    }
    model.on_progress = rv_model_set_goes_on;
    model.progress_user = set;
    params.model = &model;
    return ruvllm_engine_open(out, entry->path, &params, err);
}

static ruvllm_status load(struct rv_model_set *set, struct entry *entry, struct ruvllm_error *err)
{
    uint64_t bytes = entry->bytes ? entry->bytes : entry->file_bytes + set->config.engine.kv_bytes;
    ruvllm_engine *engine = NULL;
    ruvllm_status rc = make_room(set, bytes, err);

    if (rc)
        return rc;
    pthread_mutex_unlock(&set->lock);
    rc = open_engine(set, entry, &engine, err);
    if (!rc && set->config.on_opened) {
        rc = set->config.on_opened(set->config.user, (size_t)(entry - set->entries), engine, err);
        if (rc)
            ruvllm_engine_close(engine);
    }
    bytes = rc ? 0 : bytes_of(engine);
    pthread_mutex_lock(&set->lock);
    if (rc)
        return rc;
    /* Now its size is known, and not only guessed from the file. */
    entry->bytes = bytes;
    rc = make_room(set, bytes, err);
    if (rc) {
        pthread_mutex_unlock(&set->lock);
        ruvllm_engine_close(engine);
        pthread_mutex_lock(&set->lock);
        return rc;
    }
    entry->engine = engine;
    return RUVLLM_OK;
}

static void serve_wish(struct rv_model_set *set, size_t i)
{
    struct entry *entry = &set->entries[i];
    struct ruvllm_error err = {0};
    ruvllm_status rc;

    entry->is_wanted = false;
    entry->state = LOADING;
    rc = load(set, entry, &err);
    entry->state = rc ? COLD : READY;
    entry->was_loaded |= !rc;
    entry->used_us = rv_clock_us();
    entry->failed_us = rc ? entry->used_us : 0;
    if (rc) {
        rv_fail_in(&err, rc, "cannot load model '%s'", entry->name);
        entry->failure = err;
    }
    if (set->config.on_loaded) {
        pthread_mutex_unlock(&set->lock);
        set->config.on_loaded(set->config.user, i, rc, rc ? err.message : "");
        pthread_mutex_lock(&set->lock);
    }
    call_waiters(set);
}

static void unload_idle(struct rv_model_set *set)
{
    int64_t since = rv_clock_us() - (int64_t)set->config.idle_unload_s * 1000000;

    for (size_t i = 0; set->config.idle_unload_s > 0 && i < set->n_entries; i++) {
        struct entry *entry = &set->entries[i];

        if (entry->state == READY && !entry->is_kept && entry->n_leases == 0 && entry->used_us < since)
            unload(set, entry);
    }
}

static struct entry *next_wish(struct rv_model_set *set, size_t *index)
{
    for (size_t i = 0; i < set->n_entries; i++) {
        if (set->entries[i].is_wanted) {
            *index = i;
            return &set->entries[i];
        }
    }
    return NULL;
}

static void *run(void *user)
{
    struct rv_model_set *set = user;
    size_t i;

    pthread_mutex_lock(&set->lock);
    while (!set->is_closing) {
        struct timespec until;

        if (next_wish(set, &i)) {
            serve_wish(set, i);
            continue;
        }
        unload_idle(set);
        if (next_wish(set, &i) || set->is_closing)
            continue;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += LOOK_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&set->changed, &set->lock, &until);
    }
    call_waiters(set);
    pthread_mutex_unlock(&set->lock);
    return NULL;
}

/* ---- doors ------------------------------------------------------------------------------------ */

size_t rv_model_set_count(const struct rv_model_set *set)
{
    return set->n_entries;
}

const char *rv_model_set_name(const struct rv_model_set *set, size_t i_model)
{
    return set->entries[i_model].name;
}

int64_t rv_model_set_created(const struct rv_model_set *set, size_t i_model)
{
    return set->entries[i_model].created;
}

int32_t rv_model_set_find(const struct rv_model_set *set, const char *name)
{
    for (size_t i = 0; i < set->n_entries; i++) {
        if (strcmp(set->entries[i].name, name) == 0)
            return (int32_t)i;
    }
    return -1;
}

void rv_model_set_want(struct rv_model_set *set, size_t i_model)
{
    pthread_mutex_lock(&set->lock);
    if (set->entries[i_model].state != READY)
        set->entries[i_model].is_wanted = true;
    pthread_cond_signal(&set->changed);
    pthread_mutex_unlock(&set->lock);
}

bool rv_model_set_was_short(struct rv_model_set *set)
{
    bool was_short;

    pthread_mutex_lock(&set->lock);
    was_short = set->was_short;
    set->was_short = false;
    pthread_mutex_unlock(&set->lock);
    return was_short;
}

bool rv_model_set_is_ready(struct rv_model_set *set)
{
    bool is_ready;

    pthread_mutex_lock(&set->lock);
    is_ready = set->n_entries > 0 && set->entries[0].was_loaded && set->entries[0].state != LOADING;
    pthread_mutex_unlock(&set->lock);
    return is_ready;
}

enum rv_model_set_taken rv_model_set_take(struct rv_model_set *set, size_t i_model, struct rv_model_set_waiter *waiter,
                                          ruvllm_engine **engine, struct ruvllm_error *err)
{
    struct entry *entry = &set->entries[i_model];
    enum rv_model_set_taken taken = RV_MODEL_SET_FAILED;

    *engine = NULL;
    pthread_mutex_lock(&set->lock);
    if (entry->state == READY) {
        entry->n_leases++;
        *engine = entry->engine;
        taken = RV_MODEL_SET_TAKEN;
    } else if (set->is_closing) {
        rv_fail(err, RUVLLM_CANCELLED, "the server is ending");
    } else if (entry->failed_us && rv_clock_us() - entry->failed_us < RETRY_US) {
        if (err)
            *err = entry->failure;
    } else if (set->n_waiters >= set->config.max_waiting) {
        rv_fail(err, RUVLLM_BUSY, "%d requests wait for models to load; try again later", set->n_waiters);
    } else {
        waiter->next = set->waiters;
        set->waiters = waiter;
        set->n_waiters++;
        entry->is_wanted = entry->state != LOADING;
        pthread_cond_signal(&set->changed);
        taken = RV_MODEL_SET_WAITS;
    }
    pthread_mutex_unlock(&set->lock);
    return taken;
}

ruvllm_engine *rv_model_set_peek(struct rv_model_set *set, size_t i_model)
{
    struct entry *entry = &set->entries[i_model];
    ruvllm_engine *engine = NULL;

    pthread_mutex_lock(&set->lock);
    if (entry->state == READY) {
        entry->n_leases++;
        engine = entry->engine;
    }
    pthread_mutex_unlock(&set->lock);
    return engine;
}

void rv_model_set_release(struct rv_model_set *set, size_t i_model, bool was_use)
{
    struct entry *entry = &set->entries[i_model];

    pthread_mutex_lock(&set->lock);
    RV_ASSERT(entry->n_leases > 0);
    entry->n_leases--;
    if (was_use)
        entry->used_us = rv_clock_us();
    pthread_mutex_unlock(&set->lock);
}

void rv_model_set_keep(struct rv_model_set *set, size_t i_model)
{
    pthread_mutex_lock(&set->lock);
    set->entries[i_model].is_kept = true;
    pthread_mutex_unlock(&set->lock);
}

/* ---- life -------------------------------------------------------------------------------------- */

bool rv_model_set_is_name(const char *name)
{
    size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/-");

    return len > 0 && len <= RV_MODEL_SET_NAME && name[len] == '\0';
}

/* Weights of a Hugging Face folder. */
static uint64_t folder_bytes(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    struct stat file;
    uint64_t bytes = 0;

    while (dir && (entry = readdir(dir))) {
        const char *suffix = strrchr(entry->d_name, '.');

        if (suffix && strcmp(suffix, ".safetensors") == 0 && fstatat(dirfd(dir), entry->d_name, &file, 0) == 0)
            bytes += (uint64_t)file.st_size;
    }
    if (dir)
        closedir(dir);
    return bytes;
}

static ruvllm_status add(struct rv_model_set *set, const struct rv_model_set_model *model, struct ruvllm_error *err)
{
    struct entry *entry = &set->entries[set->n_entries];
    struct stat file;

    if (!rv_model_set_is_name(model->name))
        return rv_fail(err, RUVLLM_INVALID,
                       "'%.64s' is not a model name: up to %d letters, digits, '.', '_', ':', '/' and '-'; choose one "
                       "with NAME=PATH",
                       model->name, RV_MODEL_SET_NAME);
    if (rv_model_set_find(set, model->name) >= 0)
        return rv_fail(err, RUVLLM_INVALID, "two models are named '%s'; choose names with NAME=PATH", model->name);
    if (set->n_entries == RV_MODEL_SET_MAX)
        return rv_fail(err, RUVLLM_TOO_LARGE, "more than %d models", RV_MODEL_SET_MAX);
    entry->name = rv_strdup(model->name);
    entry->path = rv_strdup(model->path);
    set->n_entries++;
    if (!entry->name || !entry->path)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the table of models");
    /* A file that is not there now may be when it is asked for: opening it will tell. */
    if (stat(model->path, &file) == 0) {
        entry->created = (int64_t)file.st_mtime;
        entry->file_bytes = S_ISDIR(file.st_mode) ? folder_bytes(model->path) : (uint64_t)file.st_size;
    }
    return RUVLLM_OK;
}

static ruvllm_status start(struct rv_model_set *set, struct ruvllm_error *err)
{
    int rc = pthread_create(&set->thread, NULL, run, set);

    if (rc)
        return rv_fail_errno(err, rc, "cannot start the thread that loads models");
    set->has_thread = true;
    return RUVLLM_OK;
}

ruvllm_status rv_model_set_open(struct rv_model_set **out, const struct rv_model_set_config *config,
                                struct ruvllm_error *err)
{
    struct rv_model_set *set = rv_calloc(1, sizeof(*set));
    pthread_condattr_t attributes;
    ruvllm_status rc = RUVLLM_OK;

    *out = NULL;
    if (!set)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the table of models");
    set->config = *config;
    pthread_mutex_init(&set->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&set->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    for (size_t i = 0; !rc && i < config->n_models; i++)
        rc = add(set, &config->models[i], err);
    if (!rc)
        rc = start(set, err);
    if (rc) {
        rv_model_set_close(set);
        return rc;
    }
    *out = set;
    return RUVLLM_OK;
}

void rv_model_set_stop(struct rv_model_set *set)
{
    pthread_mutex_lock(&set->lock);
    set->is_closing = true;
    pthread_cond_signal(&set->changed);
    pthread_mutex_unlock(&set->lock);
    if (set->has_thread)
        pthread_join(set->thread, NULL);
    set->has_thread = false;
}

void rv_model_set_close(struct rv_model_set *set)
{
    if (!set)
        return;
    rv_model_set_stop(set);
    for (size_t i = 0; i < set->n_entries; i++) {
        struct entry *entry = &set->entries[i];

        RV_ASSERT(entry->n_leases == 0);
        ruvllm_engine_close(entry->engine);
        rv_free(entry->name);
        rv_free(entry->path);
    }
    pthread_mutex_destroy(&set->lock);
    pthread_cond_destroy(&set->changed);
    rv_free(set);
}
