/*
 * A request out of bytes: llhttp in its strict mode, the limits, and the checks of framing that llhttp leaves to us.
 * It knows no sockets and no time. What comes out does not depend on how the bytes were cut: every check sits at a
 * byte of the request, never at the end of a piece.
 */
#ifndef RV_HTTP_HTTP_REQUEST_H
#define RV_HTTP_HTTP_REQUEST_H

#include "server/http/http_headers.h"
#include "server/http/http_server.h"

#include <llhttp.h>

enum rv_http_request_event {
    RV_HTTP_REQUEST_MORE,     // all bytes were taken, the request goes on
    RV_HTTP_REQUEST_HEAD,     // the headers are complete; once
    RV_HTTP_REQUEST_COMPLETE, // so is the body; what follows belongs to the next request
    RV_HTTP_REQUEST_REFUSED   // `status` and `why` say what is wrong; the connection cannot go on
};

struct rv_http_request {
    llhttp_t parser;
    struct rv_http_headers headers;
    struct rv_buf body;
    size_t max_header;
    size_t max_body;
    size_t head_bytes;  // of the head, as they came
    size_t extra_bytes; // of chunk extensions and trailers, which are read over
    char *path;         // in `headers`
    char *query;        // likewise
    int status;         // of a refusal
    const char *why;    // a sentence, for ever
    enum rv_http_method method;
    char line_end[12];   // the newest bytes of the request line, the last at the end
    size_t line_bytes;   // of the request line so far
    int32_t line_spaces; // in it
    uint8_t phase;       // enum phase in http_request.c
    bool is_http10;
    bool can_keep_alive;   // as far as the peer is concerned
    bool has_body;         // the head announces one
    bool expects_continue; // the peer waits for 100 before it sends the body
};

/* NULL when memory is out. */
struct rv_http_request *rv_http_request_new(size_t max_header, size_t max_body);
void rv_http_request_free(struct rv_http_request *request);
/*
 * Takes bytes, `*used` of them. After HEAD call it again with the rest, even if none is left: a request without a body
 * is complete then. Not to be called after COMPLETE or REFUSED.
 */
enum rv_http_request_event rv_http_request_feed(struct rv_http_request *request, const char *data, size_t len,
                                                size_t *used);

#endif
