/* Parts of a request's target as text: what was escaped with %XX, and fields of a query. */
#ifndef RV_SERVER_URL_TEXT_H
#define RV_SERVER_URL_TEXT_H

#include "base/error.h"

/* Undoes %XX in place. "%00" stays as it is, and so does what is no escape. */
void rv_url_text_unescape(char *text);
/* The value of a field of "a=1&b=2", unescaped; false when it is not there or does not fit. */
bool rv_url_text_field(const char *query, const char *name, char *out, size_t cap);
/* The same as a number within min..max; absent leaves *out alone. False: it is there and is no such number. */
bool rv_url_text_int(const char *query, const char *name, int64_t min, int64_t max, int64_t *out);
/* Whether every field of the query is one of `names`, which end with NULL. */
bool rv_url_text_has_only(const char *query, const char *const *names);

#endif
