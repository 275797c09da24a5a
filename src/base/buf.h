/*
 * A growable byte buffer with a ceiling. `data` is NUL-terminated once anything was added. Growing past the
 * ceiling or out of memory sets `failed` and leaves the content as it was, so a run of appends can be
 * checked once at its end.
 */
#ifndef RV_BASE_BUF_H
#define RV_BASE_BUF_H

#include "base/error.h"

struct rv_buf {
    char *data;
    size_t len;
    size_t cap;
    size_t max;           // ceiling in bytes
    ruvllm_status failed; // OK, TOO_LARGE or NO_MEMORY
};

void rv_buf_init(struct rv_buf *buf, size_t max);
void rv_buf_release(struct rv_buf *buf);
/* Empties it, keeping the memory, and forgets a failure. */
void rv_buf_clear(struct rv_buf *buf);
/* Makes room for `extra` more bytes; false sets `failed`. */
bool rv_buf_reserve(struct rv_buf *buf, size_t extra);
void rv_buf_add(struct rv_buf *buf, const void *data, size_t len);
void rv_buf_add_str(struct rv_buf *buf, const char *text);
void rv_buf_add_char(struct rv_buf *buf, char c);
void rv_buf_addf(struct rv_buf *buf, const char *format, ...) RV_PRINTF(2, 3);
/* Hands the bytes (never NULL on success) to the caller and leaves the buffer empty; NULL on failure. */
char *rv_buf_take(struct rv_buf *buf, size_t *len);
/* OK, or the failure with `what` in its message. */
RV_CHECKED ruvllm_status rv_buf_status(const struct rv_buf *buf, const char *what, struct ruvllm_error *err);

#endif
