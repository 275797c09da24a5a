/*
 * Header, metadata and descriptions are gathered in memory, because the counts come first in the file; they are written
 * when the first data arrives. From then on the writer only counts: which tensor's turn it is and what it still lacks.
 */
#include "model/gguf_write.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/durable.h"
#include "model/gguf_parse.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Vocabularies of real models take tens of MiB; a reader of ours keeps four times that in tables. */
#define HEAD_MAX ((size_t)1 << 30)

struct rv_gguf_write {
    char *path;
    char *partial;
    int fd; // -1: finished
    uint32_t alignment;
    struct rv_buf kvs;
    struct rv_buf infos;
    uint64_t n_kvs;
    uint64_t *tensor_bytes; // of each tensor described
    size_t n_tensors;
    size_t tensors_cap;
    uint64_t data_len; // the descriptions' view of the data section so far
    bool has_data;     // the head is written
    size_t i_tensor;   // whose turn it is
    uint64_t missing;  // bytes it still lacks
    uint64_t written;  // bytes of the file
};

static const char *const ALIGNMENT_KEY = "general.alignment";

/* ---- open and close ------------------------------------------------------------------------ */

static ruvllm_status open_partial(struct rv_gguf_write *w, const char *path, struct ruvllm_error *err)
{
    struct rv_buf name;

    rv_buf_init(&name, 1 << 16);
    rv_buf_add_str(&name, path);
    rv_buf_add_str(&name, ".partial");
    w->partial = rv_buf_take(&name, NULL);
    w->path = rv_strdup(path);
    if (!w->partial || !w->path)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the names of the file");
    w->fd = open(w->partial, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (w->fd < 0)
        return rv_fail_errno(err, errno, "cannot create '%s'", w->partial);
    return RUVLLM_OK;
}

ruvllm_status rv_gguf_write_open(struct rv_gguf_write **out, const char *path, uint32_t alignment,
                                 struct ruvllm_error *err)
{
    struct rv_gguf_write *w = rv_calloc(1, sizeof(*w));
    ruvllm_status rc;

    RV_ASSERT(alignment >= RV_GGUF_PARSE_MIN_ALIGNMENT && alignment <= RV_GGUF_PARSE_MAX_ALIGNMENT &&
              (alignment & (alignment - 1)) == 0);
    *out = NULL;
    if (!w)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a writer");
    w->fd = -1;
    w->alignment = alignment;
    rv_buf_init(&w->kvs, HEAD_MAX);
    rv_buf_init(&w->infos, HEAD_MAX);
    rc = open_partial(w, path, err);
    if (rc) {
        rv_gguf_write_close(w);
        return rc;
    }
    if (alignment != RV_GGUF_PARSE_DEFAULT_ALIGNMENT)
        rv_gguf_write_u32(w, ALIGNMENT_KEY, alignment);
    *out = w;
    return RUVLLM_OK;
}

void rv_gguf_write_close(struct rv_gguf_write *w)
{
    if (!w)
        return;
    if (w->fd >= 0) {
        close(w->fd);
        unlink(w->partial);
    }
    rv_buf_release(&w->kvs);
    rv_buf_release(&w->infos);
    rv_free(w->tensor_bytes);
    rv_free(w->partial);
    rv_free(w->path);
    rv_free(w);
}

/* ---- the head ------------------------------------------------------------------------------ */

/* The format is little-endian, and so are the machines we run on (gguf_value.c asserts it). */
static void add_u32(struct rv_buf *buf, uint32_t value)
{
    rv_buf_add(buf, &value, sizeof(value));
}

static void add_u64(struct rv_buf *buf, uint64_t value)
{
    rv_buf_add(buf, &value, sizeof(value));
}

static void add_str(struct rv_buf *buf, const char *text, size_t len)
{
    add_u64(buf, len);
    rv_buf_add(buf, text, len);
}

static void add_key(struct rv_gguf_write *w, const char *key, size_t len)
{
    RV_ASSERT(!w->has_data && len > 0 && len <= RV_GGUF_PARSE_MAX_KEY);
    add_str(&w->kvs, key, len);
    w->n_kvs++;
}

void rv_gguf_write_u32(struct rv_gguf_write *w, const char *key, uint32_t value)
{
    add_key(w, key, strlen(key));
    add_u32(&w->kvs, RV_GGUF_U32);
    add_u32(&w->kvs, value);
}

void rv_gguf_write_str(struct rv_gguf_write *w, const char *key, const char *value)
{
    add_key(w, key, strlen(key));
    add_u32(&w->kvs, RV_GGUF_STRING);
    add_str(&w->kvs, value, strlen(value));
}

/* Bytes the elements of a value take in the file. */
static size_t value_len(const struct rv_gguf_value *value)
{
    const unsigned char *at = value->bytes;

    if (value->type != RV_GGUF_STRING)
        return value->n * rv_gguf_value_type_size(value->type);
    for (size_t i = 0; i < value->n; i++) {
        struct rv_str text = rv_gguf_value_str(at);

        at = (const unsigned char *)text.data + text.len;
    }
    return (size_t)(at - value->bytes);
}

void rv_gguf_write_value(struct rv_gguf_write *w, const char *key, size_t key_len, const struct rv_gguf_value *value)
{
    if (key_len == strlen(ALIGNMENT_KEY) && memcmp(key, ALIGNMENT_KEY, key_len) == 0)
        return;
    add_key(w, key, key_len);
    if (value->is_array) {
        add_u32(&w->kvs, RV_GGUF_ARRAY);
        add_u32(&w->kvs, value->type);
        add_u64(&w->kvs, value->n);
    } else {
        add_u32(&w->kvs, value->type);
    }
    rv_buf_add(&w->kvs, value->bytes, value_len(value));
}

static uint64_t aligned(const struct rv_gguf_write *w, uint64_t n)
{
    return (n + w->alignment - 1) & ~(uint64_t)(w->alignment - 1);
}

static ruvllm_status remember_size(struct rv_gguf_write *w, uint64_t n_bytes, struct ruvllm_error *err)
{
    if (w->n_tensors == w->tensors_cap) {
        size_t cap = w->tensors_cap ? w->tensors_cap * 2 : 256;
        uint64_t *grown = rv_realloc_array(w->tensor_bytes, cap, sizeof(*grown));

        if (!grown)
            return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a list of %zu tensors", cap);
        w->tensor_bytes = grown;
        w->tensors_cap = cap;
    }
    w->tensor_bytes[w->n_tensors++] = n_bytes;
    return RUVLLM_OK;
}

ruvllm_status rv_gguf_write_tensor(struct rv_gguf_write *w, struct rv_str name, enum ggml_type type, int n_dims,
                                   const int64_t ne[4], struct ruvllm_error *err)
{
    char label[RV_GGUF_VALUE_LABEL];
    uint64_t n_bytes;

    RV_ASSERT(!w->has_data && n_dims >= 0 && n_dims <= GGML_MAX_DIMS);
    if (!rv_gguf_parse_tensor_bytes(type, ne, &n_bytes) || n_bytes > INT64_MAX - w->data_len - w->alignment)
        return rv_fail(err, RUVLLM_INVALID,
                       "tensor '%s' cannot be of type %s: rows of %lld elements are no whole blocks",
                       rv_gguf_value_label(name.data, name.len, label), ggml_type_name(type), (long long)ne[0]);
    add_str(&w->infos, name.data, name.len);
    add_u32(&w->infos, (uint32_t)n_dims);
    for (int i = 0; i < n_dims; i++)
        add_u64(&w->infos, (uint64_t)ne[i]);
    add_u32(&w->infos, (uint32_t)type);
    add_u64(&w->infos, w->data_len);
    w->data_len = aligned(w, w->data_len + n_bytes);
    return remember_size(w, n_bytes, err);
}

/* ---- data ---------------------------------------------------------------------------------- */

static ruvllm_status put(struct rv_gguf_write *w, const void *data, size_t len, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_durable_write(w->fd, data, len, err);

    if (rc)
        return rv_fail_in(err, rc, "cannot write '%s'", w->partial);
    w->written += len;
    return RUVLLM_OK;
}

/* Zeros up to the next aligned place. */
static ruvllm_status pad(struct rv_gguf_write *w, struct ruvllm_error *err)
{
    static const char zeros[4096];
    uint64_t missing = aligned(w, w->written) - w->written;

    while (missing) {
        size_t n = missing < sizeof(zeros) ? (size_t)missing : sizeof(zeros);
        ruvllm_status rc = put(w, zeros, n, err);

        if (rc)
            return rc;
        missing -= n;
    }
    return RUVLLM_OK;
}

static ruvllm_status put_head(struct rv_gguf_write *w, struct ruvllm_error *err)
{
    struct rv_buf head;
    ruvllm_status rc;

    rv_buf_init(&head, 64);
    rv_buf_add(&head, "GGUF", 4);
    add_u32(&head, 3);
    add_u64(&head, w->n_tensors);
    add_u64(&head, w->n_kvs);
    rc = rv_buf_status(&head, "the file's header", err);
    if (rc == RUVLLM_OK)
        rc = rv_buf_status(&w->kvs, "the file's metadata", err);
    if (rc == RUVLLM_OK)
        rc = rv_buf_status(&w->infos, "the descriptions of tensors", err);
    if (rc == RUVLLM_OK)
        rc = put(w, head.data, head.len, err);
    if (rc == RUVLLM_OK)
        rc = put(w, w->kvs.data, w->kvs.len, err);
    if (rc == RUVLLM_OK)
        rc = put(w, w->infos.data, w->infos.len, err);
    if (rc == RUVLLM_OK)
        rc = pad(w, err);
    rv_buf_release(&head);
    w->has_data = true;
    w->missing = w->n_tensors ? w->tensor_bytes[0] : 0;
    return rc;
}

ruvllm_status rv_gguf_write_data(struct rv_gguf_write *w, const void *data, size_t len, struct ruvllm_error *err)
{
    ruvllm_status rc;

    RV_ASSERT(w->fd >= 0);
    if (!w->has_data) {
        rc = put_head(w, err);
        if (rc)
            return rc;
    }
    RV_ASSERT(w->i_tensor < w->n_tensors && len <= w->missing);
    rc = put(w, data, len, err);
    if (rc)
        return rc;
    w->missing -= len;
    if (w->missing)
        return RUVLLM_OK;
    w->i_tensor++;
    w->missing = w->i_tensor < w->n_tensors ? w->tensor_bytes[w->i_tensor] : 0;
    return pad(w, err);
}

ruvllm_status rv_gguf_write_finish(struct rv_gguf_write *w, uint64_t *n_bytes, struct ruvllm_error *err)
{
    ruvllm_status rc;

    RV_ASSERT(w->fd >= 0);
    if (!w->has_data) {
        rc = put_head(w, err);
        if (rc)
            return rc;
    }
    RV_ASSERT(w->i_tensor == w->n_tensors);
    rc = rv_durable_publish(w->fd, AT_FDCWD, w->partial, w->path, err);
    if (rc)
        return rc;
    close(w->fd);
    w->fd = -1;
    *n_bytes = w->written;
    return RUVLLM_OK;
}
