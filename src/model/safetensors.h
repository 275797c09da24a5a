/*
 * Reader and writer of safetensors files. The reader maps the file and believes nothing of its header before it was
 * checked: every name, element type, shape and place. Memory taken is bounded by the header's length, which is bounded
 * by the file's. What people train and publish in: model shards and PEFT adapters.
 *
 *     8 bytes    length of the header, little-endian
 *     header     JSON: {"name": {"dtype": "F16", "shape": [2, 3], "data_offsets": [0, 12]}, "__metadata__": {...}}
 *     data       offsets count from here; the tensors cover it without a hole
 *
 * The file must stay as it is while it is open, as gguf_file.h says. Messages do not name the file.
 */
#ifndef RV_MODEL_SAFETENSORS_H
#define RV_MODEL_SAFETENSORS_H

#include "base/error.h"
#include "base/str.h"

#include <ggml.h>

enum { RV_SAFETENSORS_MAX_HEADER = 100 * 1000 * 1000 }; // bytes, as the format's own reader has it

struct rv_safetensors;

struct rv_safetensors_tensor {
    struct rv_str name;
    enum ggml_type type; // F64, F32, F16, BF16, I8, I16, I32, I64
    int n_dims;          // 0 to 4, as the file has them: the fastest last
    int64_t shape[4];    // 1 beyond n_dims; each at least 1
    uint64_t n_bytes;
    const void *data; // in the mapping; at any address, the format promises no alignment
};

/* One string of "__metadata__". */
struct rv_safetensors_note {
    struct rv_str key;
    struct rv_str value;
};

/*
 * Damaged files, overlapping or misplaced tensors, holes and repeated names are FORMAT; element types ggml has not,
 * tensors without elements and those of more than four dimensions are UNSUPPORTED. *out is NULL on failure.
 */
RV_CHECKED ruvllm_status rv_safetensors_open(struct rv_safetensors **out, const char *path, struct ruvllm_error *err);
/* The same over bytes the caller keeps alive (tests and fuzzing). */
RV_CHECKED ruvllm_status rv_safetensors_open_memory(struct rv_safetensors **out, const void *data, size_t len,
                                                    struct ruvllm_error *err);
/* Accepts NULL. */
void rv_safetensors_close(struct rv_safetensors *file);

/* Tensors are in the order of their places in the file. */
size_t rv_safetensors_n_tensors(const struct rv_safetensors *file);
const struct rv_safetensors_tensor *rv_safetensors_tensor_at(const struct rv_safetensors *file, size_t index);
/* NULL when there is none of that name. */
const struct rv_safetensors_tensor *rv_safetensors_find(const struct rv_safetensors *file, const char *name);
/* A string of the file's "__metadata__"; an empty one when there is none. Borrowed. */
struct rv_str rv_safetensors_metadata(const struct rv_safetensors *file, const char *key);

/* For those who map the file once more: its descriptor (-1 for memory), first byte and length. */
int rv_safetensors_fd(const struct rv_safetensors *file);
const void *rv_safetensors_bytes(const struct rv_safetensors *file);
uint64_t rv_safetensors_n_bytes(const struct rv_safetensors *file);

/*
 * Tensors to a file, whole or not at all: PATH.partial, fsync, rename. Data of each is written as it is; n_bytes must
 * be what type and shape ask for. INVALID for a repeated name, one that is no UTF-8, and what the reader would refuse.
 */
RV_CHECKED ruvllm_status rv_safetensors_write(const char *path, const struct rv_safetensors_tensor *tensors, size_t n,
                                              struct ruvllm_error *err);
/* The same with strings for "__metadata__". */
RV_CHECKED ruvllm_status rv_safetensors_write_noted(const char *path, const struct rv_safetensors_tensor *tensors,
                                                    size_t n, const struct rv_safetensors_note *notes, size_t n_notes,
                                                    struct ruvllm_error *err);

#endif
