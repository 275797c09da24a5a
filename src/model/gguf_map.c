/* Mapping a file. Pipes, devices and folders are refused before anything could block on them. */
#include "model/gguf_map.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

ruvllm_status rv_gguf_map_open(struct rv_gguf_map *map, const char *path, struct ruvllm_error *err)
{
    struct stat st;
    void *data = NULL;
    ruvllm_status rc;
    /* O_NONBLOCK so that opening a pipe nobody writes to does not wait; it changes nothing for regular files. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    *map = (struct rv_gguf_map){.fd = -1};
    if (fd < 0)
        return rv_fail_errno(err, errno, "cannot open the file");
    if (fstat(fd, &st) != 0) {
        rc = rv_fail_errno(err, errno, "cannot tell what the file is");
        goto fail;
    }
    if (!S_ISREG(st.st_mode)) {
        rc = rv_fail(err, RUVLLM_INVALID, "not a regular file");
        goto fail;
    }
    if (st.st_size > 0) {
        data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED) {
            rc = rv_fail_errno(err, errno, "cannot map the file's %lld bytes", (long long)st.st_size);
            goto fail;
        }
    }
    *map = (struct rv_gguf_map){.data = data, .len = (size_t)st.st_size, .fd = fd};
    return RUVLLM_OK;
fail:
    close(fd);
    return rc;
}

void rv_gguf_map_close(struct rv_gguf_map *map)
{
    if (map->data)
        munmap((void *)map->data, map->len);
    if (map->fd >= 0)
        close(map->fd);
    *map = (struct rv_gguf_map){.fd = -1};
}
