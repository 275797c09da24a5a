/* Reading input texts. */
#include "text_input.h"

#include "base/alloc.h"
#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define INPUT_MAX ((size_t)1 << 30)

static ruvllm_status read_all(int fd, const char *name, struct rv_buf *buf, struct ruvllm_error *err)
{
    enum { PIECE = 1 << 16 };

    for (;;) {
        ssize_t n;

        if (!rv_buf_reserve(buf, PIECE))
            return rv_buf_status(buf, "input", err);
        n = read(fd, buf->data + buf->len, PIECE);
        if (n < 0)
            return errno == EINTR ? rv_fail(err, RUVLLM_CANCELLED, "interrupted while reading '%s'", name)
                                  : rv_fail_errno(err, errno, "cannot read '%s'", name);
        buf->len += (size_t)n;
        buf->data[buf->len] = '\0';
        if (n == 0)
            return RUVLLM_OK;
    }
}

ruvllm_status rv_text_input_file(const char *path, char **text, size_t *len, struct ruvllm_error *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    struct rv_buf buf;
    ruvllm_status rc;

    *text = NULL;
    if (fd < 0)
        return rv_fail_errno(err, errno, "cannot open '%s'", path);
    rv_buf_init(&buf, INPUT_MAX);
    rc = read_all(fd, is_stdin ? "standard input" : path, &buf, err);
    if (!is_stdin)
        close(fd);
    if (rc == RUVLLM_OK) {
        *text = rv_buf_take(&buf, len);
        if (!*text)
            rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold the text of '%s'", path);
    }
    rv_buf_release(&buf);
    return rc;
}

ruvllm_status rv_text_input_get(const char *argument, const char *path, char **text, size_t *len,
                                struct ruvllm_error *err)
{
    ruvllm_status rc;

    *text = NULL;
    if (argument && path)
        return rv_fail(err, RUVLLM_INVALID, "text given both as an argument and with --file");
    if (argument && strcmp(argument, "-") != 0) {
        *len = strlen(argument);
        *text = rv_strdup(argument);
        return *text ? RUVLLM_OK : rv_fail(err, RUVLLM_NO_MEMORY, "cannot copy the text");
    }
    if (!argument && !path && isatty(STDIN_FILENO))
        return rv_fail(err, RUVLLM_INVALID, "no text given");
    rc = rv_text_input_file(path ? path : "-", text, len, err);
    if (rc)
        return rc;
    if (*len && (*text)[*len - 1] == '\n')
        (*text)[--*len] = '\0';
    return RUVLLM_OK;
}
