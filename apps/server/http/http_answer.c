/* Answers as bytes. */
#include "server/http/http_answer.h"

#include <event2/buffer.h>

static const char *reason_of(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {507, "Insufficient Storage"},
    };

    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "";
}

bool rv_http_answer_has_body(int status)
{
    return status >= 200 && status != 204 && status != 304;
}

static bool add_framing(struct evbuffer *out, const struct rv_http_answer *answer)
{
    if (answer->framing == RV_HTTP_ANSWER_LENGTH)
        return evbuffer_add_printf(out, "content-length: %zu\r\n", answer->content_length) >= 0;
    if (answer->framing == RV_HTTP_ANSWER_CHUNKED)
        return evbuffer_add_printf(out, "transfer-encoding: chunked\r\n") >= 0;
    return true;
}

bool rv_http_answer_add_head(struct evbuffer *out, const struct rv_http_answer *answer)
{
    if (evbuffer_add_printf(out, "HTTP/1.1 %d %s\r\n", answer->status, reason_of(answer->status)) < 0)
        return false;
    if (answer->content_type && evbuffer_add_printf(out, "content-type: %s\r\n", answer->content_type) < 0)
        return false;
    if (!add_framing(out, answer))
        return false;
    if (!answer->keeps_alive && evbuffer_add_printf(out, "connection: close\r\n") < 0)
        return false;
    if (answer->keeps_alive && answer->is_http10 && evbuffer_add_printf(out, "connection: keep-alive\r\n") < 0)
        return false;
    if (answer->extra_len && evbuffer_add(out, answer->extra, answer->extra_len) != 0)
        return false;
    return evbuffer_add(out, "\r\n", 2) == 0;
}

bool rv_http_answer_add_chunk(struct evbuffer *out, const void *data, size_t len)
{
    return evbuffer_add_printf(out, "%zx\r\n", len) >= 0 && evbuffer_add(out, data, len) == 0 &&
           evbuffer_add(out, "\r\n", 2) == 0;
}

bool rv_http_answer_add_last_chunk(struct evbuffer *out)
{
    return evbuffer_add(out, "0\r\n\r\n", 5) == 0;
}
