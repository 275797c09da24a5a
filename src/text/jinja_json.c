/* JSON as Python's json.dumps and the reference write it: spaces after separators, no escapes beyond the needed. */
#include "text/jinja_json.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#define MAX_INDENT 32

static ruvllm_status emit_nested(struct rv_jinja_run *run, struct rv_jinja_value value,
                                 const struct rv_jinja_json_options *options, int level);

static ruvllm_status emit_escape(struct rv_jinja_run *run, uint32_t cp, unsigned char mask)
{
    static const char names[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *name = cp && cp < 128 ? strchr(names, (int)cp) : NULL;
    char out[16];

    if (name)
        snprintf(out, sizeof(out), "\\%c", letters[name - names]);
    else if (cp < 0x10000)
        snprintf(out, sizeof(out), "\\u%04" PRIx32, cp);
    else
        snprintf(out, sizeof(out), "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd800 + ((cp - 0x10000) >> 10),
                 0xdc00 + ((cp - 0x10000) & 0x3ff));
    return rv_jinja_emit_as(run, out, strlen(out), mask);
}

static ruvllm_status emit_string(struct rv_jinja_run *run, struct rv_jinja_string text, bool ascii)
{
    ruvllm_status rc = rv_jinja_emit_bytes(run, "\"", 1);
    size_t plain = 0, pos = 0;

    while (rc == RUVLLM_OK && pos < text.len) {
        uint32_t cp;
        size_t len = rv_jinja_char_len(text, pos, &cp);

        if (cp >= 0x20 && cp != '"' && cp != '\\' && !(ascii && cp >= 0x7f)) {
            pos += len;
            continue;
        }
        rc = rv_jinja_emit(run, rv_jinja_substring(text, plain, pos - plain));
        if (rc == RUVLLM_OK)
            rc = emit_escape(run, cp, text.mask ? text.mask[pos] : 0);
        pos += len;
        plain = pos;
    }
    if (rc == RUVLLM_OK)
        rc = rv_jinja_emit(run, rv_jinja_substring(text, plain, pos - plain));
    return rc ? rc : rv_jinja_emit_bytes(run, "\"", 1);
}

/* yyjson writes the shortest digits that read back the same, whatever the locale. */
static ruvllm_status emit_float(struct rv_jinja_run *run, double real)
{
    yyjson_val number = {0};
    ruvllm_status rc;
    size_t len;
    char *text;

    yyjson_set_real(&number, real);
    text = yyjson_val_write(&number, YYJSON_WRITE_NOFLAG, &len);
    if (!text)
        return rv_jinja_fail(run, "cannot write a number that is not finite");
    rc = rv_jinja_emit_bytes(run, text, len);
    free(text);
    return rc;
}

static ruvllm_status emit_break(struct rv_jinja_run *run, int indent, int level)
{
    static const char spaces[] = "                                ";
    ruvllm_status rc;

    if (indent <= 0)
        return RUVLLM_OK;
    rc = rv_jinja_emit_bytes(run, "\n", 1);
    for (int i = 0; rc == RUVLLM_OK && i < level; i++)
        rc = rv_jinja_emit_bytes(run, spaces, (size_t)indent);
    return rc;
}

static ruvllm_status emit_separator(struct rv_jinja_run *run, const struct rv_jinja_json_options *options)
{
    if (options->item_sep)
        return rv_jinja_emit(run, *options->item_sep);
    return rv_jinja_emit_bytes(run, ", ", options->indent > 0 ? 1 : 2);
}

static ruvllm_status emit_list(struct rv_jinja_run *run, const struct rv_jinja_list *list,
                               const struct rv_jinja_json_options *options, int level)
{
    ruvllm_status rc = rv_jinja_emit_bytes(run, "[", 1);

    for (size_t i = 0; rc == RUVLLM_OK && i < list->len; i++) {
        if (i)
            rc = emit_separator(run, options);
        if (rc == RUVLLM_OK)
            rc = emit_break(run, options->indent, level + 1);
        if (rc == RUVLLM_OK)
            rc = emit_nested(run, list->items[i], options, level + 1);
    }
    if (rc == RUVLLM_OK && list->len)
        rc = emit_break(run, options->indent, level);
    return rc ? rc : rv_jinja_emit_bytes(run, "]", 1);
}

static int compare_keys(const void *a, const void *b)
{
    const struct rv_jinja_pair *x = *(const struct rv_jinja_pair *const *)a;
    const struct rv_jinja_pair *y = *(const struct rv_jinja_pair *const *)b;
    size_t shared = x->key.len < y->key.len ? x->key.len : y->key.len;
    int order = shared ? memcmp(x->key.data, y->key.data, shared) : 0;

    return order ? order : (x->key.len > y->key.len) - (x->key.len < y->key.len);
}

static ruvllm_status emit_dict(struct rv_jinja_run *run, const struct rv_jinja_dict *dict,
                               const struct rv_jinja_json_options *options, int level)
{
    const struct rv_jinja_pair **order = rv_jinja_alloc(run, dict->len, sizeof(*order));
    ruvllm_status rc;

    if (!order)
        return rv_jinja_no_memory(run);
    for (size_t i = 0; i < dict->len; i++)
        order[i] = &dict->pairs[i];
    if (options->sort_keys && dict->len)
        qsort(order, dict->len, sizeof(*order), compare_keys);
    rc = rv_jinja_emit_bytes(run, "{", 1);
    for (size_t i = 0; rc == RUVLLM_OK && i < dict->len; i++) {
        if (i)
            rc = emit_separator(run, options);
        if (rc == RUVLLM_OK)
            rc = emit_break(run, options->indent, level + 1);
        if (rc == RUVLLM_OK)
            rc = emit_string(run, order[i]->key, options->ascii);
        if (rc == RUVLLM_OK)
            rc = options->key_sep ? rv_jinja_emit(run, *options->key_sep) : rv_jinja_emit_bytes(run, ": ", 2);
        if (rc == RUVLLM_OK)
            rc = emit_nested(run, order[i]->value, options, level + 1);
    }
    if (rc == RUVLLM_OK && dict->len)
        rc = emit_break(run, options->indent, level);
    return rc ? rc : rv_jinja_emit_bytes(run, "}", 1);
}

static ruvllm_status emit_nested(struct rv_jinja_run *run, struct rv_jinja_value value,
                                 const struct rv_jinja_json_options *options, int level)
{
    ruvllm_status rc = rv_jinja_charge(run, 1);

    if (rc)
        return rc;
    switch (value.type) {
    case RV_JINJA_T_UNDEFINED:
        return rv_jinja_emit_bytes(run, options->keep_undefined ? "undefined" : "null",
                                   options->keep_undefined ? 9 : 4);
    case RV_JINJA_T_NONE:
        return rv_jinja_emit_bytes(run, "null", 4);
    case RV_JINJA_T_BOOLEAN:
    case RV_JINJA_T_INTEGER:
        return rv_jinja_emit_value(run, value);
    case RV_JINJA_T_FLOAT:
        return emit_float(run, value.as.real);
    case RV_JINJA_T_STRING:
        return emit_string(run, value.as.string, options->ascii);
    case RV_JINJA_T_LIST:
    case RV_JINJA_T_DICT:
    case RV_JINJA_T_NAMESPACE:
        rc = rv_jinja_enter(run);
        if (rc)
            return rc;
        rc = value.type == RV_JINJA_T_LIST ? emit_list(run, value.as.list, options, level)
                                           : emit_dict(run, value.as.dict, options, level);
        rv_jinja_leave(run);
        return rc;
    default:
        return rv_jinja_fail(run, "cannot write a %s", rv_jinja_type_name(value));
    }
}

ruvllm_status rv_jinja_json_emit(struct rv_jinja_run *run, struct rv_jinja_value value,
                                 const struct rv_jinja_json_options *options)
{
    if (options->indent > MAX_INDENT)
        return rv_jinja_fail(run, "cannot indent JSON by more than %d", MAX_INDENT);
    return emit_nested(run, value, options, 0);
}

/* ---- reading -------------------------------------------------------------------------------- */

static struct rv_jinja_string user_string(yyjson_val *json, const unsigned char *user)
{
    return (struct rv_jinja_string){yyjson_get_str(json), user, yyjson_get_len(json)};
}

static ruvllm_status import_list(struct rv_jinja_run *run, yyjson_val *json, const unsigned char *user,
                                 struct rv_jinja_value *out)
{
    ruvllm_status rc = rv_jinja_list_new(run, yyjson_arr_size(json), out);
    yyjson_arr_iter iter = yyjson_arr_iter_with(json);
    yyjson_val *item;

    while (rc == RUVLLM_OK && (item = yyjson_arr_iter_next(&iter))) {
        struct rv_jinja_value value;

        rc = rv_jinja_json_import(run, item, user, &value);
        if (rc == RUVLLM_OK)
            rc = rv_jinja_list_push(run, out->as.list, value);
    }
    return rc;
}

static ruvllm_status import_dict(struct rv_jinja_run *run, yyjson_val *json, const unsigned char *user,
                                 struct rv_jinja_value *out)
{
    ruvllm_status rc = rv_jinja_dict_new(run, out);
    yyjson_obj_iter iter = yyjson_obj_iter_with(json);
    yyjson_val *key;

    while (rc == RUVLLM_OK && (key = yyjson_obj_iter_next(&iter))) {
        struct rv_jinja_value value;

        rc = rv_jinja_json_import(run, yyjson_obj_iter_get_val(key), user, &value);
        if (rc == RUVLLM_OK)
            rc = rv_jinja_dict_set(run, out->as.dict, user_string(key, user), value);
    }
    return rc;
}

ruvllm_status rv_jinja_json_import(struct rv_jinja_run *run, struct yyjson_val *json, const unsigned char *user,
                                   struct rv_jinja_value *out)
{
    ruvllm_status rc = RUVLLM_OK;

    *out = rv_jinja_none();
    if (yyjson_is_bool(json))
        *out = rv_jinja_boolean(yyjson_get_bool(json));
    else if (yyjson_is_uint(json) && yyjson_get_uint(json) > INT64_MAX)
        *out = rv_jinja_float((double)yyjson_get_uint(json));
    else if (yyjson_is_int(json))
        *out = rv_jinja_integer(yyjson_get_sint(json));
    else if (yyjson_is_real(json))
        *out = rv_jinja_float(yyjson_get_real(json));
    else if (yyjson_is_str(json))
        *out = rv_jinja_text(user_string(json, user));
    else if (yyjson_is_ctn(json)) {
        rc = rv_jinja_enter(run);
        if (rc)
            return rc;
        rc = yyjson_is_arr(json) ? import_list(run, json, user, out) : import_dict(run, json, user, out);
        rv_jinja_leave(run);
    }
    return rc;
}

ruvllm_status rv_jinja_json_user_mask(struct rv_jinja_run *run, size_t len, const unsigned char **out)
{
    unsigned char *mask = rv_arena_alloc(&run->arena, len);

    *out = mask;
    if (!mask)
        return rv_jinja_no_memory(run);
    memset(mask, 1, len);
    return RUVLLM_OK;
}

ruvllm_status rv_jinja_json_parse(struct rv_jinja_run *run, struct rv_jinja_string text, struct rv_jinja_value *out)
{
    char *copy = rv_arena_alloc(&run->arena, text.len + YYJSON_PADDING_SIZE);
    const unsigned char *user;
    yyjson_doc *doc;
    ruvllm_status rc;

    if (!copy)
        return rv_jinja_no_memory(run);
    memcpy(copy, text.data, text.len);
    memset(copy + text.len, 0, YYJSON_PADDING_SIZE);
    rc = rv_jinja_charge(run, text.len / 16);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_json_user_mask(run, text.len, &user);
    if (rc)
        return rc;
    /* Read in place: strings stay in `copy`, so the document itself can go. */
    doc = yyjson_read_opts(copy, text.len, YYJSON_READ_INSITU, NULL, NULL);
    if (!doc)
        return rv_jinja_fail(run, "cannot read this text as JSON");
    rc = rv_jinja_json_import(run, yyjson_doc_get_root(doc), user, out);
    yyjson_doc_free(doc);
    return rc;
}
