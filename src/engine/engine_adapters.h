/*
 * An engine's adapters: the registry, the folder behind it, and what the public calls do with them. An engine whose
 * model cannot have any (libllama's, or on a device that does not compute them) has none of it, and every call says so.
 */
#ifndef RV_ENGINE_ENGINE_ADAPTERS_H
#define RV_ENGINE_ENGINE_ADAPTERS_H

#include "engine/adapter_depot.h"
#include "engine/model.h"

struct rv_engine_adapters {
    const struct ruvllm_model *model;
    struct rv_adapter_file_base base;
    struct rv_adapter_depot *depot;       // NULL: memory only
    struct rv_adapter_registry *registry; // NULL: the model cannot have adapters
};

/* UNSUPPORTED, with a sentence, for a model whose backend or device does not compute with adapters. */
RV_CHECKED ruvllm_status rv_engine_adapters_check_model(const struct ruvllm_model *model, struct ruvllm_error *err);

/* Leaves `adapters` without a registry for a model that cannot have any. on_ready and user as for a registry. */
RV_CHECKED ruvllm_status rv_engine_adapters_open(struct rv_engine_adapters *adapters, const struct ruvllm_model *model,
                                                 const struct ruvllm_engine_params *params,
                                                 void (*on_ready)(void *user, struct rv_adapter_ticket *ticket),
                                                 void *user, struct ruvllm_error *err);
/* Nobody waits for an adapter any more. */
void rv_engine_adapters_stop(struct rv_engine_adapters *adapters);
void rv_engine_adapters_close(struct rv_engine_adapters *adapters);

/* Pins what a request names; a request that names nothing leaves the ticket as it is. */
RV_CHECKED ruvllm_status rv_engine_adapters_pin(struct rv_engine_adapters *adapters,
                                                const struct ruvllm_request *request, struct rv_adapter_ticket *ticket,
                                                struct ruvllm_error *err);
/* What keys and values of such a request depend on besides the model; 0: nothing. */
RV_CHECKED ruvllm_status rv_engine_adapters_layers(struct rv_engine_adapters *adapters,
                                                   const struct ruvllm_request *request, uint64_t *layers,
                                                   struct ruvllm_error *err);

/* As the public calls ruvllm_engine_adapter_*. */
RV_CHECKED ruvllm_status rv_engine_adapters_load(struct rv_engine_adapters *adapters, const char *id, const char *path,
                                                 int64_t expected, int64_t *generation, struct ruvllm_error *err);
/* The same from memory, for who makes adapters; a reference is taken, no disk is touched. */
RV_CHECKED ruvllm_status rv_engine_adapters_publish(struct rv_engine_adapters *adapters, const char *id,
                                                    int64_t expected, struct rv_adapter *adapter, int64_t *generation,
                                                    struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_engine_adapters_unload(struct rv_engine_adapters *adapters, const char *id,
                                                   int64_t generation, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_engine_adapters_list(struct rv_engine_adapters *adapters, const char *prefix,
                                                 struct ruvllm_adapter_info **infos, size_t *n,
                                                 struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_engine_adapters_diff(struct rv_engine_adapters *adapters, const char *id, int64_t a,
                                                 int64_t b, double *norm, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_engine_adapters_export(struct rv_engine_adapters *adapters, const char *id,
                                                   int64_t generation, const char *path, ruvllm_adapter_format format,
                                                   struct ruvllm_error *err);
void rv_engine_adapters_fill_stats(const struct rv_engine_adapters *adapters, struct ruvllm_engine_stats *stats);

#endif
