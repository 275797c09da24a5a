/* When to try again, and how long to wait before: doubling pauses, or what the hub asks for, within bounds. */
#ifndef RV_ENGINE_HUB_RETRY_H
#define RV_ENGINE_HUB_RETRY_H

#include "engine/hub_http.h"

struct rv_hub_retry {
    int32_t max; // attempts in a row that may fail
    int32_t n;   // that did
    /* Called several times a second with what is left of the pause; false ends it. May be NULL. */
    bool (*on_pause)(void *user, int64_t left_ms);
    void *user;
};

/*
 * After an attempt that failed with `rc` (and `err` filled): OK when it is to be made again, after the pause; else the
 * failure, with the number of attempts where there were several.
 */
RV_CHECKED ruvllm_status rv_hub_retry_pause(struct rv_hub_retry *retry, ruvllm_status rc,
                                            const struct rv_hub_http_reply *reply, struct ruvllm_error *err);
/* Something moved: the count begins anew. */
void rv_hub_retry_moved(struct rv_hub_retry *retry);

#endif
