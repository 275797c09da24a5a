/* JSON text into a buffer. Written by hand, so that a token on its way to a client allocates nothing. */
#include "server/api/api_json.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A value or a key begins: after the end of another one a comma comes first. */
static void separate(struct rv_buf *out)
{
    char last = out->len ? out->data[out->len - 1] : '{';

    if (!strchr("{[: \n", last))
        rv_buf_add_char(out, ',');
}

static void add_escape(struct rv_buf *out, unsigned char c)
{
    static const char names[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *name = c ? strchr(names, c) : NULL;

    if (name)
        rv_buf_addf(out, "\\%c", letters[name - names]);
    else
        rv_buf_addf(out, "\\u%04x", c);
}

/* How long the character at text is that can be copied as it is; 0: it needs an escape or is no character. */
static size_t plain_len(const char *text, size_t len)
{
    unsigned char c = (unsigned char)text[0];
    uint32_t cp;
    int n;

    if (c < 0x80)
        return c >= 0x20 && c != '"' && c != '\\' && c != 0x7f;
    n = rv_utf8_decode(text, len, &cp);
    return n > 0 ? (size_t)n : 0;
}

static void add_string(struct rv_buf *out, const char *text, size_t len)
{
    size_t plain = 0, pos = 0;

    rv_buf_add_char(out, '"');
    while (pos < len) {
        size_t n = plain_len(text + pos, len - pos);

        if (n) {
            pos += n;
            continue;
        }
        rv_buf_add(out, text + plain, pos - plain);
        if ((unsigned char)text[pos] < 0x80)
            add_escape(out, (unsigned char)text[pos]);
        else
            rv_buf_add_str(out, "\xEF\xBF\xBD");
        plain = ++pos;
    }
    if (len > plain)
        rv_buf_add(out, text + plain, len - plain);
    rv_buf_add_char(out, '"');
}

void rv_api_json_key(struct rv_buf *out, const char *key, size_t len)
{
    separate(out);
    add_string(out, key, len);
    rv_buf_add_char(out, ':');
}

static void begin_value(struct rv_buf *out, const char *key)
{
    if (key)
        rv_api_json_key(out, key, strlen(key));
    else
        separate(out);
}

void rv_api_json_begin(struct rv_buf *out, const char *key, char bracket)
{
    begin_value(out, key);
    rv_buf_add_char(out, bracket);
}

void rv_api_json_end(struct rv_buf *out, char bracket)
{
    rv_buf_add_char(out, bracket);
}

void rv_api_json_text(struct rv_buf *out, const char *key, const char *text, size_t len)
{
    begin_value(out, key);
    add_string(out, text, len);
}

void rv_api_json_str(struct rv_buf *out, const char *key, const char *text)
{
    if (text)
        rv_api_json_text(out, key, text, strlen(text));
    else
        rv_api_json_null(out, key);
}

void rv_api_json_int(struct rv_buf *out, const char *key, int64_t value)
{
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    char digits[20]; // of 2^63, and the sign
    size_t at = sizeof(digits);

    begin_value(out, key);
    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (value < 0)
        digits[--at] = '-';
    rv_buf_add(out, digits + at, sizeof(digits) - at);
}

void rv_api_json_float(struct rv_buf *out, const char *key, float value)
{
    char text[32];

    RV_ASSERT(isfinite(value));
    value = value == 0 ? 0 : value; // "-0" is an integer to those who read it, and no longer negative
    begin_value(out, key);
    for (int digits = 6; digits <= 9; digits++) { // 9 always read back the same
        snprintf(text, sizeof(text), "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
    rv_buf_add_str(out, text);
}

void rv_api_json_real(struct rv_buf *out, const char *key, double value)
{
    char text[40];

    snprintf(text, sizeof(text), "%.9g", value);
    rv_api_json_raw(out, key, isfinite(value) ? text : "null");
}

void rv_api_json_bool(struct rv_buf *out, const char *key, bool value)
{
    rv_api_json_raw(out, key, value ? "true" : "false");
}

void rv_api_json_null(struct rv_buf *out, const char *key)
{
    rv_api_json_raw(out, key, "null");
}

void rv_api_json_raw(struct rv_buf *out, const char *key, const char *json)
{
    begin_value(out, key);
    rv_buf_add_str(out, json);
}
