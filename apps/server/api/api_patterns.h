/* What was asked and how it was judged, in replies. */
#ifndef RV_API_API_PATTERNS_H
#define RV_API_API_PATTERNS_H

#include "base/buf.h"
#include "ruvllm_sona.h"

enum { RV_API_MAX_PATTERNS = 100 }; // of a model that a list has

void rv_api_patterns_reply(struct rv_buf *out, const char *model, const struct ruvllm_pattern *pattern);
void rv_api_patterns_reply_deleted(struct rv_buf *out);

#endif
