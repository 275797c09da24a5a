/*
 * The tables of gguf_parse written as JSON. A damaged file is no failure here: what was read before the damage is
 * shown with the sentence that says what is wrong. Only missing memory fails.
 */
#include "model/gguf_inspect.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "model/gguf_parse.h"
#include "model/model_map.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

enum {
    MAX_ELEMENTS = 8,
    MAX_STRING = 64 * 1024,
};

/* Text as valid UTF-8. Each byte that belongs to no character becomes U+FFFD, which is three bytes long. */
static yyjson_mut_val *text_value(yyjson_mut_doc *doc, const char *text, size_t len)
{
    yyjson_mut_val *value;
    char *clean;
    size_t n = 0;

    if (rv_utf8_valid(text, len))
        return yyjson_mut_strncpy(doc, text, len);
    clean = rv_malloc(len * 3); // len is at most MAX_STRING or that of a key
    if (!clean)
        return NULL;
    for (size_t i = 0; i < len;) {
        uint32_t cp;
        int used = rv_utf8_decode(text + i, len - i, &cp);

        memcpy(clean + n, used > 0 ? text + i : "\xEF\xBF\xBD", used > 0 ? (size_t)used : 3);
        n += used > 0 ? (size_t)used : 3;
        i += used > 0 ? (size_t)used : 1;
    }
    value = yyjson_mut_strncpy(doc, clean, n);
    rv_free(clean);
    return value;
}

/* {"type": ..., "n": ..., "first": ...}: the note that something was shortened, and its beginning. */
static yyjson_mut_val *shortened(yyjson_mut_doc *doc, enum rv_gguf_type type, size_t n, yyjson_mut_val *first)
{
    yyjson_mut_val *note = yyjson_mut_obj(doc);

    if (!yyjson_mut_obj_add_str(doc, note, "type", rv_gguf_value_type_name(type)) ||
        !yyjson_mut_obj_add_uint(doc, note, "n", n) || !yyjson_mut_obj_add_val(doc, note, "first", first))
        return NULL;
    return note;
}

static yyjson_mut_val *string_value(yyjson_mut_doc *doc, struct rv_str text)
{
    if (text.len <= MAX_STRING)
        return text_value(doc, text.data, text.len);
    return shortened(doc, RV_GGUF_STRING, text.len,
                     text_value(doc, text.data, rv_utf8_complete_len(text.data, MAX_STRING)));
}

/* The shortest decimal that is the same f32 again: people wrote 1e-05, not 9.999999747378752e-06. */
static double shortest_f32(double number)
{
    char text[32];

    for (int digits = 6; digits <= 9; digits++) {
        double candidate;

        snprintf(text, sizeof(text), "%.*g", digits, number);
        candidate = strtod(text, NULL);
        if ((float)candidate == (float)number)
            return candidate;
    }
    return number;
}

static yyjson_mut_val *number_value(yyjson_mut_doc *doc, enum rv_gguf_type type, const unsigned char *bytes)
{
    uint64_t natural;
    int64_t integer;
    double number;

    if (rv_gguf_value_u64(type, bytes, &natural))
        return yyjson_mut_uint(doc, natural);
    if (rv_gguf_value_i64(type, bytes, &integer))
        return yyjson_mut_sint(doc, integer);
    if (!rv_gguf_value_f64(type, bytes, &number))
        return yyjson_mut_bool(doc, bytes[0] != 0);
    if (isnan(number))
        return yyjson_mut_str(doc, "nan");
    if (isinf(number))
        return yyjson_mut_str(doc, number > 0 ? "inf" : "-inf");
    return yyjson_mut_real(doc, type == RV_GGUF_F32 ? shortest_f32(number) : number);
}

static yyjson_mut_val *metadata_value(yyjson_mut_doc *doc, struct rv_gguf_value value)
{
    yyjson_mut_val *array;
    size_t n = value.n < MAX_ELEMENTS ? value.n : MAX_ELEMENTS;

    if (!value.is_array && value.type == RV_GGUF_STRING)
        return string_value(doc, rv_gguf_value_str(value.bytes));
    if (!value.is_array)
        return number_value(doc, value.type, value.bytes);
    array = yyjson_mut_arr(doc);
    for (size_t i = 0; i < n; i++) {
        yyjson_mut_val *element;

        if (value.type == RV_GGUF_STRING) {
            struct rv_str text = rv_gguf_value_str(value.bytes);
            element = string_value(doc, text);
            value.bytes = (const unsigned char *)text.data + text.len;
        } else {
            element = number_value(doc, value.type, value.bytes);
            value.bytes += rv_gguf_value_type_size(value.type);
        }
        if (!yyjson_mut_arr_append(array, element))
            return NULL;
    }
    return value.n > n ? shortened(doc, value.type, value.n, array) : array;
}

static bool add_metadata(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct rv_gguf_parse *parse)
{
    yyjson_mut_val *metadata = yyjson_mut_obj_add_obj(doc, root, "metadata");

    for (size_t i = 0; i < parse->n_kvs; i++) {
        const struct rv_gguf_kv *kv = &parse->kvs[i];

        if (!yyjson_mut_obj_add(metadata, text_value(doc, kv->key, kv->key_len),
                                metadata_value(doc, rv_gguf_parse_value(kv))))
            return false;
    }
    return metadata != NULL;
}

static bool add_tensor(yyjson_mut_doc *doc, yyjson_mut_val *tensors, const struct rv_gguf_tensor *t)
{
    yyjson_mut_val *object = yyjson_mut_arr_add_obj(doc, tensors);
    yyjson_mut_val *shape;

    if (!yyjson_mut_obj_add_val(doc, object, "name", text_value(doc, t->name.data, t->name.len)) ||
        !yyjson_mut_obj_add_str(doc, object, "type", ggml_type_name(t->type)))
        return false;
    shape = yyjson_mut_obj_add_arr(doc, object, "shape");
    for (int i = 0; i < t->n_dims; i++) {
        if (!yyjson_mut_arr_add_sint(doc, shape, t->ne[i]))
            return false;
    }
    /* Without data the tensors were not placed: their offsets mean nothing yet. */
    if (t->data && !yyjson_mut_obj_add_uint(doc, object, "offset", t->offset))
        return false;
    return yyjson_mut_obj_add_uint(doc, object, "n_bytes", t->n_bytes);
}

static bool add_tensors(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct rv_gguf_parse *parse)
{
    yyjson_mut_val *tensors = yyjson_mut_obj_add_arr(doc, root, "tensors");

    for (size_t i = 0; i < parse->n_tensors; i++) {
        if (!add_tensor(doc, tensors, &parse->tensors[i]))
            return false;
    }
    return tensors != NULL;
}

/* The document, or NULL when memory is out. `damage` is NULL for a good file. */
static yyjson_mut_doc *describe(const struct rv_gguf_parse *parse, size_t len, const char *damage)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    bool ok = root != NULL;

    yyjson_mut_doc_set_root(doc, root);
    if (parse->version)
        ok = ok && yyjson_mut_obj_add_uint(doc, root, "version", parse->version);
    ok = ok && yyjson_mut_obj_add_uint(doc, root, "n_bytes", len);
    ok = ok && add_metadata(doc, root, parse);
    ok = ok && add_tensors(doc, root, parse);
    if (damage)
        ok = ok && yyjson_mut_obj_add_strcpy(doc, root, "error", damage);
    if (!ok) {
        yyjson_mut_doc_free(doc);
        return NULL;
    }
    return doc;
}

ruvllm_status rv_gguf_inspect_memory(const void *data, size_t len, char **json, struct ruvllm_error *err)
{
    struct ruvllm_error damage = {0};
    struct rv_gguf_parse parse;
    yyjson_mut_doc *doc = NULL;
    ruvllm_status rc;

    *json = NULL;
    rc = rv_gguf_parse_init(&parse, data, len, &damage);
    if (rc != RUVLLM_NO_MEMORY)
        doc = describe(&parse, len, rc ? damage.message : NULL);
    if (doc)
        *json = yyjson_mut_write(doc, YYJSON_WRITE_PRETTY, NULL);
    yyjson_mut_doc_free(doc);
    rv_gguf_parse_release(&parse);
    if (!*json)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the description of the file");
    return RUVLLM_OK;
}

ruvllm_status rv_gguf_file_inspect(const char *path, char **json, struct ruvllm_error *err)
{
    struct rv_gguf_map map;
    ruvllm_status rc;

    *json = NULL;
    rc = rv_model_map_open(&map, path, err);
    if (!rc) {
        rc = rv_gguf_inspect_memory(map.data, map.len, json, err);
        rv_gguf_map_close(&map);
    }
    return rc ? rv_fail_in(err, rc, "cannot inspect '%s'", path) : RUVLLM_OK;
}
