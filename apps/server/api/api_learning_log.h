/* What was learned, looked at and governed by people: bodies of requests, and replies. */
#ifndef RV_API_API_LEARNING_LOG_H
#define RV_API_API_LEARNING_LOG_H

#include "ruvllm_learn_log.h"
#include "server/api/api_fields.h"

/* POST /v1/learning/pause, /resume and /forget. */
struct rv_api_learning_wish {
    char model[RV_API_MAX_MODEL + 1]; // "": the default one
    int64_t event;                    // to be forgotten
};

/* Both fail as rv_api_request_parse does. */
RV_CHECKED ruvllm_status rv_api_learning_log_parse_pause(const char *body, size_t len, struct rv_api_learning_wish *out,
                                                         struct rv_api_error *err);
RV_CHECKED ruvllm_status rv_api_learning_log_parse_forget(const char *body, size_t len,
                                                          struct rv_api_learning_wish *out, struct rv_api_error *err);

/* An event of the list. */
void rv_api_learning_log_reply_event(struct rv_buf *out, const struct ruvllm_learned_event *event);
void rv_api_learning_log_reply_pause(struct rv_buf *out, const char *model, bool is_paused);
void rv_api_learning_log_reply_forget(struct rv_buf *out, const char *model,
                                      const struct ruvllm_feedback_result *result);

#endif
