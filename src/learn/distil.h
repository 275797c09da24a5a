/*
 * Keys of a tenant's memory that a deep run has made superfluous: what they say is likely enough without them. They are
 * known by a name, a hash of what a key says and where, so that an event can tell which ones went.
 */
#ifndef RV_LEARN_DISTIL_H
#define RV_LEARN_DISTIL_H

#include "learn/memory.h"

/* A key goes when its token has this probability, or more, without it. */
extern const double rv_distil_enough;

uint64_t rv_distil_name(const struct rv_memory_page *page, int32_t key);
/* `before` (NULL: nothing) without those named, 8 bytes each; *out is the caller's, NULL: no key is left. FORMAT. */
RV_CHECKED ruvllm_status rv_distil_drop(struct rv_memory **out, const struct rv_memory *before, struct rv_str names,
                                        struct ruvllm_error *err);

#endif
