/* Feedback and what was learned from it, in requests and replies. */
#ifndef RV_API_API_LEARNING_H
#define RV_API_API_LEARNING_H

#include "ruvllm_learn.h"
#include "server/api/api_fields.h"

enum {
    RV_API_MAX_RESPONSE_ID = 128,
    RV_API_MAX_CHOICE = 4095,
    RV_API_MAX_CORRECTION = 256 * 1024, // bytes of a text that is taught
    RV_API_MAX_REASON = 8192
};

/* POST /v1/feedback: a score, or a correction, or a pair. */
struct rv_api_feedback {
    char response_id[RV_API_MAX_RESPONSE_ID + 1];
    int32_t choice; // which answer of several; 0 when absent
    bool has_score;
    float score;      // 0 to 1
    char *correction; // own copies, as the next three; NULL when absent
    char *preferred;
    char *rejected;
    char *reason;
};

/* POST /v1/learning/rollback. */
struct rv_api_rollback {
    char model[RV_API_MAX_MODEL + 1]; // "": the default one
    int64_t generation;               // 0: the model as it came
};

/* Both fail as rv_api_request_parse does. Feedback is released also after that. */
RV_CHECKED ruvllm_status rv_api_learning_parse_feedback(const char *body, size_t len, struct rv_api_feedback *out,
                                                        struct rv_api_error *err);
void rv_api_learning_release_feedback(struct rv_api_feedback *feedback);
RV_CHECKED ruvllm_status rv_api_learning_parse_rollback(const char *body, size_t len, struct rv_api_rollback *out,
                                                        struct rv_api_error *err);

void rv_api_learning_reply_feedback(struct rv_buf *out, const char *response_id,
                                    const struct ruvllm_feedback_result *result);
void rv_api_learning_reply_rollback(struct rv_buf *out, const char *model, const struct ruvllm_feedback_result *result);
/* What a model has learned for the caller; `info` NULL: it does not learn. */
void rv_api_learning_reply(struct rv_buf *out, const char *model, const struct ruvllm_learned_info *info);

/* 404 for an answer that is not there, is too old, or is another tenant's: which one is not told. */
void rv_api_learning_missing(struct rv_api_error *err, const char *response_id);
/* 501 for a server that does not learn, or a model of one that does; `model` NULL: the server. */
void rv_api_learning_off(struct rv_api_error *err, const char *model);
/* It will, and does not yet. */
void rv_api_learning_not_yet(struct rv_api_error *err, const char *model);

#endif
