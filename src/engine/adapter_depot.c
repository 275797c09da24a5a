/* Names are made of hashes alone, so nothing a client says ever becomes a path. */
#include "engine/adapter_depot.h"

#include "base/alloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TAIL = 3 + RV_SHA256_HEX_LEN + 6 }; // "/ab/", 64 digits, ".gguf", NUL

struct rv_adapter_depot {
    char *dir;
    int lock; // a descriptor; -1: none
    const struct rv_adapter_file_base *base;
    struct rv_adapter_registry_files files;
};

/* ---- paths ---------------------------------------------------------------------------------- */

/* NULL when memory is out. */
static char *path_of(const struct rv_adapter_depot *d, const char *hash)
{
    size_t size = strlen(d->dir) + TAIL + 2;
    char *path = rv_malloc(size);

    if (path)
        snprintf(path, size, "%s/%.2s/%s.gguf", d->dir, hash, hash);
    return path;
}

/* Makes the folder that a file lies in. */
static ruvllm_status make_folder(const char *path, struct ruvllm_error *err)
{
    char *folder = rv_strndup(path, (size_t)(strrchr(path, '/') - path));
    ruvllm_status rc = RUVLLM_OK;

    if (!folder)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the path of an adapter");
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        rc = rv_fail_errno(err, errno, "cannot make folder '%s'", folder);
    rv_free(folder);
    return rc;
}

/* ---- for the registry ----------------------------------------------------------------------- */

static ruvllm_status write_file(struct rv_adapter_depot *d, const struct rv_adapter_file *file, const char *path,
                                uint64_t *n_bytes, struct ruvllm_error *err)
{
    struct stat status;
    ruvllm_status rc = make_folder(path, err);

    if (!rc)
        rc = rv_adapter_file_write(file, d->base, path, RUVLLM_ADAPTER_OWN, err);
    if (!rc && stat(path, &status) != 0)
        rc = rv_fail_errno(err, errno, "cannot look at '%s'", path);
    if (!rc)
        *n_bytes = (uint64_t)status.st_size;
    return rc;
}

static ruvllm_status depot_save(void *user, const char *hash, const struct rv_adapter *adapter, void *source,
                                uint64_t *n_bytes, struct ruvllm_error *err)
{
    struct rv_adapter_depot *d = user;
    struct rv_adapter_file *made = NULL;
    char *path = path_of(d, hash);
    ruvllm_status rc = RUVLLM_OK;

    if (!path)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the path of an adapter");
    if (!source)
        rc = rv_adapter_file_from(&made, adapter, d->base, err);
    if (!rc)
        rc = write_file(d, source ? source : made, path, n_bytes, err);
    rv_adapter_file_close(made);
    rv_free(path);
    return rc;
}

ruvllm_status rv_adapter_depot_read(const struct rv_adapter_depot *depot, const char *hash,
                                    struct rv_adapter_file **out, struct ruvllm_error *err)
{
    char *path = path_of(depot, hash);
    ruvllm_status rc;

    *out = NULL;
    if (!path)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the path of an adapter");
    rc = rv_adapter_file_open(out, path, depot->base, err);
    rv_free(path);
    return rc;
}

static ruvllm_status depot_load(void *user, const char *hash, struct rv_adapter **out, struct ruvllm_error *err)
{
    struct rv_adapter_depot *d = user;
    struct rv_adapter_file *file;
    ruvllm_status rc = rv_adapter_depot_read(d, hash, &file, err);

    *out = NULL;
    if (!rc)
        rc = rv_adapter_file_adapter(file, d->base, out, err);
    rv_adapter_file_close(file);
    return rc;
}

static void depot_remove(void *user, const char *hash)
{
    char *path = path_of(user, hash);

    if (path)
        (void)unlink(path); // one that stays is removed when the folder is opened next
    rv_free(path);
}

static void depot_close_source(void *user, void *source)
{
    (void)user;
    rv_adapter_file_close(source);
}

const struct rv_adapter_registry_files *rv_adapter_depot_files(struct rv_adapter_depot *depot)
{
    return &depot->files;
}

/* ---- life ----------------------------------------------------------------------------------- */

/* Ours: 64 digits and what comes after them. */
static bool is_left_over(const char *name)
{
    return strspn(name, "0123456789abcdef") == RV_SHA256_HEX_LEN && strncmp(name + RV_SHA256_HEX_LEN, ".gguf", 5) == 0;
}

static void sweep_folder(const char *path)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;

    if (!folder)
        return; // most are not there
    while ((entry = readdir(folder))) {
        if (is_left_over(entry->d_name))
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
    }
    closedir(folder);
}

static ruvllm_status sweep(const struct rv_adapter_depot *d, struct ruvllm_error *err)
{
    size_t size = strlen(d->dir) + 4;
    char *path = rv_malloc(size);

    if (!path)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the path of an adapter");
    for (unsigned i = 0; i < 256; i++) {
        snprintf(path, size, "%s/%02x", d->dir, i);
        sweep_folder(path);
    }
    rv_free(path);
    return RUVLLM_OK;
}

/* A descriptor with the lock, which ends with the process; the file stays. */
static ruvllm_status take_lock(struct rv_adapter_depot *d, struct ruvllm_error *err)
{
    int folder = open(d->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (folder < 0)
        return rv_fail_errno(err, errno, "cannot open folder '%s'", d->dir);
    d->lock = openat(folder, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    close(folder);
    if (d->lock < 0)
        return rv_fail_errno(err, errno, "cannot make the lock of folder '%s'", d->dir);
    if (flock(d->lock, LOCK_EX | LOCK_NB) == 0)
        return RUVLLM_OK;
    if (errno == EWOULDBLOCK)
        return rv_fail_kind(err, RUVLLM_BUSY, RUVLLM_ERROR_ADAPTER,
                            "another engine keeps its adapters in folder '%s'; give each its own", d->dir);
    return rv_fail_errno(err, errno, "cannot lock folder '%s'", d->dir);
}

ruvllm_status rv_adapter_depot_open(struct rv_adapter_depot **out, const char *dir,
                                    const struct rv_adapter_file_base *base, struct ruvllm_error *err)
{
    struct rv_adapter_depot *d = rv_calloc(1, sizeof(*d));
    ruvllm_status rc = RUVLLM_OK;

    *out = NULL;
    if (!d)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a folder of adapters");
    d->lock = -1;
    d->base = base;
    d->dir = rv_strdup(dir);
    d->files = (struct rv_adapter_registry_files){
        .save = depot_save, .load = depot_load, .remove = depot_remove, .close_source = depot_close_source, .user = d};
    if (!d->dir)
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a folder of adapters");
    if (!rc && mkdir(dir, 0700) != 0 && errno != EEXIST)
        rc = rv_fail_errno(err, errno, "cannot make folder '%s'", dir);
    if (!rc)
        rc = take_lock(d, err);
    if (!rc)
        rc = sweep(d, err);
    if (rc) {
        rv_adapter_depot_close(d);
        return rc;
    }
    *out = d;
    return RUVLLM_OK;
}

void rv_adapter_depot_close(struct rv_adapter_depot *depot)
{
    if (!depot)
        return;
    if (depot->lock >= 0)
        close(depot->lock);
    rv_free(depot->dir);
    rv_free(depot);
}
