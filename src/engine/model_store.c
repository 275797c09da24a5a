/* Walking, locking and emptying the folder. Every name that is met is checked before it is used, ours or not. */
#include "engine/model_store.h"

#include "base/alloc.h"
#include "base/buf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_ENTRIES = 100000 };

static const char PARTIAL[] = ".partial";

/* ---- the root ------------------------------------------------------------------------------ */

ruvllm_status rv_model_store_root(const char *dir, char **out, struct ruvllm_error *err)
{
    const char *models = getenv("RUVLLM_MODELS");
    const char *cache = getenv("RUVLLM_CACHE_DIR");
    const char *data = getenv("XDG_DATA_HOME");
    const char *home = getenv("HOME");
    struct rv_buf path;

    rv_buf_init(&path, PATH_MAX);
    if (dir && *dir)
        rv_buf_add_str(&path, dir);
    else if (models && *models)
        rv_buf_add_str(&path, models);
    else if (cache && *cache)
        rv_buf_addf(&path, "%s/models", cache);
    else if (data && data[0] == '/')
        rv_buf_addf(&path, "%s/ruvllm/models", data);
    else if (home && home[0] == '/')
        rv_buf_addf(&path, "%s/.local/share/ruvllm/models", home);
    else
        return rv_fail(err, RUVLLM_INVALID, "there is no folder for models: set RUVLLM_MODELS or HOME");
    while (path.len > 1 && path.data[path.len - 1] == '/')
        path.data[--path.len] = '\0';
    *out = rv_buf_take(&path, NULL);
    rv_buf_release(&path);
    return *out ? RUVLLM_OK : rv_fail(err, RUVLLM_TOO_LARGE, "the path of the models' folder is too long");
}

/* The root and the folders above it. */
static ruvllm_status make_root(const char *root, struct ruvllm_error *err)
{
    char path[PATH_MAX];

    if (strlen(root) >= sizeof(path))
        return rv_fail(err, RUVLLM_TOO_LARGE, "the path of the models' folder is too long");
    for (size_t i = 1; i <= strlen(root); i++) {
        if (root[i] != '/' && root[i])
            continue;
        memcpy(path, root, i);
        path[i] = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            return rv_fail_errno(err, errno, "cannot create the folder '%s'", path);
    }
    return RUVLLM_OK;
}

static int open_below(int folder, const char *name, bool create)
{
    if (create && mkdirat(folder, name, 0777) != 0 && errno != EEXIST)
        return -1;
    return openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

ruvllm_status rv_model_store_folder(const char *root, const char *owner, const char *name, bool create, int *fd,
                                    struct ruvllm_error *err)
{
    ruvllm_status rc = create ? make_root(root, err) : RUVLLM_OK;
    int root_fd, owner_fd;

    *fd = -1;
    if (rc)
        return rc;
    RV_ASSERT(rv_hub_name_is_safe(owner, strlen(owner)) && rv_hub_name_is_safe(name, strlen(name)));
    root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        return rv_fail_errno(err, errno, "cannot open the models' folder '%s'", root);
    owner_fd = open_below(root_fd, owner, create);
    if (owner_fd >= 0)
        *fd = open_below(owner_fd, name, create);
    rc = *fd >= 0 ? RUVLLM_OK : rv_fail_errno(err, errno, "cannot open the folder '%s/%s/%s'", root, owner, name);
    if (owner_fd >= 0)
        close(owner_fd);
    close(root_fd);
    return rc;
}

ruvllm_status rv_model_store_path(const char *root, const char *owner, const char *name, const char *file, char **out,
                                  struct ruvllm_error *err)
{
    struct rv_buf path;

    rv_buf_init(&path, 2 * PATH_MAX);
    rv_buf_addf(&path, "%s/%s/%s/%s", root, owner, name, file);
    *out = rv_buf_take(&path, NULL);
    rv_buf_release(&path);
    return *out ? RUVLLM_OK : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the path of '%s'", file);
}

/* ---- locks --------------------------------------------------------------------------------- */

static void lock_name(const char *file, char out[RV_HUB_MANIFEST_NAME])
{
    snprintf(out, RV_HUB_MANIFEST_NAME, ".%s.lock", file);
}

/*
 * Whoever unlocks removes the lock file first, so one that was waited for may be gone from the folder: then it guards
 * nothing any more and the next one is tried.
 */
ruvllm_status rv_model_store_lock(int folder, const char *file, int *lock, struct ruvllm_error *err)
{
    char name[RV_HUB_MANIFEST_NAME];
    struct stat st;

    *lock = -1;
    lock_name(file, name);
    for (int i = 0; i < 100; i++) {
        int fd = openat(folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);

        if (fd < 0)
            return rv_fail_errno(err, errno, "cannot create the lock '%s'", name);
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            int reason = errno;

            close(fd);
            if (reason == EWOULDBLOCK)
                break;
            return rv_fail_errno(err, reason, "cannot lock '%s'", name);
        }
        if (fstat(fd, &st) == 0 && st.st_nlink > 0) {
            *lock = fd;
            return RUVLLM_OK;
        }
        close(fd);
    }
    return rv_fail(err, RUVLLM_BUSY, "'%s' is being fetched or removed by another process; wait until it is done",
                   file);
}

void rv_model_store_unlock(int folder, const char *file, int lock)
{
    char name[RV_HUB_MANIFEST_NAME];

    if (lock < 0)
        return;
    lock_name(file, name);
    unlinkat(folder, name, 0);
    close(lock);
}

/* ---- listing ------------------------------------------------------------------------------- */

struct walk {
    const char *root;
    const char *owner;
    const char *name;
    struct rv_model_store_list *list;
    size_t cap;
};

typedef ruvllm_status visit_fn(struct walk *walk, int folder, const char *name, struct ruvllm_error *err);

/* Calls `visit` for each entry with a safe name; closes `folder`. */
static ruvllm_status for_each(struct walk *walk, int folder, visit_fn *visit, struct ruvllm_error *err)
{
    DIR *dir = fdopendir(folder);
    ruvllm_status rc = RUVLLM_OK;
    struct dirent *entry;

    if (!dir) {
        rc = rv_fail_errno(err, errno, "cannot read a folder of models");
        close(folder);
        return rc;
    }
    while (rc == RUVLLM_OK) {
        entry = readdir(dir); // NOLINT(concurrency-mt-unsafe): the stream is this call's own
        if (!entry)
            break;
        if (rv_hub_name_is_safe(entry->d_name, strnlen(entry->d_name, RV_HUB_NAME_MAX + 1)) ||
            strstr(entry->d_name, PARTIAL))
            rc = visit(walk, dirfd(dir), entry->d_name, err);
    }
    closedir(dir);
    return rc;
}

static ruvllm_status add_entry(struct walk *walk, struct rv_model_store_entry **out, struct ruvllm_error *err)
{
    struct rv_model_store_list *list = walk->list;

    *out = NULL;
    if (list->n == MAX_ENTRIES)
        return rv_fail(err, RUVLLM_TOO_LARGE, "the models' folder holds more than %d files", MAX_ENTRIES);
    if (list->n == walk->cap) {
        size_t cap = walk->cap ? walk->cap * 2 : 16;
        struct rv_model_store_entry *grown = rv_realloc_array(list->entries, cap, sizeof(*grown));

        if (!grown)
            return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a list of %zu models", cap);
        list->entries = grown;
        walk->cap = cap;
    }
    *out = &list->entries[list->n];
    **out = (struct rv_model_store_entry){0};
    return RUVLLM_OK;
}

static ruvllm_status visit_file(struct walk *walk, int folder, const char *name, struct ruvllm_error *err)
{
    struct rv_model_store_entry *entry = NULL;
    char manifest[RV_HUB_MANIFEST_NAME];
    size_t len = strlen(name), end = len;
    struct stat st;
    ruvllm_status rc;

    if (len > sizeof(PARTIAL) - 1 && strcmp(name + len - (sizeof(PARTIAL) - 1), PARTIAL) == 0)
        end = len - (sizeof(PARTIAL) - 1);
    if (!rv_hub_name_is_safe(name, end) || fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
        return RUVLLM_OK;
    rc = add_entry(walk, &entry, err);
    if (rc)
        return rc;
    memcpy(entry->file, name, end);
    if (!rv_hub_name_is_gguf(entry->file))
        return RUVLLM_OK;
    rc = rv_model_store_path(walk->root, walk->owner, walk->name, name, &entry->path, err);
    if (rc)
        return rc;
    snprintf(entry->repository, sizeof(entry->repository), "%s/%s", walk->owner, walk->name);
    rv_hub_name_quantization(entry->file, entry->quantization);
    snprintf(manifest, sizeof(manifest), "%s.json", name);
    entry->is_partial = end < len;
    entry->n_bytes = (uint64_t)st.st_size;
    entry->time = (int64_t)st.st_mtime;
    if (rv_hub_manifest_load(&entry->manifest, folder, manifest) && entry->manifest.time && !entry->is_partial)
        entry->time = entry->manifest.time;
    walk->list->n++;
    return RUVLLM_OK;
}

static ruvllm_status visit_name(struct walk *walk, int folder, const char *name, struct ruvllm_error *err)
{
    int fd = open_below(folder, name, false);

    walk->name = name;
    return fd < 0 ? RUVLLM_OK : for_each(walk, fd, visit_file, err); // no folder, or none we may read: not a model
}

static ruvllm_status visit_owner(struct walk *walk, int folder, const char *name, struct ruvllm_error *err)
{
    int fd = open_below(folder, name, false);

    walk->owner = name;
    return fd < 0 ? RUVLLM_OK : for_each(walk, fd, visit_name, err);
}

static int compare(const void *left, const void *right)
{
    const struct rv_model_store_entry *a = left, *b = right;
    int order = strcmp(a->repository, b->repository);

    order = order ? order : strcmp(a->file, b->file);
    return order ? order : a->is_partial - b->is_partial;
}

ruvllm_status rv_model_store_list(const char *root, struct rv_model_store_list *out, struct ruvllm_error *err)
{
    struct walk walk = {.root = root, .list = out};
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ruvllm_status rc;

    *out = (struct rv_model_store_list){0};
    if (fd < 0 && errno == ENOENT)
        return RUVLLM_OK;
    if (fd < 0)
        return rv_fail_errno(err, errno, "cannot open the models' folder '%s'", root);
    rc = for_each(&walk, fd, visit_owner, err);
    if (rc) {
        rv_model_store_list_release(out);
        return rc;
    }
    if (out->n)
        qsort(out->entries, out->n, sizeof(*out->entries), compare);
    return RUVLLM_OK;
}

void rv_model_store_list_release(struct rv_model_store_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        rv_free(list->entries[i].path);
    rv_free(list->entries);
    *list = (struct rv_model_store_list){0};
}

/* ---- finding ------------------------------------------------------------------------------- */

static bool is_repository(const struct rv_model_store_entry *entry, const struct rv_hub_name *name)
{
    const char *slash = strchr(entry->repository, '/');

    return strcmp(slash + 1, name->name) == 0 &&
           (!name->owner[0] || (strncmp(entry->repository, name->owner, (size_t)(slash - entry->repository)) == 0 &&
                                name->owner[slash - entry->repository] == '\0'));
}

static ruvllm_status fail_not_here(const char *model, const struct rv_hub_name *name, struct ruvllm_error *err)
{
    if (name->owner[0])
        return rv_fail(err, RUVLLM_NOT_FOUND, "model '%s' is not here; fetch it with: ruvllm pull %s", model, model);
    return rv_fail(
        err, RUVLLM_NOT_FOUND,
        "there is no model '%s' here; 'ruvllm list' shows those there are, 'ruvllm pull owner/name' fetches one",
        model);
}

/* The repository a name means: the first and last entry of it. */
static ruvllm_status find_repository(const struct rv_model_store_list *list, const char *model,
                                     const struct rv_hub_name *name, size_t *first, size_t *end,
                                     struct ruvllm_error *err)
{
    *first = *end = list->n;
    for (size_t i = 0; i < list->n; i++) {
        if (!is_repository(&list->entries[i], name))
            continue;
        if (*first == list->n)
            *first = i;
        else if (strcmp(list->entries[i].repository, list->entries[*first].repository) != 0)
            return rv_fail(err, RUVLLM_INVALID, "'%s' fits '%.96s' and '%.96s': write the owner too", name->name,
                           list->entries[*first].repository, list->entries[i].repository);
        *end = i + 1;
    }
    return *first < list->n ? RUVLLM_OK : fail_not_here(model, name, err);
}

ruvllm_status rv_model_store_find(const struct rv_model_store_list *list, const char *model, size_t *index,
                                  struct ruvllm_error *err)
{
    struct rv_hub_name name;
    const char **files;
    size_t *places;
    size_t first, end, n = 0, chosen = 0;
    ruvllm_status rc = rv_hub_name_parse(&name, model, false, err);

    if (rc == RUVLLM_OK)
        rc = find_repository(list, model, &name, &first, &end, err);
    if (rc)
        return rc;
    files = rv_calloc(end - first, sizeof(*files));
    places = rv_calloc(end - first, sizeof(*places));
    for (size_t i = first; files && places && i < end; i++) {
        if (list->entries[i].is_partial)
            continue;
        places[n] = i;
        files[n++] = list->entries[i].file;
    }
    if (!files || !places)
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a list of files");
    else if (n == 0)
        rc =
            rv_fail(err, RUVLLM_NOT_FOUND, "model '%s' is here only in part; go on with: ruvllm pull %s", model, model);
    else
        rc = rv_hub_name_choose(files, n, name.wanted, &chosen, err);
    if (rc == RUVLLM_OK)
        *index = places[chosen];
    else if (rc == RUVLLM_NOT_FOUND && n)
        rc = rv_fail(err, RUVLLM_NOT_FOUND, "of model '%s' there is no '%s' here; fetch it with: ruvllm pull %s",
                     list->entries[first].repository, name.wanted, model);
    rv_free(files);
    rv_free(places);
    return rc;
}

/* ---- removing ------------------------------------------------------------------------------ */

static ruvllm_status remove_file(int folder, const char *file, struct ruvllm_error *err)
{
    static const char *const endings[] = {"", ".json", ".json.new", ".partial", ".partial.json", ".partial.json.new"};
    char name[RV_HUB_MANIFEST_NAME];
    ruvllm_status rc;
    int lock;

    rc = rv_model_store_lock(folder, file, &lock, err);
    if (rc)
        return rc;
    for (size_t i = 0; rc == RUVLLM_OK && i < sizeof(endings) / sizeof(endings[0]); i++) {
        snprintf(name, sizeof(name), "%s%s", file, endings[i]);
        if (unlinkat(folder, name, 0) != 0 && errno != ENOENT)
            rc = rv_fail_errno(err, errno, "cannot remove '%s'", name);
    }
    rv_model_store_unlock(folder, file, lock);
    return rc;
}

/* Folders that have become empty; the others stay, which is no failure. */
static void remove_empty(const char *root, const char *owner, const char *name)
{
    int root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int owner_fd = root_fd < 0 ? -1 : open_below(root_fd, owner, false);

    if (owner_fd >= 0) {
        unlinkat(owner_fd, name, AT_REMOVEDIR);
        close(owner_fd);
        unlinkat(root_fd, owner, AT_REMOVEDIR);
    }
    if (root_fd >= 0)
        close(root_fd);
}

/* Whether `rm` of this name means the entry. */
static bool is_meant(const struct rv_model_store_entry *entry, const struct rv_hub_name *name)
{
    size_t index;
    const char *file = entry->file;

    return !name->wanted[0] || rv_hub_name_choose(&file, 1, name->wanted, &index, NULL) == RUVLLM_OK;
}

static ruvllm_status remove_entries(const char *root, const struct rv_model_store_list *list, const char *model,
                                    uint64_t *n_bytes, struct ruvllm_error *err)
{
    struct rv_hub_name name;
    size_t first, end, n_removed = 0;
    int folder = -1;
    ruvllm_status rc = rv_hub_name_parse(&name, model, false, err);

    if (rc == RUVLLM_OK)
        rc = find_repository(list, model, &name, &first, &end, err);
    if (rc)
        return rc;
    if (!name.owner[0])
        snprintf(name.owner, sizeof(name.owner), "%.*s", (int)strcspn(list->entries[first].repository, "/"),
                 list->entries[first].repository);
    rc = rv_model_store_folder(root, name.owner, name.name, false, &folder, err);
    for (size_t i = first; rc == RUVLLM_OK && i < end; i++) {
        if (!is_meant(&list->entries[i], &name))
            continue;
        rc = remove_file(folder, list->entries[i].file, err);
        *n_bytes += rc == RUVLLM_OK ? list->entries[i].n_bytes : 0;
        n_removed++;
    }
    if (folder >= 0)
        close(folder);
    if (rc == RUVLLM_OK && n_removed == 0)
        rc = rv_fail(err, RUVLLM_NOT_FOUND, "of model '%s' there is no '%s' here; 'ruvllm list' shows what there is",
                     list->entries[first].repository, name.wanted);
    if (rc == RUVLLM_OK)
        remove_empty(root, name.owner, name.name);
    return rc;
}

ruvllm_status rv_model_store_remove(const char *root, const char *model, uint64_t *n_bytes, struct ruvllm_error *err)
{
    struct rv_model_store_list list;
    ruvllm_status rc = rv_model_store_list(root, &list, err);

    *n_bytes = 0;
    if (rc)
        return rc;
    rc = remove_entries(root, &list, model, n_bytes, err);
    rv_model_store_list_release(&list);
    return rc;
}
