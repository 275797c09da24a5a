/*
 * The file is made here and not by the database, which would leave its mode to the umask. The files a database puts
 * beside it (SQLite's -wal and -shm) take over its mode.
 */
#include "store/store_path.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file of this user's state. */
static ruvllm_status state_path(const char *name, char **out, struct ruvllm_error *err)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    struct rv_buf path;
    ruvllm_status rc;

    *out = NULL;
    rv_buf_init(&path, PATH_MAX);
    /* Relative ones are to be ignored, says the XDG base directory specification. */
    if (state && *state == '/') {
        rv_buf_add_str(&path, state);
    } else if (home && *home) {
        rv_buf_add_str(&path, home);
        rv_buf_add_str(&path, "/.local/state");
    } else {
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_STORAGE,
                            "cannot tell where the store is: neither XDG_STATE_HOME nor HOME is set; give its path");
    }
    rv_buf_add_str(&path, "/ruvllm/");
    rv_buf_add_str(&path, name);
    rc = rv_buf_status(&path, "the path of the store", err);
    if (!rc)
        *out = rv_buf_take(&path, NULL);
    rv_buf_release(&path);
    return rc;
}

ruvllm_status rv_store_path_default(char **out, struct ruvllm_error *err)
{
    return state_path("ruvllm.db", out, err);
}

ruvllm_status rv_store_path_spool(const char *id, char **out, struct ruvllm_error *err)
{
    char name[64];

    (void)snprintf(name, sizeof(name), "spool-%.40s.db", id);
    return state_path(name, out, err);
}

/* The folders of `path`, which is changed on the way and as it was in the end. */
static ruvllm_status make_folders(char *path, struct ruvllm_error *err)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        int failed;

        *slash = '\0';
        failed = mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : errno;
        if (failed) {
            ruvllm_status rc = rv_fail_errno(err, failed, "cannot make folder '%s'", path);

            *slash = '/';
            return rc;
        }
        *slash = '/';
    }
    return RUVLLM_OK;
}

/* A new name in a folder survives a crash of the machine once the folder itself is on the disk. */
static ruvllm_status sync_folder(char *path, struct ruvllm_error *err)
{
    char *slash = strrchr(path, '/');
    ruvllm_status rc = RUVLLM_OK;
    int fd;

    if (slash && slash != path)
        *slash = '\0';
    fd = open(slash ? (slash == path ? "/" : path) : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        rc = rv_fail_errno(err, errno, "cannot write the folder of the store");
    if (fd >= 0)
        close(fd);
    if (slash && slash != path)
        *slash = '/';
    return rc;
}

static ruvllm_status make_file(char *path, struct ruvllm_error *err)
{
    ruvllm_status rc = make_folders(path, err);
    int fd;

    if (rc)
        return rc;
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0)
        return rv_fail_errno(err, errno, "cannot make file '%s'", path);
    close(fd);
    return sync_folder(path, err);
}

ruvllm_status rv_store_path_make(const char *path, bool must_exist, struct ruvllm_error *err)
{
    struct stat facts;
    ruvllm_status rc;
    char *copy;

    if (stat(path, &facts) == 0) {
        if (!S_ISREG(facts.st_mode))
            return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_STORAGE, "it is not a file");
        if (facts.st_mode & 077)
            rv_log(RUVLLM_LOG_WARN, "others may read the store '%.200s': 'chmod 600' keeps it to its owner", path);
        return RUVLLM_OK;
    }
    if (errno != ENOENT)
        return rv_fail_errno(err, errno, "cannot look at it");
    if (must_exist)
        return rv_fail_kind(err, RUVLLM_NOT_FOUND, RUVLLM_ERROR_STORAGE, "there is no such file");
    copy = rv_strdup(path);
    if (!copy)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a path");
    rc = make_file(copy, err);
    rv_free(copy);
    return rc;
}
