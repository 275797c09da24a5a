/* Renders small templates for the suites: no messages, variables as JSON. */
#ifndef RV_TESTS_SUPPORT_JINJA_H
#define RV_TESTS_SUPPORT_JINJA_H

#include "support/test.h"
#include "text/chat_template.h"

/* Asserts that `source` with the variables `json` (or NULL) renders to `wanted`. */
void test_jinja_renders(const char *source, const char *json, const char *wanted);
/* Asserts that parsing or rendering is INVALID with a message containing `message`. */
void test_jinja_fails(const char *source, const char *json, const char *message);
/* Asserts what it renders to with each run of user bytes put in <>, as in "a<b>c". */
void test_jinja_marks(const char *source, const char *json, const char *wanted);

#endif
