/*
 * Adapters in requests and replies. An id is "name", which every tenant may use, or "tenant/name", which only that
 * tenant may: each part 1 to 64 of A-Z a-z 0-9 . _ - and no dot first, 127 bytes in all.
 */
#ifndef RV_API_API_ADAPTER_H
#define RV_API_API_ADAPTER_H

#include "ruvllm_adapter.h"
#include "server/api/api_fields.h"

extern const struct rv_api_field rv_api_adapter_fields[];

bool rv_api_adapter_is_id(const char *id);
/* "adapter": an id, or a list of {id, weight}. */
void rv_api_adapter_read(struct rv_api_fields *body, struct rv_api_request *request);

/* POST /v1/adapters. */
struct rv_api_adapter_load {
    char id[RV_API_MAX_ADAPTER + 1];
    char model[RV_API_MAX_MODEL + 1]; // "": the default one
    char path[RV_API_MAX_PATH + 1];   // not checked: the caller's matter
    int64_t expected;                 // the newest generation the client knows of; -1: whatever it is
};

/* Fails as rv_api_request_parse does. */
RV_CHECKED ruvllm_status rv_api_adapter_load_parse(const char *body, size_t len, struct rv_api_adapter_load *out,
                                                   struct rv_api_error *err);

/* One generation of an adapter of `model`. */
void rv_api_adapter_reply(struct rv_buf *out, const char *model, const struct ruvllm_adapter_info *info);
void rv_api_adapter_reply_deleted(struct rv_buf *out, const char *id);
void rv_api_adapter_reply_diff(struct rv_buf *out, const char *id, int64_t from, int64_t to, double norm);

/* 404 for an adapter that is not there, or not this tenant's: which one is not told. */
void rv_api_adapter_missing(struct rv_api_error *err, const char *id);

#endif
