/* Two choices are compared by what is cheap to prove. What cannot be proved is refused: anyOf says it without a proof.
 */
#include "sample/schema_choice.h"

#include <math.h>
#include <string.h>

enum { MAX_CHOICES = 64 };

uint32_t rv_schema_choice_type(const char *name)
{
    static const char *const names[] = {"null", "boolean", "integer", "number", "string", "array", "object"};

    for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0)
            return 1u << i;
    return 0;
}

uint32_t rv_schema_choice_type_of(yyjson_val *value)
{
    if (yyjson_is_null(value))
        return RV_SCHEMA_NULL;
    if (yyjson_is_bool(value))
        return RV_SCHEMA_BOOLEAN;
    if (yyjson_is_int(value))
        return RV_SCHEMA_INTEGER;
    if (yyjson_is_num(value)) {
        double number = yyjson_get_real(value);

        return number == trunc(number) ? RV_SCHEMA_INTEGER : RV_SCHEMA_NUMBER;
    }
    if (yyjson_is_str(value))
        return RV_SCHEMA_STRING;
    return yyjson_is_arr(value) ? RV_SCHEMA_ARRAY : RV_SCHEMA_OBJECT;
}

uint32_t rv_schema_choice_types(struct rv_schema_reader *reader, yyjson_val *schema, const char *path)
{
    yyjson_val *type = yyjson_obj_get(schema, "type"), *one;
    yyjson_arr_iter iter = yyjson_arr_iter_with(type);
    uint32_t types = 0;

    if (!type)
        return RV_SCHEMA_ALL;
    if (yyjson_is_str(type))
        types = rv_schema_choice_type(yyjson_get_str(type));
    while ((one = yyjson_arr_iter_next(&iter))) {
        uint32_t bit = yyjson_is_str(one) ? rv_schema_choice_type(yyjson_get_str(one)) : 0;

        if (!bit)
            rv_schema_reader_fail(reader, path, "'type' names no type of JSON");
        types |= bit;
    }
    if (!types)
        rv_schema_reader_fail(reader, path, "'type' names no type of JSON");
    return types;
}

/* The values that "const" or "enum" allow; 0: there are others. */
static size_t list_constants(yyjson_val *schema, yyjson_val *out[MAX_CHOICES])
{
    yyjson_val *one = yyjson_obj_get(schema, "const"), *several = yyjson_obj_get(schema, "enum");
    yyjson_arr_iter iter = yyjson_arr_iter_with(several);
    size_t n = 0;

    if (one) {
        out[0] = one;
        return 1;
    }
    if (yyjson_arr_size(several) > MAX_CHOICES)
        return 0;
    while ((one = yyjson_arr_iter_next(&iter)))
        out[n++] = one;
    return n;
}

static bool have_different_constants(yyjson_val *a, yyjson_val *b)
{
    yyjson_val *x[MAX_CHOICES], *y[MAX_CHOICES];
    size_t n = list_constants(a, x), m = list_constants(b, y);

    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < m; k++)
            if (yyjson_equals(x[i], y[k]) || (yyjson_is_num(x[i]) && yyjson_is_num(y[k])))
                return false;
    return n > 0 && m > 0;
}

static bool is_required(yyjson_val *schema, const char *name)
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(yyjson_obj_get(schema, "required"));
    yyjson_val *one;

    while ((one = yyjson_arr_iter_next(&iter)))
        if (yyjson_equals_str(one, name))
            return true;
    return false;
}

/* A property that both require tells them apart. */
static bool have_a_sign(struct rv_schema_reader *r, yyjson_val *a, yyjson_val *b, const char *path)
{
    yyjson_obj_iter iter = yyjson_obj_iter_with(yyjson_obj_get(a, "properties"));
    yyjson_val *key;

    while ((key = yyjson_obj_iter_next(&iter))) {
        const char *name = yyjson_get_str(key);
        yyjson_val *other = yyjson_obj_get(yyjson_obj_get(b, "properties"), name), *own = yyjson_obj_iter_get_val(key);

        if (!other || !is_required(a, name) || !is_required(b, name))
            continue;
        own = rv_schema_reader_follow(r, own, path);
        other = rv_schema_reader_follow(r, other, path);
        if (own && other && have_different_constants(own, other))
            return true;
    }
    return false;
}

static uint32_t types_of(struct rv_schema_reader *r, yyjson_val *schema, const char *path)
{
    yyjson_val *constants[MAX_CHOICES];
    size_t n = list_constants(schema, constants);
    uint32_t types = 0;

    if (n == 0)
        types = rv_schema_choice_types(r, schema, path);
    for (size_t i = 0; i < n; i++)
        types |= rv_schema_choice_type_of(constants[i]);
    return types & RV_SCHEMA_NUMBER ? types | RV_SCHEMA_INTEGER : types;
}

void rv_schema_choice_check(struct rv_schema_reader *reader, yyjson_val *choices, const char *path)
{
    yyjson_val *list[MAX_CHOICES], *one;
    yyjson_arr_iter iter = yyjson_arr_iter_with(choices);
    size_t n = 0;

    if (yyjson_arr_size(choices) > MAX_CHOICES)
        rv_schema_reader_fail(reader, path, "'oneOf' has more than %d choices", MAX_CHOICES);
    while (!reader->failed && (one = yyjson_arr_iter_next(&iter)))
        list[n++] = rv_schema_reader_follow(reader, one, path);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i && !reader->failed; k++) {
            uint32_t both = types_of(reader, list[i], path) & types_of(reader, list[k], path);

            if (both == 0 || have_different_constants(list[i], list[k]) ||
                (both == RV_SCHEMA_OBJECT && have_a_sign(reader, list[i], list[k], path)))
                continue;
            rv_schema_reader_fail(reader, path,
                                  "'oneOf' is supported where its choices exclude each other by type or by a required "
                                  "property's constant, and %zu and %zu do not; use 'anyOf'",
                                  k, i);
        }
}
