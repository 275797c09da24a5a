/* The public look into a file: argument checks, then the model module's. */
#include "model/gguf_file.h"

ruvllm_status ruvllm_inspect(const char *path, char **json, struct ruvllm_error *err)
{
    if (!json)
        return rv_fail(err, RUVLLM_INVALID, "cannot inspect a file: json is NULL");
    *json = NULL;
    if (!path || !*path)
        return rv_fail(err, RUVLLM_INVALID, "cannot inspect a file: no path was given");
    return rv_gguf_file_inspect(path, json, err);
}
