/*
 * How failures are reported. The function that discovers one calls rv_fail() (or rv_fail_kind() where the
 * status alone does not tell the part); each caller that can add a name wraps it with rv_fail_in():
 *
 *     cannot open model 'a.gguf': tensor 'output.weight' ends beyond the file
 *
 * `err` may be NULL. On success it is never touched.
 */
#ifndef RV_BASE_ERROR_H
#define RV_BASE_ERROR_H

#include "ruvllm.h"

#define RV_CHECKED __attribute__((warn_unused_result))
#define RV_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Fills `err` with the status, the kind that goes with it by default, and the message; returns the status. */
ruvllm_status rv_fail(struct ruvllm_error *err, ruvllm_status status, const char *format, ...) RV_PRINTF(3, 4);
ruvllm_status rv_fail_kind(struct ruvllm_error *err, ruvllm_status status, ruvllm_error_kind kind, const char *format,
                           ...) RV_PRINTF(4, 5);
/* Puts "<message>: " before what `err` already says, keeping its status and kind; returns `status`. */
ruvllm_status rv_fail_in(struct ruvllm_error *err, ruvllm_status status, const char *format, ...) RV_PRINTF(3, 4);
/* As rv_fail, with ": <reason of errno value>" appended; the status is IO, or NOT_FOUND for ENOENT. */
ruvllm_status rv_fail_errno(struct ruvllm_error *err, int errno_value, const char *format, ...) RV_PRINTF(3, 4);

#if defined(__clang_analyzer__) && !defined(RV_ERROR_DEFINITIONS)
/* The analyzer cannot see into error.c: tell it that a failure is never 0, or every caller seems to go on after one. */
#define rv_fail(err, status, ...) (rv_fail(err, status, __VA_ARGS__), (status))
#define rv_fail_kind(err, status, ...) (rv_fail_kind(err, status, __VA_ARGS__), (status))
#define rv_fail_in(err, status, ...) (rv_fail_in(err, status, __VA_ARGS__), (status))
#define rv_fail_errno(err, ...) (rv_fail_errno(err, __VA_ARGS__), RUVLLM_IO)
#endif

/* States a bug of ours. On in every build; never judges input. */
#define RV_ASSERT(x) ((x) ? (void)0 : rv_assert_failed(#x, __FILE__, __LINE__))
_Noreturn void rv_assert_failed(const char *expression, const char *file, int line);

#endif
