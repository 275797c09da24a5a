/*
 * A GGUF file held open: the mapping, and the typed view of its metadata. What the bytes may contain is settled in
 * gguf_parse before anything here sees them; here is only what a caller may ask of a good file.
 */
#include "model/gguf_file.h"

#include "base/alloc.h"
#include "model/gguf_parse.h"
#include "model/model_map.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

struct rv_gguf_file {
    struct rv_gguf_map map; // empty, with fd -1, for memory of the caller's
    struct rv_gguf_parse parse;
};

static ruvllm_status file_new(struct rv_gguf_file **out, struct ruvllm_error *err)
{
    *out = rv_calloc(1, sizeof(**out));
    if (!*out)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a model file handle");
    (*out)->map.fd = -1;
    return RUVLLM_OK;
}

ruvllm_status rv_gguf_file_open(struct rv_gguf_file **out, const char *path, struct ruvllm_error *err)
{
    struct rv_gguf_file *file;
    ruvllm_status rc;

    *out = NULL;
    rc = file_new(&file, err);
    if (rc)
        return rc;
    rc = rv_model_map_open(&file->map, path, err);
    if (rc)
        goto fail;
    rc = rv_gguf_parse_init(&file->parse, file->map.data, file->map.len, err);
    if (rc)
        goto fail;
    *out = file;
    return RUVLLM_OK;
fail:
    rv_gguf_file_close(file);
    return rc;
}

ruvllm_status rv_gguf_file_open_memory(struct rv_gguf_file **out, const void *data, size_t len,
                                       struct ruvllm_error *err)
{
    struct rv_gguf_file *file;
    ruvllm_status rc;

    *out = NULL;
    rc = file_new(&file, err);
    if (rc)
        return rc;
    rc = rv_gguf_parse_init(&file->parse, data, len, err);
    if (rc) {
        rv_gguf_file_close(file);
        return rc;
    }
    *out = file;
    return RUVLLM_OK;
}

void rv_gguf_file_close(struct rv_gguf_file *file)
{
    if (!file)
        return;
    rv_gguf_parse_release(&file->parse);
    rv_gguf_map_close(&file->map);
    rv_free(file);
}

uint32_t rv_gguf_file_version(const struct rv_gguf_file *file)
{
    return file->parse.version;
}

uint64_t rv_gguf_file_n_bytes(const struct rv_gguf_file *file)
{
    return file->parse.len;
}

const void *rv_gguf_file_mapping(const struct rv_gguf_file *file)
{
    return file->parse.data;
}

int rv_gguf_file_fd(const struct rv_gguf_file *file)
{
    return file->map.fd;
}

size_t rv_gguf_file_n_tensors(const struct rv_gguf_file *file)
{
    return file->parse.n_tensors;
}

const struct rv_gguf_tensor *rv_gguf_file_tensor(const struct rv_gguf_file *file, size_t index)
{
    RV_ASSERT(index < file->parse.n_tensors);
    return &file->parse.tensors[index];
}

const struct rv_gguf_tensor *rv_gguf_file_tensor_find(const struct rv_gguf_file *file, const char *name)
{
    return rv_gguf_parse_find_tensor(&file->parse, name, strlen(name));
}

const char *rv_gguf_file_main_type(const struct rv_gguf_file *file)
{
    uint64_t bytes[GGML_TYPE_COUNT] = {0};
    int best = 0;

    for (size_t i = 0; i < file->parse.n_tensors; i++)
        bytes[file->parse.tensors[i].type] += file->parse.tensors[i].n_bytes;
    for (int i = 1; i < GGML_TYPE_COUNT; i++) {
        if (bytes[i] > bytes[best])
            best = i;
    }
    return file->parse.n_tensors ? ggml_type_name((enum ggml_type)best) : "";
}

/* ---- getters ------------------------------------------------------------------------------- */

bool rv_gguf_file_has(const struct rv_gguf_file *file, const char *key)
{
    return rv_gguf_parse_find(&file->parse, key, strlen(key)) != NULL;
}

static ruvllm_status fail_type(const char *key, const struct rv_gguf_value *value, const char *wanted,
                               struct ruvllm_error *err)
{
    char label[RV_GGUF_VALUE_LABEL];

    return rv_fail(err, RUVLLM_FORMAT, "metadata '%s' is %s%s, not %s", rv_gguf_value_label(key, strlen(key), label),
                   value->is_array ? "an array of " : "of type ", rv_gguf_value_type_name(value->type), wanted);
}

static ruvllm_status fail_range(const char *key, const char *wanted, struct ruvllm_error *err)
{
    char label[RV_GGUF_VALUE_LABEL];

    return rv_fail(err, RUVLLM_FORMAT, "metadata '%s' has a value that is no %s",
                   rv_gguf_value_label(key, strlen(key), label), wanted);
}

static ruvllm_status find(const struct rv_gguf_file *file, const char *key, struct rv_gguf_value *value,
                          struct ruvllm_error *err)
{
    const struct rv_gguf_kv *kv = rv_gguf_parse_find(&file->parse, key, strlen(key));
    char label[RV_GGUF_VALUE_LABEL];

    *value = (struct rv_gguf_value){0}; // for compilers that cannot see that a failure is not 0
    if (!kv)
        return rv_fail(err, RUVLLM_NOT_FOUND, "metadata '%s' is missing", rv_gguf_value_label(key, strlen(key), label));
    *value = rv_gguf_parse_value(kv);
    return RUVLLM_OK;
}

static ruvllm_status get_unsigned(const struct rv_gguf_file *file, const char *key, uint64_t max, const char *wanted,
                                  uint64_t *out, struct ruvllm_error *err)
{
    struct rv_gguf_value value;
    uint64_t number;
    ruvllm_status rc = find(file, key, &value, err);

    if (rc)
        return rc;
    if (value.is_array || !rv_gguf_value_is_integer(value.type))
        return fail_type(key, &value, "an integer", err);
    if (!rv_gguf_value_u64(value.type, value.bytes, &number) || number > max)
        return fail_range(key, wanted, err);
    *out = number;
    return RUVLLM_OK;
}

ruvllm_status rv_gguf_file_u32(const struct rv_gguf_file *file, const char *key, uint32_t *out,
                               struct ruvllm_error *err)
{
    uint64_t number = 0;
    ruvllm_status rc = get_unsigned(file, key, UINT32_MAX, "u32", &number, err);

    if (rc)
        return rc;
    *out = (uint32_t)number;
    return RUVLLM_OK;
}

ruvllm_status rv_gguf_file_u64(const struct rv_gguf_file *file, const char *key, uint64_t *out,
                               struct ruvllm_error *err)
{
    return get_unsigned(file, key, UINT64_MAX, "u64", out, err);
}

/* A number as a finite float; the element must be of a number type. */
static bool to_float(enum rv_gguf_type type, const unsigned char *bytes, float *out)
{
    double number;

    if (!rv_gguf_value_f64(type, bytes, &number) || !isfinite(number) || fabs(number) > (double)FLT_MAX)
        return false;
    *out = (float)number;
    return true;
}

static bool is_number(enum rv_gguf_type type)
{
    return rv_gguf_value_is_integer(type) || type == RV_GGUF_F32 || type == RV_GGUF_F64;
}

ruvllm_status rv_gguf_file_f32(const struct rv_gguf_file *file, const char *key, float *out, struct ruvllm_error *err)
{
    struct rv_gguf_value value;
    ruvllm_status rc = find(file, key, &value, err);

    if (rc)
        return rc;
    if (value.is_array || !is_number(value.type))
        return fail_type(key, &value, "a number", err);
    if (!to_float(value.type, value.bytes, out))
        return fail_range(key, "finite f32", err);
    return RUVLLM_OK;
}

ruvllm_status rv_gguf_file_bool(const struct rv_gguf_file *file, const char *key, bool *out, struct ruvllm_error *err)
{
    struct rv_gguf_value value;
    ruvllm_status rc = find(file, key, &value, err);

    if (rc)
        return rc;
    if (value.is_array || value.type != RV_GGUF_BOOL)
        return fail_type(key, &value, "a bool", err);
    *out = value.bytes[0] != 0;
    return RUVLLM_OK;
}

ruvllm_status rv_gguf_file_str(const struct rv_gguf_file *file, const char *key, struct rv_str *out,
                               struct ruvllm_error *err)
{
    struct rv_gguf_value value;
    ruvllm_status rc = find(file, key, &value, err);

    if (rc)
        return rc;
    if (value.is_array || value.type != RV_GGUF_STRING)
        return fail_type(key, &value, "a string", err);
    *out = rv_gguf_value_str(value.bytes);
    return RUVLLM_OK;
}

static ruvllm_status find_array(const struct rv_gguf_file *file, const char *key, struct rv_gguf_value *value,
                                struct ruvllm_error *err)
{
    ruvllm_status rc = find(file, key, value, err);

    if (rc)
        return rc;
    return value->is_array ? RUVLLM_OK : fail_type(key, value, "an array", err);
}

ruvllm_status rv_gguf_file_array(const struct rv_gguf_file *file, const char *key, enum rv_gguf_type *type, size_t *n,
                                 struct ruvllm_error *err)
{
    struct rv_gguf_value value;
    ruvllm_status rc = find_array(file, key, &value, err);

    if (rc)
        return rc;
    *type = value.type;
    *n = value.n;
    return RUVLLM_OK;
}

/* Memory for the n elements of an array; NULL without failure when it is empty. */
static ruvllm_status array_new(const char *key, size_t n, size_t size, void **out, struct ruvllm_error *err)
{
    char label[RV_GGUF_VALUE_LABEL];

    *out = n ? rv_realloc_array(NULL, n, size) : NULL;
    if (n && !*out)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the %zu elements of metadata '%s'", n,
                       rv_gguf_value_label(key, strlen(key), label));
    return RUVLLM_OK;
}

ruvllm_status rv_gguf_file_array_str(const struct rv_gguf_file *file, const char *key, struct rv_str **out, size_t *n,
                                     struct ruvllm_error *err)
{
    struct rv_gguf_value value;
    struct rv_str *array;
    void *memory;
    ruvllm_status rc = find_array(file, key, &value, err);

    if (rc)
        return rc;
    if (value.type != RV_GGUF_STRING)
        return fail_type(key, &value, "an array of string", err);
    rc = array_new(key, value.n, sizeof(*array), &memory, err);
    if (rc)
        return rc;
    array = memory;
    for (size_t i = 0; i < value.n; i++) {
        array[i] = rv_gguf_value_str(value.bytes);
        value.bytes = (const unsigned char *)array[i].data + array[i].len;
    }
    *out = array;
    *n = value.n;
    return RUVLLM_OK;
}

ruvllm_status rv_gguf_file_array_f32(const struct rv_gguf_file *file, const char *key, float **out, size_t *n,
                                     struct ruvllm_error *err)
{
    struct rv_gguf_value value;
    float *array;
    void *memory;
    ruvllm_status rc = find_array(file, key, &value, err);

    if (rc)
        return rc;
    if (!is_number(value.type))
        return fail_type(key, &value, "an array of numbers", err);
    rc = array_new(key, value.n, sizeof(*array), &memory, err);
    if (rc)
        return rc;
    array = memory;
    for (size_t i = 0; i < value.n; i++) {
        if (!to_float(value.type, value.bytes + i * rv_gguf_value_type_size(value.type), &array[i])) {
            rv_free(array);
            return fail_range(key, "finite f32", err);
        }
    }
    *out = array;
    *n = value.n;
    return RUVLLM_OK;
}

/* Flags count as integers in arrays: models state per-layer switches that way, or as 0 and 1. */
static bool to_int32(enum rv_gguf_type type, const unsigned char *bytes, int32_t *out)
{
    int64_t number;

    if (type == RV_GGUF_BOOL)
        number = bytes[0];
    else if (!rv_gguf_value_i64(type, bytes, &number) || number < INT32_MIN || number > INT32_MAX)
        return false;
    *out = (int32_t)number;
    return true;
}

ruvllm_status rv_gguf_file_array_i32(const struct rv_gguf_file *file, const char *key, int32_t **out, size_t *n,
                                     struct ruvllm_error *err)
{
    struct rv_gguf_value value;
    int32_t *array;
    void *memory;
    ruvllm_status rc = find_array(file, key, &value, err);

    if (rc)
        return rc;
    if (!rv_gguf_value_is_integer(value.type) && value.type != RV_GGUF_BOOL)
        return fail_type(key, &value, "an array of integers", err);
    rc = array_new(key, value.n, sizeof(*array), &memory, err);
    if (rc)
        return rc;
    array = memory;
    for (size_t i = 0; i < value.n; i++) {
        if (!to_int32(value.type, value.bytes + i * rv_gguf_value_type_size(value.type), &array[i])) {
            rv_free(array);
            return fail_range(key, "i32", err);
        }
    }
    *out = array;
    *n = value.n;
    return RUVLLM_OK;
}
