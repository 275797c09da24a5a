/*
 * Writes GGUF version 3, tensor by tensor, without holding the data in memory:
 *
 *     open, metadata in any order, every tensor's description, then data in the order of the descriptions, finish,
 * close.
 *
 * The bytes go to PATH.partial; finish brings them to the disk and renames. Until then PATH is as it was, and close
 * removes what was written. A call out of this order is a bug of the caller and asserts.
 */
#ifndef RV_MODEL_GGUF_WRITE_H
#define RV_MODEL_GGUF_WRITE_H

#include "model/gguf_value.h"

struct rv_gguf_write;

/* Alignment of the data section: a power of two, 8 to 2^20. Any but 32 is stated in the metadata. */
RV_CHECKED ruvllm_status rv_gguf_write_open(struct rv_gguf_write **out, const char *path, uint32_t alignment,
                                            struct ruvllm_error *err);
/* Accepts NULL and finished writers. */
void rv_gguf_write_close(struct rv_gguf_write *w);

/* Memory for keys and descriptions that runs out is reported by finish, or by the first data. */
void rv_gguf_write_u32(struct rv_gguf_write *w, const char *key, uint32_t value);
void rv_gguf_write_str(struct rv_gguf_write *w, const char *key, const char *value);
/* A value as a parsed file has it, array or not. "general.alignment" is left out: open has stated it. */
void rv_gguf_write_value(struct rv_gguf_write *w, const char *key, size_t key_len, const struct rv_gguf_value *value);

/* Describes the next tensor. INVALID when ggml has no such type, or a row is no whole number of its blocks. */
RV_CHECKED ruvllm_status rv_gguf_write_tensor(struct rv_gguf_write *w, struct rv_str name, enum ggml_type type,
                                              int n_dims, const int64_t ne[4], struct ruvllm_error *err);
/* The next bytes of the tensor whose turn it is; never more than it still lacks. */
RV_CHECKED ruvllm_status rv_gguf_write_data(struct rv_gguf_write *w, const void *data, size_t len,
                                            struct ruvllm_error *err);
/* All data must have been given. *n_bytes is the size of the file. */
RV_CHECKED ruvllm_status rv_gguf_write_finish(struct rv_gguf_write *w, uint64_t *n_bytes, struct ruvllm_error *err);

#endif
