/* A GGUF file as JSON for people. rv_gguf_file_inspect (gguf_file.h) is the same for a path. */
#ifndef RV_MODEL_GGUF_INSPECT_H
#define RV_MODEL_GGUF_INSPECT_H

#include "base/error.h"

/*
 * Describes data[0..len), whole or damaged:
 *
 *     {"version": 3, "n_bytes": 1185376, "metadata": {"general.name": "...", ...},
 *      "tensors": [{"name": "...", "type": "q4_K", "shape": [2048, 5632], "offset": 745472, "n_bytes": 6488064}],
 *      "error": "tensor 'output.weight' ends beyond the end of the file"}
 *
 * "error" is there only when the file is damaged; then "offset" may be missing, and "version" when not even that
 * could be read. Arrays of more than 8 elements and strings of more than 64 KiB are shortened to
 * {"type": "string", "n": 32000, "first": ...} (n counts elements, or bytes of a string). Bytes that are not UTF-8
 * become U+FFFD; numbers JSON has no form for become the strings "nan", "inf" and "-inf".
 * *json is the caller's (rv_free).
 */
RV_CHECKED ruvllm_status rv_gguf_inspect_memory(const void *data, size_t len, char **json, struct ruvllm_error *err);

#endif
