/*
 * The head of a request as it comes in: its target, then its headers, in one growable text with a ceiling. Names are
 * kept in lower case; a header that comes again is joined to the first with ", ". Nothing here judges what a header
 * means.
 *
 *     add_target*, end_target, (add_name*, end_name, add_value*, end_value)*
 *
 * A run of adds that does not fit, or finds no memory, is seen in rv_http_headers_failed.
 */
#ifndef RV_HTTP_HTTP_HEADERS_H
#define RV_HTTP_HTTP_HEADERS_H

#include "base/buf.h"

#include <stdint.h>

struct rv_http_headers {
    struct rv_buf text;  // target NUL, then name NUL value NUL for each header
    size_t headers_at;   // where the first name begins
    size_t name_at;      // the header that is being added
    size_t value_at;     // likewise
    int32_t n_added;     // how often end_name was called; joined headers count each time
    bool has_bad_target; // a byte that no target has
};

void rv_http_headers_init(struct rv_http_headers *headers, size_t max_bytes);
void rv_http_headers_release(struct rv_http_headers *headers);

void rv_http_headers_add_target(struct rv_http_headers *headers, const char *data, size_t len);
/* False for a target with anything but printable ASCII in it, or with '#'. */
bool rv_http_headers_end_target(struct rv_http_headers *headers);
void rv_http_headers_add_name(struct rv_http_headers *headers, const char *data, size_t len);
void rv_http_headers_end_name(struct rv_http_headers *headers);
void rv_http_headers_add_value(struct rv_http_headers *headers, const char *data, size_t len);
/* False for a value with a control character other than tab. White space at its end is cut off. */
bool rv_http_headers_end_value(struct rv_http_headers *headers);
/* Gives back memory that was kept for growing. */
void rv_http_headers_shrink(struct rv_http_headers *headers);

bool rv_http_headers_failed(const struct rv_http_headers *headers);
/* Writable, so that its reader may cut it in parts; of the length it had. */
char *rv_http_headers_target(const struct rv_http_headers *headers);
/* The value of a lower-case name; NULL when there is none. */
const char *rv_http_headers_find(const struct rv_http_headers *headers, const char *name);

/* True when every byte may stand in the value of a header. */
bool rv_http_headers_is_value(const char *data, size_t len);
/* True for a name of at least one character, all of them allowed in names. */
bool rv_http_headers_is_name(const char *name);

#endif
