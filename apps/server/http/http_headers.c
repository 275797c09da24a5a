/* The head of a request in one text. Lookups walk it: it has at most a hundred headers and a few kilobytes. */
#include "server/http/http_headers.h"

#include "base/alloc.h"

#include <string.h>

enum { USUAL_HEAD = 511 };

void rv_http_headers_init(struct rv_http_headers *headers, size_t max_bytes)
{
    *headers = (struct rv_http_headers){0};
    rv_buf_init(&headers->text, max_bytes);
}

void rv_http_headers_release(struct rv_http_headers *headers)
{
    rv_buf_release(&headers->text);
}

void rv_http_headers_add_target(struct rv_http_headers *headers, const char *data, size_t len)
{
    /* Room for a usual head at once; what it does not need is given back when it is complete. */
    if (!headers->text.data && headers->text.max >= USUAL_HEAD)
        rv_buf_reserve(&headers->text, USUAL_HEAD);
    rv_buf_add(&headers->text, data, len);
}

bool rv_http_headers_end_target(struct rv_http_headers *headers)
{
    const char *text = headers->text.data;

    for (size_t i = 0; i < headers->text.len; i++)
        if (text[i] <= ' ' || text[i] > '~' || text[i] == '#')
            headers->has_bad_target = true;
    rv_buf_add_char(&headers->text, '\0');
    headers->headers_at = headers->name_at = headers->text.len;
    return !headers->has_bad_target;
}

void rv_http_headers_add_name(struct rv_http_headers *headers, const char *data, size_t len)
{
    size_t at = headers->text.len;

    rv_buf_add(&headers->text, data, len);
    for (; at < headers->text.len; at++)
        if (headers->text.data[at] >= 'A' && headers->text.data[at] <= 'Z')
            headers->text.data[at] = (char)(headers->text.data[at] + ('a' - 'A'));
}

void rv_http_headers_end_name(struct rv_http_headers *headers)
{
    rv_buf_add_char(&headers->text, '\0');
    headers->value_at = headers->text.len;
    headers->n_added++;
}

void rv_http_headers_add_value(struct rv_http_headers *headers, const char *data, size_t len)
{
    rv_buf_add(&headers->text, data, len);
}

/* The value of `name` among the headers that begin before `end`. */
static char *find_before(const struct rv_http_headers *headers, const char *name, size_t end)
{
    char *at = headers->text.data + headers->headers_at;
    const char *stop = headers->text.data + end;

    while (at < stop) {
        char *value = at + strlen(at) + 1;

        if (strcmp(at, name) == 0)
            return value;
        at = value + strlen(value) + 1;
    }
    return NULL;
}

/* Moves the value that was added last to the end of an earlier one: "first NUL ... name NUL last NUL". */
static void join(struct rv_http_headers *headers, char *first)
{
    struct rv_buf *text = &headers->text;
    size_t first_end = (size_t)(first - text->data) + strlen(first), value_len = text->len - 1 - headers->value_at;
    size_t tail_len = headers->name_at - first_end; // from the first's NUL on
    char *copy = rv_strndup(text->data + headers->value_at, value_len);

    if (!copy) {
        text->failed = RUVLLM_NO_MEMORY;
        return;
    }
    /* The name that goes is at least one character with its NUL, so ", " finds room. */
    memmove(text->data + first_end + 2 + value_len, text->data + first_end, tail_len);
    memcpy(text->data + first_end, ", ", 2);
    memcpy(text->data + first_end + 2, copy, value_len);
    text->len = headers->name_at + 2 + value_len;
    rv_free(copy);
}

bool rv_http_headers_end_value(struct rv_http_headers *headers)
{
    struct rv_buf *text = &headers->text;
    char *first;

    if (text->failed)
        return true;
    if (!rv_http_headers_is_value(text->data + headers->value_at, text->len - headers->value_at))
        return false;
    while (text->len > headers->value_at && (text->data[text->len - 1] == ' ' || text->data[text->len - 1] == '\t'))
        text->len--;
    rv_buf_add_char(text, '\0');
    if (text->failed)
        return true;
    first = find_before(headers, text->data + headers->name_at, headers->name_at);
    if (first)
        join(headers, first);
    headers->name_at = text->len;
    return true;
}

void rv_http_headers_shrink(struct rv_http_headers *headers)
{
    struct rv_buf *text = &headers->text;
    char *data = text->len ? rv_realloc_array(text->data, text->len + 1, 1) : NULL;

    if (data) {
        text->data = data;
        text->cap = text->len + 1;
    }
}

bool rv_http_headers_failed(const struct rv_http_headers *headers)
{
    return headers->text.failed != RUVLLM_OK;
}

char *rv_http_headers_target(const struct rv_http_headers *headers)
{
    return headers->text.data;
}

const char *rv_http_headers_find(const struct rv_http_headers *headers, const char *name)
{
    return headers->text.data ? find_before(headers, name, headers->name_at) : NULL;
}

bool rv_http_headers_is_value(const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];

        if ((c < ' ' && c != '\t') || c == 0x7F)
            return false;
    }
    return true;
}

bool rv_http_headers_is_name(const char *name)
{
    static const char allowed[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

    return name[0] != '\0' && name[strspn(name, allowed)] == '\0';
}
