/* Paths are judged after the system has followed every link in them, and what was judged is what is opened. */
#define _XOPEN_SOURCE 700 // realpath
#include "server/adapter_folder.h"

#include "ruvllm_adapter.h"
#include "server/api/api_adapter.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static ruvllm_status resolve(const char *path, char out[RV_ADAPTER_FOLDER_PATH], struct ruvllm_error *err)
{
    char *real = realpath(path, NULL);
    bool fits = real && strlen(real) < RV_ADAPTER_FOLDER_PATH;

    if (!real && (errno == ENOENT || errno == ENOTDIR))
        return rv_fail(err, RUVLLM_NOT_FOUND, "there is no such file or folder");
    if (!real)
        return rv_fail_errno(err, errno, "cannot follow the path");
    if (fits)
        snprintf(out, RV_ADAPTER_FOLDER_PATH, "%s", real);
    free(real);
    return fits ? RUVLLM_OK : rv_fail(err, RUVLLM_INVALID, "the path is too long");
}

ruvllm_status rv_adapter_folder_resolve(const char *folder, char out[RV_ADAPTER_FOLDER_PATH], struct ruvllm_error *err)
{
    struct stat info;
    ruvllm_status rc = resolve(folder, out, err);

    if (!rc && (stat(out, &info) != 0 || !S_ISDIR(info.st_mode)))
        rc = rv_fail(err, RUVLLM_INVALID, "it is no folder");
    return rc ? rv_fail_in(err, rc, "cannot use the adapters' folder '%.120s'", folder) : RUVLLM_OK;
}

ruvllm_status rv_adapter_folder_find(const char *folder, const char *path, char out[RV_ADAPTER_FOLDER_PATH],
                                     struct ruvllm_error *err)
{
    size_t len = strlen(folder);
    char joined[RV_ADAPTER_FOLDER_PATH];
    ruvllm_status rc;

    if (snprintf(joined, sizeof(joined), "%s%s%s", path[0] == '/' ? "" : folder, path[0] == '/' ? "" : "/", path) >=
        RV_ADAPTER_FOLDER_PATH)
        return rv_fail(err, RUVLLM_INVALID, "the path is too long");
    rc = resolve(joined, out, err);
    /* What lies outside and what is nowhere look alike: a client does not learn what else is on this machine. */
    if (rc == RUVLLM_OK && (strncmp(out, folder, len) != 0 || out[len] != '/'))
        rc = rv_fail(err, RUVLLM_INVALID, "outside");
    if (rc == RUVLLM_NOT_FOUND && (path[0] == '/' || strstr(path, "..")))
        rc = RUVLLM_INVALID;
    if (rc == RUVLLM_INVALID)
        return rv_fail(err, rc, "adapters are loaded only from the folder that the server was started with");
    return rc ? rv_fail_in(err, rc, "cannot find the adapter") : RUVLLM_OK;
}

static bool is_adapter(const char *path, const char *file)
{
    char config[RV_ADAPTER_FOLDER_PATH];
    size_t len = strlen(file);
    struct stat info;

    if (file[0] == '.' || stat(path, &info) != 0)
        return false;
    if (S_ISREG(info.st_mode))
        return len > 5 && strcmp(file + len - 5, ".gguf") == 0;
    return S_ISDIR(info.st_mode) &&
           snprintf(config, sizeof(config), "%s/adapter_config.json", path) < RV_ADAPTER_FOLDER_PATH &&
           stat(config, &info) == 0;
}

bool rv_adapter_folder_id(const char *path, char out[RV_API_MAX_ADAPTER + 1])
{
    size_t len = strlen(path), start;

    while (len > 1 && path[len - 1] == '/')
        len--;
    for (start = len; start > 0 && path[start - 1] != '/';)
        start--;
    if (len - start > 5 && strncmp(path + len - 5, ".gguf", 5) == 0)
        len -= 5;
    snprintf(out, RV_API_MAX_ADAPTER + 1, "%.*s", (int)(len - start), path + start);
    return len - start <= RV_API_MAX_ADAPTER && !strchr(out, '/') && rv_api_adapter_is_id(out);
}

static bool load(ruvllm_engine *engine, const char *path, const char *file, const char *model,
                 struct rv_access_log *log)
{
    struct ruvllm_error err = {0};
    char id[RV_API_MAX_ADAPTER + 1], text[512];
    int64_t generation;
    ruvllm_status rc = rv_adapter_folder_id(file, id)
                           ? ruvllm_engine_adapter_load(engine, id, path, -1, &generation, &err)
                           : rv_fail(&err, RUVLLM_INVALID, "its name is not one for an adapter: rename it");

    if (!rc)
        return true;
    snprintf(text, sizeof(text), "adapter '%.120s' is left out of model '%.64s': %.200s", file, model, err.message);
    rv_access_log_message(log, "warn", text);
    return false;
}

/* In the order of names, which a folder does not promise, so that every start is alike. */
size_t rv_adapter_folder_load(const char *folder, ruvllm_engine *engine, const char *model, struct rv_access_log *log)
{
    struct dirent **entries = NULL;
    char path[RV_ADAPTER_FOLDER_PATH];
    int n = scandir(folder, &entries, NULL, alphasort);
    size_t n_loaded = 0;

    if (n < 0)
        rv_access_log_message(log, "error", "the adapters' folder cannot be read");
    for (int i = 0; i < n; i++) {
        const char *file = entries[i]->d_name;

        if (snprintf(path, sizeof(path), "%s/%s", folder, file) < RV_ADAPTER_FOLDER_PATH && is_adapter(path, file))
            n_loaded += load(engine, path, file, model, log);
        free(entries[i]);
    }
    free(entries);
    return n_loaded;
}
