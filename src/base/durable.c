/* Order matters here and nowhere else: bytes, then the name, then the folder. A failed fsync is never tried again. */
#include "base/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

ruvllm_status rv_durable_write(int fd, const void *data, size_t len, struct ruvllm_error *err)
{
    const char *at = data;

    while (len) {
        ssize_t n = write(fd, at, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return rv_fail_errno(err, errno, "cannot write %zu bytes", len);
        at += n;
        len -= (size_t)n;
    }
    return RUVLLM_OK;
}

/* The folder that holds `name`. */
static int open_folder(int folder, const char *name)
{
    const char *slash = strrchr(name, '/');
    char path[PATH_MAX];
    size_t len = slash ? (size_t)(slash - name) : 0;

    if (!slash)
        return openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (len == 0)
        return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (len >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(path, name, len);
    path[len] = '\0';
    return openat(folder, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static ruvllm_status sync_folder(int folder, const char *name, struct ruvllm_error *err)
{
    int fd = open_folder(folder, name);
    ruvllm_status rc = RUVLLM_OK;

    if (fd < 0)
        return rv_fail_errno(err, errno, "cannot open the folder of '%s'", name);
    /* Some file systems cannot sync a folder and say EINVAL; they have nothing to bring to the disk then. */
    if (fsync(fd) != 0 && errno != EINVAL)
        rc = rv_fail_errno(err, errno, "cannot bring the folder of '%s' to the disk", name);
    close(fd);
    return rc;
}

ruvllm_status rv_durable_publish(int fd, int folder, const char *from, const char *to, struct ruvllm_error *err)
{
    if (fsync(fd) != 0)
        return rv_fail_errno(err, errno, "cannot bring '%s' to the disk", from);
    if (renameat(folder, from, folder, to) != 0)
        return rv_fail_errno(err, errno, "cannot rename '%s' to '%s'", from, to);
    return sync_folder(folder, to, err);
}

ruvllm_status rv_durable_save(int folder, const char *name, const void *data, size_t len, struct ruvllm_error *err)
{
    char temporary[PATH_MAX];
    ruvllm_status rc;
    int fd;

    if ((size_t)snprintf(temporary, sizeof(temporary), "%s.new", name) >= sizeof(temporary))
        return rv_fail(err, RUVLLM_INVALID, "the file name is too long");
    fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return rv_fail_errno(err, errno, "cannot create '%s'", temporary);
    rc = rv_durable_write(fd, data, len, err);
    if (rc == RUVLLM_OK)
        rc = rv_durable_publish(fd, folder, temporary, name, err);
    if (rc)
        unlinkat(folder, temporary, 0);
    close(fd);
    return rc;
}
