/*
 * A folder of adapters by the hash of their content: DIR/ab/abcdef....gguf, in our own format. What lies there belongs
 * to the engine that has the folder open, and to no other: a lock says so. Files that an engine before has left are
 * removed when it is opened.
 */
#ifndef RV_ENGINE_ADAPTER_DEPOT_H
#define RV_ENGINE_ADAPTER_DEPOT_H

#include "engine/adapter_registry.h"
#include "model/adapter_file.h"

struct rv_adapter_depot;

/* The folder is made when its parent is there; `base` outlives the depot. BUSY when another engine has it open. */
RV_CHECKED ruvllm_status rv_adapter_depot_open(struct rv_adapter_depot **out, const char *dir,
                                               const struct rv_adapter_file_base *base, struct ruvllm_error *err);
/* Accepts NULL. */
void rv_adapter_depot_close(struct rv_adapter_depot *depot);
/* What a registry calls; sources are struct rv_adapter_file. Lives as long as the depot. */
const struct rv_adapter_registry_files *rv_adapter_depot_files(struct rv_adapter_depot *depot);
/* Opens what was saved under a hash, all of it. */
RV_CHECKED ruvllm_status rv_adapter_depot_read(const struct rv_adapter_depot *depot, const char *hash,
                                               struct rv_adapter_file **out, struct ruvllm_error *err);

#endif
