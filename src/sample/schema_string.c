/*
 * Long counts are written with a rule of BLOCK characters, so that their states do not grow with the count; what
 * is written is counted in characters, as the standard does, an escape being one.
 */
#include "sample/schema_string.h"

#include "sample/regex.h"

#include <string.h>

enum { BLOCK = 128, MAX_COUNT = 1 << 20 };

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

static int32_t block(struct rv_schema_reader *r, int32_t *rule)
{
    struct rv_syntax *s = r->syntax;

    if (*rule < 0) {
        *rule = rv_syntax_rule(s);
        rv_syntax_define(s, *rule, rv_syntax_repeat(s, rv_schema_reader_char(r), BLOCK, BLOCK));
    }
    return rv_syntax_call(s, *rule);
}

/* Exactly n characters. */
static void add_exactly(struct rv_schema_reader *r, int32_t seq, int32_t n, int32_t *rule)
{
    struct rv_syntax *s = r->syntax;

    if (n >= 2 * BLOCK) {
        rv_syntax_add(s, seq, rv_syntax_repeat(s, block(r, rule), n / BLOCK, n / BLOCK));
        n %= BLOCK;
    }
    if (n > 0)
        rv_syntax_add(s, seq, rv_syntax_repeat(s, rv_schema_reader_char(r), n, n));
}

/* Up to n characters: less than all blocks and part of one, or all of them and the rest. */
static void add_up_to(struct rv_schema_reader *r, int32_t seq, int32_t n, int32_t *rule)
{
    struct rv_syntax *s = r->syntax;
    int32_t ways, some, all;

    if (n < 2 * BLOCK) {
        rv_syntax_add(s, seq, rv_syntax_repeat(s, rv_schema_reader_char(r), 0, n));
        return;
    }
    ways = rv_syntax_alt(s);
    some = rv_syntax_seq(s);
    rv_syntax_add(s, some, rv_syntax_repeat(s, block(r, rule), 0, n / BLOCK - 1));
    rv_syntax_add(s, some, rv_syntax_repeat(s, rv_schema_reader_char(r), 0, BLOCK - 1));
    all = rv_syntax_seq(s);
    rv_syntax_add(s, all, rv_syntax_repeat(s, block(r, rule), n / BLOCK, n / BLOCK));
    rv_syntax_add(s, all, rv_syntax_repeat(s, rv_schema_reader_char(r), 0, n % BLOCK));
    rv_syntax_add(s, ways, some);
    rv_syntax_add(s, ways, all);
    rv_syntax_add(s, seq, ways);
}

static int32_t counted(struct rv_schema_reader *r, int32_t min, int32_t max)
{
    struct rv_syntax *s = r->syntax;
    int32_t seq = rv_syntax_seq(s), rule = -1;

    rv_syntax_add(s, seq, rv_schema_reader_text(r, "\""));
    add_exactly(r, seq, min, &rule);
    if (max < 0)
        rv_syntax_add(s, seq, rv_syntax_repeat(s, rv_schema_reader_char(r), 0, -1));
    else
        add_up_to(r, seq, max - min, &rule);
    rv_syntax_add(s, seq, rv_schema_reader_text(r, "\""));
    return seq;
}

/* Narrower than the standards where that keeps them short: every day of a month that each year has. */
static const char *find_format(const char *name)
{
#define DATE                                                                                                           \
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|" \
    "1[0-9]|2[0-8])))"
#define TIME "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9])"
#define OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
    static const struct {
        const char *name, *pattern;
    } formats[] = {
        {"date", "^" DATE "$"},
        {"time", "^" TIME "$"},
        {"date-time", "^" DATE "T" TIME "$"},
        {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"},
        {"email",
         "^[A-Za-z0-9_+-]{1,32}(?:\\.[A-Za-z0-9_+-]{1,16}){0,3}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
         "\\.){1,4}[A-Za-z]{2,16}$"},
        {"ipv4", "^" OCTET "\\." OCTET "\\." OCTET "\\." OCTET "$"},
    };

    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (strcmp(formats[i].name, name) == 0)
            return formats[i].pattern;
    return NULL;
}

static int32_t matching(struct rv_schema_reader *r, const char *pattern, size_t len, const char *path,
                        const char *keyword)
{
    struct rv_syntax *s = r->syntax;
    int32_t seq = rv_syntax_seq(s), rule = 0;
    struct ruvllm_error why;
    ruvllm_status rc;

    if (r->failed)
        return seq;
    rc = rv_regex_read_in_string(s, pattern, len, &rule, &why);
    if (rc == RUVLLM_INVALID)
        rv_schema_reader_fail(r, path, "'%s': %s", keyword, why.message);
    else if (rc)
        r->failed = rv_fail(r->err, rc, "%s", why.message);
    if (r->failed)
        return seq;
    rv_syntax_add(s, seq, rv_schema_reader_text(r, "\""));
    rv_syntax_add(s, seq, rv_syntax_call(s, rule));
    rv_syntax_add(s, seq, rv_schema_reader_text(r, "\""));
    return seq;
}

int32_t rv_schema_string_write(struct rv_schema_reader *reader, yyjson_val *schema, const char *path)
{
    struct rv_schema_reader *r = reader;
    yyjson_val *pattern = yyjson_obj_get(schema, "pattern"), *format = yyjson_obj_get(schema, "format");
    int32_t min = 0, max = -1;
    bool is_counted = rv_schema_string_count(r, schema, path, "minLength", &min);

    is_counted |= rv_schema_string_count(r, schema, path, "maxLength", &max);
    if ((pattern && !yyjson_is_str(pattern)) || (format && !yyjson_is_str(format)))
        rv_schema_reader_fail(r, path, "'%s' must be a string", pattern ? "pattern" : "format");
    else if ((pattern || format) && is_counted)
        rv_schema_reader_fail(r, path, "'%s' beside '%s' is not supported",
                              yyjson_obj_get(schema, "minLength") ? "minLength" : "maxLength",
                              pattern ? "pattern" : "format");
    else if (pattern && format)
        rv_schema_reader_fail(r, path, "'pattern' beside 'format' is not supported");
    else if (max >= 0 && min > max)
        rv_schema_reader_fail(r, path, "'minLength' is more than 'maxLength'");
    if (r->failed)
        return 0;
    if (pattern)
        return matching(r, yyjson_get_str(pattern), yyjson_get_len(pattern), path, "pattern");
    if (format) {
        const char *known = find_format(yyjson_get_str(format));

        if (known)
            return matching(r, known, strlen(known), path, "format");
        rv_schema_reader_fail(r, path, "'format' \"%.40s\" is not supported", yyjson_get_str(format));
        return 0;
    }
    return is_counted ? counted(r, min, max) : rv_schema_reader_call_json(r, RV_SCHEMA_JSON_STRING);
}
