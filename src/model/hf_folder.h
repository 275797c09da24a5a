/*
 * A Hugging Face model folder, read as it is published: config.json, tokenizer.json, model.safetensors or shards with
 * their index, and where they are there tokenizer_config.json, generation_config.json and chat_template.jinja.
 * docs/internals/huggingface.md has what is read and what is refused.
 */
#ifndef RV_MODEL_HF_FOLDER_H
#define RV_MODEL_HF_FOLDER_H

#include "model/gguf_map.h"

/*
 * Maps the folder as a GGUF image, to be closed with rv_gguf_map_close. A folder without config.json is INVALID; a file
 * that is missing is NOT_FOUND, naming it; damaged ones are FORMAT; what this engine cannot run is UNSUPPORTED. Only
 * files directly in the folder are opened, whatever its index says. Messages do not name the folder.
 */
RV_CHECKED ruvllm_status rv_hf_folder_map(struct rv_gguf_map *map, const char *path, struct ruvllm_error *err);

#endif
