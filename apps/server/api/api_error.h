/*
 * Errors as clients of the API see them: one struct on the caller's stack, and the body {"error": {message, type,
 * param, code}} it becomes. Messages, params and codes never hold control characters, addresses of memory or bytes that
 * are not UTF-8, whatever they were made from. No allocation but in the buffer a body is written to.
 */
#ifndef RV_API_API_ERROR_H
#define RV_API_API_ERROR_H

#include "base/buf.h"

enum { RV_API_ERROR_NAME = 128 }; // bytes of a client's own word that a message repeats

struct rv_api_error {
    int http_status;   // 400..599; 0 in a struct that holds no error
    char type[32];     // "invalid_request_error", "authentication_error", "rate_limit_error", "server_error", ...
    char code[48];     // "unsupported_field", "context_length_exceeded", "model_not_found", ...; "": null
    char param[96];    // the field it is about, such as "messages[2].content"; "": null
    char message[512]; // a sentence that says what to do
};

/* Fills `err`; the type goes with the status. `code` and `param` may be NULL. `err` may be NULL. */
void rv_api_error_set(struct rv_api_error *err, int http_status, const char *code, const char *param,
                      const char *format, ...) RV_PRINTF(5, 6);
/*
 * The one place where a failure of the library becomes a status: INVALID 400, NOT_FOUND 404, BUSY 429, CANCELLED 499,
 * NO_MEMORY 503, UNSUPPORTED 501, the rest 500. TOO_LARGE is 400 with the code context_length_exceeded when a prompt
 * does not fit (kinds KV_CACHE and GENERATION, both numbers in the message), else 413. NOT_FOUND of a model has the
 * code model_not_found. What went wrong inside (IO, FORMAT, BACKEND, INTERNAL) is not told: the message of a 500 is
 * ours and the caller logs the cause.
 */
void rv_api_error_from(struct rv_api_error *err, const struct ruvllm_error *cause);
/* The error for a status that says it all: 401, 403, 404, 405, 408, 413, 415, 429, 431, 503 ... `why` may be NULL. */
void rv_api_error_http(struct rv_api_error *err, int http_status, const char *why);
/* 404 for a model that is not served; names it. */
void rv_api_error_model(struct rv_api_error *err, const char *model);

/* Adds {"error": {...}}. */
void rv_api_error_json(const struct rv_api_error *err, struct rv_buf *out);
/* Adds it as an event of a stream that had begun: "data: {...}\n\n". */
void rv_api_error_event(const struct rv_api_error *err, struct rv_buf *out);

#endif
