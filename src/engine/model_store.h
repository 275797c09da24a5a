/*
 * The folder models are kept in: ROOT/OWNER/NAME/FILE, with what is known about a file beside it. Folders are opened
 * one by one from the root and symbolic links are never followed below it, so nothing outside is read or removed.
 *
 *     FILE               the model
 *     FILE.json          hub_manifest.h
 *     FILE.partial       an interrupted transfer, and FILE.partial.json what it is of
 *     .FILE.lock         exists while somebody changes any of these
 */
#ifndef RV_ENGINE_MODEL_STORE_H
#define RV_ENGINE_MODEL_STORE_H

#include "engine/hub_manifest.h"

struct rv_model_store_entry {
    char repository[2 * RV_HUB_NAME_MAX + 2];
    char file[RV_HUB_NAME_MAX + 1];
    char quantization[RV_HUB_NAME_QUANT];
    char *path; // owned
    struct rv_hub_manifest manifest;
    uint64_t n_bytes;
    int64_t time;
    bool is_partial;
};

struct rv_model_store_list {
    struct rv_model_store_entry *entries; // sorted by repository and file
    size_t n;
};

/* `dir`, or the default for NULL (see ruvllm_models_dir). *out is the caller's (rv_free). */
RV_CHECKED ruvllm_status rv_model_store_root(const char *dir, char **out, struct ruvllm_error *err);
/* Opens ROOT/OWNER/NAME; *fd is the caller's. `create` makes what is missing, else that is NOT_FOUND. */
RV_CHECKED ruvllm_status rv_model_store_folder(const char *root, const char *owner, const char *name, bool create,
                                               int *fd, struct ruvllm_error *err);
/* ROOT/OWNER/NAME/FILE. *out is the caller's (rv_free). */
RV_CHECKED ruvllm_status rv_model_store_path(const char *root, const char *owner, const char *name, const char *file,
                                             char **out, struct ruvllm_error *err);

/* A file's lock: BUSY when another process or thread has it. */
RV_CHECKED ruvllm_status rv_model_store_lock(int folder, const char *file, int *lock, struct ruvllm_error *err);
void rv_model_store_unlock(int folder, const char *file, int lock);

RV_CHECKED ruvllm_status rv_model_store_list(const char *root, struct rv_model_store_list *out,
                                             struct ruvllm_error *err);
void rv_model_store_list_release(struct rv_model_store_list *list);

/* The whole file a name means, as ruvllm_models_find says it. */
RV_CHECKED ruvllm_status rv_model_store_find(const struct rv_model_store_list *list, const char *model, size_t *index,
                                             struct ruvllm_error *err);
/* See ruvllm_models_remove. */
RV_CHECKED ruvllm_status rv_model_store_remove(const char *root, const char *model, uint64_t *n_bytes,
                                               struct ruvllm_error *err);

#endif
