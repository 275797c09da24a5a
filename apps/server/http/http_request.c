/*
 * Bytes to a request. llhttp reads the grammar; what it accepts but a neighbour might read otherwise is refused here:
 * several spaces in the request line, other protocols' names, blank lines before it, transfer codings other than
 * "chunked", targets that name another host. The parser is paused at the end of the head and of the body, so that
 * nobody's callback runs inside it; it is never resumed behind a body, so it never switches to another protocol either.
 */
#include "server/http/http_request.h"

#include "base/alloc.h"

#include <string.h>
#include <strings.h>

enum phase {
    PHASE_START,   // nothing came yet
    PHASE_BLANK,   // the CR of a blank line before the request
    PHASE_LINE,    // in the request line
    PHASE_HEADERS, // behind it
    PHASE_JUDGED,  // the head was told to the caller
    PHASE_BODY,
};

enum {
    HEADERS_MAX = 100,
    TEXT_SLACK = 16, // NULs of a head that is as long as allowed
};

static struct rv_http_request *request_of(llhttp_t *parser)
{
    return parser->data;
}

static int refuse(struct rv_http_request *request, int status, const char *why)
{
    request->status = status;
    request->why = why;
    return -1;
}

/* ---- what llhttp calls ------------------------------------------------------------------------ */

static bool is_trailer(const llhttp_t *parser)
{
    return (parser->flags & F_TRAILING) != 0;
}

static int on_target(llhttp_t *parser, const char *at, size_t len)
{
    rv_http_headers_add_target(&request_of(parser)->headers, at, len);
    return 0;
}

static int on_target_complete(llhttp_t *parser)
{
    struct rv_http_request *request = request_of(parser);

    if (!rv_http_headers_end_target(&request->headers))
        return refuse(request, 400, "the request target has a character that must be escaped");
    return 0;
}

static int on_name(llhttp_t *parser, const char *at, size_t len)
{
    struct rv_http_request *request = request_of(parser);

    if (is_trailer(parser))
        request->extra_bytes += len;
    else
        rv_http_headers_add_name(&request->headers, at, len);
    return 0;
}

static int on_name_complete(llhttp_t *parser)
{
    struct rv_http_request *request = request_of(parser);

    if (is_trailer(parser))
        return 0;
    rv_http_headers_end_name(&request->headers);
    if (request->headers.n_added > HEADERS_MAX)
        return refuse(request, 431, "the request has more than 100 headers");
    return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t len)
{
    struct rv_http_request *request = request_of(parser);

    if (is_trailer(parser))
        request->extra_bytes += len;
    else
        rv_http_headers_add_value(&request->headers, at, len);
    return 0;
}

/* Extensions and trailers are not kept, but a body may not consist of them. */
static int check_extra(llhttp_t *parser)
{
    struct rv_http_request *request = request_of(parser);

    if (request->extra_bytes > request->max_header)
        return refuse(request, 431, "the chunk extensions and trailers are longer than a header may be");
    return 0;
}

static int on_value_complete(llhttp_t *parser)
{
    struct rv_http_request *request = request_of(parser);

    if (is_trailer(parser))
        return check_extra(parser);
    if (!rv_http_headers_end_value(&request->headers))
        return refuse(request, 400, "a header has a control character in its value");
    return 0;
}

static int on_extension(llhttp_t *parser, const char *at, size_t len)
{
    (void)at;
    request_of(parser)->extra_bytes += len;
    return 0;
}

static int on_head_complete(llhttp_t *parser)
{
    (void)parser;
    return HPE_PAUSED;
}

static int on_chunk_header(llhttp_t *parser)
{
    struct rv_http_request *request = request_of(parser);

    if (parser->content_length > request->max_body - request->body.len)
        return refuse(request, 413, "the body is longer than this server takes");
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
    struct rv_http_request *request = request_of(parser);

    rv_buf_add(&request->body, at, len);
    if (request->body.failed)
        return refuse(request, 503, "no memory is left for the body; try again later");
    return 0;
}

static int on_complete(llhttp_t *parser)
{
    (void)parser;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_url = on_target,
    .on_url_complete = on_target_complete,
    .on_header_field = on_name,
    .on_header_field_complete = on_name_complete,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_head_complete,
    .on_chunk_extension_name = on_extension,
    .on_chunk_extension_value = on_extension,
    .on_chunk_extension_name_complete = check_extra,
    .on_chunk_extension_value_complete = check_extra,
    .on_chunk_header = on_chunk_header,
    .on_body = on_body,
    .on_message_complete = on_complete,
};

struct rv_http_request *rv_http_request_new(size_t max_header, size_t max_body)
{
    struct rv_http_request *request = rv_calloc(1, sizeof(*request));

    if (!request)
        return NULL;
    request->max_header = max_header;
    request->max_body = max_body;
    rv_http_headers_init(&request->headers, max_header + TEXT_SLACK);
    rv_buf_init(&request->body, max_body);
    llhttp_init(&request->parser, HTTP_REQUEST, &settings);
    request->parser.data = request;
    return request;
}

void rv_http_request_free(struct rv_http_request *request)
{
    if (!request)
        return;
    rv_http_headers_release(&request->headers);
    rv_buf_release(&request->body);
    rv_free(request);
}

/* ---- the judgement of a head ------------------------------------------------------------------ */

static enum rv_http_method method_of(uint8_t method)
{
    switch (method) {
    case HTTP_GET:
        return RV_HTTP_GET;
    case HTTP_POST:
        return RV_HTTP_POST;
    case HTTP_DELETE:
        return RV_HTTP_DELETE;
    case HTTP_HEAD:
        return RV_HTTP_HEAD;
    case HTTP_OPTIONS:
        return RV_HTTP_OPTIONS;
    default:
        return RV_HTTP_OTHER;
    }
}

/* A name or address with an optional port: what a proxy and we would take for the same host. */
static bool is_host(const char *host)
{
    static const char allowed[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-._~%:[]";

    return host[0] != '\0' && host[strspn(host, allowed)] == '\0';
}

/* Several hosts were joined with a comma, which no host has. */
static int check_host(struct rv_http_request *request)
{
    const char *host = rv_http_headers_find(&request->headers, "host");

    if (!host && !request->is_http10)
        return refuse(request, 400, "the request has no Host header");
    if (host && !is_host(host))
        return refuse(request, 400, "the Host header is not one host");
    return 0;
}

/* Cuts the target into path and query, and takes "http://host" off its front if it is the Host header's. */
static int check_target(struct rv_http_request *request)
{
    char *target = rv_http_headers_target(&request->headers);
    const char *host = rv_http_headers_find(&request->headers, "host");
    size_t scheme = strncasecmp(target, "http://", 7) == 0 ? 7 : strncasecmp(target, "https://", 8) == 0 ? 8 : 0;
    size_t host_len;

    if (request->parser.method == HTTP_CONNECT)
        return refuse(request, 400, "CONNECT is not served here");
    if (strcmp(target, "*") == 0 && request->method != RV_HTTP_OPTIONS)
        return refuse(request, 400, "only OPTIONS may ask for '*'");
    request->path = target;
    if (scheme) {
        host_len = strcspn(target + scheme, "/?");
        if (!host || strlen(host) != host_len || strncasecmp(target + scheme, host, host_len) != 0)
            return refuse(request, 400, "the target names another host than the Host header");
        request->path += scheme + host_len;
    } else if (target[0] != '/' && strcmp(target, "*") != 0) {
        return refuse(request, 400, "the target is not a path");
    }
    request->query = request->path + strcspn(request->path, "?");
    if (*request->query == '?')
        *request->query++ = '\0';
    if (request->path[0] == '\0')
        request->path = (char *)(uintptr_t) "/"; // "http://host" asks for the root; nobody writes to a path
    return 0;
}

static bool is_count(const char *text)
{
    size_t len = strspn(text, "0123456789");

    return len > 0 && len < 20 && text[len] == '\0';
}

/* There is one way to tell where the body ends, or the request is refused. */
static int check_framing(struct rv_http_request *request)
{
    const char *length = rv_http_headers_find(&request->headers, "content-length");
    const char *coding = rv_http_headers_find(&request->headers, "transfer-encoding");

    if (length && coding)
        return refuse(request, 400, "the request has both Content-Length and Transfer-Encoding");
    if (coding && request->is_http10)
        return refuse(request, 400, "HTTP/1.0 has no Transfer-Encoding");
    if (coding && strcasecmp(coding, "chunked") != 0)
        return refuse(request, 400, "no Transfer-Encoding but 'chunked' is understood");
    if (length && !is_count(length))
        return refuse(request, 400, "Content-Length is not one number");
    if (length && request->parser.content_length > request->max_body)
        return refuse(request, 413, "the body is longer than this server takes");
    request->has_body = coding || (length && request->parser.content_length > 0);
    return 0;
}

static int check_expect(struct rv_http_request *request)
{
    const char *expect = rv_http_headers_find(&request->headers, "expect");

    if (!expect || request->is_http10)
        return 0;
    if (strcasecmp(expect, "100-continue") != 0)
        return refuse(request, 417, "no expectation but '100-continue' can be met");
    request->expects_continue = request->has_body;
    return 0;
}

static int judge(struct rv_http_request *request)
{
    if (rv_http_headers_failed(&request->headers))
        return refuse(request, 503, "no memory is left for the headers; try again later");
    request->method = method_of(request->parser.method);
    request->can_keep_alive = llhttp_should_keep_alive(&request->parser) != 0;
    rv_http_headers_shrink(&request->headers);
    if (check_host(request) || check_target(request) || check_framing(request) || check_expect(request))
        return -1;
    return 0;
}

/* ---- feeding ---------------------------------------------------------------------------------- */

/* Our sentence for what the parser stumbled over. */
static const char *why_malformed(llhttp_errno_t error)
{
    switch (error) {
    case HPE_INVALID_METHOD:
        return "the request does not begin with a method";
    case HPE_INVALID_URL:
        return "the request target is malformed";
    case HPE_INVALID_CONSTANT:
    case HPE_INVALID_VERSION:
    case HPE_PAUSED_H2_UPGRADE:
        return "only HTTP/1.0 and HTTP/1.1 are spoken here";
    case HPE_INVALID_HEADER_TOKEN:
    case HPE_UNEXPECTED_SPACE:
        return "a header is malformed";
    case HPE_CR_EXPECTED:
    case HPE_LF_EXPECTED:
    case HPE_STRICT:
        return "a line does not end with CR LF";
    case HPE_INVALID_CONTENT_LENGTH:
    case HPE_UNEXPECTED_CONTENT_LENGTH:
        return "Content-Length is not one number, or stands beside Transfer-Encoding";
    case HPE_INVALID_TRANSFER_ENCODING:
        return "no Transfer-Encoding but 'chunked' is understood";
    case HPE_INVALID_CHUNK_SIZE:
        return "the size of a chunk is malformed";
    default:
        return "the request is malformed";
    }
}

/* One CR LF before the request is read over, as some old clients send it behind a body; any other is refused. */
static size_t skip_blank_line(struct rv_http_request *request, const char *data, size_t len)
{
    size_t used = 0;

    if (request->phase == PHASE_START && len > 0) {
        request->phase = data[0] == '\r' ? PHASE_BLANK : PHASE_LINE;
        used += data[0] == '\r';
    }
    if (request->phase == PHASE_BLANK && used < len) {
        if (data[used] != '\n')
            refuse(request, 400, "the request begins with a stray CR");
        used++;
        request->phase = PHASE_LINE;
    }
    request->head_bytes += used;
    return used;
}

/* Looks at bytes of the request line that the parser has accepted. */
static int check_line(struct rv_http_request *request, const char *data, size_t len)
{
    const size_t cap = sizeof(request->line_end) - 1;

    for (size_t i = 0; i < len; i++)
        request->line_spaces += data[i] == ' ';
    request->line_bytes += len;
    if (len >= cap) {
        memcpy(request->line_end, data + len - cap, cap);
    } else {
        memmove(request->line_end, request->line_end + len, cap - len);
        memcpy(request->line_end + cap - len, data, len);
    }
    if (data[len - 1] != '\n')
        return 0;
    request->phase = PHASE_HEADERS;
    request->is_http10 = strcmp(request->line_end, " HTTP/1.0\r\n") == 0;
    if (request->line_spaces != 2 || (!request->is_http10 && strcmp(request->line_end, " HTTP/1.1\r\n") != 0))
        return refuse(request, 400, "the request line is not 'METHOD target HTTP/1.1'");
    return 0;
}

/* How many of `len` bytes the parser gets at once: no more than one line at first, and never beyond the limit. */
static size_t slice_of(const struct rv_http_request *request, const char *data, size_t len)
{
    const char *end;

    if (request->phase > PHASE_HEADERS)
        return len;
    if (request->phase == PHASE_LINE && (end = memchr(data, '\n', len)) != NULL)
        len = (size_t)(end - data) + 1;
    return len < request->max_header - request->head_bytes ? len : request->max_header - request->head_bytes;
}

/* Gives one slice to the parser; true when the caller must be told something. */
static bool parse(struct rv_http_request *request, const char *data, size_t len, size_t *used,
                  enum rv_http_request_event *event)
{
    llhttp_errno_t error = llhttp_execute(&request->parser, data, len);
    size_t taken = error == HPE_OK ? len : (size_t)(llhttp_get_error_pos(&request->parser) - data);

    *event = RV_HTTP_REQUEST_REFUSED;
    *used += taken;
    if (request->phase <= PHASE_HEADERS)
        request->head_bytes += taken;
    if (error != HPE_OK && error != HPE_PAUSED) {
        if (!request->status)
            refuse(request, 400, why_malformed(error));
        return true;
    }
    if (request->phase == PHASE_LINE && check_line(request, data, len))
        return true;
    if (error == HPE_OK)
        return false;
    if (request->phase >= PHASE_JUDGED) {
        *event = RV_HTTP_REQUEST_COMPLETE;
        return true;
    }
    request->phase = PHASE_JUDGED;
    if (judge(request) == 0)
        *event = RV_HTTP_REQUEST_HEAD;
    return true;
}

enum rv_http_request_event rv_http_request_feed(struct rv_http_request *request, const char *data, size_t len,
                                                size_t *used)
{
    enum rv_http_request_event event;
    size_t slice;

    *used = 0;
    if (request->phase <= PHASE_BLANK)
        *used = skip_blank_line(request, data, len);
    if (request->status)
        return RV_HTTP_REQUEST_REFUSED;
    if (request->phase == PHASE_JUDGED) {
        llhttp_resume(&request->parser);
        request->phase = PHASE_BODY;
        if (parse(request, data, 0, used, &event))
            return event;
    }
    while (*used < len) {
        slice = slice_of(request, data + *used, len - *used);
        if (slice == 0) {
            refuse(request, 431, "the request line and headers are longer than this server takes");
            return RV_HTTP_REQUEST_REFUSED;
        }
        /* The parser would read over it. */
        if (request->phase == PHASE_LINE && request->line_bytes == 0 && (data[*used] == '\r' || data[*used] == '\n')) {
            refuse(request, 400, "the request begins with blank lines");
            return RV_HTTP_REQUEST_REFUSED;
        }
        if (parse(request, data + *used, slice, used, &event))
            return event;
    }
    return RV_HTTP_REQUEST_MORE;
}
