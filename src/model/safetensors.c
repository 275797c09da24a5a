/*
 * The header is read by yyjson, which does not recurse and here has a ceiling on its memory, and turned into a table
 * whose every entry was checked. The invariant of a file that opened: sorted by place, each tensor begins where the one
 * before ends, the first at 0 and the last at the end of the file; so there is no overlap, no hole and nothing hidden.
 */
#include "model/safetensors.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/durable.h"
#include "base/utf8.h"
#include "model/gguf_map.h"
#include "model/gguf_parse.h"
#include "model/gguf_value.h"
#include "model/json_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yyjson.h>

enum { PREFIX = 8, MAX_NAME = 512, MAX_DIMS = 4 };

static const char METADATA[] = "__metadata__";

static const struct {
    const char *name;
    enum ggml_type type;
} types[] = {
    {"F64", GGML_TYPE_F64}, {"F32", GGML_TYPE_F32}, {"F16", GGML_TYPE_F16}, {"BF16", GGML_TYPE_BF16},
    {"I8", GGML_TYPE_I8},   {"I16", GGML_TYPE_I16}, {"I32", GGML_TYPE_I32}, {"I64", GGML_TYPE_I64},
};

struct rv_safetensors {
    struct rv_gguf_map map; // empty, with fd -1, for memory of the caller's
    const unsigned char *bytes;
    uint64_t len;
    struct rv_json_file json; // names and metadata are in it
    struct rv_safetensors_tensor *tensors;
    size_t n_tensors;
    const struct rv_safetensors_tensor **by_name;
};

/* ---- one entry ----------------------------------------------------------------------------- */

static ruvllm_status read_type(yyjson_val *value, struct rv_safetensors_tensor *t, const char *label,
                               struct ruvllm_error *err)
{
    char shown[RV_GGUF_VALUE_LABEL];

    if (!yyjson_is_str(value))
        return rv_fail(err, RUVLLM_FORMAT, "tensor '%s' does not state its type as a string", label);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (yyjson_equals_str(value, types[i].name)) {
            t->type = types[i].type;
            return RUVLLM_OK;
        }
    }
    return rv_fail(err, RUVLLM_UNSUPPORTED, "tensor '%s' has elements of type '%s', which cannot be read", label,
                   rv_gguf_value_label(yyjson_get_str(value), yyjson_get_len(value), shown));
}

static ruvllm_status read_shape(yyjson_val *value, struct rv_safetensors_tensor *t, const char *label,
                                struct ruvllm_error *err)
{
    size_t n_dims = yyjson_arr_size(value);
    yyjson_arr_iter iter;
    yyjson_val *dim;

    if (!yyjson_is_arr(value))
        return rv_fail(err, RUVLLM_FORMAT, "the shape of tensor '%s' is not a list", label);
    if (n_dims > MAX_DIMS)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "tensor '%s' has %zu dimensions, at most %d are possible", label,
                       n_dims, MAX_DIMS);
    t->n_dims = (int)n_dims;
    for (int i = 0; i < MAX_DIMS; i++)
        t->shape[i] = 1;
    yyjson_arr_iter_init(value, &iter);
    for (int i = 0; (dim = yyjson_arr_iter_next(&iter)); i++) {
        if (!yyjson_is_uint(dim) || yyjson_get_uint(dim) > INT64_MAX)
            return rv_fail(err, RUVLLM_FORMAT, "the shape of tensor '%s' has something that is no size", label);
        if (yyjson_get_uint(dim) == 0)
            return rv_fail(err, RUVLLM_UNSUPPORTED, "tensor '%s' has no elements", label);
        t->shape[i] = (int64_t)yyjson_get_uint(dim);
    }
    return RUVLLM_OK;
}

/* Where it lies, held against the data's length and what type and shape ask for. */
static ruvllm_status read_place(struct rv_safetensors *file, yyjson_val *value, uint64_t start,
                                struct rv_safetensors_tensor *t, const char *label, struct ruvllm_error *err)
{
    yyjson_val *first = yyjson_arr_get(value, 0), *last = yyjson_arr_get(value, 1);
    uint64_t begin = yyjson_get_uint(first), end = yyjson_get_uint(last);

    if (yyjson_arr_size(value) != 2 || !yyjson_is_uint(first) || !yyjson_is_uint(last))
        return rv_fail(err, RUVLLM_FORMAT, "the offsets of tensor '%s' are not two positions", label);
    if (begin > end || end > file->len - start)
        return rv_fail(err, RUVLLM_FORMAT,
                       "tensor '%s' lies from %" PRIu64 " to %" PRIu64 ", outside the file's %" PRIu64 " bytes of data",
                       label, begin, end, file->len - start);
    if (!rv_gguf_parse_tensor_bytes(t->type, t->shape, &t->n_bytes))
        return rv_fail(err, RUVLLM_FORMAT, "tensor '%s' is impossibly large", label);
    if (t->n_bytes != end - begin)
        return rv_fail(err, RUVLLM_FORMAT,
                       "tensor '%s' has %" PRIu64 " bytes where its type and shape ask for %" PRIu64, label,
                       end - begin, t->n_bytes);
    t->data = file->bytes + start + begin;
    return RUVLLM_OK;
}

static ruvllm_status read_tensor(struct rv_safetensors *file, yyjson_val *key, yyjson_val *value, uint64_t start,
                                 struct ruvllm_error *err)
{
    struct rv_safetensors_tensor *t = &file->tensors[file->n_tensors];
    yyjson_val *dtype = yyjson_obj_get(value, "dtype"), *shape = yyjson_obj_get(value, "shape");
    yyjson_val *offsets = yyjson_obj_get(value, "data_offsets");
    char label[RV_GGUF_VALUE_LABEL];
    ruvllm_status rc;

    t->name = (struct rv_str){.data = yyjson_get_str(key), .len = yyjson_get_len(key)};
    rv_gguf_value_label(t->name.data, t->name.len, label);
    if (t->name.len == 0 || t->name.len > MAX_NAME)
        return rv_fail(err, RUVLLM_FORMAT, "a tensor's name has %zu bytes, not 1 to %d", t->name.len, MAX_NAME);
    if (memchr(t->name.data, '\0', t->name.len))
        return rv_fail(err, RUVLLM_FORMAT, "the name of tensor '%s' has a NUL in it", label);
    /* Three keys, all found: none is repeated and nothing else is there. */
    if (!yyjson_is_obj(value) || yyjson_obj_size(value) != 3 || !dtype || !shape || !offsets)
        return rv_fail(err, RUVLLM_FORMAT, "tensor '%s' is not described by type, shape and offsets alone", label);
    rc = read_type(dtype, t, label, err);
    if (!rc)
        rc = read_shape(shape, t, label, err);
    if (!rc)
        rc = read_place(file, offsets, start, t, label, err);
    file->n_tensors += rc == RUVLLM_OK;
    return rc;
}

/* ---- the table ----------------------------------------------------------------------------- */

static int compare_places(const void *left, const void *right)
{
    const struct rv_safetensors_tensor *a = left, *b = right;
    const unsigned char *at = a->data, *other = b->data;

    return (at > other) - (at < other);
}

static int compare_text(struct rv_str a, struct rv_str b)
{
    int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);

    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_names(const void *left, const void *right)
{
    const struct rv_safetensors_tensor *const *a = left, *const *b = right;

    return compare_text((*a)->name, (*b)->name);
}

/* No tensor is empty, so that each beginning where the one before ends leaves one order only. */
static ruvllm_status check_cover(struct rv_safetensors *file, uint64_t start, struct ruvllm_error *err)
{
    const unsigned char *end = file->bytes + start;
    char label[RV_GGUF_VALUE_LABEL];

    qsort(file->tensors, file->n_tensors, sizeof(*file->tensors), compare_places);
    for (size_t i = 0; i < file->n_tensors; i++) {
        const struct rv_safetensors_tensor *t = &file->tensors[i];
        const unsigned char *at = t->data;

        if (at != end)
            return rv_fail(err, RUVLLM_FORMAT, "tensor '%s' %s", rv_gguf_value_label(t->name.data, t->name.len, label),
                           at < end ? "overlaps another" : "has a hole before it");
        end = at + t->n_bytes;
    }
    if (end != file->bytes + file->len)
        return rv_fail(err, RUVLLM_FORMAT, "the file has %" PRIu64 " bytes that belong to no tensor",
                       (uint64_t)(file->bytes + file->len - end));
    return RUVLLM_OK;
}

static ruvllm_status index_names(struct rv_safetensors *file, struct ruvllm_error *err)
{
    char label[RV_GGUF_VALUE_LABEL];

    file->by_name = rv_calloc(file->n_tensors ? file->n_tensors : 1, sizeof(struct rv_safetensors_tensor *));
    if (!file->by_name)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an index of %zu tensors", file->n_tensors);
    for (size_t i = 0; i < file->n_tensors; i++)
        file->by_name[i] = &file->tensors[i];
    qsort(file->by_name, file->n_tensors, sizeof(struct rv_safetensors_tensor *), compare_names);
    for (size_t i = 1; i < file->n_tensors; i++) {
        if (compare_names(&file->by_name[i - 1], &file->by_name[i]) == 0)
            return rv_fail(err, RUVLLM_FORMAT, "tensor '%s' appears twice",
                           rv_gguf_value_label(file->by_name[i]->name.data, file->by_name[i]->name.len, label));
    }
    return RUVLLM_OK;
}

/* Strings to strings, as the format says; looked up when asked for. */
static ruvllm_status check_metadata(yyjson_val *value, struct ruvllm_error *err)
{
    yyjson_obj_iter iter;
    yyjson_val *key;

    if (!yyjson_is_obj(value))
        return rv_fail(err, RUVLLM_FORMAT, "'%s' is not an object", METADATA);
    yyjson_obj_iter_init(value, &iter);
    while ((key = yyjson_obj_iter_next(&iter))) {
        if (!yyjson_is_str(yyjson_obj_iter_get_val(key)))
            return rv_fail(err, RUVLLM_FORMAT, "'%s' has something that is no string", METADATA);
    }
    return RUVLLM_OK;
}

static ruvllm_status read_entries(struct rv_safetensors *file, uint64_t start, struct ruvllm_error *err)
{
    yyjson_val *root = file->json.root, *key;
    yyjson_obj_iter iter;
    bool has_metadata = false;
    ruvllm_status rc = RUVLLM_OK;

    file->tensors = rv_calloc(yyjson_obj_size(root) + 1, sizeof(*file->tensors));
    if (!file->tensors)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu tensor descriptions", yyjson_obj_size(root));
    yyjson_obj_iter_init(root, &iter);
    while (!rc && (key = yyjson_obj_iter_next(&iter))) {
        yyjson_val *value = yyjson_obj_iter_get_val(key);

        if (!yyjson_equals_str(key, METADATA)) {
            rc = read_tensor(file, key, value, start, err);
        } else if (has_metadata) {
            rc = rv_fail(err, RUVLLM_FORMAT, "'%s' appears twice", METADATA);
        } else {
            has_metadata = true;
            rc = check_metadata(value, err);
        }
    }
    if (!rc)
        rc = check_cover(file, start, err);
    return rc ? rc : index_names(file, err);
}

static ruvllm_status parse(struct rv_safetensors *file, struct ruvllm_error *err)
{
    uint64_t header;
    ruvllm_status rc;

    if (file->len < PREFIX)
        return rv_fail(err, RUVLLM_FORMAT, "not a safetensors file: it has %" PRIu64 " bytes", file->len);
    header = rv_gguf_value_load_u64(file->bytes);
    if (header > RV_SAFETENSORS_MAX_HEADER)
        return rv_fail(err, RUVLLM_FORMAT, "a header of %" PRIu64 " bytes is not possible", header);
    if (header > file->len - PREFIX)
        return rv_fail(err, RUVLLM_FORMAT, "the file ends within its header of %" PRIu64 " bytes", header);
    if (header < 2 || file->bytes[PREFIX] != '{')
        return rv_fail(err, RUVLLM_FORMAT, "not a safetensors file: its header is no JSON object");
    rc = rv_json_file_parse(&file->json, (const char *)file->bytes + PREFIX, (size_t)header, "the header", err);
    return rc ? rc : read_entries(file, PREFIX + header, err);
}

/* ---- the file ------------------------------------------------------------------------------ */

static ruvllm_status file_new(struct rv_safetensors **out, struct ruvllm_error *err)
{
    *out = rv_calloc(1, sizeof(**out));
    if (!*out)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a file of tensors");
    (*out)->map.fd = -1;
    return RUVLLM_OK;
}

ruvllm_status rv_safetensors_open(struct rv_safetensors **out, const char *path, struct ruvllm_error *err)
{
    struct rv_safetensors *file;
    ruvllm_status rc;

    *out = NULL;
    rc = file_new(&file, err);
    if (rc)
        return rc;
    rc = rv_gguf_map_open(&file->map, path, err);
    if (!rc) {
        file->bytes = file->map.data;
        file->len = file->map.len;
        rc = parse(file, err);
    }
    if (rc) {
        rv_safetensors_close(file);
        return rc;
    }
    *out = file;
    return RUVLLM_OK;
}

ruvllm_status rv_safetensors_open_memory(struct rv_safetensors **out, const void *data, size_t len,
                                         struct ruvllm_error *err)
{
    struct rv_safetensors *file;
    ruvllm_status rc;

    *out = NULL;
    rc = file_new(&file, err);
    if (rc)
        return rc;
    file->bytes = data;
    file->len = len;
    rc = parse(file, err);
    if (rc) {
        rv_safetensors_close(file);
        return rc;
    }
    *out = file;
    return RUVLLM_OK;
}

void rv_safetensors_close(struct rv_safetensors *file)
{
    if (!file)
        return;
    rv_json_file_release(&file->json);
    rv_free(file->tensors);
    rv_free(file->by_name);
    rv_gguf_map_close(&file->map);
    rv_free(file);
}

size_t rv_safetensors_n_tensors(const struct rv_safetensors *file)
{
    return file->n_tensors;
}

const struct rv_safetensors_tensor *rv_safetensors_tensor_at(const struct rv_safetensors *file, size_t index)
{
    RV_ASSERT(index < file->n_tensors);
    return &file->tensors[index];
}

const struct rv_safetensors_tensor *rv_safetensors_find(const struct rv_safetensors *file, const char *name)
{
    struct rv_str wanted = {.data = name, .len = strlen(name)};
    size_t low = 0, high = file->n_tensors;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_text(wanted, file->by_name[middle]->name);

        if (order == 0)
            return file->by_name[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

struct rv_str rv_safetensors_metadata(const struct rv_safetensors *file, const char *key)
{
    yyjson_val *value = yyjson_obj_get(yyjson_obj_get(file->json.root, METADATA), key);

    if (!value)
        return (struct rv_str){.data = "", .len = 0};
    return (struct rv_str){.data = yyjson_get_str(value), .len = yyjson_get_len(value)};
}

int rv_safetensors_fd(const struct rv_safetensors *file)
{
    return file->map.fd;
}

const void *rv_safetensors_bytes(const struct rv_safetensors *file)
{
    return file->bytes;
}

uint64_t rv_safetensors_n_bytes(const struct rv_safetensors *file)
{
    return file->len;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* The name of a type as the format has it, or NULL. */
static const char *type_name(enum ggml_type type)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (types[i].type == type)
            return types[i].name;
    }
    return NULL;
}

static void add_json_str(struct rv_buf *buf, struct rv_str text)
{
    rv_buf_add_char(buf, '"');
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];

        if (c == '"' || c == '\\') {
            rv_buf_add_char(buf, '\\');
            rv_buf_add_char(buf, (char)c);
        } else if (c < 0x20) {
            rv_buf_addf(buf, "\\u%04x", c);
        } else {
            rv_buf_add_char(buf, (char)c);
        }
    }
    rv_buf_add_char(buf, '"');
}

static ruvllm_status check_tensor(const struct rv_safetensors_tensor *t, struct ruvllm_error *err)
{
    char label[RV_GGUF_VALUE_LABEL];
    uint64_t n_bytes;

    rv_gguf_value_label(t->name.data, t->name.len, label);
    if (t->name.len == 0 || t->name.len > MAX_NAME || memchr(t->name.data, '\0', t->name.len) ||
        !rv_utf8_valid(t->name.data, t->name.len) ||
        (t->name.len == sizeof(METADATA) - 1 && memcmp(t->name.data, METADATA, t->name.len) == 0))
        return rv_fail(err, RUVLLM_INVALID, "'%s' cannot be a tensor's name", label);
    if (!type_name(t->type))
        return rv_fail(err, RUVLLM_INVALID, "tensor '%s' has a type that safetensors files have not", label);
    if (t->n_dims < 0 || t->n_dims > MAX_DIMS || !rv_gguf_parse_tensor_bytes(t->type, t->shape, &n_bytes) ||
        n_bytes != t->n_bytes)
        return rv_fail(err, RUVLLM_INVALID, "tensor '%s' does not have the bytes its type and shape ask for", label);
    return RUVLLM_OK;
}

static ruvllm_status check_unique(const struct rv_safetensors_tensor *tensors, size_t n, struct ruvllm_error *err)
{
    const struct rv_safetensors_tensor **sorted = rv_calloc(n + 1, sizeof(struct rv_safetensors_tensor *));
    char label[RV_GGUF_VALUE_LABEL];
    ruvllm_status rc = RUVLLM_OK;

    if (!sorted)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a list of %zu tensors", n);
    for (size_t i = 0; i < n; i++)
        sorted[i] = &tensors[i];
    qsort(sorted, n, sizeof(struct rv_safetensors_tensor *), compare_names);
    for (size_t i = 1; i < n && !rc; i++) {
        if (compare_names(&sorted[i - 1], &sorted[i]) == 0)
            rc = rv_fail(err, RUVLLM_INVALID, "tensor '%s' is given twice",
                         rv_gguf_value_label(sorted[i]->name.data, sorted[i]->name.len, label));
    }
    rv_free(sorted);
    return rc;
}

static void add_notes(struct rv_buf *head, const struct rv_safetensors_note *notes, size_t n)
{
    rv_buf_addf(head, "\"%s\":{", METADATA);
    for (size_t i = 0; i < n; i++) {
        if (i)
            rv_buf_add_char(head, ',');
        add_json_str(head, notes[i].key);
        rv_buf_add_char(head, ':');
        add_json_str(head, notes[i].value);
    }
    rv_buf_add_char(head, '}');
}

static void add_tensor(struct rv_buf *head, const struct rv_safetensors_tensor *t, uint64_t at)
{
    add_json_str(head, t->name);
    rv_buf_addf(head, ":{\"dtype\":\"%s\",\"shape\":[", type_name(t->type));
    for (int i = 0; i < t->n_dims; i++)
        rv_buf_addf(head, "%s%" PRId64, i ? "," : "", t->shape[i]);
    rv_buf_addf(head, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + t->n_bytes);
}

/* Length and header, with spaces behind it so that data begins at a multiple of 8. */
static ruvllm_status make_head(struct rv_buf *head, const struct rv_safetensors_tensor *tensors, size_t n,
                               const struct rv_safetensors_note *notes, size_t n_notes, struct ruvllm_error *err)
{
    uint64_t at = 0, len = 0;

    rv_buf_add(head, &len, sizeof(len));
    rv_buf_add_char(head, '{');
    if (n_notes)
        add_notes(head, notes, n_notes);
    for (size_t i = 0; i < n; i++) {
        if (i || n_notes)
            rv_buf_add_char(head, ',');
        add_tensor(head, &tensors[i], at);
        at += tensors[i].n_bytes;
    }
    rv_buf_add_char(head, '}');
    while (!head->failed && head->len % PREFIX)
        rv_buf_add_char(head, ' ');
    if (!head->failed) {
        len = head->len - PREFIX;
        memcpy(head->data, &len, sizeof(len));
    }
    return rv_buf_status(head, "the header", err);
}

static ruvllm_status put(const char *path, const char *partial, const struct rv_buf *head,
                         const struct rv_safetensors_tensor *tensors, size_t n, struct ruvllm_error *err)
{
    int fd = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    ruvllm_status rc;

    if (fd < 0)
        return rv_fail_errno(err, errno, "cannot create '%s'", partial);
    rc = rv_durable_write(fd, head->data, head->len, err);
    for (size_t i = 0; i < n && !rc; i++)
        rc = rv_durable_write(fd, tensors[i].data, (size_t)tensors[i].n_bytes, err);
    if (rc)
        rc = rv_fail_in(err, rc, "cannot write '%s'", partial);
    if (!rc)
        rc = rv_durable_publish(fd, AT_FDCWD, partial, path, err);
    close(fd);
    if (rc)
        unlink(partial);
    return rc;
}

ruvllm_status rv_safetensors_write_noted(const char *path, const struct rv_safetensors_tensor *tensors, size_t n,
                                         const struct rv_safetensors_note *notes, size_t n_notes,
                                         struct ruvllm_error *err)
{
    struct rv_buf head, partial;
    ruvllm_status rc = check_unique(tensors, n, err);

    for (size_t i = 0; i < n && !rc; i++)
        rc = check_tensor(&tensors[i], err);
    if (rc)
        return rc;
    rv_buf_init(&head, RV_SAFETENSORS_MAX_HEADER);
    rv_buf_init(&partial, 1 << 16);
    rv_buf_addf(&partial, "%s.partial", path);
    rc = make_head(&head, tensors, n, notes, n_notes, err);
    if (!rc)
        rc = rv_buf_status(&partial, "the file's name", err);
    if (!rc)
        rc = put(path, partial.data, &head, tensors, n, err);
    rv_buf_release(&head);
    rv_buf_release(&partial);
    return rc;
}

ruvllm_status rv_safetensors_write(const char *path, const struct rv_safetensors_tensor *tensors, size_t n,
                                   struct ruvllm_error *err)
{
    return rv_safetensors_write_noted(path, tensors, n, NULL, 0, err);
}
