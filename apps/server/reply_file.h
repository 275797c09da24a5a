/* A reply that is a file which the library writes to a path. */
#ifndef RV_SERVER_REPLY_FILE_H
#define RV_SERVER_REPLY_FILE_H

#include "server/call.h"

/* Writes the file to `path`, which is free. */
typedef ruvllm_status (*rv_reply_file_fn)(struct rv_call *call, const void *user, const char *path,
                                          struct ruvllm_error *err);

/*
 * Has `write` write into a folder that nobody else can look into, and makes what it wrote the reply. File and folder
 * are gone when this returns. After a failure the reply is the caller's to make.
 */
RV_CHECKED ruvllm_status rv_reply_file_make(struct rv_call *call, rv_reply_file_fn write, const void *user,
                                            struct ruvllm_error *err);

#endif
