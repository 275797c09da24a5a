/*
 * JSON text, one value after the other, into a buffer. A comma is put where one is needed by looking at the byte
 * before, so a buffer is a document in the making and nothing else has to be kept. `key` NULL: an element of an array,
 * or the document itself.
 */
#ifndef RV_API_API_JSON_H
#define RV_API_API_JSON_H

#include "base/buf.h"

/* A key on its own, where it is not a C string; the value comes next, with a NULL key. */
void rv_api_json_key(struct rv_buf *out, const char *key, size_t len);
/* Opens with '{' or '['; rv_api_json_end closes with '}' or ']'. */
void rv_api_json_begin(struct rv_buf *out, const char *key, char bracket);
void rv_api_json_end(struct rv_buf *out, char bracket);
/* Escaped; every byte that is no part of a UTF-8 character becomes U+FFFD. */
void rv_api_json_text(struct rv_buf *out, const char *key, const char *text, size_t len);
/* The same for a C string; NULL is written as null. */
void rv_api_json_str(struct rv_buf *out, const char *key, const char *text);
void rv_api_json_int(struct rv_buf *out, const char *key, int64_t value);
/* The shortest digits that read back as the same float; must be finite. */
void rv_api_json_float(struct rv_buf *out, const char *key, float value);
/* Nine digits; null where it is no number. */
void rv_api_json_real(struct rv_buf *out, const char *key, double value);
void rv_api_json_bool(struct rv_buf *out, const char *key, bool value);
void rv_api_json_null(struct rv_buf *out, const char *key);
/* Text that is JSON already. */
void rv_api_json_raw(struct rv_buf *out, const char *key, const char *json);

#endif
