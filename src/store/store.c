/* Which backend a URL means, and the handle with its connections. */
#include "store/store.h"

#include "base/alloc.h"
#include "store/store_sqlite.h"
#include "store/store_witness.h"

#include <string.h>

/* A new kind of store is a table of functions and a line here. */
static const struct rv_store_ops *const backends[] = {&rv_store_sqlite_ops};

struct ruvllm_store_params rv_store_params_default(void)
{
    return (struct ruvllm_store_params){.struct_size = sizeof(struct ruvllm_store_params),
                                        .busy_timeout_ms = 5000,
                                        .witness_buffer = 4096,
                                        .witness_flush_ms = 1000};
}

static ruvllm_status check_params(const struct ruvllm_store_params *params, struct ruvllm_error *err)
{
    if (params->busy_timeout_ms < 0 || params->busy_timeout_ms > 600000)
        return rv_fail(err, RUVLLM_INVALID, "'busy_timeout_ms' is %d; it goes from 0 to 600000",
                       params->busy_timeout_ms);
    if (params->witness_buffer < RV_STORE_LOG_BATCH || params->witness_buffer > 1048576)
        return rv_fail(err, RUVLLM_INVALID, "'witness_buffer' is %d; it goes from %d to 1048576",
                       params->witness_buffer, RV_STORE_LOG_BATCH);
    if (params->witness_flush_ms < 10 || params->witness_flush_ms > 60000)
        return rv_fail(err, RUVLLM_INVALID, "'witness_flush_ms' is %d; it goes from 10 to 60000",
                       params->witness_flush_ms);
    return RUVLLM_OK;
}

static bool is_scheme(const char *url, size_t len, const char *name)
{
    return strlen(name) == len && strncmp(url, name, len) == 0;
}

/* Two letters and more before a colon are a scheme; everything else is a path. */
static ruvllm_status choose(const char *url, const struct rv_store_ops **ops, const char **location,
                            struct ruvllm_error *err)
{
    size_t len = strspn(url, "abcdefghijklmnopqrstuvwxyz");

    *ops = backends[0];
    *location = url;
    if (len < 2 || url[len] != ':')
        return RUVLLM_OK;
    *location = url + len + 1;
    for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++) {
        *ops = backends[i];
        if (is_scheme(url, len, backends[i]->scheme))
            return RUVLLM_OK;
    }
    if (is_scheme(url, len, "postgres") || is_scheme(url, len, "postgresql"))
        return rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_STORAGE,
                            "this version keeps its store in SQLite alone: give the path of a file");
    return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_STORAGE,
                        "there is no such kind of store: give a path, or 'sqlite:' and a path");
}

struct rv_store_db *rv_store_lock(struct ruvllm_store *store)
{
    pthread_mutex_lock(&store->lock);
    return store->db;
}

void rv_store_unlock(struct ruvllm_store *store)
{
    pthread_mutex_unlock(&store->lock);
}

static ruvllm_status connect_all(struct ruvllm_store *store, const char *location,
                                 const struct ruvllm_store_params *params, struct ruvllm_error *err)
{
    struct rv_store_db *log_db = NULL;
    ruvllm_status rc = store->ops->open(&store->db, location, RV_STORE_ROLE_FIRST, params, err);

    if (!rc)
        rc = store->ops->open(&store->check_db, location, RV_STORE_ROLE_READER, params, err);
    if (!rc)
        rc = store->ops->open(&log_db, location, RV_STORE_ROLE_WRITER, params, err);
    if (rc)
        return rc;
    rc = rv_store_witness_open(&store->log, store->ops, log_db, params, err);
    if (rc)
        store->ops->close(log_db);
    return rc;
}

ruvllm_status rv_store_open(struct ruvllm_store **out, const char *url, const struct ruvllm_store_params *params,
                            struct ruvllm_error *err)
{
    struct ruvllm_store *store = NULL;
    const struct rv_store_ops *ops;
    const char *location;
    ruvllm_status rc = check_params(params, err);

    *out = NULL;
    if (!rc)
        rc = choose(url, &ops, &location, err);
    if (rc)
        goto fail;
    store = rv_calloc(1, sizeof(*store));
    if (!store) {
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a store");
        goto fail;
    }
    store->ops = ops;
    pthread_mutex_init(&store->lock, NULL); // cannot fail with default attributes, here and below
    pthread_mutex_init(&store->check_lock, NULL);
    rc = connect_all(store, location, params, err);
    if (rc)
        goto fail;
    *out = store;
    return RUVLLM_OK;
fail:
    rv_store_close(store);
    return rv_fail_in(err, rc, "cannot open store '%.120s'", url);
}

void rv_store_close(struct ruvllm_store *store)
{
    if (!store)
        return;
    rv_store_witness_close(store->log);
    store->ops->close(store->check_db);
    store->ops->close(store->db);
    pthread_mutex_destroy(&store->check_lock);
    pthread_mutex_destroy(&store->lock);
    rv_free(store);
}
