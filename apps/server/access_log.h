/*
 * The log: one JSON object a line on a file descriptor, one line a request. Everything that came from outside is
 * escaped, so a line is always one line; prompts, answers, queries and keys are never in it.
 *
 * Any thread may log and none waits for the disk or a full pipe: a thread of the log's own writes. What does not fit
 * into its buffer is dropped and the number of dropped lines is told in the next one that fits.
 */
#ifndef RV_SERVER_ACCESS_LOG_H
#define RV_SERVER_ACCESS_LOG_H

#include "base/buf.h"

struct rv_access_log;

/* One request. Strings may be NULL: then the field is left out. */
struct rv_access_log_record {
    const char *method;
    const char *path; // as sent, without its query
    const char *route;
    const char *peer;
    const char *key_id;
    const char *tenant;
    const char *model;
    const char *request_id;
    const char *traceparent;
    const char *finish_reason;
    const char *end; // "sent", "gone", "deadline"
    const char *error;
    int status;
    int64_t total_us;
    int64_t first_token_us; // 0: there was none
    int32_t prompt_tokens;
    int32_t cached_tokens;
    int32_t generated_tokens;
};

RV_CHECKED ruvllm_status rv_access_log_open(struct rv_access_log **out, int fd, struct ruvllm_error *err);
/* Writes what waits, then ends. */
void rv_access_log_close(struct rv_access_log *log);
void rv_access_log_request(struct rv_access_log *log, const struct rv_access_log_record *record);
/* A line about something other than a request. */
void rv_access_log_message(struct rv_access_log *log, const char *level, const char *text);

/* The line itself, with its newline; `unix_us` is its time. */
void rv_access_log_format(struct rv_buf *out, const struct rv_access_log_record *record, int64_t unix_us);

#endif
