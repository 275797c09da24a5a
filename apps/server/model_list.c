/* A file of the folder whose name is no model name is left out, and the log says so. */
#include "server/model_list.h"

#include "base/alloc.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH = 4096 };

void rv_serve_model_name(const char *path, char out[129])
{
    const char *slash = strrchr(path, '/');
    const char *base = slash && slash[1] ? slash + 1 : path;
    size_t len = strlen(base);

    if (len > 5 && strcmp(base + len - 5, ".gguf") == 0)
        len -= 5;
    snprintf(out, 129, "%.*s", (int)(len < 128 ? len : 128), base);
}

static ruvllm_status add(struct rv_model_list *list, const char *name, const char *path, struct ruvllm_error *err)
{
    char made[129];

    if (list->n == RV_MODEL_SET_MAX)
        return rv_fail(err, RUVLLM_TOO_LARGE, "more than %d models", RV_MODEL_SET_MAX);
    if (!name) {
        rv_serve_model_name(path, made);
        name = made;
    }
    list->models[list->n].name = rv_strdup(name);
    list->models[list->n].path = rv_strdup(path);
    list->n++;
    if (!list->models[list->n - 1].name || !list->models[list->n - 1].path)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the list of models");
    return RUVLLM_OK;
}

static int compare(const void *a, const void *b)
{
    const struct rv_model_set_model *left = a, *right = b;

    return strcmp(left->name, right->name);
}

static bool has_name(const struct rv_model_list *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->models[i].name, name) == 0)
            return true;
    }
    return false;
}

static void say_left_out(struct rv_access_log *log, const char *file)
{
    char text[300];

    snprintf(text, sizeof(text), "'%.120s' is left out: its name is not one for a model; rename it or use NAME=PATH",
             file);
    rv_access_log_message(log, "warn", text);
}

static ruvllm_status add_entry(struct rv_model_list *list, const char *folder, const char *file,
                               struct rv_access_log *log, struct ruvllm_error *err)
{
    size_t len = strlen(file);
    char path[PATH];
    char name[129];
    struct stat info;

    if (len <= 5 || strcmp(file + len - 5, ".gguf") != 0)
        return RUVLLM_OK;
    if (snprintf(path, sizeof(path), "%s/%s", folder, file) >= PATH || stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return RUVLLM_OK;
    rv_serve_model_name(path, name);
    if (!rv_model_set_is_name(name)) {
        say_left_out(log, file);
        return RUVLLM_OK;
    }
    /* One that the command line named comes first, under its own settings. */
    return has_name(list, name) ? RUVLLM_OK : add(list, name, path, err);
}

static ruvllm_status add_folder(struct rv_model_list *list, const char *folder, struct rv_access_log *log,
                                struct ruvllm_error *err)
{
    size_t first = list->n;
    DIR *dir = opendir(folder);
    struct dirent *entry;
    ruvllm_status rc = RUVLLM_OK;

    if (!dir)
        return rv_fail_errno(err, errno, "cannot read the models' folder '%s'", folder);
    while (!rc && (entry = readdir(dir)))
        rc = add_entry(list, folder, entry->d_name, log, err);
    closedir(dir);
    qsort(list->models + first, list->n - first, sizeof(list->models[0]), compare);
    return rc;
}

ruvllm_status rv_model_list_init(struct rv_model_list *list, const struct rv_serve_config *config,
                                 struct rv_access_log *log, struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;

    *list = (struct rv_model_list){0};
    for (size_t i = 0; !rc && i < config->n_models; i++)
        rc = add(list, config->models[i].name, config->models[i].path, err);
    if (!rc && config->models_dir)
        rc = add_folder(list, config->models_dir, log, err);
    if (!rc && list->n == 0)
        rc = rv_fail(err, RUVLLM_NOT_FOUND, "there is no model to serve; name a GGUF file or a folder of them");
    if (rc)
        rv_model_list_release(list);
    return rc;
}

void rv_model_list_release(struct rv_model_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        rv_free((void *)(uintptr_t)list->models[i].name);
        rv_free((void *)(uintptr_t)list->models[i].path);
    }
    *list = (struct rv_model_list){0};
}
