/* Training runs on what a tenant said: the body that asks for one, and what is told of it. */
#ifndef RV_API_API_DEEP_H
#define RV_API_API_DEEP_H

#include "ruvllm_train.h"
#include "server/api/api_fields.h"

/* POST /v1/learning/deep. */
struct rv_api_deep_wish {
    char model[RV_API_MAX_MODEL + 1]; // "": the default one
    bool is_fresh;
    float max_forgetting;
};

/* Fails as rv_api_request_parse does. */
RV_CHECKED ruvllm_status rv_api_deep_parse(const char *body, size_t len, struct rv_api_deep_wish *out,
                                           struct rv_api_error *err);

/* A run as it is told: the report of one that ended well, the failure of one that did not; else NULL. */
struct rv_api_deep_run {
    const char *model;
    const char *status;
    int64_t started; // Unix seconds
    double seconds;
    const struct ruvllm_train_progress *progress;
    const struct ruvllm_deep_report *report;
    const struct ruvllm_error *failure;
};

void rv_api_deep_reply(struct rv_buf *out, const struct rv_api_deep_run *run);

#endif
