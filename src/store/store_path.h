/* Where a store lies, and making the file in a way that only its owner can read. */
#ifndef RV_STORE_STORE_PATH_H
#define RV_STORE_STORE_PATH_H

#include "base/error.h"

/* $XDG_STATE_HOME/ruvllm/ruvllm.db, or ~/.local/state/ruvllm/ruvllm.db. *out is the caller's. */
RV_CHECKED ruvllm_status rv_store_path_default(char **out, struct ruvllm_error *err);
/* The same folder's "spool-<id>.db": events that wait for the database of this identity while it is away. */
RV_CHECKED ruvllm_status rv_store_path_spool(const char *id, char **out, struct ruvllm_error *err);
/*
 * Makes the file `path` (0600) and the folders above it (0700) where they are missing; what is there stays as it is,
 * with a line in the log when others may read it. NOT_FOUND, with nothing made, when the file is missing and must not
 * be.
 */
RV_CHECKED ruvllm_status rv_store_path_make(const char *path, bool must_exist, struct ruvllm_error *err);

#endif
