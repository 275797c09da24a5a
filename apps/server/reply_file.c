#include "server/reply_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH = 1024 };

static ruvllm_status read_file(struct rv_call *call, const char *path, struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;
    FILE *file = fopen(path, "rb");
    char piece[4096];
    size_t n;

    if (!file)
        return rv_fail_errno(err, errno, "cannot read the exported adapter");
    while (!rc && (n = fread(piece, 1, sizeof(piece), file)) > 0) {
        rv_buf_add(&call->reply, piece, n);
        rc = rv_buf_status(&call->reply, "the adapter", err);
    }
    if (!rc && ferror(file))
        rc = rv_fail(err, RUVLLM_IO, "cannot read the exported adapter");
    fclose(file);
    return rc;
}

ruvllm_status rv_reply_file_make(struct rv_call *call, rv_reply_file_fn write, const void *user,
                                 struct ruvllm_error *err)
{
    const char *temp = getenv("TMPDIR");
    char folder[PATH], path[PATH];
    ruvllm_status rc;

    if (snprintf(folder, sizeof(folder), "%s/ruvllm-adapter-XXXXXX", temp && *temp ? temp : "/tmp") >= PATH ||
        strlen(folder) + sizeof("/adapter.gguf") > PATH)
        return rv_fail(err, RUVLLM_IO, "the path of temporary files is too long");
    if (!mkdtemp(folder))
        return rv_fail_errno(err, errno, "cannot make a temporary folder");
    snprintf(path, sizeof(path), "%s/adapter.gguf", folder);
    rc = write(call, user, path, err);
    if (!rc)
        rc = read_file(call, path, err);
    unlink(path);
    rmdir(folder);
    if (rc)
        return rc;
    rv_call_reply_json(call);
    call->reply_type = "application/octet-stream";
    return RUVLLM_OK;
}
