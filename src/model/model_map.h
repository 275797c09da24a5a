/* A model at a path, mapped as GGUF: a file as it is, a Hugging Face folder as the image it is turned into. */
#ifndef RV_MODEL_MODEL_MAP_H
#define RV_MODEL_MODEL_MAP_H

#include "model/gguf_map.h"

/*
 * Closed with rv_gguf_map_close. A file is mapped unread; a folder was read and checked as hf_folder.h says. A folder
 * without config.json is INVALID, as is what is neither.
 */
RV_CHECKED ruvllm_status rv_model_map_open(struct rv_gguf_map *map, const char *path, struct ruvllm_error *err);

#endif
