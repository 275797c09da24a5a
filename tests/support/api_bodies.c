/* The bodies and verdicts of api_bodies.h. */
#include "support/api_bodies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMPLETION "\"model\":\"m\",\"prompt\":\"hi\""
#define EMBEDDING "\"model\":\"m\",\"input\":\"hi\""
#define RESPONSE EMBEDDING

static const char *const least[] = {
    [RV_API_CHAT] = BODY_CHAT,      [RV_API_COMPLETION] = COMPLETION,
    [RV_API_EMBEDDING] = EMBEDDING, [RV_API_RESPONSE] = RESPONSE,
    [RV_API_TOKENIZE] = COMPLETION, [RV_API_DETOKENIZE] = "\"model\":\"m\",\"tokens\":[1,2]",
    [RV_API_TEMPLATE] = BODY_CHAT,
};

struct rv_api_error body_error;

struct rv_api_request *body_parse(enum rv_api_kind kind, const char *body, size_t len)
{
    struct rv_api_request *request = (void *)1;
    ruvllm_status rc;

    body_error = (struct rv_api_error){0};
    rc = rv_api_request_parse(kind, body, len, &request, &body_error);
    if (rc == RUVLLM_OK) {
        assert_non_null(request);
        rv_api_request_check(request);
        assert_int_equal(body_error.http_status, 0);
        return request;
    }
    assert_int_equal(rc, RUVLLM_INVALID);
    assert_null(request);
    assert_int_equal(body_error.http_status, 400);
    assert_string_equal(body_error.type, "invalid_request_error");
    assert_true(strlen(body_error.message) > 10 && strlen(body_error.code) > 0);
    return NULL;
}

struct rv_api_request *body_parse_text(enum rv_api_kind kind, const char *body)
{
    return body_parse(kind, body, strlen(body));
}

/* The least request of a kind with more fields behind it. */
struct rv_api_request *body_parse_with(enum rv_api_kind kind, const char *more)
{
    size_t size = strlen(least[kind]) + strlen(more) + 4;
    char *body = malloc(size);
    struct rv_api_request *request;

    assert_non_null(body);
    snprintf(body, size, "{%s%s%s}", least[kind], *more ? "," : "", more);
    request = body_parse_text(kind, body);
    free(body);
    return request;
}

void body_refused_with(enum rv_api_kind kind, const char *more, const char *param)
{
    struct rv_api_request *request = body_parse_with(kind, more);

    if (request)
        fail_msg("kind %d took %s", kind, more);
    if (strcmp(body_error.param, param) != 0)
        fail_msg("%s: param is '%s', not '%s' (%s)", more, body_error.param, param, body_error.message);
    if (*param && !strstr(body_error.message, param))
        fail_msg("%s: the message does not name '%s': %s", more, param, body_error.message);
}

void body_taken_with(enum rv_api_kind kind, const char *more)
{
    struct rv_api_request *request = body_parse_with(kind, more);

    if (!request)
        fail_msg("kind %d refused %s: %s", kind, more, body_error.message);
    rv_api_request_free(request);
}

void body_refused(enum rv_api_kind kind, const char *body, const char *param)
{
    if (body_parse_text(kind, body))
        fail_msg("kind %d took %s", kind, body);
    if (strcmp(body_error.param, param) != 0)
        fail_msg("%s: param is '%s', not '%s' (%s)", body, body_error.param, param, body_error.message);
}
