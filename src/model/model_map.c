/* One question: is it a folder? */
#include "model/model_map.h"

#include "model/hf_folder.h"

#include <sys/stat.h>

ruvllm_status rv_model_map_open(struct rv_gguf_map *map, const char *path, struct ruvllm_error *err)
{
    struct stat st;

    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return rv_hf_folder_map(map, path, err);
    return rv_gguf_map_open(map, path, err);
}
