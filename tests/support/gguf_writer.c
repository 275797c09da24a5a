/* Three buffers, joined behind a header at the end. */
#include "support/gguf_writer.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 256 << 20 };

void gguf_writer_init(struct gguf_writer *w)
{
    *w = (struct gguf_writer){
        .alignment = 32,
        .magic = {'G', 'G', 'U', 'F'},
        .version = 3,
        .claimed_tensors = GGUF_WRITER_HONEST,
        .claimed_kvs = GGUF_WRITER_HONEST,
    };
    rv_buf_init(&w->kvs, MAX_BYTES);
    rv_buf_init(&w->infos, MAX_BYTES);
    rv_buf_init(&w->data, MAX_BYTES);
}

static void add_u32(struct rv_buf *buf, uint32_t value)
{
    rv_buf_add(buf, &value, sizeof(value));
}

static void add_u64(struct rv_buf *buf, uint64_t value)
{
    rv_buf_add(buf, &value, sizeof(value));
}

static void pad(struct rv_buf *buf, uint64_t alignment, size_t before)
{
    while ((before + buf->len) % alignment)
        rv_buf_add_char(buf, '\0');
}

char *gguf_writer_finish(struct gguf_writer *w, size_t *len)
{
    struct rv_buf file;
    char *exact;

    rv_buf_init(&file, MAX_BYTES);
    rv_buf_add(&file, w->magic, 4);
    add_u32(&file, w->version);
    add_u64(&file, w->claimed_tensors == GGUF_WRITER_HONEST ? w->n_tensors : w->claimed_tensors);
    add_u64(&file, w->claimed_kvs == GGUF_WRITER_HONEST ? w->n_kvs : w->claimed_kvs);
    rv_buf_add(&file, w->kvs.data, w->kvs.len);
    rv_buf_add(&file, w->infos.data, w->infos.len);
    if (w->n_tensors)
        pad(&file, w->alignment, 0);
    rv_buf_add(&file, w->data.data, w->data.len);
    exact = malloc(file.len);
    if (!exact || file.failed || w->kvs.failed || w->infos.failed || w->data.failed)
        abort(); // a test that cannot even be written
    memcpy(exact, file.data, file.len);
    *len = file.len;
    rv_buf_release(&file);
    rv_buf_release(&w->kvs);
    rv_buf_release(&w->infos);
    rv_buf_release(&w->data);
    return exact;
}

static void begin_kv(struct gguf_writer *w, const char *key, enum rv_gguf_type type)
{
    add_u64(&w->kvs, strlen(key));
    rv_buf_add_str(&w->kvs, key);
    add_u32(&w->kvs, type);
    w->n_kvs++;
}

static void scalar(struct gguf_writer *w, const char *key, enum rv_gguf_type type, const void *value, size_t size)
{
    begin_kv(w, key, type);
    rv_buf_add(&w->kvs, value, size);
}

void gguf_writer_u8(struct gguf_writer *w, const char *key, uint8_t value)
{
    scalar(w, key, RV_GGUF_U8, &value, sizeof(value));
}

void gguf_writer_i8(struct gguf_writer *w, const char *key, int8_t value)
{
    scalar(w, key, RV_GGUF_I8, &value, sizeof(value));
}

void gguf_writer_u16(struct gguf_writer *w, const char *key, uint16_t value)
{
    scalar(w, key, RV_GGUF_U16, &value, sizeof(value));
}

void gguf_writer_i16(struct gguf_writer *w, const char *key, int16_t value)
{
    scalar(w, key, RV_GGUF_I16, &value, sizeof(value));
}

void gguf_writer_u32(struct gguf_writer *w, const char *key, uint32_t value)
{
    scalar(w, key, RV_GGUF_U32, &value, sizeof(value));
}

void gguf_writer_i32(struct gguf_writer *w, const char *key, int32_t value)
{
    scalar(w, key, RV_GGUF_I32, &value, sizeof(value));
}

void gguf_writer_u64(struct gguf_writer *w, const char *key, uint64_t value)
{
    scalar(w, key, RV_GGUF_U64, &value, sizeof(value));
}

void gguf_writer_i64(struct gguf_writer *w, const char *key, int64_t value)
{
    scalar(w, key, RV_GGUF_I64, &value, sizeof(value));
}

void gguf_writer_f32(struct gguf_writer *w, const char *key, float value)
{
    scalar(w, key, RV_GGUF_F32, &value, sizeof(value));
}

void gguf_writer_f64(struct gguf_writer *w, const char *key, double value)
{
    scalar(w, key, RV_GGUF_F64, &value, sizeof(value));
}

void gguf_writer_bool(struct gguf_writer *w, const char *key, uint8_t value)
{
    scalar(w, key, RV_GGUF_BOOL, &value, sizeof(value));
}

void gguf_writer_str(struct gguf_writer *w, const char *key, const char *value)
{
    gguf_writer_bytes(w, key, value, strlen(value));
}

void gguf_writer_bytes(struct gguf_writer *w, const char *key, const void *value, size_t len)
{
    begin_kv(w, key, RV_GGUF_STRING);
    add_u64(&w->kvs, len);
    rv_buf_add(&w->kvs, value, len);
}

static size_t element_size(enum rv_gguf_type type)
{
    switch (type) {
    case RV_GGUF_U8:
    case RV_GGUF_I8:
    case RV_GGUF_BOOL:
        return 1;
    case RV_GGUF_U16:
    case RV_GGUF_I16:
        return 2;
    case RV_GGUF_U32:
    case RV_GGUF_I32:
    case RV_GGUF_F32:
        return 4;
    default:
        return 8;
    }
}

void gguf_writer_array(struct gguf_writer *w, const char *key, enum rv_gguf_type type, const void *elements, size_t n)
{
    begin_kv(w, key, RV_GGUF_ARRAY);
    add_u32(&w->kvs, type);
    add_u64(&w->kvs, n);
    rv_buf_add(&w->kvs, elements, n * element_size(type));
}

void gguf_writer_array_str(struct gguf_writer *w, const char *key, const char *const *strings, size_t n)
{
    begin_kv(w, key, RV_GGUF_ARRAY);
    add_u32(&w->kvs, RV_GGUF_STRING);
    add_u64(&w->kvs, n);
    for (size_t i = 0; i < n; i++) {
        add_u64(&w->kvs, strlen(strings[i]));
        rv_buf_add_str(&w->kvs, strings[i]);
    }
}

void gguf_writer_align(struct gguf_writer *w, uint32_t alignment)
{
    gguf_writer_u32(w, "general.alignment", alignment);
    w->alignment = alignment;
}

void gguf_writer_tensor(struct gguf_writer *w, const char *name, enum ggml_type type, uint32_t n_dims,
                        const int64_t *ne, const void *data)
{
    uint64_t dims[4] = {1, 1, 1, 1};
    size_t n_bytes;

    for (uint32_t i = 0; i < n_dims && i < 4; i++)
        dims[i] = (uint64_t)ne[i];
    n_bytes = ggml_row_size(type, (int64_t)dims[0]) * dims[1] * dims[2] * dims[3];
    pad(&w->data, w->alignment, 0);
    gguf_writer_raw_tensor(w, name, strlen(name), n_dims, dims, (uint32_t)type, w->data.len);
    if (data) {
        rv_buf_add(&w->data, data, n_bytes);
        return;
    }
    for (size_t i = 0; i < n_bytes; i++)
        rv_buf_add_char(&w->data, '\0');
}

void gguf_writer_raw_kv(struct gguf_writer *w, const void *key, size_t key_len, uint64_t claimed_key_len,
                        const void *rest, size_t rest_len)
{
    add_u64(&w->kvs, claimed_key_len);
    rv_buf_add(&w->kvs, key, key_len);
    rv_buf_add(&w->kvs, rest, rest_len);
    w->n_kvs++;
}

void gguf_writer_raw_tensor(struct gguf_writer *w, const char *name, size_t name_len, uint32_t n_dims,
                            const uint64_t *ne, uint32_t type, uint64_t offset)
{
    add_u64(&w->infos, name_len);
    rv_buf_add(&w->infos, name, name_len);
    add_u32(&w->infos, n_dims);
    for (uint32_t i = 0; i < n_dims; i++)
        add_u64(&w->infos, ne[i]);
    add_u32(&w->infos, type);
    add_u64(&w->infos, offset);
    w->n_tensors++;
}

void gguf_writer_raw_data(struct gguf_writer *w, const void *data, size_t len)
{
    rv_buf_add(&w->data, data, len);
}
