/* Which backend a URL means, and the handle with its connections. */
#include "store/store.h"

#include "base/alloc.h"
#include "store/event_writer.h"
#include "store/key_memory.h"
#include "store/sql_db.h"
#include "store/sql_identity.h"
#include "store/store_path.h"
#include "store/store_sqlite.h"
#include "store/store_witness.h"
#ifdef RUVLLM_POSTGRES
#include "store/store_postgres.h"
#endif

#include <string.h>

/* A new kind of store is an engine (sql_db.h) and a line here. */
static const struct rv_store_backend *const backends[] = {
    &rv_store_sqlite,
#ifdef RUVLLM_POSTGRES
    &rv_store_postgres,
    &rv_store_postgresql,
#endif
};

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
static ruvllm_status choose(const char *url, const struct rv_store_backend **backend, const char **location,
                            struct ruvllm_error *err)
{
    size_t len = strspn(url, "abcdefghijklmnopqrstuvwxyz");

    *backend = backends[0];
    *location = url;
    if (len < 2 || url[len] != ':')
        return RUVLLM_OK;
    *location = url + len + 1;
    for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++) {
        *backend = backends[i];
        if (is_scheme(url, len, backends[i]->scheme)) {
            if (backends[i]->takes_url)
                *location = url;
            return RUVLLM_OK;
        }
    }
    if (is_scheme(url, len, "postgres") || is_scheme(url, len, "postgresql"))
        return rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_STORAGE,
                            "this build keeps its store in SQLite alone: give the path of a file");
    return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_STORAGE,
                        "there is no such kind of store: give a path, 'sqlite:' and a path, or 'postgresql://...'");
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

ruvllm_status rv_store_connect(struct ruvllm_store *store, enum rv_store_role role, struct rv_store_db **out,
                               struct ruvllm_error *err)
{
    return store->backend->open(out, store->location, role, &store->params, err);
}

static ruvllm_status connect_all(struct ruvllm_store *store, struct ruvllm_error *err)
{
    struct rv_store_db *log_db = NULL;
    ruvllm_status rc = rv_store_connect(store, RV_STORE_ROLE_FIRST, &store->db, err);

    if (!rc)
        rc = rv_store_connect(store, RV_STORE_ROLE_READER, &store->check_db, err);
    if (!rc)
        rc = rv_store_connect(store, RV_STORE_ROLE_WRITER, &log_db, err);
    if (rc)
        return rc;
    rc = rv_store_witness_open(&store->log, log_db, &store->params, err);
    if (rc)
        rv_sql_db_close(log_db);
    return rc;
}

/* ---- the event log's connections ----------------------------------------------------------- */

static ruvllm_status start_events(struct ruvllm_store *store, struct ruvllm_error *err)
{
    struct rv_store_db *db = NULL, *tidy_db = NULL;
    struct rv_event_spool *spool = NULL;
    ruvllm_status rc = rv_store_connect(store, RV_STORE_ROLE_EVENTS, &db, err);

    if (!rc && db->sql->tidy)
        rc = rv_store_connect(store, RV_STORE_ROLE_WRITER, &tidy_db, err);
    if (!rc && store->spool_path)
        rc = rv_event_spool_open(&spool, store->spool_path, &store->params, err);
    if (!rc)
        rc = rv_event_writer_open(&store->events, db, tidy_db, spool, err);
    if (!rc)
        return RUVLLM_OK;
    rv_event_spool_close(spool);
    rv_sql_db_close(tidy_db);
    rv_sql_db_close(db);
    return rv_fail_in(err, rc, "cannot open the event log");
}

ruvllm_status rv_store_events_writer(struct ruvllm_store *store, struct rv_event_writer **out, struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;

    pthread_mutex_lock(&store->events_lock);
    if (!store->events)
        rc = start_events(store, err);
    *out = store->events;
    pthread_mutex_unlock(&store->events_lock);
    return rc;
}

/* ---- opening and closing ------------------------------------------------------------------- */

/* Copies of what is needed again for later connections. */
static ruvllm_status keep(struct ruvllm_store *store, const char *location, const struct ruvllm_store_params *params,
                          struct ruvllm_error *err)
{
    store->params = *params;
    store->params.spool_path = NULL; // borrowed
    store->location = rv_strdup(location);
    if (store->backend->has_spool && params->spool_path)
        store->spool_path = rv_strdup(params->spool_path);
    if (store->backend->has_spool)
        store->key_memory = rv_key_memory_new();
    if (!store->location || (store->backend->has_spool && !store->key_memory) ||
        (store->backend->has_spool && params->spool_path && !store->spool_path))
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a store");
    return RUVLLM_OK;
}

/* Each database has its own: what waits for one must not be given to another that is opened here. */
static ruvllm_status find_spool(struct ruvllm_store *store, struct ruvllm_error *err)
{
    char id[RV_SQL_IDENTITY_LEN + 1];
    ruvllm_status rc;

    if (!store->backend->has_spool || store->spool_path)
        return RUVLLM_OK;
    rc = rv_sql_identity_read(store->db, id, err);
    return rc ? rc : rv_store_path_spool(id, &store->spool_path, err);
}

/* A URL may hold a password: only its beginning is repeated. */
static int shown_len(const char *url)
{
    const char *slashes = strstr(url, "://");

    return slashes ? (int)(slashes - url) + 3 : 120;
}

ruvllm_status rv_store_open(struct ruvllm_store **out, const char *url, const struct ruvllm_store_params *params,
                            struct ruvllm_error *err)
{
    struct ruvllm_store *store = NULL;
    struct rv_event_writer *events;
    const struct rv_store_backend *backend;
    const char *location;
    ruvllm_status rc = check_params(params, err);

    *out = NULL;
    if (!rc)
        rc = choose(url, &backend, &location, err);
    if (rc)
        goto fail;
    store = rv_calloc(1, sizeof(*store));
    if (!store) {
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a store");
        goto fail;
    }
    store->backend = backend;
    pthread_mutex_init(&store->lock, NULL); // cannot fail with default attributes, here and below
    pthread_mutex_init(&store->check_lock, NULL);
    pthread_mutex_init(&store->events_lock, NULL);
    rc = keep(store, location, params, err);
    if (!rc)
        rc = connect_all(store, err);
    if (!rc)
        rc = find_spool(store, err);
    if (!rc && backend->has_spool)
        rc = rv_store_events_writer(store, &events, err); // what waits in the spool shall not wait for more
    if (rc)
        goto fail;
    *out = store;
    return RUVLLM_OK;
fail:
    rv_store_close(store);
    return rv_fail_in(err, rc, "cannot open store '%.*s'", shown_len(url), url);
}

void rv_store_close(struct ruvllm_store *store)
{
    if (!store)
        return;
    rv_event_writer_close(store->events);
    rv_store_witness_close(store->log);
    rv_sql_db_close(store->check_db);
    rv_sql_db_close(store->db);
    pthread_mutex_destroy(&store->events_lock);
    pthread_mutex_destroy(&store->check_lock);
    pthread_mutex_destroy(&store->lock);
    rv_key_memory_free(store->key_memory);
    rv_free(store->spool_path);
    rv_free(store->location);
    rv_free(store);
}
