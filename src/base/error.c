/* Error values: formatting into the caller's fixed buffer, so that it works when memory is gone. */
#define RV_ERROR_DEFINITIONS // keeps the macros for the analyzer away from the functions they stand before
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ruvllm_error_kind default_kind(ruvllm_status status)
{
    switch (status) {
    case RUVLLM_NOT_FOUND:
        return RUVLLM_ERROR_NOT_FOUND;
    case RUVLLM_NO_MEMORY:
        return RUVLLM_ERROR_OUT_OF_MEMORY;
    case RUVLLM_IO:
        return RUVLLM_ERROR_IO;
    case RUVLLM_NO_SPACE:
        return RUVLLM_ERROR_STORAGE;
    case RUVLLM_FORMAT:
    case RUVLLM_UNSUPPORTED:
        return RUVLLM_ERROR_MODEL;
    case RUVLLM_BACKEND:
    case RUVLLM_INTERNAL:
        return RUVLLM_ERROR_BACKEND;
    case RUVLLM_CANCELLED:
        return RUVLLM_ERROR_GENERATION;
    default:
        return RUVLLM_ERROR_INVALID_OPERATION;
    }
}

RV_PRINTF(4, 0)
static void fill(struct ruvllm_error *err, ruvllm_status status, ruvllm_error_kind kind, const char *format,
                 va_list args)
{
    if (!err)
        return;
    err->status = status;
    err->kind = kind;
    if (vsnprintf(err->message, sizeof(err->message), format, args) < 0)
        err->message[0] = '\0';
}

ruvllm_status rv_fail(struct ruvllm_error *err, ruvllm_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fill(err, status, default_kind(status), format, args);
    va_end(args);
    return status;
}

ruvllm_status rv_fail_kind(struct ruvllm_error *err, ruvllm_status status, ruvllm_error_kind kind, const char *format,
                           ...)
{
    va_list args;

    va_start(args, format);
    fill(err, status, kind, format, args);
    va_end(args);
    return status;
}

ruvllm_status rv_fail_in(struct ruvllm_error *err, ruvllm_status status, const char *format, ...)
{
    char inner[sizeof(err->message)];
    size_t used;
    va_list args;

    if (!err)
        return status;
    memcpy(inner, err->message, sizeof(inner));
    inner[sizeof(inner) - 1] = '\0';
    va_start(args, format);
    fill(err, status, err->kind, format, args);
    va_end(args);
    used = strlen(err->message);
    snprintf(err->message + used, sizeof(err->message) - used, ": %s", inner);
    return status;
}

ruvllm_status rv_fail_errno(struct ruvllm_error *err, int errno_value, const char *format, ...)
{
    ruvllm_status status = errno_value == ENOENT ? RUVLLM_NOT_FOUND : RUVLLM_IO;
    char reason[96];
    size_t used;
    va_list args;

    if (!err)
        return status;
    va_start(args, format);
    fill(err, status, default_kind(status), format, args);
    va_end(args);
    used = strlen(err->message);
    /* The POSIX strerror_r: the plain one is not safe with threads. */
    if (strerror_r(errno_value, reason, sizeof(reason)) != 0)
        snprintf(reason, sizeof(reason), "error %d", errno_value);
    snprintf(err->message + used, sizeof(err->message) - used, ": %s", reason);
    return status;
}

void rv_assert_failed(const char *expression, const char *file, int line)
{
    fprintf(stderr, "ruvllm: internal error: %s at %s:%d\n", expression, file, line);
    abort();
}
