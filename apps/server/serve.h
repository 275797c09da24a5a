/* `ruvllm serve`: opens store, models and sockets, serves until told to end, drains. */
#ifndef RV_SERVER_SERVE_H
#define RV_SERVER_SERVE_H

#include "base/error.h"
#include "ruvllm_learn.h"

struct rv_serve_model {
    const char *name; // NULL: made from the path
    const char *path;
};

struct rv_serve_adapter {
    const char *path;
    float weight;
};

/* Strings are borrowed for the call. */
struct rv_serve_config {
    const struct rv_serve_model *models; // the first is the default
    size_t n_models;
    const char *models_dir;                  // every .gguf file in it, by its name; NULL: none
    const char *adapters_dir;                // every adapter in it, shared, by its name; NULL: none
    const struct rv_serve_adapter *adapters; // of requests that name none; up to 4
    size_t n_adapters;
    const char *adapter_cache;    // folder for adapters that memory does not hold; NULL: none
    const char *const *addresses; // none: 127.0.0.1:8080
    size_t n_addresses;
    const char *tls_cert;
    const char *tls_key;
    const char *store; // path; NULL: the user's; "none": no keys, sessions or witness log
    bool learns;       // from feedback: every model that can
    int32_t learn_rank;
    ruvllm_consolidation consolidation;
    int32_t votes_per_minute; // of a key, beside its requests: who floods is told to wait; 0: no limit
    const char *const *cors_origins;
    size_t n_cors_origins;
    struct ruvllm_model_params model;
    struct ruvllm_engine_params engine; // `model` is ignored, `kv` may be set
    uint64_t memory_budget;             // 0: no limit
    int32_t idle_unload_s;              // 0: never
    int32_t drain_s;
    int32_t witness_days; // what is older is deleted from the witness log once a day; 0: nothing is
    int32_t max_calls;    // requests under way of all kinds
    bool is_auto;         // the caller chose settings from the machine: `auto_notes` says from what
    const char *auto_notes;
    ruvllm_log_level log_level; // INFO and below: also one JSON line a request; all on standard error
};

struct rv_serve_config rv_serve_config_default(void);

/* Serves until SIGTERM or SIGINT and returns when all is closed. A failure says what could not be opened. */
RV_CHECKED ruvllm_status rv_serve(const struct rv_serve_config *config, struct ruvllm_error *err);

/* The name a model gets from its path: the file's, without .gguf. `out` has room for 129 bytes. */
void rv_serve_model_name(const char *path, char out[129]);

#endif
