/*
 * The W3C trace context: which trace a request belongs to. What a caller sends is taken over when it is well formed and
 * replaced by a new trace when it is not; the answer and the log name the trace and our own span in it.
 */
#ifndef RV_SERVER_TRACE_CONTEXT_H
#define RV_SERVER_TRACE_CONTEXT_H

#include "base/rng.h"

#include <stdbool.h>

enum { RV_TRACE_CONTEXT_LEN = 55 }; // "00-<32 hex>-<16 hex>-<2 hex>"

struct rv_trace_context {
    char text[RV_TRACE_CONTEXT_LEN + 1]; // our own `traceparent`, NUL-terminated
};

/* True for a `traceparent` of version 00 whose ids are not all zero; of a later version, its first four fields. */
bool rv_trace_context_is_valid(const char *header);
/* A span of ours: in the trace `header` names, or in a new one where it is NULL or malformed. */
void rv_trace_context_begin(struct rv_trace_context *trace, const char *header, struct rv_rng *rng);

#endif
