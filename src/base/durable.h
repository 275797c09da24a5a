/*
 * Writing files so that a crash leaves the old one or the new one whole: the bytes go to another name first, reach the
 * disk, and only then take the place. Names are relative to an open folder; AT_FDCWD stands for the current one.
 */
#ifndef RV_BASE_DURABLE_H
#define RV_BASE_DURABLE_H

#include "base/error.h"

/* All of data[0..len) at the descriptor's place; what the system cuts short is continued. */
RV_CHECKED ruvllm_status rv_durable_write(int fd, const void *data, size_t len, struct ruvllm_error *err);
/*
 * Brings `fd`, which is open under the name `from`, to the disk, renames it to `to` in the same folder and brings the
 * folder to the disk. On failure `from` is still there, unless the very last step failed.
 */
RV_CHECKED ruvllm_status rv_durable_publish(int fd, int folder, const char *from, const char *to,
                                            struct ruvllm_error *err);
/* A small file, whole, in place of whatever `name` was. Uses `name` with ".new" behind it on the way. */
RV_CHECKED ruvllm_status rv_durable_save(int folder, const char *name, const void *data, size_t len,
                                         struct ruvllm_error *err);

#endif
