/* One schema at a time: which keywords it has, which types they leave, and the rules of each. */
#include "sample/json_schema.h"

#include "sample/schema_choice.h"
#include "sample/schema_number.h"
#include "sample/schema_object.h"
#include "sample/schema_string.h"

#include <math.h>
#include <string.h>

enum { MAX_BOUND = 1000000000 };

static const double MAX_WHOLE = 9e15; // of an integer's bound: every one up to there is exact in a double

/* Which types a keyword speaks of; 0: of all. */
static const struct {
    const char *name;
    uint32_t types;
} keywords[] = {
    {"type", 0},
    {"enum", 0},
    {"const", 0},
    {"anyOf", 0},
    {"oneOf", 0},
    {"allOf", 0},
    {"$ref", 0},
    {"properties", RV_SCHEMA_OBJECT},
    {"required", RV_SCHEMA_OBJECT},
    {"additionalProperties", RV_SCHEMA_OBJECT},
    {"propertyNames", RV_SCHEMA_OBJECT},
    {"unevaluatedProperties", RV_SCHEMA_OBJECT},
    {"minProperties", RV_SCHEMA_OBJECT},
    {"maxProperties", RV_SCHEMA_OBJECT},
    {"items", RV_SCHEMA_ARRAY},
    {"prefixItems", RV_SCHEMA_ARRAY},
    {"minItems", RV_SCHEMA_ARRAY},
    {"maxItems", RV_SCHEMA_ARRAY},
    {"uniqueItems", RV_SCHEMA_ARRAY},
    {"minLength", RV_SCHEMA_STRING},
    {"maxLength", RV_SCHEMA_STRING},
    {"pattern", RV_SCHEMA_STRING},
    {"format", RV_SCHEMA_STRING},
    {"minimum", RV_SCHEMA_NUMBER},
    {"maximum", RV_SCHEMA_NUMBER},
    {"exclusiveMinimum", RV_SCHEMA_NUMBER},
    {"exclusiveMaximum", RV_SCHEMA_NUMBER},
    {"multipleOf", RV_SCHEMA_NUMBER},
};

/* Every keyword is known; *types are those spoken of, *alone the one that must stand by itself, if there is one. */
static void check_keywords(struct rv_schema_reader *r, yyjson_val *schema, const char *path, uint32_t *types,
                           const char **alone)
{
    yyjson_obj_iter iter = yyjson_obj_iter_with(schema);
    yyjson_val *key;

    *types = 0;
    *alone = NULL;
    while ((key = yyjson_obj_iter_next(&iter))) {
        const char *name = yyjson_get_str(key);
        size_t i = 0;

        if (rv_schema_reader_is_note(name))
            continue;
        while (i < sizeof(keywords) / sizeof(keywords[0]) && strcmp(keywords[i].name, name) != 0)
            i++;
        if (i == sizeof(keywords) / sizeof(keywords[0])) {
            rv_schema_reader_fail(r, path, "'%.60s' is not supported", name);
            return;
        }
        *types |= keywords[i].types;
        if (i >= 1 && i <= 6 && strcmp(name, "allOf") != 0)
            *alone = name;
    }
}

/* A keyword that decides alone has nothing beside it but notes and, for constants, their type. */
static void check_alone(struct rv_schema_reader *r, yyjson_val *schema, const char *path, const char *alone)
{
    bool takes_type = strcmp(alone, "enum") == 0 || strcmp(alone, "const") == 0;
    yyjson_obj_iter iter = yyjson_obj_iter_with(schema);
    yyjson_val *key;

    while ((key = yyjson_obj_iter_next(&iter))) {
        const char *name = yyjson_get_str(key);

        if (strcmp(name, alone) == 0 || rv_schema_reader_is_note(name) || (takes_type && strcmp(name, "type") == 0))
            continue;
        rv_schema_reader_fail(r, path, "'%s' beside '%s' is not supported", name, alone);
    }
}

/* ---- arrays ------------------------------------------------------------------------------------------------ */

static int32_t next_item(struct rv_schema_reader *r, int32_t item)
{
    int32_t seq = rv_syntax_seq(r->syntax);

    rv_syntax_add(r->syntax, seq, rv_schema_reader_text(r, ","));
    rv_syntax_add(r->syntax, seq, rv_schema_reader_call_json(r, RV_SCHEMA_JSON_SPACE));
    rv_syntax_add(r->syntax, seq, item);
    return seq;
}

struct array {
    struct rv_schema_reader *r;
    const char *path;
    yyjson_val *prefix; // schemas of the first items; NULL: none
    int32_t n_prefix;
    int32_t rest; // rule of the others; -1: there are none
    int32_t min, max;
};

static int32_t item_call(struct array *a, int32_t i)
{
    struct rv_schema_reader *r = a->r;

    if (i >= a->n_prefix)
        return rv_syntax_call(r->syntax, a->rest);
    return rv_schema_reader_call(r, yyjson_arr_get(a->prefix, (size_t)i),
                                 rv_schema_reader_item_path(r, a->path, "prefixItems", (size_t)i));
}

/* What follows the first i items; i is at most n_prefix, or 1. */
static int32_t follow(struct array *a, int32_t i)
{
    struct rv_syntax *s = a->r->syntax;
    int32_t rule = rv_syntax_rule(s), seq = rv_syntax_seq(s), node;

    if (i >= a->n_prefix) {
        int32_t least = a->min > i ? a->min - i : 0, most = a->max < 0 ? -1 : a->max - i;

        if (a->rest >= 0 && most != 0)
            rv_syntax_add(s, seq, rv_syntax_repeat(s, next_item(a->r, rv_syntax_call(s, a->rest)), least, most));
    } else if (a->max < 0 || i < a->max) {
        int32_t both = rv_syntax_seq(s);

        /* Tuples are short: MAX_TUPLE below. */
        rv_syntax_add(s, both, next_item(a->r, item_call(a, i)));
        rv_syntax_add(s, both, rv_syntax_call(s, follow(a, i + 1)));
        node = i >= a->min ? rv_syntax_repeat(s, both, 0, 1) : both;
        rv_syntax_add(s, seq, node);
    }
    rv_syntax_define(s, rule, seq);
    return rule;
}

enum { MAX_TUPLE = 64 };

static void read_array(struct array *a, yyjson_val *schema)
{
    struct rv_schema_reader *r = a->r;
    yyjson_val *items = yyjson_obj_get(schema, "items"), *unique = yyjson_obj_get(schema, "uniqueItems");
    const char *path = rv_schema_reader_path(r, a->path, "items", 5);

    a->prefix = yyjson_obj_get(schema, "prefixItems");
    a->max = -1;
    (void)rv_schema_string_count(r, schema, a->path, "minItems", &a->min); // left as it is where it is not given
    (void)rv_schema_string_count(r, schema, a->path, "maxItems", &a->max);
    if (unique && !yyjson_is_false(unique))
        rv_schema_reader_fail(r, a->path, "'uniqueItems' is not supported");
    if (a->prefix && (!yyjson_is_arr(a->prefix) || yyjson_arr_size(a->prefix) > MAX_TUPLE))
        rv_schema_reader_fail(r, a->path, "'prefixItems' must be an array of up to %d schemas", MAX_TUPLE);
    if (yyjson_is_arr(items))
        rv_schema_reader_fail(r, a->path, "'items' as an array is not supported; use 'prefixItems'");
    if (r->failed)
        return;
    a->n_prefix = (int32_t)yyjson_arr_size(a->prefix);
    a->rest = -1;
    if (items && !yyjson_is_false(items))
        a->rest = rv_schema_reader_rule(r, items, path);
    else if (!items && (!a->prefix || a->min > a->n_prefix))
        a->rest = rv_schema_reader_json(r, RV_SCHEMA_JSON_VALUE);
    if (a->max >= 0 && a->min > a->max)
        rv_schema_reader_fail(r, a->path, "'minItems' is more than 'maxItems'");
    if (a->rest < 0 && a->min > a->n_prefix)
        rv_schema_reader_fail(r, a->path, "'minItems' is more than there may be");
}

static int32_t write_array(struct rv_schema_reader *r, yyjson_val *schema, const char *path)
{
    struct array a = {.r = r, .path = path};
    struct rv_syntax *s = r->syntax;
    int32_t whole = rv_syntax_seq(s);

    read_array(&a, schema);
    if (r->failed)
        return 0;
    rv_syntax_add(s, whole, rv_schema_reader_text(r, "["));
    rv_syntax_add(s, whole, rv_schema_reader_call_json(r, RV_SCHEMA_JSON_SPACE));
    if (a.max != 0 && (a.rest >= 0 || a.n_prefix > 0)) {
        int32_t items = rv_syntax_seq(s);

        rv_syntax_add(s, items, item_call(&a, 0));
        rv_syntax_add(s, items, rv_syntax_call(s, follow(&a, 1)));
        rv_syntax_add(s, items, rv_schema_reader_call_json(r, RV_SCHEMA_JSON_SPACE));
        rv_syntax_add(s, whole, a.min == 0 ? rv_syntax_repeat(s, items, 0, 1) : items);
    }
    rv_syntax_add(s, whole, rv_schema_reader_text(r, "]"));
    return whole;
}

/* ---- numbers ------------------------------------------------------------------------------------------------- */

static bool read_bound(struct rv_schema_reader *r, yyjson_val *schema, const char *path, const char *keyword,
                       double *out)
{
    yyjson_val *value = yyjson_obj_get(schema, keyword);

    if (!value)
        return false;
    if (!yyjson_is_num(value)) {
        rv_schema_reader_fail(r, path, "'%s' must be a number", keyword);
        return false;
    }
    *out = yyjson_get_num(value);
    return true;
}

/* Of a bound and one that is excluded the tighter counts. */
static struct rv_schema_number_bounds read_bounds(struct rv_schema_reader *r, yyjson_val *schema, const char *path)
{
    struct rv_schema_number_bounds b = {0};
    double other;

    b.has_min = read_bound(r, schema, path, "minimum", &b.min);
    b.has_max = read_bound(r, schema, path, "maximum", &b.max);
    if (read_bound(r, schema, path, "exclusiveMinimum", &other) && (!b.has_min || other >= b.min)) {
        b.min = other;
        b.has_min = b.is_min_excluded = true;
    }
    if (read_bound(r, schema, path, "exclusiveMaximum", &other) && (!b.has_max || other <= b.max)) {
        b.max = other;
        b.has_max = b.is_max_excluded = true;
    }
    return b;
}

/* The least (is_min) or the largest integer within a bound, no further out than any that is written. */
static int64_t whole_bound(bool has, double bound, bool is_excluded, bool is_min)
{
    double value = is_min ? ceil(bound) : floor(bound);

    if (!has)
        return is_min ? -RV_SCHEMA_NUMBER_MAX_INT : RV_SCHEMA_NUMBER_MAX_INT;
    if (is_excluded && value == bound)
        value += is_min ? 1 : -1;
    return value > MAX_WHOLE ? (int64_t)MAX_WHOLE : value < -MAX_WHOLE ? (int64_t)-MAX_WHOLE : (int64_t)value;
}

static int32_t write_integer(struct rv_schema_reader *r, const struct rv_schema_number_bounds *b, const char *path)
{
    int64_t lo, hi;

    if (!b->has_min && !b->has_max)
        return rv_schema_reader_call_json(r, RV_SCHEMA_JSON_INTEGER);
    if ((b->has_min && b->min >= MAX_WHOLE) || (b->has_max && b->max <= -MAX_WHOLE)) {
        rv_schema_reader_fail(r, path, "integers beyond 9e15 are not supported");
        return 0;
    }
    lo = whole_bound(b->has_min, b->min, b->is_min_excluded, true);
    hi = whole_bound(b->has_max, b->max, b->is_max_excluded, false);
    if (b->has_min && !b->has_max && lo > hi) // beyond what is written without a bound
        hi = lo + 999;
    if (b->has_max && !b->has_min && lo > hi)
        lo = hi - 999;
    if (lo > hi) {
        rv_schema_reader_fail(r, path, "no integer lies between its bounds");
        return 0;
    }
    return rv_schema_number_int(r->syntax, lo, hi);
}

static int32_t write_number(struct rv_schema_reader *r, yyjson_val *schema, const char *path, bool is_integer)
{
    struct rv_schema_number_bounds b = read_bounds(r, schema, path);
    yyjson_val *multiple = yyjson_obj_get(schema, "multipleOf");
    int32_t node = 0;

    if (multiple && !(is_integer && yyjson_is_num(multiple) && yyjson_get_num(multiple) == 1))
        rv_schema_reader_fail(r, path, "'multipleOf' is not supported");
    if (r->failed)
        return 0;
    if (is_integer)
        return write_integer(r, &b, path);
    if (!b.has_min && !b.has_max)
        return rv_schema_reader_call_json(r, RV_SCHEMA_JSON_NUMBER);
    if ((b.has_min && fabs(b.min) > MAX_BOUND) || (b.has_max && fabs(b.max) > MAX_BOUND))
        rv_schema_reader_fail(r, path, "bounds of numbers beyond 1e9 are not supported, but for integers");
    else if (!rv_schema_number_real(r->syntax, &b, &node))
        rv_schema_reader_fail(r, path, "no number lies between its bounds");
    return node;
}

/* ---- choices -------------------------------------------------------------------------------------------------- */

static int32_t write_choices(struct rv_schema_reader *r, yyjson_val *list, const char *path, const char *keyword)
{
    int32_t ways = rv_syntax_alt(r->syntax);
    yyjson_arr_iter iter = yyjson_arr_iter_with(list);
    yyjson_val *one;
    size_t i = 0;

    if (!yyjson_is_arr(list) || yyjson_arr_size(list) == 0)
        rv_schema_reader_fail(r, path, "'%s' must be an array that is not empty", keyword);
    while (!r->failed && (one = yyjson_arr_iter_next(&iter)))
        rv_syntax_add(r->syntax, ways,
                      rv_schema_reader_call(r, one, rv_schema_reader_item_path(r, path, keyword, i++)));
    return ways;
}

static int32_t write_constants(struct rv_schema_reader *r, yyjson_val *schema, const char *path)
{
    uint32_t types = rv_schema_choice_types(r, schema, path);
    yyjson_val *several = yyjson_obj_get(schema, "enum"), *one = yyjson_obj_get(schema, "const");
    yyjson_arr_iter iter = yyjson_arr_iter_with(several);
    int32_t ways = rv_syntax_alt(r->syntax);
    size_t n = 0;

    if (several && !yyjson_is_arr(several))
        rv_schema_reader_fail(r, path, "'enum' must be an array");
    types |= types & RV_SCHEMA_NUMBER ? RV_SCHEMA_INTEGER : 0u;
    while (!r->failed && (several ? (one = yyjson_arr_iter_next(&iter)) != NULL : n == 0)) {
        if (rv_schema_choice_type_of(one) & types) {
            rv_syntax_add(r->syntax, ways, rv_schema_reader_constant(r, one));
            n++;
        } else if (!several) {
            break;
        }
    }
    if (n == 0)
        rv_schema_reader_fail(r, path, "'%s' holds no value of its type", several ? "enum" : "const");
    return ways;
}

/* "allOf" with one schema is that schema; several must be objects. */
static int32_t write_all_of(struct rv_schema_reader *r, yyjson_val *schema, const char *path)
{
    yyjson_val *all = yyjson_obj_get(schema, "allOf");
    yyjson_obj_iter iter = yyjson_obj_iter_with(schema);
    yyjson_val *key;
    size_t n_others = 0;

    if (!yyjson_is_arr(all) || yyjson_arr_size(all) == 0) {
        rv_schema_reader_fail(r, path, "'allOf' must be an array that is not empty");
        return 0;
    }
    while ((key = yyjson_obj_iter_next(&iter)))
        n_others += !rv_schema_reader_is_note(yyjson_get_str(key));
    if (yyjson_arr_size(all) == 1 && n_others == 1)
        return rv_schema_reader_call(r, yyjson_arr_get_first(all), rv_schema_reader_item_path(r, path, "allOf", 0));
    if (rv_schema_choice_types(r, schema, path) != RV_SCHEMA_ALL &&
        !yyjson_equals_str(yyjson_obj_get(schema, "type"), "object")) {
        rv_schema_reader_fail(r, path, "'allOf' is supported for objects only");
        return 0;
    }
    return rv_schema_object_write(r, schema, path);
}

static int32_t write_type(struct rv_schema_reader *r, yyjson_val *schema, const char *path, uint32_t type)
{
    switch (type) {
    case RV_SCHEMA_NULL:
        return rv_schema_reader_text(r, "null");
    case RV_SCHEMA_BOOLEAN: {
        int32_t ways = rv_syntax_alt(r->syntax);

        rv_syntax_add(r->syntax, ways, rv_schema_reader_text(r, "true"));
        rv_syntax_add(r->syntax, ways, rv_schema_reader_text(r, "false"));
        return ways;
    }
    case RV_SCHEMA_INTEGER:
    case RV_SCHEMA_NUMBER:
        return write_number(r, schema, path, type == RV_SCHEMA_INTEGER);
    case RV_SCHEMA_STRING:
        return rv_schema_string_write(r, schema, path);
    case RV_SCHEMA_ARRAY:
        return write_array(r, schema, path);
    default:
        return rv_schema_object_write(r, schema, path);
    }
}

static int32_t write_alone(struct rv_schema_reader *r, yyjson_val *schema, const char *path, const char *alone)
{
    check_alone(r, schema, path, alone);
    if (r->failed)
        return 0;
    if (strcmp(alone, "$ref") == 0) {
        yyjson_val *target = rv_schema_reader_follow(r, schema, path);

        return target ? rv_schema_reader_call(r, target, path) : 0;
    }
    if (strcmp(alone, "oneOf") == 0)
        rv_schema_choice_check(r, yyjson_obj_get(schema, "oneOf"), path);
    if (strcmp(alone, "anyOf") == 0 || strcmp(alone, "oneOf") == 0)
        return write_choices(r, yyjson_obj_get(schema, alone), path, alone);
    return write_constants(r, schema, path);
}

static int32_t write_schema(struct rv_schema_reader *r, yyjson_val *schema, const char *path)
{
    uint32_t spoken_of, types;
    const char *alone;
    int32_t ways;

    if (yyjson_is_true(schema))
        return rv_schema_reader_call_json(r, RV_SCHEMA_JSON_VALUE);
    if (yyjson_is_false(schema))
        return rv_syntax_alt(r->syntax);
    if (!yyjson_is_obj(schema)) {
        rv_schema_reader_fail(r, path, "a schema must be an object, true or false");
        return 0;
    }
    check_keywords(r, schema, path, &spoken_of, &alone);
    if (r->failed)
        return 0;
    if (alone)
        return write_alone(r, schema, path, alone);
    if (yyjson_obj_get(schema, "allOf"))
        return write_all_of(r, schema, path);
    types = rv_schema_choice_types(r, schema, path);
    if (types == RV_SCHEMA_ALL) {
        if (!spoken_of)
            return rv_schema_reader_call_json(r, RV_SCHEMA_JSON_VALUE);
        types = spoken_of; // values of other types would do, but nobody wants them
    }
    ways = rv_syntax_alt(r->syntax);
    for (uint32_t type = 1; type <= RV_SCHEMA_OBJECT && !r->failed; type <<= 1)
        if (types & type && !(type == RV_SCHEMA_INTEGER && types & RV_SCHEMA_NUMBER))
            rv_syntax_add(r->syntax, ways, write_type(r, schema, path, type));
    return ways;
}

ruvllm_status rv_json_schema_read(struct rv_syntax *syntax, const char *text, size_t len, int32_t *rule,
                                  struct ruvllm_error *err)
{
    const struct rv_schema_reader_entry *entry;
    struct rv_schema_reader reader;
    ruvllm_status rc = rv_schema_reader_init(&reader, syntax, text, len, err);

    if (!rc) {
        *rule = rv_schema_reader_rule(&reader, reader.root, "#");
        while (!reader.failed && !syntax->failed && (entry = rv_schema_reader_next(&reader)))
            rv_syntax_define(syntax, entry->rule, write_schema(&reader, entry->schema, entry->path));
        rc = reader.failed ? reader.failed : rv_syntax_status(syntax, err);
    }
    rv_schema_reader_release(&reader);
    return rc;
}

ruvllm_status rv_json_schema_any_object(struct rv_syntax *syntax, int32_t *rule, struct ruvllm_error *err)
{
    struct rv_schema_reader reader;
    ruvllm_status rc = rv_schema_reader_init(&reader, syntax, NULL, 0, err);

    if (!rc) {
        *rule = rv_schema_reader_json(&reader, RV_SCHEMA_JSON_OBJECT);
        rc = rv_syntax_status(syntax, err);
    }
    rv_schema_reader_release(&reader);
    return rc;
}
