/* A regular file mapped read-only, whole. Shared by those who read models and those who only look into them. */
#ifndef RV_MODEL_GGUF_MAP_H
#define RV_MODEL_GGUF_MAP_H

#include "base/error.h"

struct rv_gguf_map {
    const void *data; // page-aligned; NULL when the file is empty
    size_t len;
    int fd; // -1: nothing is open
};

/* Fails with NOT_FOUND, IO or, for what is no regular file, INVALID; *map is closed then. */
RV_CHECKED ruvllm_status rv_gguf_map_open(struct rv_gguf_map *map, const char *path, struct ruvllm_error *err);
void rv_gguf_map_close(struct rv_gguf_map *map);

#endif
