/*
 * What the parts of a running server share. Made and unmade by serve.c; docs/internals/server.md draws the threads.
 */
#ifndef RV_SERVER_SERVER_H
#define RV_SERVER_SERVER_H

#include "base/buf.h"
#include "base/rng.h"
#include "server/access_log.h"
#include "server/adapter_choice.h"
#include "server/auth.h"
#include "server/http/http_server.h"
#include "server/metrics.h"
#include "server/model_set.h"
#include "server/rate_limit.h"
#include "server/serve.h"
#include "server/worker_pool.h"

#include <stdatomic.h>

struct rv_call;
struct rv_deep_runner;
struct rv_learning_starter;
struct rv_response_index;

struct rv_server {
    const struct rv_serve_config *config;
    struct rv_http_server *http;
    struct rv_model_set *models;
    struct rv_worker_pool *quick;  // parsing, rendering, replies
    struct rv_worker_pool *slow;   // embeddings, session files: what may take seconds
    struct rv_worker_pool *voters; // feedback: what waits for the disk; NULL: the server does not learn
    struct rv_access_log *log;
    ruvllm_store *store;                       // NULL: none
    const char *sessions_folder;               // where conversations are saved; NULL: nowhere
    struct rv_adapter_choice default_adapters; // of requests that name none
    const char *adapters_folder;               // from which adapters are loaded, without links in it; NULL: none
    struct rv_response_index *responses;       // what feedback is about; NULL: the server does not learn
    struct rv_deep_runner *deep;               // training runs; NULL: the server does not learn
    struct rv_learning_starter *starter;       // which models learn; NULL: the server does not
    _Atomic bool is_draining; // set once; a request that does not see it yet is served, which is as good

    /* The I/O thread's alone. */
    struct rv_auth auth;
    struct rv_rate_limit rates;
    struct rv_rate_limit vote_rates;
    struct rv_metrics metrics;
    struct rv_rng rng;
    struct rv_buf scratch;     // for one piece of an answer
    struct rv_call *all_calls; // every slot there is
    struct rv_call *free_calls;
    int32_t n_slots;
    int32_t n_calls; // slots in use
};

#endif
