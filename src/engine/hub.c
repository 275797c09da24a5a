/*
 * The public API's door to hubs and to the folder of models: arguments, defaults from the environment, and pulling in
 * its order: what the hub has, what is here already, then the transfer.
 */
#include "ruvllm_hub.h"

#include "base/alloc.h"
#include "engine/door.h"
#include "engine/hub_api.h"
#include "engine/hub_download.h"
#include "engine/hub_push.h"
#include "engine/model_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char DEFAULT_ENDPOINT[] = "https://huggingface.co";

/* ---- params -------------------------------------------------------------------------------- */

struct ruvllm_hub_params ruvllm_hub_params_default(void)
{
    return (struct ruvllm_hub_params){
        .struct_size = sizeof(struct ruvllm_hub_params), .max_retries = 5, .stall_seconds = 60};
}

static const char *from_environment(const char *given, const char *variable, const char *otherwise)
{
    const char *value = given ? given : getenv(variable);

    return value && (*value || given) ? value : otherwise;
}

static bool is_set(const char *variable)
{
    const char *value = getenv(variable);

    return value && *value && strcmp(value, "0") != 0;
}

static ruvllm_status take_params(struct ruvllm_hub_params *ours, const struct ruvllm_hub_params *theirs,
                                 struct ruvllm_error *err)
{
    ruvllm_status rc;
    char label[RV_HUB_NAME_LABEL];

    *ours = ruvllm_hub_params_default();
    rc = rv_door_take_struct(ours, sizeof(*ours), theirs, "ruvllm_hub_params", err);
    if (rc)
        return rc;
    if (ours->max_retries < 0 || ours->max_retries > 1000 || ours->stall_seconds < 1 || ours->stall_seconds > 86400)
        return rv_fail(err, RUVLLM_INVALID, "max_retries must be 0 to 1000, stall_seconds 1 to 86400");
    ours->endpoint = from_environment(ours->endpoint, "HF_ENDPOINT", DEFAULT_ENDPOINT);
    ours->token = from_environment(ours->token, "HF_TOKEN", "");
    ours->revision = ours->revision ? ours->revision : "main";
    ours->offline = ours->offline || is_set("HF_HUB_OFFLINE");
    if (!rv_hub_name_is_safe_revision(ours->revision))
        return rv_fail(err, RUVLLM_INVALID, "'%s' is no branch, tag or commit",
                       rv_hub_name_label(ours->revision, label));
    return RUVLLM_OK;
}

/* ---- pull ---------------------------------------------------------------------------------- */

struct pull {
    struct ruvllm_hub_params params;
    struct rv_hub_name name;
    const char *model; // as it was asked for
    char *root;
    struct rv_hub_http *http;
    struct rv_hub_api_tree tree;
    const struct rv_hub_api_file *file;
    const char *base; // its name without folders
    char *folder_path;
    char *path;
    int folder;
    int lock;
};

static bool on_pause(void *user, int64_t left_ms)
{
    const struct pull *p = user;
    struct ruvllm_hub_progress progress = {
        .struct_size = sizeof(progress), .file = p->name.name, .eta_seconds = -1, .attempt = 1, .wait_ms = left_ms};

    return !p->params.on_progress || p->params.on_progress(p->params.progress_user, &progress);
}

static ruvllm_status find_offline(const struct pull *p, char **path, struct ruvllm_error *err)
{
    ruvllm_status rc = ruvllm_models_find(p->root, p->model, path, err);

    if (rc != RUVLLM_NOT_FOUND)
        return rc;
    return rv_fail(err, rc, "model '%s' is not here, and no hub is asked: leave out --offline and unset HF_HUB_OFFLINE",
                   p->model);
}

/* Which file, and that it is not too large. */
static ruvllm_status choose_file(struct pull *p, struct ruvllm_error *err)
{
    struct rv_hub_retry retry = {.max = p->params.max_retries, .on_pause = on_pause, .user = p};
    ruvllm_status rc = rv_hub_http_open(&p->http, p->params.endpoint, p->params.token, p->params.stall_seconds, err);
    size_t index = 0;

    if (rc == RUVLLM_OK)
        rc = rv_hub_api_tree_init(&p->tree, p->http, &p->name, p->params.revision, &retry, err);
    if (rc == RUVLLM_OK)
        rc = rv_hub_api_tree_choose(&p->tree, p->name.wanted, &index, err);
    if (rc)
        return rc;
    p->file = &p->tree.files[index];
    if (!rv_hub_name_is_safe_path(p->file->path, &p->base))
        return rv_fail(err, RUVLLM_INTERNAL, "a name was not checked");
    if (p->file->n_bytes == 0 || p->file->n_bytes > INT64_MAX)
        return rv_fail(err, RUVLLM_FORMAT, "the hub lists '%s' with %" PRIu64 " bytes", p->base, p->file->n_bytes);
    if (p->params.max_bytes && p->file->n_bytes > p->params.max_bytes)
        return rv_fail(err, RUVLLM_TOO_LARGE, "'%s' has %" PRIu64 " bytes, more than the limit of %" PRIu64, p->base,
                       p->file->n_bytes, p->params.max_bytes);
    return RUVLLM_OK;
}

static ruvllm_status open_place(struct pull *p, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_model_store_folder(p->root, p->name.owner, p->name.name, true, &p->folder, err);

    if (rc == RUVLLM_OK)
        rc = rv_model_store_path(p->root, p->name.owner, p->name.name, p->base, &p->path, err);
    if (rc == RUVLLM_OK)
        rc = rv_model_store_lock(p->folder, p->base, &p->lock, err);
    if (rc)
        return rc;
    p->folder_path = rv_strndup(p->path, strlen(p->path) - strlen(p->base) - 1);
    return p->folder_path ? RUVLLM_OK : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a path");
}

/* Whether the file of that name holds what the hub has; one without a note is read whole to find out. */
static ruvllm_status is_here(const struct pull *p, bool *out, struct ruvllm_error *err)
{
    char name[RV_HUB_MANIFEST_NAME], hex[RV_SHA256_HEX_LEN + 1];
    struct rv_hub_manifest manifest;
    struct rv_sha256 sha;
    struct stat st;
    int fd = openat(p->folder, p->base, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    ruvllm_status rc = RUVLLM_OK;

    *out = false;
    if (fd < 0)
        return RUVLLM_OK;
    snprintf(name, sizeof(name), "%s.json", p->base);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != p->file->n_bytes) {
        close(fd);
        return RUVLLM_OK;
    }
    if (rv_hub_manifest_load(&manifest, p->folder, name) && manifest.sha256[0]) {
        *out = strcmp(manifest.sha256, p->file->sha256) == 0;
    } else {
        rc = rv_hub_download_hash(fd, &sha, NULL, NULL, err);
        if (rc == RUVLLM_OK)
            rv_sha256_finish(&sha, hex);
        *out = rc == RUVLLM_OK && strcmp(hex, p->file->sha256) == 0;
    }
    close(fd);
    return rc;
}

static ruvllm_status fetch(struct pull *p, struct ruvllm_error *err)
{
    struct rv_hub_download download = {
        .http = p->http,
        .folder = p->folder,
        .folder_path = p->folder_path,
        .file = p->base,
        .revision = p->params.revision,
        .n_bytes = p->file->n_bytes,
        .sha256 = p->file->sha256,
        .max_retries = p->params.max_retries,
        .on_progress = p->params.on_progress,
        .progress_user = p->params.progress_user,
    };
    bool is_whole = false;
    char *url = NULL;
    ruvllm_status rc = is_here(p, &is_whole, err);

    if (rc || is_whole)
        return rc;
    rc = rv_hub_api_file_url(p->http, &p->name, p->params.revision, p->file->path, &url, err);
    download.url = url;
    if (rc == RUVLLM_OK)
        rc = rv_hub_download_run(&download, err);
    rv_free(url);
    return rc;
}

/* Attempts that failed before one succeeded must not be left in the caller's error. */
static ruvllm_status give_fault(ruvllm_status rc, const struct ruvllm_error *fault, struct ruvllm_error *err)
{
    if (rc && err)
        *err = *fault;
    return rc;
}

static ruvllm_status run_pull(struct pull *p, char **path, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_model_store_root(p->params.models_dir, &p->root, err);

    if (rc)
        return rc;
    if (p->params.offline)
        return find_offline(p, path, err);
    rc = choose_file(p, err);
    if (rc == RUVLLM_OK)
        rc = open_place(p, err);
    if (rc == RUVLLM_OK)
        rc = fetch(p, err);
    if (rc)
        return rc;
    *path = p->path;
    p->path = NULL;
    return RUVLLM_OK;
}

ruvllm_status ruvllm_hub_pull(const char *model, const struct ruvllm_hub_params *params, char **path,
                              struct ruvllm_error *err)
{
    struct pull p = {.model = model, .folder = -1, .lock = -1};
    struct ruvllm_error fault = {0};
    ruvllm_status rc;

    if (!path)
        return rv_door_fail_null(err, "path");
    *path = NULL;
    if (!model)
        return rv_door_fail_null(err, "model");
    rc = take_params(&p.params, params, err);
    if (rc == RUVLLM_OK)
        rc = rv_hub_name_parse(&p.name, model, true, err);
    if (rc)
        return rc;
    rc = give_fault(run_pull(&p, path, &fault), &fault, err);
    if (p.folder >= 0) {
        rv_model_store_unlock(p.folder, p.base, p.lock);
        close(p.folder);
    }
    rv_hub_api_tree_release(&p.tree);
    rv_hub_http_close(p.http);
    rv_free(p.path);
    rv_free(p.folder_path);
    rv_free(p.root);
    return rc ? rv_fail_in(err, rc, "cannot fetch '%s'", model) : RUVLLM_OK;
}

/* ---- push ---------------------------------------------------------------------------------- */

ruvllm_status ruvllm_hub_push(const char *path, const char *repository, const struct ruvllm_hub_params *params,
                              char **url, struct ruvllm_error *err)
{
    struct rv_hub_push push = {.path = path};
    struct ruvllm_error fault = {0};
    struct ruvllm_hub_params ours;
    ruvllm_status rc;

    if (!url)
        return rv_door_fail_null(err, "url");
    *url = NULL;
    if (!path || !repository)
        return rv_door_fail_null(err, path ? "repository" : "path");
    rc = take_params(&ours, params, err);
    if (rc == RUVLLM_OK)
        rc = rv_hub_name_parse(&push.name, repository, true, err);
    if (rc)
        return rc;
    if (push.name.wanted[0])
        return rv_fail(err, RUVLLM_INVALID, "a repository is owner/name, without what comes behind a colon");
    if (strchr(ours.revision, '/'))
        return rv_fail(err, RUVLLM_INVALID, "a file is uploaded to a branch without '/' in its name");
    if (ours.offline)
        return rv_fail(err, RUVLLM_INVALID,
                       "nothing is uploaded while no hub is to be asked: leave out --offline and unset HF_HUB_OFFLINE");
    push.revision = ours.revision;
    push.is_private = ours.is_private;
    push.max_retries = ours.max_retries;
    push.on_progress = ours.on_progress;
    push.progress_user = ours.progress_user;
    rc = rv_hub_http_open(&push.http, ours.endpoint, ours.token, ours.stall_seconds, err);
    if (rc == RUVLLM_OK)
        rc = give_fault(rv_hub_push_run(&push, url, &fault), &fault, err);
    rv_hub_http_close(push.http);
    return rc;
}

/* ---- the folder of models ------------------------------------------------------------------ */

struct ruvllm_models {
    struct rv_model_store_list list;
};

ruvllm_status ruvllm_models_dir(char **path, struct ruvllm_error *err)
{
    if (!path)
        return rv_door_fail_null(err, "path");
    *path = NULL;
    return rv_model_store_root(NULL, path, err);
}

ruvllm_status ruvllm_models_list(const char *models_dir, ruvllm_models **out, struct ruvllm_error *err)
{
    struct ruvllm_models *models;
    char *root = NULL;
    ruvllm_status rc;

    if (!out)
        return rv_door_fail_null(err, "out");
    *out = NULL;
    models = rv_calloc(1, sizeof(*models));
    if (!models)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a list of models");
    rc = rv_model_store_root(models_dir, &root, err);
    if (rc == RUVLLM_OK)
        rc = rv_model_store_list(root, &models->list, err);
    rv_free(root);
    if (rc)
        rv_free(models);
    else
        *out = models;
    return rc;
}

size_t ruvllm_models_count(const ruvllm_models *models)
{
    return models ? models->list.n : 0;
}

ruvllm_status ruvllm_models_at(const ruvllm_models *models, size_t index, struct ruvllm_models_entry *out,
                               struct ruvllm_error *err)
{
    const struct rv_model_store_entry *entry;
    struct ruvllm_models_entry ours;

    if (!models || !out)
        return rv_door_fail_null(err, models ? "out" : "models");
    if (index >= models->list.n)
        return rv_fail(err, RUVLLM_NOT_FOUND, "there is no model %zu in a list of %zu", index, models->list.n);
    entry = &models->list.entries[index];
    ours = (struct ruvllm_models_entry){
        .struct_size = sizeof(ours),
        .repository = entry->repository,
        .file = entry->file,
        .quantization = entry->quantization,
        .path = entry->path,
        .source = entry->manifest.source,
        .revision = entry->manifest.revision,
        .sha256 = entry->manifest.sha256,
        .n_bytes = entry->n_bytes,
        .time = entry->time,
        .is_partial = entry->is_partial,
    };
    return rv_door_give_struct(out, &ours, sizeof(ours), "ruvllm_models_entry", err);
}

void ruvllm_models_free(ruvllm_models *models)
{
    if (!models)
        return;
    rv_model_store_list_release(&models->list);
    rv_free(models);
}

ruvllm_status ruvllm_models_find(const char *models_dir, const char *model, char **path, struct ruvllm_error *err)
{
    struct ruvllm_models *models = NULL;
    size_t index = 0;
    ruvllm_status rc;

    if (!path)
        return rv_door_fail_null(err, "path");
    *path = NULL;
    if (!model)
        return rv_door_fail_null(err, "model");
    rc = ruvllm_models_list(models_dir, &models, err);
    if (rc)
        return rc;
    rc = rv_model_store_find(&models->list, model, &index, err);
    if (rc == RUVLLM_OK) {
        *path = models->list.entries[index].path;
        models->list.entries[index].path = NULL;
    }
    ruvllm_models_free(models);
    return rc;
}

ruvllm_status ruvllm_models_remove(const char *models_dir, const char *model, uint64_t *n_bytes,
                                   struct ruvllm_error *err)
{
    uint64_t freed = 0;
    char *root = NULL;
    ruvllm_status rc;

    if (!model)
        return rv_door_fail_null(err, "model");
    rc = rv_model_store_root(models_dir, &root, err);
    if (rc == RUVLLM_OK)
        rc = rv_model_store_remove(root, model, &freed, err);
    rv_free(root);
    if (rc == RUVLLM_OK && n_bytes)
        *n_bytes = freed;
    return rc;
}
