/*
 * The folder of `serve --adapters`: what lies in it is loaded with every model as a shared adapter named after its file
 * or folder, and it is the only place from which the API loads more.
 */
#ifndef RV_SERVER_ADAPTER_FOLDER_H
#define RV_SERVER_ADAPTER_FOLDER_H

#include "server/access_log.h"
#include "server/api/api_request.h"

enum { RV_ADAPTER_FOLDER_PATH = 2048 };

/* A folder that is there, as a path without links; the others begin with what this gives. */
RV_CHECKED ruvllm_status rv_adapter_folder_resolve(const char *folder, char out[RV_ADAPTER_FOLDER_PATH],
                                                   struct ruvllm_error *err);
/*
 * Where a client's `path` leads, taken from the folder on when it is not absolute. INVALID when that is outside it,
 * links followed; NOT_FOUND when there is nothing.
 */
RV_CHECKED ruvllm_status rv_adapter_folder_find(const char *folder, const char *path, char out[RV_ADAPTER_FOLDER_PATH],
                                                struct ruvllm_error *err);
/* The id an adapter gets from its path: the name of its file or folder, without .gguf. False: it is none for one. */
RV_CHECKED bool rv_adapter_folder_id(const char *path, char out[RV_API_MAX_ADAPTER + 1]);
/*
 * Loads all of it into an engine: .gguf files, and folders that hold an adapter_config.json. One that does not fit the
 * model or is broken is left out, and the log says why. Returns how many were loaded.
 */
size_t rv_adapter_folder_load(const char *folder, ruvllm_engine *engine, const char *model, struct rv_access_log *log);

#endif
