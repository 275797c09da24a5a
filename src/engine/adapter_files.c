/* The public API's door to adapters as files, for which no engine is needed: the model's own file is enough. */
#include "ruvllm_adapter.h"

#include "base/alloc.h"
#include "engine/door.h"
#include "model/adapter_file.h"
#include "model/adapter_merge.h"
#include "model/adapter_norm.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* What of a model adapters are held against. */
struct model_file {
    struct rv_gguf_file *gguf;
    struct rv_hparams hparams;
    struct rv_manifest manifest;
    struct rv_adapter_file_base base;
};

static void close_model(struct model_file *model)
{
    rv_manifest_release(&model->manifest);
    rv_gguf_file_close(model->gguf);
}

static ruvllm_status open_model(struct model_file *model, const char *path, struct ruvllm_error *err)
{
    struct rv_rope_override none = {.ext_factor = -1};
    ruvllm_status rc;

    *model = (struct model_file){0};
    rc = rv_gguf_file_open(&model->gguf, path, err);
    if (!rc)
        rc = rv_hparams_read(&model->hparams, model->gguf, &none, err);
    if (!rc)
        rc = rv_manifest_init(&model->manifest, model->gguf, &model->hparams, err);
    if (rc) {
        close_model(model);
        return rv_fail_in(err, rc, "cannot open model '%s'", path);
    }
    rv_adapter_file_base_init(&model->base, &model->hparams, &model->manifest);
    return RUVLLM_OK;
}

static ruvllm_status check_free(const char *path, struct ruvllm_error *err)
{
    struct stat st;

    if (lstat(path, &st) == 0)
        return rv_fail(err, RUVLLM_INVALID, "'%s' exists already; give another name", path);
    return RUVLLM_OK;
}

ruvllm_status ruvllm_adapter_convert(const char *model_path, const char *path, const char *out_path,
                                     ruvllm_adapter_format format, struct ruvllm_error *err)
{
    struct rv_adapter_file *file = NULL;
    struct model_file model;
    ruvllm_status rc;

    if (!model_path || !path || !out_path)
        return rv_door_fail_null(err, !model_path ? "model_path" : !path ? "path" : "out_path");
    rc = check_free(out_path, err);
    if (!rc)
        rc = open_model(&model, model_path, err);
    if (rc)
        return rc;
    rc = rv_adapter_file_open(&file, path, &model.base, err);
    if (!rc)
        rc = rv_adapter_file_write(file, &model.base, out_path, format, err);
    rv_adapter_file_close(file);
    close_model(&model);
    return rc;
}

/* Of the file, or of the two files of a folder. */
static uint64_t file_bytes(const char *path)
{
    static const char *const names[] = {"adapter_config.json", "adapter_model.safetensors"};
    uint64_t sum = 0;
    char inner[4096];
    struct stat st;

    if (stat(path, &st) != 0)
        return 0;
    if (!S_ISDIR(st.st_mode))
        return (uint64_t)st.st_size;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(inner, sizeof(inner), "%s/%s", path, names[i]);
        sum += stat(inner, &st) == 0 ? (uint64_t)st.st_size : 0;
    }
    return sum;
}

static ruvllm_status describe(const struct model_file *model, const char *path, struct ruvllm_adapter_info *out,
                              struct ruvllm_error *err)
{
    struct rv_adapter_file *file;
    struct rv_adapter *adapter = NULL;
    ruvllm_status rc = rv_adapter_file_open(&file, path, &model->base, err);

    if (!rc)
        rc = rv_adapter_file_adapter(file, &model->base, &adapter, err);
    if (!rc) {
        out->max_rank = file->max_rank;
        out->n_pairs = (int32_t)file->n_layer_pairs;
        out->changes_head = file->n_layer_pairs < file->n_pairs;
        out->changes_layers = file->n_layer_pairs > 0;
        out->n_bytes = adapter->n_bytes;
        out->file_bytes = file_bytes(path);
        out->norm = rv_adapter_norm(adapter);
        memcpy(out->hash, file->hash, sizeof(out->hash));
    }
    rv_adapter_unref(adapter);
    rv_adapter_file_close(file);
    return rc;
}

ruvllm_status ruvllm_adapter_describe(const char *model_path, const char *path, struct ruvllm_adapter_info *info,
                                      struct ruvllm_error *err)
{
    struct ruvllm_adapter_info ours = {.struct_size = sizeof(ours)};
    struct model_file model;
    ruvllm_status rc;

    if (!model_path || !path || !info)
        return rv_door_fail_null(err, !model_path ? "model_path" : !path ? "path" : "info");
    rc = rv_door_give_struct(info, &ours, sizeof(ours), "ruvllm_adapter_info", err);
    if (!rc)
        rc = open_model(&model, model_path, err);
    if (rc)
        return rc;
    rc = describe(&model, path, &ours, err);
    close_model(&model);
    return rc ? rc : rv_door_give_struct(info, &ours, sizeof(ours), "ruvllm_adapter_info", err);
}

struct ruvllm_merge_params ruvllm_merge_params_default(void)
{
    return (struct ruvllm_merge_params){
        .struct_size = sizeof(struct ruvllm_merge_params),
        .method = RUVLLM_MERGE_AVERAGE,
        .density = 0.2f,
    };
}

static ruvllm_status merge(const struct model_file *model, const char *const *paths, size_t n_paths,
                           const struct ruvllm_merge_params *params, const char *out_path, double *error,
                           struct ruvllm_error *err)
{
    struct rv_adapter_file **files = rv_calloc(n_paths, sizeof(struct rv_adapter_file *)), *merged = NULL;
    ruvllm_status rc = RUVLLM_OK;

    if (!files)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a list of %zu adapters", n_paths);
    for (size_t i = 0; i < n_paths && !rc; i++)
        rc = rv_adapter_file_open(&files[i], paths[i], &model->base, err);
    if (!rc)
        rc = rv_adapter_merge(&merged, (const struct rv_adapter_file *const *)files, n_paths, &model->base, params,
                              error, err);
    if (!rc)
        rc = rv_adapter_file_write(merged, &model->base, out_path, RUVLLM_ADAPTER_OWN, err);
    rv_adapter_file_close(merged);
    for (size_t i = 0; i < n_paths; i++)
        rv_adapter_file_close(files[i]);
    rv_free(files);
    return rc;
}

ruvllm_status ruvllm_adapter_merge(const char *model_path, const char *const *paths, size_t n_paths,
                                   const struct ruvllm_merge_params *params, const char *out_path, double *error,
                                   struct ruvllm_error *err)
{
    struct ruvllm_merge_params ours = ruvllm_merge_params_default();
    struct model_file model;
    double lost = 0;
    ruvllm_status rc;

    if (!model_path || !paths || !out_path)
        return rv_door_fail_null(err, !model_path ? "model_path" : !paths ? "paths" : "out_path");
    if (n_paths < 1 || n_paths > RV_ADAPTER_MERGE_MAX_FILES)
        return rv_fail(err, RUVLLM_INVALID, "%zu adapters cannot be merged; 1 to %d can", n_paths,
                       RV_ADAPTER_MERGE_MAX_FILES);
    for (size_t i = 0; i < n_paths; i++) {
        if (!paths[i])
            return rv_door_fail_null(err, "paths");
    }
    rc = rv_door_take_struct(&ours, sizeof(ours), params, "ruvllm_merge_params", err);
    if (!rc)
        rc = check_free(out_path, err);
    if (!rc)
        rc = open_model(&model, model_path, err);
    if (rc)
        return rc;
    rc = merge(&model, paths, n_paths, &ours, out_path, &lost, err);
    close_model(&model);
    if (!rc && error)
        *error = lost;
    return rc;
}
