/* Nothing that comes out of here is used as a path: callers look it up in tables. */
#include "server/url_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = 24 };

static int hex(char c)
{
    const char *digits = "0123456789abcdef0123456789ABCDEF";
    const char *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) % 16 : -1;
}

void rv_url_text_unescape(char *text)
{
    char *out = text;

    while (*text) {
        int high = text[0] == '%' ? hex(text[1]) : -1, low = high >= 0 ? hex(text[2]) : -1;

        if (low >= 0 && high * 16 + low > 0) {
            *out++ = (char)(high * 16 + low);
            text += 3;
        } else {
            *out++ = *text++;
        }
    }
    *out = '\0';
}

/* The field of this name, and the length of its value. */
static const char *find(const char *query, const char *name, size_t *len)
{
    size_t name_len = strlen(name);

    while (*query) {
        size_t field_len = strcspn(query, "&");

        if (field_len > name_len && strncmp(query, name, name_len) == 0 && query[name_len] == '=') {
            *len = field_len - name_len - 1;
            return query + name_len + 1;
        }
        query += field_len + (query[field_len] == '&');
    }
    return NULL;
}

bool rv_url_text_field(const char *query, const char *name, char *out, size_t cap)
{
    size_t len;
    const char *value = find(query, name, &len);

    if (!value || len >= cap)
        return false;
    memcpy(out, value, len);
    out[len] = '\0';
    rv_url_text_unescape(out);
    return true;
}

bool rv_url_text_int(const char *query, const char *name, int64_t min, int64_t max, int64_t *out)
{
    char text[NUMBER_MAX];
    char *end;
    size_t len;
    long long number;

    if (!find(query, name, &len))
        return true;
    if (!rv_url_text_field(query, name, text, sizeof(text)) || text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    number = strtoll(text, &end, 10);
    if (errno || *end || number < min || number > max)
        return false;
    *out = number;
    return true;
}

bool rv_url_text_has_only(const char *query, const char *const *names)
{
    while (*query) {
        size_t field_len = strcspn(query, "&"), name_len = strcspn(query, "=&");
        bool is_known = false;

        for (size_t i = 0; names[i] && !is_known; i++)
            is_known = strlen(names[i]) == name_len && strncmp(query, names[i], name_len) == 0;
        if (!is_known)
            return false;
        query += field_len + (query[field_len] == '&');
    }
    return true;
}
