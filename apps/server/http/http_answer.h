/* The head of an answer, and chunks of its body, as bytes into a buffer. */
#ifndef RV_HTTP_HTTP_ANSWER_H
#define RV_HTTP_HTTP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

struct evbuffer;

enum rv_http_answer_framing {
    RV_HTTP_ANSWER_NONE,       // this status has no body
    RV_HTTP_ANSWER_LENGTH,     // content-length says it
    RV_HTTP_ANSWER_CHUNKED,    // pieces with their lengths
    RV_HTTP_ANSWER_UNTIL_CLOSE // as HTTP/1.0 does it
};

struct rv_http_answer {
    int status;
    const char *content_type; // NULL: none
    const char *extra;        // further lines, each with its CR LF; NULL: none
    size_t extra_len;
    enum rv_http_answer_framing framing;
    size_t content_length;
    bool keeps_alive;
    bool is_http10; // the peer speaks HTTP/1.0 and must be told that the connection stays
};

/* True when answers with this status have a body. */
bool rv_http_answer_has_body(int status);
/* False when memory is out; part of it may have been added then. */
bool rv_http_answer_add_head(struct evbuffer *out, const struct rv_http_answer *answer);
bool rv_http_answer_add_chunk(struct evbuffer *out, const void *data, size_t len);
bool rv_http_answer_add_last_chunk(struct evbuffer *out);

#endif
