/* The growable buffer: doubles up to its ceiling, never beyond. */
#include "base/buf.h"

#include "base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void rv_buf_init(struct rv_buf *buf, size_t max)
{
    *buf = (struct rv_buf){.max = max};
}

void rv_buf_release(struct rv_buf *buf)
{
    rv_free(buf->data);
    *buf = (struct rv_buf){0};
}

void rv_buf_clear(struct rv_buf *buf)
{
    buf->len = 0;
    buf->failed = RUVLLM_OK;
    if (buf->data)
        buf->data[0] = '\0';
}

bool rv_buf_reserve(struct rv_buf *buf, size_t extra)
{
    size_t need, cap;
    char *data;

    if (buf->failed)
        return false;
    if (!rv_size_add(buf->len, extra, &need) || need > buf->max) {
        buf->failed = RUVLLM_TOO_LARGE;
        return false;
    }
    if (buf->data && need < buf->cap)
        return true;
    cap = buf->cap ? buf->cap : 64;
    while (cap <= need)
        cap = cap > buf->max / 2 ? buf->max + 1 : cap * 2;
    data = rv_realloc_array(buf->data, cap, 1);
    if (!data) {
        buf->failed = RUVLLM_NO_MEMORY;
        return false;
    }
    buf->data = data;
    buf->cap = cap;
    return true;
}

void rv_buf_add(struct rv_buf *buf, const void *data, size_t len)
{
    if (!rv_buf_reserve(buf, len))
        return;
    if (len)
        memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void rv_buf_add_str(struct rv_buf *buf, const char *text)
{
    rv_buf_add(buf, text, strlen(text));
}

void rv_buf_add_char(struct rv_buf *buf, char c)
{
    rv_buf_add(buf, &c, 1);
}

void rv_buf_addf(struct rv_buf *buf, const char *format, ...)
{
    va_list args, again;
    int len;

    va_start(args, format);
    va_copy(again, args);
    len = vsnprintf(NULL, 0, format, args);
    if (len >= 0 && rv_buf_reserve(buf, (size_t)len)) {
        vsnprintf(buf->data + buf->len, (size_t)len + 1, format, again);
        buf->len += (size_t)len;
    }
    va_end(again);
    va_end(args);
}

char *rv_buf_take(struct rv_buf *buf, size_t *len)
{
    char *data;

    if (!rv_buf_reserve(buf, 0))
        return NULL;
    data = buf->data;
    data[buf->len] = '\0';
    if (len)
        *len = buf->len;
    *buf = (struct rv_buf){.max = buf->max};
    return data;
}

ruvllm_status rv_buf_status(const struct rv_buf *buf, const char *what, struct ruvllm_error *err)
{
    if (buf->failed == RUVLLM_TOO_LARGE)
        return rv_fail(err, RUVLLM_TOO_LARGE, "%s is larger than %zu bytes", what, buf->max);
    if (buf->failed)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %s", what);
    return RUVLLM_OK;
}
