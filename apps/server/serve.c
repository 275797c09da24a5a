/*
 * Opens the parts in the order they need each other, runs, and closes them in the order that keeps every pointer good:
 *
 *     http has returned -> loader stops, waiters go to the workers -> workers end -> who prepares to learn gives up
 *     -> a training run ends -> calls let go of engines -> engines close (no more posts) -> slots and http are freed
 *
 * Threads: the caller's becomes the I/O thread. Signals are blocked in every thread and read by one of their own.
 */
#include "server/serve.h"

#include "base/alloc.h"
#include "base/heap.h"
#include "ruvllm_learn.h"
#include "server/adapter_folder.h"
#include "server/call.h"
#include "server/deep_runner.h"
#include "server/front_desk.h"
#include "server/greeting.h"
#include "server/learning_starter.h"
#include "server/model_list.h"
#include "server/response_index.h"
#include "server/service_manager.h"
#include "server/witness_keeper.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    N_QUICK = 2,
    N_SLOW = 2,
    N_VOTERS = 8,          // they wait for the disk; those who wait together are written together
    MAX_RESPONSES = 16384, // answers that feedback can name
    MAX_RATED_KEYS = 4096,
    VOTES_PER_MINUTE = 600, // of a key: ten people who do nothing else
    MAX_PIECE = 64 << 20,
    MAX_WAITING_FOR_MODELS = 1024,
    REFRESH_MS = 500,
    PATH = 4096
};

/* A server with what only its opening and closing needs. */
struct running {
    struct rv_server server;
    const struct rv_serve_config *config;
    struct rv_witness_keeper keeper;
    char *store_path; // NULL: no store
    char sessions_folder[PATH];
    char adapters_folder[RV_ADAPTER_FOLDER_PATH];
    char adapter_ids[RV_API_MAX_ADAPTERS][RV_API_MAX_ADAPTER + 1]; // of the default ones
    char url[300];
    pthread_t signals;
    bool has_signals;
    sigset_t mask_before;
    struct sigaction pipe_before;
    _Atomic bool is_ending;
    bool had_keys;              // when it was opened
    bool was_ready;             // the loader's
    struct ruvllm_error failed; // the loader's until it has ended; status OK: it did not
};

struct rv_serve_config rv_serve_config_default(void)
{
    return (struct rv_serve_config){.model = ruvllm_model_params_default(),
                                    .engine = ruvllm_engine_params_default(),
                                    .learn_rank = ruvllm_learn_params_default().rank,
                                    .consolidation = ruvllm_learn_params_default().consolidation,
                                    .votes_per_minute = VOTES_PER_MINUTE,
                                    .drain_s = 30,
                                    .max_calls = 20000,
                                    .log_level = RUVLLM_LOG_INFO};
}

/* ---- signals ---------------------------------------------------------------------------------------- */

static void set_of_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
}

/* The first signal drains, the second one ends at once. */
static void *wait_for_signals(void *user)
{
    struct running *r = user;
    int32_t drain_ms = r->config->drain_s * 1000;
    sigset_t set;
    int number;

    set_of_signals(&set);
    while (sigwait(&set, &number) == 0 && !atomic_load(&r->is_ending)) {
        rv_service_manager_notify("STOPPING=1");
        atomic_store(&r->server.is_draining, true);
        rv_http_server_stop(r->server.http, drain_ms);
        drain_ms = 0;
    }
    return NULL;
}

static ruvllm_status start_signals(struct running *r, struct ruvllm_error *err)
{
    int rc = pthread_create(&r->signals, NULL, wait_for_signals, r);

    if (rc)
        return rv_fail_errno(err, rc, "cannot start the thread that waits for signals");
    r->has_signals = true;
    return RUVLLM_OK;
}

static void stop_signals(struct running *r)
{
    if (!r->has_signals)
        return;
    atomic_store(&r->is_ending, true);
    pthread_kill(r->signals, SIGTERM);
    pthread_join(r->signals, NULL);
    r->has_signals = false;
}

/* ---- callbacks ----------------------------------------------------------------------------------------- */

/* A line of the library's, on any thread. */
static void log_line(void *user, ruvllm_log_level level, const char *line)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};

    rv_access_log_message(user, names[level], line);
}

/* On the loader's thread. */
static ruvllm_status on_opened(void *user, size_t i_model, ruvllm_engine *engine, struct ruvllm_error *err)
{
    struct running *r = user;
    ruvllm_status rc = RUVLLM_OK;
    int64_t generation;

    if (r->server.adapters_folder)
        rv_adapter_folder_load(r->server.adapters_folder, engine, rv_model_set_name(r->server.models, i_model),
                               r->server.log);
    /* Without these, answers would be others than the operator asked for. */
    for (size_t i = 0; !rc && i < r->config->n_adapters; i++)
        rc = ruvllm_engine_adapter_load(engine, r->adapter_ids[i], r->config->adapters[i].path, -1, &generation, err);
    if (!rc && r->config->learns) {
        rv_response_index_forget(r->server.responses, i_model);
        rv_learning_starter_try(r->server.starter, i_model, engine);
    }
    return rc;
}

/* On the loader's thread. */
static void on_loaded(void *user, size_t i_model, ruvllm_status status, const char *message)
{
    struct running *r = user;
    struct rv_server *server = &r->server;
    ruvllm_engine *engine;

    if (status)
        rv_access_log_message(server->log, "error", message);
    else if (server->starter)
        rv_learning_starter_go_on(server->starter, i_model);
    if (i_model != 0 || r->was_ready)
        return;
    if (status) {
        /* A server that cannot serve says so and ends, instead of staying and failing. */
        rv_fail(&r->failed, status, "%s", message);
        rv_http_server_stop(server->http, 0);
        return;
    }
    r->was_ready = true;
    engine = rv_model_set_peek(server->models, 0);
    if (engine) {
        rv_greeting_print_ready(server, r->url, engine, r->had_keys);
        rv_model_set_release(server->models, 0, false);
    }
    rv_service_manager_notify("READY=1");
}

/* On the I/O thread: a key that was made meanwhile ends the time without keys. */
static void refresh(void *user)
{
    struct rv_server *server = user;
    struct ruvllm_error err = {0};

    if (rv_auth_refresh(&server->auth, &err))
        rv_access_log_message(server->log, "error", err.message);
}

static void feed_watchdog(void *user)
{
    (void)user;
    rv_service_manager_notify("WATCHDOG=1");
}

static ruvllm_status check_key(void *user, const char *key, size_t key_len, ruvllm_key_verdict *verdict,
                               struct ruvllm_key_info *info, struct ruvllm_error *err)
{
    return ruvllm_keys_check(user, key, key_len, verdict, info, err);
}

static ruvllm_status count_keys(void *user, uint64_t *n, struct ruvllm_error *err)
{
    return ruvllm_keys_count(user, n, err);
}

/* ---- opening --------------------------------------------------------------------------------------------- */

/* Beside the store; where that is on another machine, where it would be if it were on this one. */
static ruvllm_status open_sessions_folder(struct running *r, struct ruvllm_error *err)
{
    const char *path = strncmp(r->store_path, "sqlite:", 7) == 0 ? r->store_path + 7 : r->store_path, *slash;
    bool is_elsewhere = strstr(r->store_path, "://") != NULL;
    char *usual = NULL;
    int len, made;

    if (is_elsewhere) {
        ruvllm_status rc = ruvllm_store_default_path(&usual, err);

        if (rc)
            return rc;
        path = usual;
    }
    slash = strrchr(path, '/');
    len = slash ? (int)(slash - path) : 1;
    made = snprintf(r->sessions_folder, PATH, "%.*s/sessions", len, slash ? path : ".");
    ruvllm_free(usual);
    if (made >= PATH)
        return rv_fail(err, RUVLLM_INVALID, "the store's path is too long");
    if (mkdir(r->sessions_folder, 0700) != 0 && errno != EEXIST)
        return rv_fail_errno(err, errno, "cannot make the sessions' folder '%s'", r->sessions_folder);
    r->server.sessions_folder = r->sessions_folder;
    return RUVLLM_OK;
}

static ruvllm_status open_store(struct running *r, struct ruvllm_error *err)
{
    struct rv_auth_source source = {.check = check_key, .count = count_keys};
    ruvllm_status rc = RUVLLM_OK;
    char *path = NULL;

    if (r->config->store && strcmp(r->config->store, "none") == 0)
        return rv_auth_init(&r->server.auth, NULL, err);
    if (!r->config->store)
        rc = ruvllm_store_default_path(&path, err);
    if (rc)
        return rc;
    r->store_path = rv_strdup(path ? path : r->config->store);
    ruvllm_free(path);
    if (!r->store_path)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the store's path");
    rc = ruvllm_store_open(&r->server.store, r->store_path, NULL, err);
    if (!rc)
        rc = open_sessions_folder(r, err);
    source.user = r->server.store;
    return rc ? rc : rv_auth_init(&r->server.auth, &source, err);
}

/* Without keys nobody else may reach us. */
static ruvllm_status check_addresses(const struct running *r, const char *const *addresses, size_t n,
                                     struct ruvllm_error *err)
{
    for (size_t i = 0; !r->server.auth.has_keys && i < n; i++) {
        if (!rv_auth_is_local_address(addresses[i]))
            return rv_fail(err, RUVLLM_INVALID,
                           "others could reach '%.80s' and there is no key: make one with 'ruvllm key create', or "
                           "listen on 127.0.0.1",
                           addresses[i]);
    }
    return RUVLLM_OK;
}

static void make_url(struct running *r, const char *address, bool is_inherited)
{
    const char *scheme = r->config->tls_cert ? "https" : "http";
    const char *colon = strrchr(address, ':');

    if (is_inherited)
        snprintf(r->url, sizeof(r->url), "%s://localhost:%d", scheme, rv_http_server_port(r->server.http, 0));
    else if (strncmp(address, "unix:", 5) == 0)
        snprintf(r->url, sizeof(r->url), "%s", address);
    else
        snprintf(r->url, sizeof(r->url), "%s://%.*s:%d", scheme, colon ? (int)(colon - address) : 0, address,
                 rv_http_server_port(r->server.http, 0));
}

static bool keeps_witness(const struct running *r)
{
    return r->server.store && r->config->witness_days > 0;
}

static ruvllm_status open_http(struct running *r, struct ruvllm_error *err)
{
    static const char *const at_home[] = {"127.0.0.1:8080"};
    struct rv_http_config http = rv_http_config_default();
    int32_t watchdog_ms = rv_service_manager_watchdog_ms();
    int sockets[RV_SERVICE_MANAGER_MAX_SOCKETS];
    ruvllm_status rc = rv_service_manager_sockets(sockets, &http.n_inherited, err);

    if (rc)
        return rc;
    http.inherited = sockets;
    http.addresses = r->config->n_addresses ? r->config->addresses : at_home;
    http.n_addresses = r->config->n_addresses ? r->config->n_addresses : http.n_inherited ? 0 : 1;
    http.tls_cert = r->config->tls_cert;
    http.tls_key = r->config->tls_key;
    http.on_headers = rv_front_desk_on_headers;
    http.on_request = rv_front_desk_on_request;
    http.on_refusal = rv_front_desk_on_refusal;
    http.on_end = rv_front_desk_on_end;
    http.user = &r->server;
    rc = check_addresses(r, http.addresses, http.n_addresses, err);
    if (!rc)
        rc = rv_http_server_open(&r->server.http, &http, err);
    if (!rc)
        rc = rv_http_server_every(r->server.http, REFRESH_MS, refresh, &r->server, err);
    if (!rc && keeps_witness(r))
        rc =
            rv_http_server_every(r->server.http, RV_WITNESS_KEEPER_PERIOD_MS, rv_witness_keeper_start, &r->keeper, err);
    if (!rc && watchdog_ms)
        rc = rv_http_server_every(r->server.http, watchdog_ms, feed_watchdog, r, err);
    if (!rc)
        make_url(r, http.n_addresses ? http.addresses[0] : "", http.n_addresses == 0);
    return rc;
}

static ruvllm_status name_adapters(struct running *r, struct ruvllm_error *err)
{
    struct rv_adapter_choice *choice = &r->server.default_adapters;

    if (r->config->n_adapters > RV_API_MAX_ADAPTERS)
        return rv_fail(err, RUVLLM_INVALID, "more than %d adapters at once", RV_API_MAX_ADAPTERS);
    for (size_t i = 0; i < r->config->n_adapters; i++) {
        if (!rv_adapter_folder_id(r->config->adapters[i].path, r->adapter_ids[i]))
            return rv_fail(err, RUVLLM_INVALID, "the name of '%.160s' is not one for an adapter: rename it",
                           r->config->adapters[i].path);
        choice->uses[choice->n++] =
            (struct rv_api_adapter_use){.id = r->adapter_ids[i], .weight = r->config->adapters[i].weight};
    }
    return RUVLLM_OK;
}

static ruvllm_status open_models(struct running *r, struct ruvllm_error *err)
{
    struct rv_model_set_config models = {.engine = r->config->engine,
                                         .memory_budget = r->config->memory_budget,
                                         .idle_unload_s = r->config->idle_unload_s,
                                         .max_waiting = MAX_WAITING_FOR_MODELS,
                                         .on_opened = on_opened,
                                         .on_loaded = on_loaded,
                                         .user = r};
    struct rv_model_list list;
    ruvllm_status rc = name_adapters(r, err);

    if (!rc && r->config->adapters_dir) {
        rc = rv_adapter_folder_resolve(r->config->adapters_dir, r->adapters_folder, err);
        r->server.adapters_folder = r->adapters_folder;
    }
    if (!rc && r->config->adapter_cache && mkdir(r->config->adapter_cache, 0700) != 0 && errno != EEXIST)
        rc = rv_fail_errno(err, errno, "cannot make the adapters' cache '%.160s'", r->config->adapter_cache);
    if (!rc)
        rc = rv_model_list_init(&list, r->config, r->server.log, err);
    if (rc)
        return rc;
    models.engine.model = &r->config->model;
    models.adapter_cache = r->config->adapter_cache;
    models.models = list.models;
    models.n_models = list.n;
    rc = rv_model_set_open(&r->server.models, &models, err);
    rv_model_list_release(&list);
    return rc;
}

static ruvllm_status open_starter(struct running *r, struct ruvllm_error *err)
{
    struct ruvllm_learn_params params = ruvllm_learn_params_default();

    params.store = r->server.store;
    params.rank = r->config->learn_rank;
    params.consolidation = r->config->consolidation;
    return rv_learning_starter_open(&r->server.starter, r->server.models, &params, r->server.log, err);
}

static ruvllm_status open_workers(struct running *r, struct ruvllm_error *err)
{
    struct rv_server *s = &r->server;
    ruvllm_status rc = rv_worker_pool_open(&s->quick, N_QUICK, err);

    if (!rc)
        rc = rv_worker_pool_open(&s->slow, N_SLOW, err);
    if (!rc && r->config->learns)
        rc = rv_worker_pool_open(&s->voters, N_VOTERS, err);
    return rc;
}

static ruvllm_status open_all(struct running *r, struct ruvllm_error *err)
{
    struct rv_server *s = &r->server;
    ruvllm_status rc = rv_access_log_open(&s->log, STDERR_FILENO, err);

    if (!rc)
        ruvllm_log_set(r->config->log_level, log_line, s->log);
    rv_rng_init(&s->rng, rv_rng_seed_from_system());
    rv_buf_init(&s->scratch, MAX_PIECE);
    if (!rc)
        rc = open_store(r, err);
    if (!rc)
        rc = rv_rate_limit_init(&s->rates, MAX_RATED_KEYS, err);
    if (!rc && r->config->learns)
        rc = rv_rate_limit_init(&s->vote_rates, MAX_RATED_KEYS, err);
    if (!rc && r->config->learns)
        rc = rv_response_index_new(&s->responses, MAX_RESPONSES, err);
    if (!rc)
        rc = open_models(r, err);
    if (!rc && r->config->learns)
        rc = rv_deep_runner_open(&s->deep, s->models, s->log, err);
    if (!rc && r->config->learns)
        rc = open_starter(r, err);
    if (!rc)
        rc = rv_metrics_init(&s->metrics, rv_model_set_count(s->models), rv_route_table_count(), err);
    if (!rc)
        rc = open_workers(r, err);
    rv_witness_keeper_init(&r->keeper, s->slow, s->store, s->log, r->config->witness_days);
    if (!rc)
        rc = open_http(r, err);
    r->had_keys = s->auth.has_keys;
    return rc ? rc : start_signals(r, err);
}

static void close_all(struct running *r)
{
    struct rv_server *s = &r->server;

    stop_signals(r);
    if (s->models)
        rv_model_set_stop(s->models);
    rv_learning_starter_stop(s->starter);
    rv_worker_pool_close(s->quick);
    rv_worker_pool_close(s->slow);
    rv_worker_pool_close(s->voters);
    rv_learning_starter_close(s->starter);
    rv_deep_runner_close(s->deep);
    rv_call_free_all(s, false);
    rv_model_set_close(s->models);
    rv_call_free_all(s, true);
    rv_http_server_close(s->http);
    rv_response_index_free(s->responses);
    rv_metrics_release(&s->metrics);
    rv_rate_limit_release(&s->vote_rates);
    rv_rate_limit_release(&s->rates);
    rv_auth_release(&s->auth);
    ruvllm_store_close(s->store);
    ruvllm_log_set(RUVLLM_LOG_OFF, NULL, NULL);
    rv_access_log_close(s->log);
    rv_buf_release(&s->scratch);
    rv_free(r->store_path);
}

ruvllm_status rv_serve(const struct rv_serve_config *config, struct ruvllm_error *err)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct running *r = rv_calloc(1, sizeof(*r));
    sigset_t set;
    ruvllm_status rc;

    if (!r)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the server");
    rv_heap_share();
    r->config = config;
    r->server.config = config;
    set_of_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, &r->mask_before);
    sigaction(SIGPIPE, &ignore, &r->pipe_before);
    rc = open_all(r, err);
    if (!rc) {
        rv_greeting_print(&r->server, r->url, r->store_path);
        rv_model_set_want(r->server.models, 0);
        if (keeps_witness(r))
            rv_witness_keeper_start(&r->keeper);
        rc = rv_http_server_run(r->server.http, err);
    }
    close_all(r);
    if (!rc && r->failed.status) {
        rc = r->failed.status;
        if (err)
            *err = r->failed;
    }
    sigaction(SIGPIPE, &r->pipe_before, NULL);
    pthread_sigmask(SIG_SETMASK, &r->mask_before, NULL);
    rv_free(r);
    return rc;
}
