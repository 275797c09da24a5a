/*
 * Writes GGUF files into memory, good ones and, through the escape hatches, hostile ones. For files of test size:
 * everything is held in memory twice.
 *
 *     struct gguf_writer w;
 *     gguf_writer_init(&w);
 *     gguf_writer_str(&w, "general.architecture", "llama");
 *     gguf_writer_tensor(&w, "output.weight", GGML_TYPE_F32, 2, (int64_t[]){64, 512}, NULL);
 *     char *file = gguf_writer_finish(&w, &len);
 */
#ifndef RV_TESTS_SUPPORT_GGUF_WRITER_H
#define RV_TESTS_SUPPORT_GGUF_WRITER_H

#include "base/buf.h"
#include "model/gguf_file.h"

#define GGUF_WRITER_HONEST UINT64_MAX

struct gguf_writer {
    struct rv_buf kvs;
    struct rv_buf infos;
    struct rv_buf data;
    uint64_t n_kvs;
    uint64_t n_tensors;
    uint64_t alignment; // of the data section; 32
    /* What the header says; change before finishing to lie. */
    char magic[4];
    uint32_t version;
    uint64_t claimed_tensors; // GGUF_WRITER_HONEST: the true count
    uint64_t claimed_kvs;
};

void gguf_writer_init(struct gguf_writer *w);
/* The whole file in memory of exactly its size, for the caller to free(); the writer is released. */
char *gguf_writer_finish(struct gguf_writer *w, size_t *len);

void gguf_writer_u8(struct gguf_writer *w, const char *key, uint8_t value);
void gguf_writer_i8(struct gguf_writer *w, const char *key, int8_t value);
void gguf_writer_u16(struct gguf_writer *w, const char *key, uint16_t value);
void gguf_writer_i16(struct gguf_writer *w, const char *key, int16_t value);
void gguf_writer_u32(struct gguf_writer *w, const char *key, uint32_t value);
void gguf_writer_i32(struct gguf_writer *w, const char *key, int32_t value);
void gguf_writer_u64(struct gguf_writer *w, const char *key, uint64_t value);
void gguf_writer_i64(struct gguf_writer *w, const char *key, int64_t value);
void gguf_writer_f32(struct gguf_writer *w, const char *key, float value);
void gguf_writer_f64(struct gguf_writer *w, const char *key, double value);
/* A byte, so that 2 can be said too. */
void gguf_writer_bool(struct gguf_writer *w, const char *key, uint8_t value);
void gguf_writer_str(struct gguf_writer *w, const char *key, const char *value);
void gguf_writer_bytes(struct gguf_writer *w, const char *key, const void *value, size_t len);
/* n elements of a type of fixed size, as they lie in memory. */
void gguf_writer_array(struct gguf_writer *w, const char *key, enum rv_gguf_type type, const void *elements, size_t n);
void gguf_writer_array_str(struct gguf_writer *w, const char *key, const char *const *strings, size_t n);
/* Adds general.alignment and follows it. */
void gguf_writer_align(struct gguf_writer *w, uint32_t alignment);
/* Appends a tensor at the next aligned place; data NULL writes zeros. */
void gguf_writer_tensor(struct gguf_writer *w, const char *name, enum ggml_type type, uint32_t n_dims,
                        const int64_t *ne, const void *data);

/* Escape hatches: an entry with any key and any bytes from its type field on; a tensor description with anything. */
void gguf_writer_raw_kv(struct gguf_writer *w, const void *key, size_t key_len, uint64_t claimed_key_len,
                        const void *rest, size_t rest_len);
void gguf_writer_raw_tensor(struct gguf_writer *w, const char *name, size_t name_len, uint32_t n_dims,
                            const uint64_t *ne, uint32_t type, uint64_t offset);
/* Bytes of the data section that belong to no tensor. */
void gguf_writer_raw_data(struct gguf_writer *w, const void *data, size_t len);

#endif
