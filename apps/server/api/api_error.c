/*
 * What a client is told when something fails. Text from elsewhere goes through one function that leaves out what does
 * not belong in an answer; inner failures are not described at all.
 */
#include "server/api/api_error.h"

#include "base/utf8.h"
#include "server/api/api_json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Length of an address as %p prints it at the beginning of text, or 0. */
static size_t address_len(const char *text)
{
    size_t n = 2;

    if (text[0] != '0' || (text[1] != 'x' && text[1] != 'X'))
        return 0;
    while (is_hex(text[n]))
        n++;
    return n >= 8 ? n : 0;
}

/* Adds a piece if it fits whole; after one that does not, nothing fits any more. */
static void append(char *out, size_t *cap, size_t *len, const char *piece, size_t n)
{
    if (*len + n >= *cap) {
        *cap = 0;
        return;
    }
    memcpy(out + *len, piece, n);
    *len += n;
    out[*len] = '\0';
}

/* Control characters become blanks, what is no character a '?', addresses are left out. */
static void clean_copy(char *out, size_t cap, const char *text)
{
    size_t left = strlen(text), len = 0;

    out[0] = '\0';
    while (left > 0) {
        size_t address = address_len(text);
        uint32_t cp = 0;
        int n = rv_utf8_decode(text, left, &cp);

        if (address)
            append(out, &cap, &len, "(address)", 9);
        else if (n <= 0)
            append(out, &cap, &len, "?", 1);
        else if (cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == 0x2028 || cp == 0x2029)
            append(out, &cap, &len, " ", 1);
        else
            append(out, &cap, &len, text, (size_t)n);
        address = address ? address : n > 0 ? (size_t)n : 1;
        text += address;
        left -= address;
    }
}

static const char *type_of(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 429:
        return "rate_limit_error";
    default:
        return status >= 500 && status != 501 ? "server_error" : "invalid_request_error";
    }
}

void rv_api_error_set(struct rv_api_error *err, int http_status, const char *code, const char *param,
                      const char *format, ...)
{
    char message[sizeof(err->message)];
    va_list args;

    if (!err)
        return;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    err->http_status = http_status;
    snprintf(err->type, sizeof(err->type), "%s", type_of(http_status));
    clean_copy(err->code, sizeof(err->code), code ? code : "");
    clean_copy(err->param, sizeof(err->param), param ? param : "");
    clean_copy(err->message, sizeof(err->message), message);
}

/* Paths of the machine are not the client's business: 'cannot open model '<path>': ...' becomes '(file)'. */
static void hide_paths(const char *message, char *out, size_t cap)
{
    size_t len = 0;

    out[0] = '\0';
    for (const char *at = message; *at;) {
        bool starts = *at == '/' && (at == message || strchr("'\" (:=", at[-1]));
        size_t n = starts ? strcspn(at, "'\" ):") : 1;

        if (starts)
            append(out, &cap, &len, "(file)", 6);
        else
            append(out, &cap, &len, at, 1);
        at += n;
    }
}

static void from_too_large(struct rv_api_error *err, const struct ruvllm_error *cause, const char *message)
{
    if (cause->kind == RUVLLM_ERROR_KV_CACHE || cause->kind == RUVLLM_ERROR_GENERATION)
        rv_api_error_set(err, 400, "context_length_exceeded", NULL, "%s", message);
    else
        rv_api_error_set(err, 413, "too_large", NULL, "%s", message);
}

static const char *code_of_missing(ruvllm_error_kind kind)
{
    return kind == RUVLLM_ERROR_MODEL     ? "model_not_found"
           : kind == RUVLLM_ERROR_ADAPTER ? "adapter_not_found"
                                          : "not_found";
}

void rv_api_error_from(struct rv_api_error *err, const struct ruvllm_error *cause)
{
    char message[sizeof(cause->message)];

    hide_paths(cause->message, message, sizeof(message));
    switch (cause->status) {
    case RUVLLM_INVALID:
        rv_api_error_set(err, 400, "invalid_value", NULL, "%s", message);
        return;
    case RUVLLM_NOT_FOUND:
        rv_api_error_set(err, 404, code_of_missing(cause->kind), NULL, "%s", message);
        return;
    case RUVLLM_TOO_LARGE:
        from_too_large(err, cause, message);
        return;
    case RUVLLM_BUSY:
        rv_api_error_set(err, 429, "rate_limit_exceeded", NULL, "%s", message);
        return;
    case RUVLLM_CANCELLED:
        rv_api_error_set(err, 499, "cancelled", NULL, "the request was cancelled");
        return;
    case RUVLLM_NO_MEMORY:
        rv_api_error_set(err, 503, "out_of_memory", NULL, "the server is out of memory; try again later");
        return;
    case RUVLLM_UNSUPPORTED:
        rv_api_error_set(err, 501, "unsupported", NULL, "%s", message);
        return;
    case RUVLLM_CONFLICT:
        rv_api_error_set(err, 409, "conflict", NULL, "%s", message);
        return;
    case RUVLLM_NO_SPACE:
        rv_api_error_set(err, 507, "insufficient_storage", NULL,
                         "the server's disk is full: this was not kept. Try again later");
        return;
    case RUVLLM_IO:
        if (cause->kind != RUVLLM_ERROR_STORAGE)
            break;
        /* A database that is away comes back, and what was asked is asked again. */
        rv_api_error_set(err, 503, "store_unavailable", NULL,
                         "the server cannot reach its store now; its log says why. Try again in a moment");
        return;
    case RUVLLM_OK:
    case RUVLLM_FORMAT:
    case RUVLLM_BACKEND:
    case RUVLLM_INTERNAL:
        break;
    }
    rv_api_error_set(err, 500, "internal_error", NULL,
                     "the server failed to answer; its log says why. Trying again may help");
}

void rv_api_error_http(struct rv_api_error *err, int http_status, const char *why)
{
    static const struct {
        int status;
        const char *code, *sentence;
    } rows[] = {
        {400, "bad_request", "the request is malformed"},
        {401, "invalid_api_key", "this needs an API key: send it as 'Authorization: Bearer KEY'"},
        {403, "permission_denied", "this API key may not do that"},
        {404, "not_found", "there is nothing at this address; check its spelling"},
        {405, "method_not_allowed", "this address does not answer to this method"},
        {408, "request_timeout", "the request took too long to arrive"},
        {409, "conflict", "another request changes this at the moment; try again"},
        {413, "body_too_large", "the body is too large; send a shorter one"},
        {415, "unsupported_media_type", "send the body as application/json"},
        {429, "rate_limit_exceeded", "too many requests; try again later"},
        {431, "headers_too_large", "the headers are too large; send fewer or shorter ones"},
        {503, "unavailable", "the server cannot take this request now; try again later"},
    };
    const char *code = http_status >= 500 ? "internal_error" : "bad_request", *sentence = "the request was refused";

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].status == http_status) {
            code = rows[i].code;
            sentence = rows[i].sentence;
        }
    rv_api_error_set(err, http_status, code, NULL, "%s", why && *why ? why : sentence);
}

void rv_api_error_model(struct rv_api_error *err, const char *model)
{
    rv_api_error_set(err, 404, "model_not_found", "model",
                     "the model '%.*s' is not served here; /v1/models lists those that are", RV_API_ERROR_NAME, model);
}

static void add_or_null(struct rv_buf *out, const char *key, const char *text)
{
    rv_api_json_str(out, key, *text ? text : NULL);
}

void rv_api_error_json(const struct rv_api_error *err, struct rv_buf *out)
{
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_begin(out, "error", '{');
    rv_api_json_str(out, "message", err->message);
    rv_api_json_str(out, "type", err->type);
    add_or_null(out, "param", err->param);
    add_or_null(out, "code", err->code);
    rv_api_json_end(out, '}');
    rv_api_json_end(out, '}');
}

void rv_api_error_event(const struct rv_api_error *err, struct rv_buf *out)
{
    rv_buf_add_str(out, "data: ");
    rv_api_error_json(err, out);
    rv_buf_add_str(out, "\n\n");
}
