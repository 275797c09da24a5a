/*
 * Our own GGUF reader. The file is memory-mapped read-only; every count, length, offset and size is checked
 * against the file before use; memory taken while parsing is bounded by the file's size. ggml's reader never
 * sees the file. Versions 2 and 3, little-endian, all metadata types, every tensor type ggml can hold.
 *
 * The file must stay as it is while it is open: replacing it by a rename is safe (the mapping keeps the old one),
 * but truncating or overwriting it in place is the operator's fault for now and may end the process.
 *
 * Messages do not name the file; whoever has its path adds it.
 */
#ifndef RV_MODEL_GGUF_FILE_H
#define RV_MODEL_GGUF_FILE_H

#include "base/error.h"
#include "base/str.h"

#include <ggml.h>

struct rv_gguf_file;

enum rv_gguf_type {
    RV_GGUF_U8,
    RV_GGUF_I8,
    RV_GGUF_U16,
    RV_GGUF_I16,
    RV_GGUF_U32,
    RV_GGUF_I32,
    RV_GGUF_F32,
    RV_GGUF_BOOL,
    RV_GGUF_STRING,
    RV_GGUF_ARRAY,
    RV_GGUF_U64,
    RV_GGUF_I64,
    RV_GGUF_F64,
    RV_GGUF_N_TYPES
};

struct rv_gguf_tensor {
    struct rv_str name;
    enum ggml_type type;
    int n_dims;       // 0 (a single number) to 4
    int64_t ne[4];    // 1 beyond n_dims; each at least 1
    uint64_t offset;  // from the start of the file
    uint64_t n_bytes; // offset + n_bytes <= file size
    const void *data; // in the mapping
};

/*
 * The file must be regular (else INVALID). Damaged files, overlapping or misplaced tensors and repeated names are
 * FORMAT; versions, byte orders and tensor types this build cannot read are UNSUPPORTED. *out is NULL on failure.
 */
RV_CHECKED ruvllm_status rv_gguf_file_open(struct rv_gguf_file **out, const char *path, struct ruvllm_error *err);
/* The same over bytes the caller keeps alive (tests and fuzzing); `data` may be NULL when len is 0. */
RV_CHECKED ruvllm_status rv_gguf_file_open_memory(struct rv_gguf_file **out, const void *data, size_t len,
                                                  struct ruvllm_error *err);
void rv_gguf_file_close(struct rv_gguf_file *file);

/* What was read before a failure, as JSON for people; also serves whole files. See ruvllm_inspect. */
RV_CHECKED ruvllm_status rv_gguf_file_inspect(const char *path, char **json, struct ruvllm_error *err);

uint32_t rv_gguf_file_version(const struct rv_gguf_file *file);
uint64_t rv_gguf_file_n_bytes(const struct rv_gguf_file *file);
const void *rv_gguf_file_mapping(const struct rv_gguf_file *file);
/* The open descriptor of a file opened by path (for the system's hints about its pages); -1 for memory. */
int rv_gguf_file_fd(const struct rv_gguf_file *file);

size_t rv_gguf_file_n_tensors(const struct rv_gguf_file *file);
const struct rv_gguf_tensor *rv_gguf_file_tensor(const struct rv_gguf_file *file, size_t index);
/* NULL when there is none of that name. */
const struct rv_gguf_tensor *rv_gguf_file_tensor_find(const struct rv_gguf_file *file, const char *name);
/* Name of the type most bytes have, such as "q4_K"; "" when there are no tensors. */
const char *rv_gguf_file_main_type(const struct rv_gguf_file *file);

/*
 * Typed getters. A missing key is NOT_FOUND; one of another type, or a value that does not fit, is FORMAT; each
 * message names the key. Integers of any width convert when the value fits; *out is untouched on failure.
 */
bool rv_gguf_file_has(const struct rv_gguf_file *file, const char *key);
RV_CHECKED ruvllm_status rv_gguf_file_u32(const struct rv_gguf_file *file, const char *key, uint32_t *out,
                                          struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_gguf_file_u64(const struct rv_gguf_file *file, const char *key, uint64_t *out,
                                          struct ruvllm_error *err);
/* Any finite number. */
RV_CHECKED ruvllm_status rv_gguf_file_f32(const struct rv_gguf_file *file, const char *key, float *out,
                                          struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_gguf_file_bool(const struct rv_gguf_file *file, const char *key, bool *out,
                                           struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_gguf_file_str(const struct rv_gguf_file *file, const char *key, struct rv_str *out,
                                          struct ruvllm_error *err);
/* Element type and count of an array. */
RV_CHECKED ruvllm_status rv_gguf_file_array(const struct rv_gguf_file *file, const char *key, enum rv_gguf_type *type,
                                            size_t *n, struct ruvllm_error *err);
/*
 * Copies of whole arrays, converted to the asked type; *out is the caller's (rv_free), NULL when n is 0. The strings
 * point into the file. Floats must be finite and fit, integers must fit; flags count as 0 and 1 in array_i32.
 */
RV_CHECKED ruvllm_status rv_gguf_file_array_str(const struct rv_gguf_file *file, const char *key, struct rv_str **out,
                                                size_t *n, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_gguf_file_array_f32(const struct rv_gguf_file *file, const char *key, float **out,
                                                size_t *n, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_gguf_file_array_i32(const struct rv_gguf_file *file, const char *key, int32_t **out,
                                                size_t *n, struct ruvllm_error *err);

#endif
