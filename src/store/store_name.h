/*
 * Which names and texts a store takes. Names become parts of file names, log lines and metrics, so their alphabet is
 * small; texts for people are UTF-8 without control characters.
 *
 * All fail with RUVLLM_INVALID and a message that says what `what` may be, without repeating what was given: it may
 * hold anything. `text` NULL counts as "".
 */
#ifndef RV_STORE_STORE_NAME_H
#define RV_STORE_STORE_NAME_H

#include "base/error.h"

RV_CHECKED ruvllm_status rv_store_name_tenant(const char *text, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_store_name_key_id(const char *text, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_store_name_session(const char *text, struct ruvllm_error *err);
/* A file's name without a folder, or "". */
RV_CHECKED ruvllm_status rv_store_name_snapshot(const char *text, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_store_name_policy(const char *text, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_store_name_text(const char *text, size_t max, const char *what, struct ruvllm_error *err);

/* Copies a text that is known to be at most `max` bytes; `out` has room for one more. NULL gives "". */
void rv_store_name_copy(char *out, size_t max, const char *text);

#endif
