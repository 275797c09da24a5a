/* No escapes are undone: nothing that is valid here needs one. */
#include "server/session_page.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DIGITS = 18 };

/* All `len` bytes as a number; false when they are none, or too many. */
static bool read_number(const char *text, size_t len, int64_t *out)
{
    *out = 0;
    if (len == 0 || len > MAX_DIGITS)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *out = *out * 10 + (text[i] - '0');
    }
    return true;
}

static bool read_limit(struct rv_session_page *page, const char *text, size_t len, struct rv_api_error *err)
{
    int64_t n;

    if (read_number(text, len, &n) && n >= 1 && n <= RV_SESSION_PAGE_MAX) {
        page->limit = (int32_t)n;
        return true;
    }
    rv_api_error_set(err, 400, "invalid_value", "limit", "'limit' must be an integer between 1 and %d",
                     RV_SESSION_PAGE_MAX);
    return false;
}

static bool read_after(struct rv_session_page *page, const char *text, size_t len, struct rv_api_error *err)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const char *dot = memchr(text, '.', len);
    size_t time_len = dot ? (size_t)(dot - text) : 0, id_len = dot ? len - time_len - 1 : 0;

    if (id_len > 0 && id_len < RV_SESSION_PAGE_ID && strspn(dot + 1, letters) >= id_len &&
        read_number(text, time_len, &page->before_us) && page->before_us > 0) {
        memcpy(page->before_id, dot + 1, id_len);
        page->before_id[id_len] = '\0';
        return true;
    }
    rv_api_error_set(err, 400, "invalid_value", "after", "'after' must be what 'next' of the page before said");
    return false;
}

static bool is_name(const char *pair, size_t len, const char *name)
{
    return strlen(name) == len && memcmp(pair, name, len) == 0;
}

static bool read_pair(struct rv_session_page *page, const char *pair, size_t len, struct rv_api_error *err)
{
    const char *equals = memchr(pair, '=', len);
    size_t name_len = equals ? (size_t)(equals - pair) : len;
    const char *value = equals ? equals + 1 : pair + len;
    size_t value_len = len - (size_t)(value - pair);

    if (is_name(pair, name_len, "limit") && page->limit == 0)
        return read_limit(page, value, value_len, err);
    if (is_name(pair, name_len, "after") && page->before_us == 0)
        return read_after(page, value, value_len, err);
    if (is_name(pair, name_len, "limit") || is_name(pair, name_len, "after"))
        rv_api_error_set(err, 400, "duplicate_field", NULL, "the query says '%.*s' twice", (int)name_len, pair);
    else
        rv_api_error_set(err, 400, "unknown_field", NULL,
                         "a list of sessions takes 'limit' and 'after' and nothing else");
    return false;
}

bool rv_session_page_read(struct rv_session_page *page, const char *query, struct rv_api_error *err)
{
    *page = (struct rv_session_page){0};
    for (bool goes_on = *query != '\0'; goes_on;) {
        size_t len = strcspn(query, "&");

        if (!read_pair(page, query, len, err))
            return false;
        goes_on = query[len] == '&';
        query += len + goes_on;
    }
    if (page->limit == 0)
        page->limit = RV_SESSION_PAGE_MAX;
    return true;
}

void rv_session_page_next(int64_t updated_us, const char *id, char out[RV_SESSION_PAGE_NEXT])
{
    snprintf(out, RV_SESSION_PAGE_NEXT, "%" PRId64 ".%s", updated_us, id);
}
