/* What the suites of API requests share: the least body of each kind, and what must hold of every verdict. */
#ifndef RV_TESTS_SUPPORT_API_BODIES_H
#define RV_TESTS_SUPPORT_API_BODIES_H

#include "server/api/api_request.h"
#include "support/test.h"

#define BODY_CHAT "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define BODY_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What the last body was refused for; http_status 0 when it was taken. */
extern struct rv_api_error body_error;

/* The request, checked, or NULL: a 400 with everything a refusal has. */
struct rv_api_request *body_parse(enum rv_api_kind kind, const char *body, size_t len);
struct rv_api_request *body_parse_text(enum rv_api_kind kind, const char *body);
/* The least request of a kind with more fields behind it. */
struct rv_api_request *body_parse_with(enum rv_api_kind kind, const char *more);
/* Refused, with this param, which the message names. */
void body_refused_with(enum rv_api_kind kind, const char *more, const char *param);
void body_taken_with(enum rv_api_kind kind, const char *more);
void body_refused(enum rv_api_kind kind, const char *body, const char *param);

#endif
