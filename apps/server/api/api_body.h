/*
 * A body of bytes to a JSON tree that is safe to walk: an object, valid UTF-8, no deeper than RV_API_MAX_DEPTH, no more
 * values than RV_API_MAX_VALUES, no key twice in any object. Limits are checked before memory is taken.
 */
#ifndef RV_API_API_BODY_H
#define RV_API_API_BODY_H

#include "server/api/api_request.h"

#include <yyjson.h>

/* *out is the caller's, freed with yyjson_doc_free. */
RV_CHECKED ruvllm_status rv_api_body_read(const char *body, size_t len, yyjson_doc **out, struct rv_api_error *err);

#endif
