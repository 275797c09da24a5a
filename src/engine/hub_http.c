/*
 * Redirections are followed here and not by libcurl, because each step has to be judged: where to, and whether the
 * token may go along.
 */
#include "engine/hub_http.h"

#include "base/alloc.h"
#include "engine/hub_name.h"

#include <curl/curl.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
    MAX_REDIRECTS = 5,
    MAX_URL = 8192,
    MAX_BODY = 16 << 20,
    MAX_ERROR_BODY = 4096,
    CONNECT_SECONDS = 20,
};

/* An address, as far as rules ask about it. */
struct place {
    char *scheme;
    char *host;
    char *port;
};

struct rv_hub_http {
    CURL *curl;
    char *endpoint;
    struct place home;
    char *authorization; // a header line; NULL: no token
    int32_t stall_seconds;
    const char *authorities; // file of certificates to trust instead of the system's; NULL
};

/* ---- places -------------------------------------------------------------------------------- */

static void place_release(struct place *place)
{
    curl_free(place->scheme);
    curl_free(place->host);
    curl_free(place->port);
    *place = (struct place){0};
}

static bool place_init(struct place *out, CURLU *url)
{
    *out = (struct place){0};
    return curl_url_get(url, CURLUPART_SCHEME, &out->scheme, 0) == CURLUE_OK &&
           curl_url_get(url, CURLUPART_HOST, &out->host, 0) == CURLUE_OK &&
           curl_url_get(url, CURLUPART_PORT, &out->port, CURLU_DEFAULT_PORT) == CURLUE_OK;
}

static bool is_https(const struct place *place)
{
    return strcasecmp(place->scheme, "https") == 0;
}

/* Names that only look like numbers ("127.0.0.1.example") are somebody else's. */
static bool is_loopback(const struct place *place)
{
    const char *host = place->host;

    return strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
           (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == strlen(host));
}

static bool is_home(const struct rv_hub_http *http, const struct place *place)
{
    return strcasecmp(place->scheme, http->home.scheme) == 0 && strcasecmp(place->host, http->home.host) == 0 &&
           strcmp(place->port, http->home.port) == 0;
}

static ruvllm_status check_place(const struct rv_hub_http *http, const struct place *place, struct ruvllm_error *err)
{
    char scheme[RV_HUB_NAME_LABEL], host[RV_HUB_NAME_LABEL];

    if (is_https(place))
        return RUVLLM_OK;
    rv_hub_name_label(place->scheme, scheme);
    rv_hub_name_label(place->host, host);
    if (strcasecmp(place->scheme, "http") != 0)
        return rv_fail(err, RUVLLM_FORMAT, "the hub points to '%s' on '%s', which is not https; refused", scheme, host);
    if (is_https(&http->home))
        return rv_fail(err, RUVLLM_FORMAT, "the hub points from https to unprotected http on '%s'; refused", host);
    if (strcasecmp(place->host, http->home.host) != 0 && !is_loopback(place))
        return rv_fail(err, RUVLLM_FORMAT, "the hub points over unprotected http to another host, '%s'; refused", host);
    return RUVLLM_OK;
}

/* ---- open and close ------------------------------------------------------------------------ */

static ruvllm_status set_endpoint(struct rv_hub_http *http, const char *endpoint, struct ruvllm_error *err)
{
    char label[RV_HUB_NAME_LABEL];
    size_t len = strlen(endpoint);
    CURLU *url = curl_url();
    bool is_good;

    while (len && endpoint[len - 1] == '/')
        len--;
    http->endpoint = rv_strndup(endpoint, len);
    is_good = url && http->endpoint &&
              curl_url_set(url, CURLUPART_URL, http->endpoint, CURLU_DISALLOW_USER) == CURLUE_OK &&
              place_init(&http->home, url) && (is_https(&http->home) || strcasecmp(http->home.scheme, "http") == 0);
    curl_url_cleanup(url);
    if (!is_good)
        return rv_fail(err, RUVLLM_INVALID, "the hub's address '%s' is not of the form https://host",
                       rv_hub_name_label(endpoint, label));
    return RUVLLM_OK;
}

static ruvllm_status set_token(struct rv_hub_http *http, const char *token, struct ruvllm_error *err)
{
    struct rv_buf line;

    if (!token || !*token)
        return RUVLLM_OK;
    for (const char *c = token; *c; c++) {
        if (*c <= ' ' || *c >= 0x7F)
            return rv_fail(err, RUVLLM_INVALID, "the hub's token holds a character no token has; look at HF_TOKEN");
    }
    if (!is_https(&http->home) && !is_loopback(&http->home))
        return rv_fail(err, RUVLLM_INVALID,
                       "the hub's address is unprotected http, which would show the token to others: use https, or go "
                       "without a token");
    rv_buf_init(&line, 4096);
    rv_buf_addf(&line, "Authorization: Bearer %s", token);
    http->authorization = rv_buf_take(&line, NULL);
    rv_buf_release(&line);
    if (!http->authorization)
        return rv_fail(err, RUVLLM_INVALID, "the hub's token is too long; look at HF_TOKEN");
    return RUVLLM_OK;
}

ruvllm_status rv_hub_http_open(struct rv_hub_http **out, const char *endpoint, const char *token, int32_t stall_seconds,
                               struct ruvllm_error *err)
{
    struct rv_hub_http *http = rv_calloc(1, sizeof(*http));
    ruvllm_status rc;

    *out = NULL;
    if (!http)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a connection");
    http->stall_seconds = stall_seconds;
    http->authorities = getenv("SSL_CERT_FILE"); // libcurl leaves it to its callers
    http->curl = curl_easy_init();
    rc = http->curl ? set_endpoint(http, endpoint, err) : rv_fail(err, RUVLLM_INTERNAL, "libcurl could not be started");
    if (rc == RUVLLM_OK)
        rc = set_token(http, token, err);
    if (rc) {
        rv_hub_http_close(http);
        return rc;
    }
    *out = http;
    return RUVLLM_OK;
}

void rv_hub_http_close(struct rv_hub_http *http)
{
    if (!http)
        return;
    curl_easy_cleanup(http->curl);
    place_release(&http->home);
    rv_free(http->authorization);
    rv_free(http->endpoint);
    rv_free(http);
}

const char *rv_hub_http_endpoint(const struct rv_hub_http *http)
{
    return http->endpoint;
}

bool rv_hub_http_has_token(const struct rv_hub_http *http)
{
    return http->authorization != NULL;
}

void rv_hub_http_reply_init(struct rv_hub_http_reply *reply)
{
    *reply = (struct rv_hub_http_reply){.content_length = -1, .range_start = -1, .range_total = -1};
    rv_buf_init(&reply->body, MAX_BODY);
}

void rv_hub_http_reply_release(struct rv_hub_http_reply *reply)
{
    rv_buf_release(&reply->body);
}

/* ---- one exchange -------------------------------------------------------------------------- */

struct exchange {
    struct rv_hub_http *http;
    const struct rv_hub_http_request *request;
    struct rv_hub_http_reply *reply;
    char location[MAX_URL];
    uint64_t unsent; // of the upload
    bool is_refused; // on_head or on_body said no
    bool is_cancelled;
    bool is_too_large;
};

static bool is_success(long status)
{
    return status >= 200 && status < 300;
}

/* The value of header `name` in a line, without blanks around it; NULL when it is another header. */
static const char *header_value(const char *line, size_t len, const char *name, size_t *value_len)
{
    size_t name_len = strlen(name);

    if (len <= name_len || strncasecmp(line, name, name_len) != 0 || line[name_len] != ':')
        return NULL;
    line += name_len + 1;
    len -= name_len + 1;
    while (len && (*line == ' ' || *line == '\t')) {
        line++;
        len--;
    }
    while (len && (line[len - 1] == ' ' || line[len - 1] == '\t' || line[len - 1] == '\r' || line[len - 1] == '\n'))
        len--;
    *value_len = len;
    return line;
}

/* Whole, or not at all: a cut address or tag would be another one. */
static void keep(char *out, size_t room, const char *value, size_t len)
{
    if (len >= room || memchr(value, '\0', len))
        len = 0;
    memcpy(out, value, len);
    out[len] = '\0';
}

static bool to_number(const char *text, const char **end, int64_t *out)
{
    int64_t n = 0;

    if (*text < '0' || *text > '9')
        return false;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (n > (INT64_MAX - 9) / 10)
            return false;
        n = n * 10 + (*text - '0');
    }
    *end = text;
    *out = n;
    return true;
}

/* "bytes 100-199/200" */
static void read_range(struct rv_hub_http_reply *reply, const char *text)
{
    int64_t start, end, total;

    if (strncasecmp(text, "bytes ", 6) == 0 && to_number(text + 6, &text, &start) && *text == '-' &&
        to_number(text + 1, &text, &end) && *text == '/' && to_number(text + 1, &text, &total) && end >= start) {
        reply->range_start = start;
        reply->range_total = total;
    }
}

/* <https://...>; rel="next" */
static void read_link(struct rv_hub_http_reply *reply, const char *text)
{
    const char *end = strchr(text, '>');

    if (text[0] == '<' && end && strstr(end, "rel=\"next\""))
        keep(reply->next, sizeof(reply->next), text + 1, (size_t)(end - text - 1));
}

static void read_header(struct exchange *x, const char *line, size_t len)
{
    struct rv_hub_http_reply *reply = x->reply;
    char text[2048];
    const char *value, *end;
    size_t n;

    value = header_value(line, len, "location", &n);
    if (value)
        keep(x->location, sizeof(x->location), value, n);
    value = header_value(line, len, "etag", &n);
    if (value)
        keep(reply->etag, sizeof(reply->etag), value, n);
    value = header_value(line, len, "x-repo-commit", &n);
    if (value && rv_hub_name_is_safe(value, n))
        keep(reply->commit, sizeof(reply->commit), value, n);
    value = header_value(line, len, "content-length", &n);
    if (value) {
        keep(text, sizeof(text), value, n);
        if (!to_number(text, &end, &reply->content_length))
            reply->content_length = -1;
    }
    value = header_value(line, len, "content-range", &n);
    if (value) {
        keep(text, sizeof(text), value, n);
        read_range(reply, text);
    }
    value = header_value(line, len, "link", &n);
    if (value) {
        keep(text, sizeof(text), value, n);
        read_link(reply, text);
    }
}

static size_t on_header(char *line, size_t size, size_t n, void *user)
{
    struct exchange *x = user;
    size_t len = size * n;

    if (len >= 5 && strncmp(line, "HTTP/", 5) == 0) {
        x->location[0] = x->reply->etag[0] = x->reply->next[0] = '\0';
        x->reply->content_length = x->reply->range_start = x->reply->range_total = -1;
    } else if (len <= 2 && (line[0] == '\r' || line[0] == '\n')) {
        curl_easy_getinfo(x->http->curl, CURLINFO_RESPONSE_CODE, &x->reply->status);
        if (is_success(x->reply->status) && x->request->on_head && !x->request->on_head(x->request->user, x->reply)) {
            x->is_refused = true;
            return 0;
        }
    } else {
        read_header(x, line, len);
    }
    return len;
}

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
    struct exchange *x = user;
    struct rv_buf *body = &x->reply->body;
    size_t len = size * n;

    if (is_success(x->reply->status) && x->request->on_body) {
        x->is_refused = !x->request->on_body(x->request->user, data, len);
        return x->is_refused ? 0 : len;
    }
    if (!is_success(x->reply->status)) { // for the message only, so the beginning is enough
        if (body->len < MAX_ERROR_BODY)
            rv_buf_add(body, data, len < MAX_ERROR_BODY - body->len ? len : MAX_ERROR_BODY - body->len);
        return len;
    }
    rv_buf_add(body, data, len);
    x->is_too_large = body->failed != RUVLLM_OK;
    return x->is_too_large ? 0 : len;
}

static size_t on_upload(char *out, size_t size, size_t n, void *user)
{
    struct exchange *x = user;
    size_t len = size * n;
    ssize_t got;

    if (len > x->unsent)
        len = (size_t)x->unsent;
    if (len == 0)
        return 0;
    got = read(x->request->upload_fd, out, len);
    if (got <= 0)
        return CURL_READFUNC_ABORT;
    x->unsent -= (uint64_t)got;
    return (size_t)got;
}

static int on_progress(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up_now)
{
    struct exchange *x = user;

    (void)total;
    (void)now;
    (void)up_total;
    x->is_cancelled = x->request->on_tick && !x->request->on_tick(x->request->user, (uint64_t)up_now);
    return x->is_cancelled;
}

static bool add_header(struct curl_slist **list, const char *line)
{
    struct curl_slist *grown = curl_slist_append(*list, line);

    if (grown)
        *list = grown;
    return grown != NULL;
}

/* Headers of the request, with the token where it may go; NULL when memory is out. */
static struct curl_slist *make_headers(const struct exchange *x, const struct place *place)
{
    struct curl_slist *list = NULL;
    bool is_whole = add_header(&list, "Expect:"); // no waiting for leave to send

    for (size_t i = 0; i < x->request->n_headers; i++)
        is_whole = is_whole && add_header(&list, x->request->headers[i]);
    if (x->http->authorization && is_home(x->http, place))
        is_whole = is_whole && add_header(&list, x->http->authorization);
    if (!is_whole) {
        curl_slist_free_all(list);
        return NULL;
    }
    return list;
}

static void set_options(struct exchange *x, const char *url, struct curl_slist *headers)
{
    CURL *curl = x->http->curl;
    const struct rv_hub_http_request *request = x->request;

    curl_easy_reset(curl);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, is_https(&x->http->home) ? "https" : "http,https");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "ruvllm");
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)x->http->stall_seconds);
    if (x->http->authorities && *x->http->authorities)
        curl_easy_setopt(curl, CURLOPT_CAINFO, x->http->authorities);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, x);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, x);
    if (strcmp(request->method, "POST") == 0) {
        curl_easy_setopt(curl, CURLOPT_POST, 1L);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len);
    } else if (strcmp(request->method, "PUT") == 0) {
        curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_upload);
        curl_easy_setopt(curl, CURLOPT_READDATA, x);
        curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->upload_len);
    }
}

/* Trouble on the way, as opposed to trouble by principle. */
static bool is_transient(CURLcode code)
{
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_WEIRD_SERVER_REPLY:
        return true;
    default:
        return false;
    }
}

static ruvllm_status judge(struct exchange *x, CURLcode code, const struct place *place, struct ruvllm_error *err)
{
    char host[RV_HUB_NAME_LABEL];

    if (code == CURLE_OK)
        return RUVLLM_OK;
    rv_hub_name_label(place->host, host);
    if (x->is_cancelled)
        return rv_fail(err, RUVLLM_CANCELLED, "stopped");
    if (x->is_refused)
        return rv_fail(err, RUVLLM_FORMAT, "the answer of '%s' was refused", host);
    if (x->is_too_large)
        return rv_fail(err, RUVLLM_TOO_LARGE, "'%s' answers with more than %d bytes", host, MAX_BODY);
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return rv_fail(err, RUVLLM_IO, "the file to upload could not be read to its end");
    x->reply->is_transient = is_transient(code);
    return rv_fail(err, RUVLLM_IO, "the connection to '%s' failed: %s", host, curl_easy_strerror(code));
}

static ruvllm_status exchange_once(struct exchange *x, CURLU *url, struct ruvllm_error *err)
{
    struct place place;
    struct curl_slist *headers = NULL;
    char *text = NULL;
    curl_off_t seconds = 0;
    ruvllm_status rc;

    if (!place_init(&place, url) || curl_url_get(url, CURLUPART_URL, &text, 0) != CURLUE_OK) {
        rc = rv_fail(err, RUVLLM_FORMAT, "the hub points to what is no https address; refused");
        goto out;
    }
    rc = check_place(x->http, &place, err);
    if (rc)
        goto out;
    headers = make_headers(x, &place);
    if (!headers) {
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the request's headers");
        goto out;
    }
    x->unsent = x->request->upload_len;
    rv_buf_clear(&x->reply->body);
    set_options(x, text, headers);
    rc = judge(x, curl_easy_perform(x->http->curl), &place, err);
    curl_easy_getinfo(x->http->curl, CURLINFO_RETRY_AFTER, &seconds);
    x->reply->retry_after_ms = seconds > 0 && seconds < INT32_MAX ? (int64_t)seconds * 1000 : 0;
    curl_easy_setopt(x->http->curl, CURLOPT_HTTPHEADER, NULL);
out:
    curl_slist_free_all(headers);
    curl_free(text);
    place_release(&place);
    return rc;
}

static bool is_redirect(const struct exchange *x)
{
    long status = x->reply->status;

    return x->location[0] && (status == 301 || status == 302 || status == 303 || status == 307 || status == 308);
}

static void clear_reply(struct rv_hub_http_reply *reply)
{
    struct rv_buf body = reply->body;

    rv_hub_http_reply_init(reply);
    reply->body = body;
    rv_buf_clear(&reply->body);
}

ruvllm_status rv_hub_http_send(struct rv_hub_http *http, const struct rv_hub_http_request *request,
                               struct rv_hub_http_reply *reply, struct ruvllm_error *err)
{
    struct exchange *x = rv_calloc(1, sizeof(*x));
    CURLU *url = curl_url();
    ruvllm_status rc = RUVLLM_OK;

    clear_reply(reply);
    if (!x || !url) {
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a request");
        goto out;
    }
    *x = (struct exchange){.http = http, .request = request, .reply = reply};
    if (curl_url_set(url, CURLUPART_URL, request->url, CURLU_DISALLOW_USER) != CURLUE_OK) {
        rc = rv_fail(err, RUVLLM_FORMAT, "the hub names an address that is none");
        goto out;
    }
    for (int n = 0;; n++) {
        rc = exchange_once(x, url, err);
        if (rc || !is_redirect(x))
            goto out;
        if (strcmp(request->method, "GET") != 0) {
            rc = rv_fail(err, RUVLLM_FORMAT, "the hub sends what was given to it elsewhere (HTTP %ld); refused",
                         reply->status);
            goto out;
        }
        if (n == MAX_REDIRECTS) {
            rc = rv_fail(err, RUVLLM_FORMAT, "the hub redirects more than %d times", MAX_REDIRECTS);
            goto out;
        }
        /* Relative addresses are taken from where we are; schemes libcurl does not know are refused by check_place. */
        if (curl_url_set(url, CURLUPART_URL, x->location, CURLU_DISALLOW_USER | CURLU_NON_SUPPORT_SCHEME) !=
            CURLUE_OK) {
            rc = rv_fail(err, RUVLLM_FORMAT, "the hub redirects to an address that is none");
            goto out;
        }
    }
out:
    curl_url_cleanup(url);
    rv_free(x);
    return rc;
}

ruvllm_status rv_hub_http_fail(struct rv_hub_http_reply *reply, const char *what, struct ruvllm_error *err)
{
    long status = reply->status;

    reply->is_transient = status == 429 || status == 408 || status >= 500;
    if (status == 401 || status == 403)
        return rv_fail(
            err, RUVLLM_INVALID,
            "the hub refuses %s (HTTP %ld): it does not exist, or needs a token with the right to it in HF_TOKEN", what,
            status);
    if (status == 404)
        return rv_fail(err, RUVLLM_NOT_FOUND, "the hub has no %s (HTTP 404)", what);
    if (status == 429)
        return rv_fail(err, RUVLLM_BUSY, "the hub is busy and asks to come back later (HTTP 429)");
    return rv_fail(err, RUVLLM_IO, "the hub answers HTTP %ld for %s", status, what);
}
