/*
 * Reader of safetensors files: memory-mapped, every name, shape and offset of the header checked before use, memory
 * bounded by the file's size. What people train and publish in: model shards and PEFT adapters.
 */
#ifndef RV_MODEL_SAFETENSORS_H
#define RV_MODEL_SAFETENSORS_H

#include "base/error.h"
#include "base/str.h"

#include <ggml.h>

struct rv_safetensors;

struct rv_safetensors_tensor {
    struct rv_str name;
    enum ggml_type type; // F64, F32, F16, BF16, I8, I16, I32, I64
    int n_dims;          // 0 to 4, as the file has them: the fastest last
    int64_t shape[4];    // 1 beyond n_dims; each at least 1
    uint64_t n_bytes;
    const void *data; // in the mapping
};

/*
 * Damaged files, overlapping or misplaced tensors, holes and repeated names are FORMAT; element types ggml has not are
 * UNSUPPORTED. Messages do not name the file.
 */
RV_CHECKED ruvllm_status rv_safetensors_open(struct rv_safetensors **out, const char *path, struct ruvllm_error *err);
/* The same over bytes the caller keeps alive (tests and fuzzing). */
RV_CHECKED ruvllm_status rv_safetensors_open_memory(struct rv_safetensors **out, const void *data, size_t len,
                                                    struct ruvllm_error *err);
void rv_safetensors_close(struct rv_safetensors *file);

size_t rv_safetensors_n_tensors(const struct rv_safetensors *file);
const struct rv_safetensors_tensor *rv_safetensors_tensor_at(const struct rv_safetensors *file, size_t index);
/* NULL when there is none of that name. */
const struct rv_safetensors_tensor *rv_safetensors_find(const struct rv_safetensors *file, const char *name);
/* A string of the file's "__metadata__"; an empty one when there is none. */
struct rv_str rv_safetensors_metadata(const struct rv_safetensors *file, const char *key);

/* Tensors to a file, whole or not at all: PATH.partial, fsync, rename. Data of each is written as it is. */
RV_CHECKED ruvllm_status rv_safetensors_write(const char *path, const struct rv_safetensors_tensor *tensors, size_t n,
                                              struct ruvllm_error *err);

#endif
