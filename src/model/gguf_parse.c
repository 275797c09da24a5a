/*
 * The only code that looks at unchecked bytes of a model file. The invariant: `at <= len` in the cursor, and every
 * step forward goes through has(), so nothing is read that was not counted first. A table is allocated only after
 * its count was held against the smallest size its entries can have in the file.
 */
#include "model/gguf_parse.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    MIN_KV_BYTES = 8 + 1 + 4 + 1,         // key length, a key of one byte, type, a value of one byte
    MIN_TENSOR_BYTES = 8 + 1 + 4 + 4 + 8, // name length, a name of one byte, number of dimensions, type, offset
};

struct cursor {
    const unsigned char *data;
    uint64_t len;
    uint64_t at;
};

static bool has(const struct cursor *c, uint64_t n)
{
    return n <= c->len - c->at;
}

static bool take_u32(struct cursor *c, uint32_t *out)
{
    if (!has(c, 4))
        return false;
    *out = rv_gguf_value_load_u32(c->data + c->at);
    c->at += 4;
    return true;
}

static bool take_u64(struct cursor *c, uint64_t *out)
{
    if (!has(c, 8))
        return false;
    *out = rv_gguf_value_load_u64(c->data + c->at);
    c->at += 8;
    return true;
}

static bool take_str(struct cursor *c, struct rv_str *out)
{
    uint64_t len;

    if (!take_u64(c, &len) || !has(c, len))
        return false;
    *out = (struct rv_str){.data = (const char *)c->data + c->at, .len = (size_t)len};
    c->at += len;
    return true;
}

static int compare_bytes(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

    return order ? order : (a_len > b_len) - (a_len < b_len);
}

/* ---- header -------------------------------------------------------------------------------- */

static ruvllm_status read_version(struct rv_gguf_parse *p, struct cursor *c, struct ruvllm_error *err)
{
    uint32_t version;

    if (!has(c, 4) || memcmp(c->data + c->at, "GGUF", 4) != 0)
        return rv_fail(err, RUVLLM_FORMAT, "not a GGUF file: it does not begin with 'GGUF'");
    c->at += 4;
    if (!take_u32(c, &version))
        return rv_fail(err, RUVLLM_FORMAT, "file ends within its header");
    /* A small number written by a machine of the other byte order has its low half empty. */
    if (version && (version & 0xFFFF) == 0)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "file is big-endian, which is not supported");
    if (version == 1)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "GGUF version 1 is not supported: convert the file to version 3");
    if (version != 2 && version != 3)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "GGUF version %" PRIu32 " is unknown, 2 and 3 are supported", version);
    p->version = version;
    return RUVLLM_OK;
}

/* The count of tensors is judged in read_tensors, where the alignment is known. */
static ruvllm_status read_counts(struct cursor *c, uint64_t *n_tensors, uint64_t *n_kvs, struct ruvllm_error *err)
{
    if (!take_u64(c, n_tensors) || !take_u64(c, n_kvs))
        return rv_fail(err, RUVLLM_FORMAT, "file ends within its header");
    if (*n_kvs > (c->len - c->at) / MIN_KV_BYTES)
        return rv_fail(err, RUVLLM_FORMAT, "file claims %" PRIu64 " metadata entries, which do not fit into it",
                       *n_kvs);
    return RUVLLM_OK;
}

/* ---- metadata ------------------------------------------------------------------------------ */

/* Steps over n elements of a type; `why` is set on failure. */
static bool skip_elements(struct cursor *c, enum rv_gguf_type type, uint64_t n, const char **why)
{
    size_t size = rv_gguf_value_type_size(type);
    struct rv_str text;

    if (n > (c->len - c->at) / (size ? size : 8)) {
        *why = "runs beyond the end of the file";
        return false;
    }
    if (type == RV_GGUF_STRING) {
        for (uint64_t i = 0; i < n; i++) {
            if (!take_str(c, &text)) {
                *why = "has a string that runs beyond the end of the file";
                return false;
            }
        }
        return true;
    }
    for (uint64_t i = 0; type == RV_GGUF_BOOL && i < n; i++) {
        if (c->data[c->at + i] > 1) {
            *why = "has a bool that is neither 0 nor 1";
            return false;
        }
    }
    c->at += n * size;
    return true;
}

static bool skip_value(struct cursor *c, const char **why)
{
    uint32_t type;
    uint64_t n = 1;

    *why = "runs beyond the end of the file";
    if (!take_u32(c, &type))
        return false;
    if (type == RV_GGUF_ARRAY) {
        if (!take_u32(c, &type) || !take_u64(c, &n))
            return false;
        if (type == RV_GGUF_ARRAY) {
            *why = "is an array of arrays, which is not supported";
            return false;
        }
    }
    if (type >= RV_GGUF_N_TYPES) {
        *why = "has an unknown type";
        return false;
    }
    return skip_elements(c, (enum rv_gguf_type)type, n, why);
}

static ruvllm_status read_kv(struct rv_gguf_parse *p, struct cursor *c, struct ruvllm_error *err)
{
    char label[RV_GGUF_VALUE_LABEL];
    const char *why;
    struct rv_str key;

    if (!take_str(c, &key))
        return rv_fail(err, RUVLLM_FORMAT, "key of metadata entry %zu runs beyond the end of the file", p->n_kvs);
    if (key.len == 0)
        return rv_fail(err, RUVLLM_FORMAT, "key of metadata entry %zu is empty", p->n_kvs);
    if (key.len > RV_GGUF_PARSE_MAX_KEY)
        return rv_fail(err, RUVLLM_FORMAT, "key of metadata entry %zu is longer than %d bytes", p->n_kvs,
                       RV_GGUF_PARSE_MAX_KEY);
    if (!skip_value(c, &why))
        return rv_fail(err, RUVLLM_FORMAT, "metadata '%s' %s", rv_gguf_value_label(key.data, key.len, label), why);
    p->kvs[p->n_kvs++] = (struct rv_gguf_kv){.key = key.data, .key_len = (uint16_t)key.len};
    return RUVLLM_OK;
}

static int compare_kvs(const void *left, const void *right)
{
    const struct rv_gguf_kv *const *a = left, *const *b = right;

    return compare_bytes((*a)->key, (*a)->key_len, (*b)->key, (*b)->key_len);
}

static ruvllm_status index_kvs(struct rv_gguf_parse *p, struct ruvllm_error *err)
{
    char label[RV_GGUF_VALUE_LABEL];
    const struct rv_gguf_kv **sorted = rv_calloc(p->n_kvs, sizeof(*sorted));

    if (!sorted)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an index of %zu metadata entries", p->n_kvs);
    p->kvs_by_key = sorted;
    for (size_t i = 0; i < p->n_kvs; i++)
        sorted[i] = &p->kvs[i];
    qsort(sorted, p->n_kvs, sizeof(*sorted), compare_kvs);
    for (size_t i = 1; i < p->n_kvs; i++) {
        if (compare_kvs(&sorted[i - 1], &sorted[i]) == 0)
            return rv_fail(err, RUVLLM_FORMAT, "metadata '%s' appears twice",
                           rv_gguf_value_label(sorted[i]->key, sorted[i]->key_len, label));
    }
    return RUVLLM_OK;
}

static ruvllm_status read_alignment(struct rv_gguf_parse *p, struct ruvllm_error *err)
{
    static const char key[] = "general.alignment";
    const struct rv_gguf_kv *kv = rv_gguf_parse_find(p, key, sizeof(key) - 1);
    struct rv_gguf_value value;
    uint32_t alignment;

    if (!kv)
        return RUVLLM_OK;
    value = rv_gguf_parse_value(kv);
    if (value.type != RV_GGUF_U32 || value.is_array)
        return rv_fail(err, RUVLLM_FORMAT, "metadata '%s' is not a u32", key);
    alignment = rv_gguf_value_load_u32(value.bytes);
    if (alignment < RV_GGUF_PARSE_MIN_ALIGNMENT || alignment > RV_GGUF_PARSE_MAX_ALIGNMENT ||
        (alignment & (alignment - 1)) != 0)
        return rv_fail(err, RUVLLM_FORMAT, "metadata '%s' is %" PRIu32 ", not a power of two between %d and %d", key,
                       alignment, RV_GGUF_PARSE_MIN_ALIGNMENT, RV_GGUF_PARSE_MAX_ALIGNMENT);
    p->alignment = alignment;
    return RUVLLM_OK;
}

static ruvllm_status read_metadata(struct rv_gguf_parse *p, struct cursor *c, uint64_t n_kvs, struct ruvllm_error *err)
{
    ruvllm_status rc;

    p->kvs = rv_calloc((size_t)n_kvs, sizeof(*p->kvs));
    if (!p->kvs)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %" PRIu64 " metadata entries", n_kvs);
    while (p->n_kvs < n_kvs) {
        rc = read_kv(p, c, err);
        if (rc)
            return rc;
    }
    rc = index_kvs(p, err);
    return rc ? rc : read_alignment(p, err);
}

/* ---- tensors ------------------------------------------------------------------------------- */

bool rv_gguf_parse_tensor_bytes(enum ggml_type type, const int64_t ne[4], uint64_t *n_bytes)
{
    int64_t block = ggml_blck_size(type);
    int64_t elements = 1;
    int64_t bytes = (int64_t)ggml_type_size(type);

    if (block < 1 || bytes < 1 || ne[0] % block != 0)
        return false;
    for (int i = 0; i < 4; i++) {
        /* No dimension is 0, so a product that once left the range cannot come back into it. */
        if (ne[i] < 1 || __builtin_mul_overflow(elements, ne[i], &elements) ||
            __builtin_mul_overflow(bytes, i ? ne[i] : ne[i] / block, &bytes))
            return false;
    }
    *n_bytes = (uint64_t)bytes;
    return true;
}

/* The name, which ggml will keep in a buffer of GGML_MAX_NAME bytes with a NUL after it. */
static ruvllm_status read_name(const struct rv_gguf_parse *p, struct cursor *c, struct rv_str *name,
                               struct ruvllm_error *err)
{
    if (!take_str(c, name))
        return rv_fail(err, RUVLLM_FORMAT, "name of tensor %zu runs beyond the end of the file", p->n_tensors);
    if (name->len == 0)
        return rv_fail(err, RUVLLM_FORMAT, "name of tensor %zu is empty", p->n_tensors);
    if (name->len >= GGML_MAX_NAME)
        return rv_fail(err, RUVLLM_FORMAT, "name of tensor %zu is longer than %d bytes", p->n_tensors,
                       GGML_MAX_NAME - 1);
    if (memchr(name->data, '\0', name->len))
        return rv_fail(err, RUVLLM_FORMAT, "name of tensor %zu has a NUL byte in it", p->n_tensors);
    return RUVLLM_OK;
}

/* No dimensions at all is a single number, as ggml has it; a dimension of 0 is refused, which ggml lets pass. */
static ruvllm_status read_shape(struct cursor *c, struct rv_gguf_tensor *t, const char *label, struct ruvllm_error *err)
{
    uint32_t n_dims;

    if (!take_u32(c, &n_dims))
        return rv_fail(err, RUVLLM_FORMAT, "file ends within the description of tensor '%s'", label);
    if (n_dims > GGML_MAX_DIMS)
        return rv_fail(err, RUVLLM_FORMAT, "tensor '%s' has %" PRIu32 " dimensions, at most %d are possible", label,
                       n_dims, GGML_MAX_DIMS);
    t->n_dims = (int)n_dims;
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t n = 1;

        if (i < n_dims && !take_u64(c, &n))
            return rv_fail(err, RUVLLM_FORMAT, "file ends within the description of tensor '%s'", label);
        if (n < 1 || n > INT64_MAX)
            return rv_fail(err, RUVLLM_FORMAT, "tensor '%s' has a dimension of %" PRId64, label, (int64_t)n);
        t->ne[i] = (int64_t)n;
    }
    return RUVLLM_OK;
}

static ruvllm_status read_type(struct cursor *c, struct rv_gguf_tensor *t, const char *label, struct ruvllm_error *err)
{
    uint32_t type;
    int64_t block;

    if (!take_u32(c, &type))
        return rv_fail(err, RUVLLM_FORMAT, "file ends within the description of tensor '%s'", label);
    /* Types ggml has dropped keep their number there, with a size of 0. */
    if (type >= GGML_TYPE_COUNT || ggml_blck_size((enum ggml_type)type) < 1 || ggml_type_size((enum ggml_type)type) < 1)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "tensor '%s' has type %" PRIu32 ", which ggml does not know", label,
                       type);
    t->type = (enum ggml_type)type;
    block = ggml_blck_size(t->type);
    if (t->ne[0] % block != 0)
        return rv_fail(err, RUVLLM_FORMAT,
                       "tensor '%s' has rows of %" PRId64 " elements, not whole blocks of %" PRId64 " as %s needs",
                       label, t->ne[0], block, ggml_type_name(t->type));
    if (!rv_gguf_parse_tensor_bytes(t->type, t->ne, &t->n_bytes))
        return rv_fail(err, RUVLLM_FORMAT,
                       "tensor '%s' of %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64 " is impossibly large",
                       label, t->ne[0], t->ne[1], t->ne[2], t->ne[3]);
    return RUVLLM_OK;
}

static ruvllm_status read_tensor(struct rv_gguf_parse *p, struct cursor *c, struct ruvllm_error *err)
{
    char label[RV_GGUF_VALUE_LABEL];
    struct rv_gguf_tensor t = {0};
    ruvllm_status rc;

    rc = read_name(p, c, &t.name, err);
    if (rc)
        return rc;
    rv_gguf_value_label(t.name.data, t.name.len, label);
    rc = read_shape(c, &t, label, err);
    if (rc)
        return rc;
    rc = read_type(c, &t, label, err);
    if (rc)
        return rc;
    if (!take_u64(c, &t.offset))
        return rv_fail(err, RUVLLM_FORMAT, "file ends within the description of tensor '%s'", label);
    p->tensors[p->n_tensors++] = t;
    return RUVLLM_OK;
}

static int compare_offsets(const void *left, const void *right)
{
    const struct rv_gguf_tensor *const *a = left, *const *b = right;

    return ((*a)->offset > (*b)->offset) - ((*a)->offset < (*b)->offset);
}

static int compare_names(const void *left, const void *right)
{
    const struct rv_gguf_tensor *const *a = left, *const *b = right;

    return compare_bytes((*a)->name.data, (*a)->name.len, (*b)->name.data, (*b)->name.len);
}

/* Each tensor aligned and inside the data section, which begins at `start`. */
static ruvllm_status check_places(const struct rv_gguf_parse *p, uint64_t start, struct ruvllm_error *err)
{
    char label[RV_GGUF_VALUE_LABEL];

    for (size_t i = 0; i < p->n_tensors; i++) {
        const struct rv_gguf_tensor *t = &p->tensors[i];

        rv_gguf_value_label(t->name.data, t->name.len, label);
        if (t->offset % p->alignment != 0)
            return rv_fail(err, RUVLLM_FORMAT, "tensor '%s' lies at offset %" PRIu64 ", no multiple of %" PRIu64, label,
                           t->offset, p->alignment);
        if (t->offset > p->len - start)
            return rv_fail(err, RUVLLM_FORMAT, "tensor '%s' begins beyond the end of the file", label);
        if (t->n_bytes > p->len - start - t->offset)
            return rv_fail(err, RUVLLM_FORMAT, "tensor '%s' ends beyond the end of the file", label);
    }
    return RUVLLM_OK;
}

/* Sorted by offset for the overlaps, then by name for the repeats, which is also the order for finding them. */
static ruvllm_status index_tensors(struct rv_gguf_parse *p, struct ruvllm_error *err)
{
    char first[RV_GGUF_VALUE_LABEL], second[RV_GGUF_VALUE_LABEL];
    const struct rv_gguf_tensor **sorted = rv_calloc(p->n_tensors, sizeof(*sorted));

    if (!sorted)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an index of %zu tensors", p->n_tensors);
    p->tensors_by_name = sorted;
    for (size_t i = 0; i < p->n_tensors; i++)
        sorted[i] = &p->tensors[i];
    qsort(sorted, p->n_tensors, sizeof(*sorted), compare_offsets);
    for (size_t i = 1; i < p->n_tensors; i++) {
        const struct rv_gguf_tensor *a = sorted[i - 1], *b = sorted[i];

        if (b->offset - a->offset < a->n_bytes)
            return rv_fail(err, RUVLLM_FORMAT, "tensors '%s' and '%s' overlap",
                           rv_gguf_value_label(a->name.data, a->name.len, first),
                           rv_gguf_value_label(b->name.data, b->name.len, second));
    }
    qsort(sorted, p->n_tensors, sizeof(*sorted), compare_names);
    for (size_t i = 1; i < p->n_tensors; i++) {
        if (compare_names(&sorted[i - 1], &sorted[i]) == 0)
            return rv_fail(err, RUVLLM_FORMAT, "tensor '%s' appears twice",
                           rv_gguf_value_label(sorted[i]->name.data, sorted[i]->name.len, first));
    }
    return RUVLLM_OK;
}

static ruvllm_status place_tensors(struct rv_gguf_parse *p, uint64_t end, struct ruvllm_error *err)
{
    uint64_t start = end + (p->alignment - end % p->alignment) % p->alignment;
    ruvllm_status rc;

    if (p->n_tensors && start > p->len)
        return rv_fail(err, RUVLLM_FORMAT, "file ends before its tensor data begins");
    rc = check_places(p, start, err);
    if (rc)
        return rc;
    rc = index_tensors(p, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < p->n_tensors; i++) {
        p->tensors[i].offset += start;
        p->tensors[i].data = p->data + p->tensors[i].offset;
    }
    return RUVLLM_OK;
}

/*
 * Besides its description each tensor takes a byte of data or more, at its own aligned place: that is what keeps
 * the table, whose entries are larger than the shortest description, within the promised memory.
 */
static ruvllm_status read_tensors(struct rv_gguf_parse *p, struct cursor *c, uint64_t n_tensors,
                                  struct ruvllm_error *err)
{
    uint64_t left = c->len - c->at;
    ruvllm_status rc;

    if (n_tensors > (left + p->alignment - 1) / (MIN_TENSOR_BYTES + p->alignment))
        return rv_fail(err, RUVLLM_FORMAT, "file claims %" PRIu64 " tensors, which do not fit into it", n_tensors);
    p->tensors = rv_calloc((size_t)n_tensors, sizeof(*p->tensors));
    if (!p->tensors)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %" PRIu64 " tensor descriptions", n_tensors);
    while (p->n_tensors < n_tensors) {
        rc = read_tensor(p, c, err);
        if (rc)
            return rc;
    }
    return place_tensors(p, c->at, err);
}

/* ---- the whole ----------------------------------------------------------------------------- */

ruvllm_status rv_gguf_parse_init(struct rv_gguf_parse *parse, const void *data, size_t len, struct ruvllm_error *err)
{
    struct cursor c = {.data = data, .len = len};
    uint64_t n_tensors = 0, n_kvs = 0;
    ruvllm_status rc;

    *parse = (struct rv_gguf_parse){.data = data, .len = len, .alignment = RV_GGUF_PARSE_DEFAULT_ALIGNMENT};
    rc = read_version(parse, &c, err);
    if (rc)
        return rc;
    rc = read_counts(&c, &n_tensors, &n_kvs, err);
    if (rc)
        return rc;
    rc = read_metadata(parse, &c, n_kvs, err);
    if (rc)
        return rc;
    return read_tensors(parse, &c, n_tensors, err);
}

void rv_gguf_parse_release(struct rv_gguf_parse *parse)
{
    rv_free(parse->kvs);
    rv_free(parse->kvs_by_key);
    rv_free(parse->tensors);
    rv_free(parse->tensors_by_name);
    *parse = (struct rv_gguf_parse){0};
}

struct rv_gguf_value rv_gguf_parse_value(const struct rv_gguf_kv *kv)
{
    const unsigned char *at = (const unsigned char *)kv->key + kv->key_len;
    uint32_t type = rv_gguf_value_load_u32(at);

    if (type != RV_GGUF_ARRAY)
        return (struct rv_gguf_value){.type = (enum rv_gguf_type)type, .n = 1, .bytes = at + 4};
    return (struct rv_gguf_value){.type = (enum rv_gguf_type)rv_gguf_value_load_u32(at + 4),
                                  .is_array = true,
                                  .n = (size_t)rv_gguf_value_load_u64(at + 8),
                                  .bytes = at + 16};
}

const struct rv_gguf_kv *rv_gguf_parse_find(const struct rv_gguf_parse *parse, const char *key, size_t len)
{
    size_t low = 0, high = parse->n_kvs;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct rv_gguf_kv *kv = parse->kvs_by_key[middle];
        int order = compare_bytes(key, len, kv->key, kv->key_len);

        if (order == 0)
            return kv;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const struct rv_gguf_tensor *rv_gguf_parse_find_tensor(const struct rv_gguf_parse *parse, const char *name, size_t len)
{
    size_t low = 0, high = parse->n_tensors;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct rv_gguf_tensor *t = parse->tensors_by_name[middle];
        int order = compare_bytes(name, len, t->name.data, t->name.len);

        if (order == 0)
            return t;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}
