/* Values: truth, equality, order, and the two containers. Walks over nested values charge the run's budget. */
#include "text/jinja_value.h"

#include "base/alloc.h"
#include "base/str_map.h"
#include "base/utf8.h"
#include "text/jinja_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SMALL_DICT 8u

struct rv_jinja_value rv_jinja_undefined(void)
{
    return (struct rv_jinja_value){.type = RV_JINJA_T_UNDEFINED};
}

struct rv_jinja_value rv_jinja_none(void)
{
    return (struct rv_jinja_value){.type = RV_JINJA_T_NONE};
}

struct rv_jinja_value rv_jinja_boolean(bool boolean)
{
    return (struct rv_jinja_value){.type = RV_JINJA_T_BOOLEAN, .as.boolean = boolean};
}

struct rv_jinja_value rv_jinja_integer(int64_t integer)
{
    return (struct rv_jinja_value){.type = RV_JINJA_T_INTEGER, .as.integer = integer};
}

struct rv_jinja_value rv_jinja_float(double real)
{
    return (struct rv_jinja_value){.type = RV_JINJA_T_FLOAT, .as.real = real};
}

struct rv_jinja_value rv_jinja_text(struct rv_jinja_string string)
{
    return (struct rv_jinja_value){.type = RV_JINJA_T_STRING, .as.string = string};
}

struct rv_jinja_string rv_jinja_literal(const char *data, size_t len)
{
    return (struct rv_jinja_string){.data = data, .len = len};
}

const char *rv_jinja_type_name(struct rv_jinja_value value)
{
    static const char *const names[] = {
        [RV_JINJA_T_UNDEFINED] = "undefined", [RV_JINJA_T_NONE] = "none",   [RV_JINJA_T_BOOLEAN] = "boolean",
        [RV_JINJA_T_INTEGER] = "integer",     [RV_JINJA_T_FLOAT] = "float", [RV_JINJA_T_STRING] = "string",
        [RV_JINJA_T_LIST] = "list",           [RV_JINJA_T_DICT] = "dict",   [RV_JINJA_T_NAMESPACE] = "namespace",
        [RV_JINJA_T_FUNCTION] = "function",   [RV_JINJA_T_LOOP] = "loop",
    };

    return names[value.type];
}

bool rv_jinja_truth(struct rv_jinja_value value)
{
    switch (value.type) {
    case RV_JINJA_T_UNDEFINED:
    case RV_JINJA_T_NONE:
        return false;
    case RV_JINJA_T_BOOLEAN:
        return value.as.boolean;
    case RV_JINJA_T_INTEGER:
        return value.as.integer != 0;
    case RV_JINJA_T_FLOAT:
        return value.as.real < 0 || value.as.real > 0;
    case RV_JINJA_T_STRING:
        return value.as.string.len > 0;
    case RV_JINJA_T_LIST:
        return value.as.list->len > 0;
    case RV_JINJA_T_DICT:
        return value.as.dict->len > 0;
    default:
        return true;
    }
}

bool rv_jinja_number(struct rv_jinja_value value, double *out)
{
    if (value.type == RV_JINJA_T_INTEGER)
        *out = (double)value.as.integer;
    else if (value.type == RV_JINJA_T_FLOAT)
        *out = value.as.real;
    else if (value.type == RV_JINJA_T_BOOLEAN)
        *out = value.as.boolean;
    else
        return false;
    return true;
}

static int compare_strings(struct rv_jinja_string a, struct rv_jinja_string b)
{
    size_t shared = a.len < b.len ? a.len : b.len;
    int order = shared ? memcmp(a.data, b.data, shared) : 0;

    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static ruvllm_status equal_lists(struct rv_jinja_run *run, const struct rv_jinja_list *a, const struct rv_jinja_list *b,
                                 bool *out)
{
    ruvllm_status rc = RUVLLM_OK;

    *out = a->len == b->len;
    for (size_t i = 0; rc == RUVLLM_OK && *out && a != b && i < a->len; i++)
        rc = rv_jinja_equal(run, a->items[i], b->items[i], out);
    return rc;
}

static ruvllm_status equal_dicts(struct rv_jinja_run *run, const struct rv_jinja_dict *a, const struct rv_jinja_dict *b,
                                 bool *out)
{
    ruvllm_status rc = RUVLLM_OK;

    *out = a->len == b->len;
    for (size_t i = 0; rc == RUVLLM_OK && *out && a != b && i < a->len; i++) {
        const struct rv_jinja_pair *pair = &a->pairs[i];
        const struct rv_jinja_value *other = rv_jinja_dict_find(run, b, pair->key.data, pair->key.len);

        *out = other != NULL;
        if (other)
            rc = rv_jinja_equal(run, pair->value, *other, out);
    }
    return rc;
}

ruvllm_status rv_jinja_equal(struct rv_jinja_run *run, struct rv_jinja_value a, struct rv_jinja_value b, bool *out)
{
    double x, y;
    ruvllm_status rc = rv_jinja_charge(run, 1);

    *out = false;
    if (rc)
        return rc;
    if (rv_jinja_number(a, &x) && rv_jinja_number(b, &y)) {
        *out = x >= y && x <= y;
        return RUVLLM_OK;
    }
    if (a.type != b.type)
        return RUVLLM_OK;
    if (a.type == RV_JINJA_T_STRING) {
        *out = a.as.string.len == b.as.string.len && compare_strings(a.as.string, b.as.string) == 0;
        return *out ? rv_jinja_charge_bytes(run, a.as.string.len) : RUVLLM_OK;
    }
    if (a.type == RV_JINJA_T_FUNCTION || a.type == RV_JINJA_T_LOOP) {
        *out = a.type == RV_JINJA_T_LOOP ? a.as.loop == b.as.loop : a.as.function == b.as.function;
        return RUVLLM_OK;
    }
    if (a.type < RV_JINJA_T_LIST) {
        *out = true; /* undefined and none */
        return RUVLLM_OK;
    }
    rc = rv_jinja_enter(run);
    if (rc)
        return rc;
    rc = a.type == RV_JINJA_T_LIST ? equal_lists(run, a.as.list, b.as.list, out)
                                   : equal_dicts(run, a.as.dict, b.as.dict, out);
    rv_jinja_leave(run);
    return rc;
}

ruvllm_status rv_jinja_compare(struct rv_jinja_run *run, struct rv_jinja_value a, struct rv_jinja_value b, int *out)
{
    double x, y;

    *out = 0;
    if (rv_jinja_number(a, &x) && rv_jinja_number(b, &y)) {
        *out = (x > y) - (x < y);
        return RUVLLM_OK;
    }
    if (a.type != RV_JINJA_T_STRING || b.type != RV_JINJA_T_STRING)
        return rv_jinja_fail(run, "cannot compare %s with %s", rv_jinja_type_name(a), rv_jinja_type_name(b));
    *out = compare_strings(a.as.string, b.as.string);
    return rv_jinja_charge_bytes(run, a.as.string.len);
}

ruvllm_status rv_jinja_emit_value(struct rv_jinja_run *run, struct rv_jinja_value value)
{
    char digits[24];

    switch (value.type) {
    case RV_JINJA_T_UNDEFINED:
    case RV_JINJA_T_NONE:
        return RUVLLM_OK;
    case RV_JINJA_T_STRING:
        return rv_jinja_emit(run, value.as.string);
    case RV_JINJA_T_BOOLEAN:
        return rv_jinja_emit_bytes(run, value.as.boolean ? "true" : "false", value.as.boolean ? 4 : 5);
    case RV_JINJA_T_INTEGER:
        snprintf(digits, sizeof(digits), "%" PRId64, value.as.integer);
        return rv_jinja_emit_bytes(run, digits, strlen(digits));
    default:
        return rv_jinja_json_emit(run, value, &(struct rv_jinja_json_options){.keep_undefined = true});
    }
}

/* ---- containers ----------------------------------------------------------------------------- */

ruvllm_status rv_jinja_list_new(struct rv_jinja_run *run, size_t cap, struct rv_jinja_value *out)
{
    struct rv_jinja_list *list = rv_jinja_alloc(run, 1, sizeof(*list));

    if (!list)
        return rv_jinja_no_memory(run);
    if (cap) {
        list->items = rv_jinja_alloc(run, cap, sizeof(*list->items));
        if (!list->items)
            return rv_jinja_no_memory(run);
        list->cap = cap;
    }
    *out = (struct rv_jinja_value){.type = RV_JINJA_T_LIST, .as.list = list};
    return RUVLLM_OK;
}

ruvllm_status rv_jinja_list_push(struct rv_jinja_run *run, struct rv_jinja_list *list, struct rv_jinja_value item)
{
    if (list->len == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 8;
        struct rv_jinja_value *items = rv_jinja_alloc(run, cap, sizeof(*items));

        if (!items)
            return rv_jinja_no_memory(run);
        if (list->len)
            memcpy(items, list->items, list->len * sizeof(*items));
        list->items = items;
        list->cap = cap;
    }
    list->items[list->len++] = item;
    return RUVLLM_OK;
}

ruvllm_status rv_jinja_dict_new(struct rv_jinja_run *run, struct rv_jinja_value *out)
{
    struct rv_jinja_dict *dict = rv_jinja_alloc(run, 1, sizeof(*dict));

    if (!dict)
        return rv_jinja_no_memory(run);
    *out = (struct rv_jinja_value){.type = RV_JINJA_T_DICT, .as.dict = dict};
    return RUVLLM_OK;
}

static size_t slot_of(const struct rv_jinja_run *run, const struct rv_jinja_dict *dict, const char *key, size_t len)
{
    return (size_t)rv_str_map_hash(run->hash_seed, key, len) & (dict->n_slots - 1);
}

static bool key_is(const struct rv_jinja_pair *pair, const char *key, size_t len)
{
    return pair->key.len == len && (len == 0 || memcmp(pair->key.data, key, len) == 0);
}

static struct rv_jinja_pair *find_pair(const struct rv_jinja_run *run, const struct rv_jinja_dict *dict,
                                       const char *key, size_t len)
{
    if (!dict->slots) {
        for (size_t i = 0; i < dict->len; i++)
            if (key_is(&dict->pairs[i], key, len))
                return &dict->pairs[i];
        return NULL;
    }
    for (size_t slot = slot_of(run, dict, key, len); dict->slots[slot]; slot = (slot + 1) & (dict->n_slots - 1))
        if (key_is(&dict->pairs[dict->slots[slot] - 1], key, len))
            return &dict->pairs[dict->slots[slot] - 1];
    return NULL;
}

static void index_pair(const struct rv_jinja_run *run, struct rv_jinja_dict *dict, size_t i)
{
    size_t slot = slot_of(run, dict, dict->pairs[i].key.data, dict->pairs[i].key.len);

    while (dict->slots[slot])
        slot = (slot + 1) & (dict->n_slots - 1);
    dict->slots[slot] = (uint32_t)(i + 1);
}

/* Twice the room; from more than SMALL_DICT pairs on with a hash table four times as large as the pairs. */
static ruvllm_status grow_dict(struct rv_jinja_run *run, struct rv_jinja_dict *dict)
{
    size_t cap = dict->cap ? dict->cap * 2 : SMALL_DICT;
    struct rv_jinja_pair *pairs = rv_jinja_alloc(run, cap, sizeof(*pairs));
    uint32_t *slots = NULL;

    if (!pairs)
        return rv_jinja_no_memory(run);
    if (cap > SMALL_DICT) {
        slots = rv_jinja_alloc(run, cap * 2, sizeof(*slots));
        if (!slots)
            return rv_jinja_no_memory(run);
    }
    if (dict->len)
        memcpy(pairs, dict->pairs, dict->len * sizeof(*pairs));
    *dict = (struct rv_jinja_dict){.pairs = pairs, .len = dict->len, .cap = cap, .slots = slots, .n_slots = cap * 2};
    for (size_t i = 0; slots && i < dict->len; i++)
        index_pair(run, dict, i);
    return RUVLLM_OK;
}

ruvllm_status rv_jinja_dict_set(struct rv_jinja_run *run, struct rv_jinja_dict *dict, struct rv_jinja_string key,
                                struct rv_jinja_value value)
{
    struct rv_jinja_pair *pair = find_pair(run, dict, key.data, key.len);
    ruvllm_status rc;

    if (pair) {
        pair->value = value;
        return RUVLLM_OK;
    }
    if (dict->len == dict->cap) {
        rc = grow_dict(run, dict);
        if (rc)
            return rc;
    }
    dict->pairs[dict->len] = (struct rv_jinja_pair){key, value};
    if (dict->slots)
        index_pair(run, dict, dict->len);
    dict->len++;
    return RUVLLM_OK;
}

const struct rv_jinja_value *rv_jinja_dict_find(const struct rv_jinja_run *run, const struct rv_jinja_dict *dict,
                                                const char *key, size_t len)
{
    struct rv_jinja_pair *pair = find_pair(run, dict, key, len);

    return pair ? &pair->value : NULL;
}

/* ---- strings -------------------------------------------------------------------------------- */

bool rv_jinja_string_is(struct rv_jinja_string string, const char *text)
{
    return string.len == strlen(text) && memcmp(string.data, text, string.len) == 0;
}

struct rv_jinja_string rv_jinja_substring(struct rv_jinja_string string, size_t start, size_t len)
{
    return (struct rv_jinja_string){string.data + start, string.mask ? string.mask + start : NULL, len};
}

size_t rv_jinja_char_len(struct rv_jinja_string string, size_t pos, uint32_t *cp)
{
    int len = rv_utf8_decode(string.data + pos, string.len - pos, cp);

    if (len > 0)
        return (size_t)len;
    *cp = (unsigned char)string.data[pos];
    return 1;
}

size_t rv_jinja_char_count(struct rv_jinja_string string)
{
    size_t n = 0;
    uint32_t cp;

    for (size_t pos = 0; pos < string.len; n++)
        pos += rv_jinja_char_len(string, pos, &cp);
    return n;
}

ruvllm_status rv_jinja_find(struct rv_jinja_run *run, struct rv_jinja_string haystack, struct rv_jinja_string needle,
                            size_t from, size_t *out)
{
    size_t start = from;

    *out = SIZE_MAX;
    if (needle.len == 0) {
        *out = from <= haystack.len ? from : SIZE_MAX;
        return RUVLLM_OK;
    }
    while (from < haystack.len && needle.len <= haystack.len - from) {
        const char *first = memchr(haystack.data + from, needle.data[0], haystack.len - from - needle.len + 1);

        if (!first) {
            from = haystack.len;
            break;
        }
        from = (size_t)(first - haystack.data);
        if (memcmp(first, needle.data, needle.len) == 0) {
            *out = from;
            break;
        }
        from++;
        /* Pay as we go: a needle that nearly matches everywhere costs its length at every place. */
        if ((from - start) * needle.len > (size_t)64 * 1024) {
            ruvllm_status rc = rv_jinja_charge(run, (from - start) * needle.len / 1024);

            if (rc)
                return rc;
            start = from;
        }
    }
    return rv_jinja_charge_bytes(run, (from > start ? from - start : 0));
}
