/*
 * What every suite includes: cmocka with its ritual, and where the real data lies.
 *
 * A case's name is a sentence. A case that needs data which is not there calls test_need_file(), which says
 * so loudly and skips; .ci/run fails when that happens.
 */
#ifndef RV_TESTS_SUPPORT_TEST_H
#define RV_TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ruvllm.h"

/* RUVLLM_TEST_DATA/<name> and RUVLLM_MODELS_DIR/<name>; four results stay valid at a time. */
const char *test_data(const char *name);
const char *test_model(const char *name);
/* Skips the running case, loudly, unless the file is readable. */
void test_need_file(const char *path);
/* For suites that are nothing without the data: ends the program as skipped, loudly, when it is not there. */
void test_need_data(void);
/* Whole file with a NUL after it, for the caller to free(); fails the case when it cannot be read. */
char *test_read_file(const char *path, size_t *len);
/* A fresh path for a temporary file; removed at exit. */
const char *test_temp_path(const char *suffix);
void test_write_file(const char *path, const void *data, size_t len);

/* Where threads are watched everything is slow, and what they do soon repeats itself: there a few do for all. */
#ifdef RUVLLM_WATCHES_THREADS
#define TEST_WATCHED(few, all) (few)
#else
#define TEST_WATCHED(few, all) (all)
#endif
/* Under any sanitizer computing takes ten times as long, and finds what it finds the first time. */
#ifdef RUVLLM_IS_SANITIZED
#define TEST_SANITIZED(few, all) (few)
#else
#define TEST_SANITIZED(few, all) (all)
#endif

/* Asserts success and prints the message of a failure. */
#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        struct ruvllm_error err_ = {0};                                                                                \
        struct ruvllm_error *err = &err_;                                                                              \
        ruvllm_status rc_ = (call);                                                                                    \
        if (rc_ != RUVLLM_OK)                                                                                          \
            fail_msg("%s: %s", ruvllm_status_name(rc_), err->message);                                                 \
    } while (0)

/* Asserts that a call failed with this status and a message containing `text`; `err` is the caller's struct. */
#define assert_fails(call, status, err_struct, text)                                                                   \
    do {                                                                                                               \
        ruvllm_status rc_ = (call);                                                                                    \
        if (rc_ != (status))                                                                                           \
            fail_msg("expected %s, got %s: %s", ruvllm_status_name(status), ruvllm_status_name(rc_),                   \
                     rc_ ? (err_struct).message : "success");                                                          \
        if (!strstr((err_struct).message, (text)))                                                                     \
            fail_msg("message '%s' lacks '%s'", (err_struct).message, (text));                                         \
    } while (0)

#endif
