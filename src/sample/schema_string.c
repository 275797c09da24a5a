/* What is written is counted in characters, as the standard does, an escape being one. */
#include "sample/schema_string.h"

#include "sample/schema_pattern.h"

#include <string.h>

enum { MAX_COUNT = 1 << 20 };

bool rv_schema_string_count(struct rv_schema_reader *reader, yyjson_val *schema, const char *path, const char *keyword,
                            int32_t *out)
{
    yyjson_val *value = yyjson_obj_get(schema, keyword);

    if (!value)
        return false;
    if (yyjson_is_uint(value) && yyjson_get_uint(value) <= MAX_COUNT) {
        *out = (int32_t)yyjson_get_uint(value);
        return true;
    }
    if (yyjson_is_real(value) && yyjson_get_real(value) >= 0 && yyjson_get_real(value) <= MAX_COUNT &&
        yyjson_get_real(value) == (double)(int32_t)yyjson_get_real(value)) {
        *out = (int32_t)yyjson_get_real(value);
        return true;
    }
    rv_schema_reader_fail(reader, path, "'%s' must be an integer from 0 to %d", keyword, MAX_COUNT);
    return false;
}

static int32_t counted(struct rv_schema_reader *r, int32_t min, int32_t max)
{
    struct rv_syntax *s = r->syntax;
    int32_t seq = rv_syntax_seq(s);

    rv_syntax_add(s, seq, rv_schema_reader_text(r, "\""));
    rv_syntax_add(s, seq, rv_syntax_repeat(s, rv_schema_reader_char(r), min, max));
    rv_syntax_add(s, seq, rv_schema_reader_text(r, "\""));
    return seq;
}

/* Narrower than the standards where that keeps them short: every day of a month that each year has. */
static const char *find_format(const char *name, bool is_counted)
{
#define DATE                                                                                                           \
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|" \
    "1[0-9]|2[0-8])))"
#define TIME "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9])"
#define OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
    static const struct {
        const char *name, *pattern;
        const char *short_one; // beside lengths, where every character is counted; NULL: the same
    } formats[] = {
        {"date", "^" DATE "$", NULL},
        {"time", "^" TIME "$", NULL},
        {"date-time", "^" DATE "T" TIME "$", NULL},
        {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$", NULL},
        {"email",
         "^[A-Za-z0-9_+-]{1,32}(?:\\.[A-Za-z0-9_+-]{1,16}){0,3}@(?:[A-Za-z0-9](?:[A-Za-z0-9]|-[A-Za-z0-9]){0,30}\\.)"
         "{1,4}[A-Za-z]{2,16}$",
         "^[A-Za-z0-9_+-]{1,24}@[A-Za-z0-9]{1,24}\\.[A-Za-z]{2,8}$"},
        {"ipv4", "^" OCTET "\\." OCTET "\\." OCTET "\\." OCTET "$", NULL},
    };

    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (strcmp(formats[i].name, name) == 0)
            return is_counted && formats[i].short_one ? formats[i].short_one : formats[i].pattern;
    return NULL;
}

/* Zod's names for what the pattern beside them says. */
static bool is_said_by_pattern(const char *format)
{
    return strcmp(format, "starts_with") == 0 || strcmp(format, "ends_with") == 0 || strcmp(format, "includes") == 0;
}

int32_t rv_schema_string_write(struct rv_schema_reader *reader, yyjson_val *schema, const char *path)
{
    struct rv_schema_reader *r = reader;
    yyjson_val *pattern = yyjson_obj_get(schema, "pattern"), *format = yyjson_obj_get(schema, "format");
    struct rv_schema_pattern wish = {.max = -1};
    bool is_counted = rv_schema_string_count(r, schema, path, "minLength", &wish.min);

    is_counted |= rv_schema_string_count(r, schema, path, "maxLength", &wish.max);
    if ((pattern && !yyjson_is_str(pattern)) || (format && !yyjson_is_str(format)))
        rv_schema_reader_fail(r, path, "'%s' must be a string", pattern ? "pattern" : "format");
    else if (wish.max >= 0 && wish.min > wish.max)
        rv_schema_reader_fail(r, path, "'minLength' is more than 'maxLength'");
    if (r->failed)
        return 0;
    if (!pattern && !format)
        return is_counted ? counted(r, wish.min, wish.max) : rv_schema_reader_call_json(r, RV_SCHEMA_JSON_STRING);
    if (pattern) {
        wish.pattern = yyjson_get_str(pattern);
        wish.pattern_len = yyjson_get_len(pattern);
    }
    if (format && !(pattern && is_said_by_pattern(yyjson_get_str(format)))) {
        wish.format = find_format(yyjson_get_str(format), is_counted);
        if (!wish.format)
            rv_schema_reader_fail(r, path, "'format' \"%.40s\" is not supported", yyjson_get_str(format));
    }
    wish.length = !is_counted ? NULL : yyjson_obj_get(schema, "minLength") ? "minLength" : "maxLength";
    return rv_schema_pattern_write(r, &wish, path);
}
