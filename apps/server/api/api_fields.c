/* Typed readers of JSON fields, and the words of their refusals. */
#include "server/api/api_fields.h"

#include "server/api/api_body.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXACT_INTEGER 9007199254740992.0 // 2^53: beyond it a number with a point or exponent names no one integer

void rv_api_fields_fail(struct rv_api_reader *reader, const char *path, const char *code, const char *format, ...)
{
    char message[sizeof(reader->err->message)];
    va_list args;

    if (reader->failed)
        return;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    rv_api_error_set(reader->err, 400, code, path, "%s", message);
    reader->failed = RUVLLM_INVALID;
}

char *rv_api_fields_json(struct rv_api_reader *reader, yyjson_val *value, const char *path, size_t max_len)
{
    size_t len = 0;
    char *text, *kept = NULL;

    if (reader->failed)
        return NULL;
    text = yyjson_val_write(value, YYJSON_WRITE_NOFLAG, &len);
    if (text && len > max_len)
        rv_api_fields_fail(reader, path, "invalid_value", "'%s' has %zu bytes; at most %zu are supported", path, len,
                           max_len);
    else if (text)
        kept = rv_api_fields_alloc(reader, len + 1, 1);
    else
        rv_api_fields_fail(reader, path, "invalid_value", "'%s' cannot be written as JSON", path);
    if (kept)
        memcpy(kept, text, len);
    free(text); // its own allocator is libc's
    return kept;
}

void *rv_api_fields_alloc(struct rv_api_reader *reader, size_t n, size_t size)
{
    void *memory = reader->failed ? NULL : rv_arena_calloc(reader->arena, n, size);

    if (memory || reader->failed)
        return memory;
    rv_api_error_from(reader->err, &(struct ruvllm_error){.status = RUVLLM_NO_MEMORY});
    reader->failed = RUVLLM_NO_MEMORY;
    return NULL;
}

/* What a value is, in a few words. What clients wrote as text is not repeated. */
static void describe(yyjson_val *value, char *out, size_t size)
{
    if (yyjson_is_uint(value))
        snprintf(out, size, "%" PRIu64, yyjson_get_uint(value));
    else if (yyjson_is_sint(value))
        snprintf(out, size, "%" PRId64, yyjson_get_sint(value));
    else if (yyjson_is_real(value)) {
        snprintf(out, size, "%.15g", yyjson_get_real(value));
        if (strtod(out, NULL) != yyjson_get_real(value))
            snprintf(out, size, "%.17g", yyjson_get_real(value));
    } else if (yyjson_is_str(value))
        snprintf(out, size, "a string of %zu bytes", yyjson_get_len(value));
    else if (yyjson_is_arr(value))
        snprintf(out, size, "an array of %zu elements", yyjson_arr_size(value));
    else
        snprintf(out, size, "%s", yyjson_is_obj(value) ? "an object" : yyjson_is_true(value) ? "true" : "false");
}

void rv_api_fields_wrong(struct rv_api_reader *reader, yyjson_val *value, const char *path, const char *wanted)
{
    char found[48];

    if (yyjson_is_null(value))
        snprintf(found, sizeof(found), "null");
    else
        describe(value, found, sizeof(found));
    rv_api_fields_fail(reader, path, "invalid_value", "'%s' must be %s, and is %s", path, wanted, found);
}

/* The path of a field in `out`. */
static const char *path_of(const struct rv_api_fields *fields, const char *name, char out[RV_API_PATH_SIZE])
{
    snprintf(out, RV_API_PATH_SIZE, "%s%s", fields->path, name);
    return out;
}

bool rv_api_fields_init(struct rv_api_fields *fields, struct rv_api_reader *reader, yyjson_val *value, const char *path)
{
    *fields = (struct rv_api_fields){.reader = reader};
    if (reader->failed)
        return false;
    if (!yyjson_is_obj(value)) {
        rv_api_fields_wrong(reader, value, path, "an object");
        return false;
    }
    fields->object = value;
    snprintf(fields->path, sizeof(fields->path), *path ? "%s." : "%s", path);
    return true;
}

static const struct rv_api_field *find_field(const struct rv_api_field *const *tables, size_t n_tables, const char *key,
                                             size_t len)
{
    for (size_t i = 0; i < n_tables; i++)
        for (const struct rv_api_field *field = tables[i]; field->name; field++)
            /* Most differ in the first letter already. */
            if (field->name[0] == key[0] && strlen(field->name) == len && memcmp(field->name, key, len) == 0)
                return field;
    return NULL;
}

static void check_key(struct rv_api_fields *fields, const struct rv_api_field *field, yyjson_val *key,
                      yyjson_val *value)
{
    char path[RV_API_PATH_SIZE];

    if (field && (yyjson_is_null(value) || (!field->fails && (!field->asks_nothing || field->asks_nothing(value)))))
        return;
    path_of(fields, yyjson_get_str(key), path);
    if (!field)
        rv_api_fields_fail(fields->reader, path, "unknown_field", "'%s' is not a field known here; leave it out", path);
    else if (field->fails)
        rv_api_fields_fail(fields->reader, path, "unsupported_field", "'%s' is not supported yet; leave it out", path);
    else
        rv_api_fields_fail(fields->reader, path, "unsupported_field", "'%s' is supported only as %s; leave it out",
                           path, field->only);
}

void rv_api_fields_only(struct rv_api_fields *fields, const struct rv_api_field *const *tables, size_t n_tables)
{
    yyjson_obj_iter iter;
    yyjson_val *key;

    if (fields->reader->failed)
        return;
    iter = yyjson_obj_iter_with(fields->object);
    while (!fields->reader->failed && (key = yyjson_obj_iter_next(&iter)) != NULL)
        check_key(fields, find_field(tables, n_tables, yyjson_get_str(key), yyjson_get_len(key)), key,
                  yyjson_obj_iter_get_val(key));
}

yyjson_val *rv_api_fields_value(struct rv_api_fields *fields, const char *name)
{
    yyjson_val *value = fields->reader->failed ? NULL : yyjson_obj_get(fields->object, name);

    return yyjson_is_null(value) ? NULL : value;
}

void rv_api_fields_require(struct rv_api_fields *fields, const char *name)
{
    char path[RV_API_PATH_SIZE];

    if (fields->reader->failed || rv_api_fields_value(fields, name))
        return;
    path_of(fields, name, path);
    rv_api_fields_fail(fields->reader, path, "missing_field", "'%s' is missing", path);
}

/* The integer a JSON number names, if it names one that fits. */
static bool as_integer(yyjson_val *value, int64_t *out)
{
    double real;

    if (yyjson_is_sint(value) || (yyjson_is_uint(value) && yyjson_get_uint(value) <= INT64_MAX)) {
        *out = yyjson_get_sint(value);
        return true;
    }
    if (!yyjson_is_real(value))
        return false;
    real = yyjson_get_real(value);
    if (!(real >= -EXACT_INTEGER && real <= EXACT_INTEGER) || real != trunc(real))
        return false;
    *out = (int64_t)real;
    return true;
}

bool rv_api_fields_is_int(struct rv_api_reader *reader, yyjson_val *value, const char *path, int64_t min, int64_t max,
                          int64_t *out)
{
    char wanted[80];
    int64_t number;

    if (reader->failed)
        return false;
    if (as_integer(value, &number) && number >= min && number <= max) {
        *out = number;
        return true;
    }
    snprintf(wanted, sizeof(wanted), "an integer between %" PRId64 " and %" PRId64, min, max);
    rv_api_fields_wrong(reader, value, path, wanted);
    return false;
}

bool rv_api_fields_int(struct rv_api_fields *fields, const char *name, int64_t min, int64_t max, int64_t *out)
{
    yyjson_val *value = rv_api_fields_value(fields, name);
    char path[RV_API_PATH_SIZE];
    int64_t number;

    if (value && as_integer(value, &number) && number >= min && number <= max) {
        *out = number; // the usual case needs no path
        return true;
    }
    return value && rv_api_fields_is_int(fields->reader, value, path_of(fields, name, path), min, max, out);
}

bool rv_api_fields_int32(struct rv_api_fields *fields, const char *name, int32_t min, int32_t max, int32_t *out)
{
    int64_t wide;

    if (!rv_api_fields_int(fields, name, min, max, &wide))
        return false;
    *out = (int32_t)wide;
    return true;
}

bool rv_api_fields_float(struct rv_api_fields *fields, const char *name, double min, double max, float *out)
{
    yyjson_val *value = rv_api_fields_value(fields, name);
    char path[RV_API_PATH_SIZE], wanted[80];
    double number;

    if (!value)
        return false;
    number = yyjson_is_num(value) ? yyjson_get_num(value) : NAN;
    if (number >= min && number <= max) { // written so that NaN fails
        *out = (float)number;
        return true;
    }
    snprintf(wanted, sizeof(wanted), "a number between %g and %g", min, max);
    rv_api_fields_wrong(fields->reader, value, path_of(fields, name, path), wanted);
    return false;
}

bool rv_api_fields_bool(struct rv_api_fields *fields, const char *name, bool *out)
{
    yyjson_val *value = rv_api_fields_value(fields, name);
    char path[RV_API_PATH_SIZE];

    if (!value)
        return false;
    if (!yyjson_is_bool(value)) {
        rv_api_fields_wrong(fields->reader, value, path_of(fields, name, path), "true or false");
        return false;
    }
    *out = yyjson_get_bool(value);
    return true;
}

bool rv_api_fields_is_string(struct rv_api_reader *reader, yyjson_val *value, const char *path, size_t min_len,
                             size_t max_len, const char **out)
{
    size_t len = yyjson_get_len(value);
    char wanted[64] = "a string";

    if (reader->failed)
        return false;
    if (!yyjson_is_str(value) || len < min_len || len > max_len) {
        if (max_len != SIZE_MAX)
            snprintf(wanted, sizeof(wanted), "a string of %zu to %zu bytes", min_len, max_len);
        else if (min_len)
            snprintf(wanted, sizeof(wanted), "a string that is not empty");
        rv_api_fields_wrong(reader, value, path, wanted);
        return false;
    }
    if (memchr(yyjson_get_str(value), 0, len)) {
        rv_api_fields_fail(reader, path, "invalid_value", "'%s' holds a NUL character (\\u0000); take it out", path);
        return false;
    }
    *out = yyjson_get_str(value);
    return true;
}

bool rv_api_fields_string(struct rv_api_fields *fields, const char *name, size_t min_len, size_t max_len,
                          const char **out)
{
    yyjson_val *value = rv_api_fields_value(fields, name);
    char path[RV_API_PATH_SIZE];

    return value && rv_api_fields_is_string(fields->reader, value, path_of(fields, name, path), min_len, max_len, out);
}

bool rv_api_fields_word(struct rv_api_fields *fields, const char *name, const char *const *words, size_t n_words,
                        size_t *out)
{
    yyjson_val *value = rv_api_fields_value(fields, name);
    char path[RV_API_PATH_SIZE], wanted[160] = "";
    size_t used = 0;

    if (!value)
        return false;
    for (size_t i = 0; i < n_words; i++) {
        if (yyjson_equals_str(value, words[i])) {
            *out = i;
            return true;
        }
        used += (size_t)snprintf(wanted + used, sizeof(wanted) - used, "%s\"%s\"", i ? " or " : "", words[i]);
        RV_ASSERT(used < sizeof(wanted));
    }
    path_of(fields, name, path);
    if (yyjson_is_str(value))
        rv_api_fields_fail(fields->reader, path, "invalid_value", "'%s' must be %s, and is \"%.*s\"", path, wanted,
                           RV_API_MAX_NAME, yyjson_get_str(value));
    else
        rv_api_fields_wrong(fields->reader, value, path, wanted);
    return false;
}

bool rv_api_fields_object(struct rv_api_fields *fields, const char *name, struct rv_api_fields *out)
{
    yyjson_val *value = rv_api_fields_value(fields, name);
    char path[RV_API_PATH_SIZE];

    return value && rv_api_fields_init(out, fields->reader, value, path_of(fields, name, path));
}

yyjson_val *rv_api_fields_array(struct rv_api_fields *fields, const char *name, size_t min, size_t max, size_t *n)
{
    yyjson_val *value = rv_api_fields_value(fields, name);
    char path[RV_API_PATH_SIZE], wanted[64];

    if (!value)
        return NULL;
    *n = yyjson_arr_size(value);
    if (yyjson_is_arr(value) && *n >= min && *n <= max)
        return value;
    snprintf(wanted, sizeof(wanted), "an array of %zu to %zu elements", min, max);
    rv_api_fields_wrong(fields->reader, value, path_of(fields, name, path), wanted);
    return NULL;
}

ruvllm_status rv_api_fields_parse(const char *body, size_t len, void (*read)(struct rv_api_fields *fields, void *out),
                                  void *out, struct rv_api_error *err)
{
    struct rv_api_reader reader = {.err = err};
    struct rv_api_fields fields;
    yyjson_doc *doc;
    ruvllm_status rc = rv_api_body_read(body, len, &doc, err);

    if (rc)
        return rc;
    if (rv_api_fields_init(&fields, &reader, yyjson_doc_get_root(doc), ""))
        read(&fields, out);
    yyjson_doc_free(doc);
    return reader.failed;
}
