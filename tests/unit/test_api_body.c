/* Bodies: what is no JSON, too deep, too much or said twice is refused, at once and without taking memory for it. */
#include "base/alloc.h"
#include "support/api_bodies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static size_t fail_at; // the allocation that fails, counted from 1; 0: none

void *__real_rv_malloc(size_t bytes);
void *__real_rv_calloc(size_t n, size_t size);
void *__real_rv_realloc_array(void *array, size_t n, size_t size);
void *__wrap_rv_malloc(size_t bytes);
void *__wrap_rv_calloc(size_t n, size_t size);
void *__wrap_rv_realloc_array(void *array, size_t n, size_t size);

static bool fails_now(void)
{
    return fail_at > 0 && --fail_at == 0;
}

void *__wrap_rv_malloc(size_t bytes)
{
    return fails_now() ? NULL : __real_rv_malloc(bytes);
}

void *__wrap_rv_calloc(size_t n, size_t size)
{
    return fails_now() ? NULL : __real_rv_calloc(n, size);
}

void *__wrap_rv_realloc_array(void *array, size_t n, size_t size)
{
    return fails_now() ? NULL : __real_rv_realloc_array(array, n, size);
}

#define TEN(x) x x x x x x x x x x
#define NEST(x) TEN(x) TEN(x) TEN(x) TEN(x) TEN(x) TEN(x)

/* head, then n times item with commas between, then tail. */
static char *repeat(const char *head, const char *item, size_t n, const char *tail)
{
    struct rv_buf buf;

    rv_buf_init(&buf, (size_t)64 << 20);
    rv_buf_add_str(&buf, head);
    for (size_t i = 0; i < n; i++) {
        if (i)
            rv_buf_add_char(&buf, ',');
        rv_buf_add_str(&buf, item);
    }
    rv_buf_add_str(&buf, tail);
    assert_int_equal(buf.failed, RUVLLM_OK);
    return rv_buf_take(&buf, NULL);
}

static void assert_cap(enum rv_api_kind kind, const char *head, const char *item, size_t max, const char *tail,
                       const char *param)
{
    char *most = repeat(head, item, max, tail), *more = repeat(head, item, max + 1, tail);
    struct rv_api_request *request = body_parse_text(kind, most);

    if (!request)
        fail_msg("%zu of %s are refused: %s", max, param, body_error.message);
    rv_api_request_free(request);
    body_refused(kind, more, param);
    rv_free(most);
    rv_free(more);
}

static void fan_out_is_capped(void **state)
{
    char *body;

    (void)state;
    assert_cap(RV_API_COMPLETION, "{\"model\":\"m\",\"prompt\":[", "\"a\"", RV_API_MAX_PROMPTS, "]}", "prompt");
    assert_cap(RV_API_COMPLETION, "{\"model\":\"m\",\"prompt\":[", "[1]", RV_API_MAX_PROMPTS, "]}", "prompt");
    assert_cap(RV_API_EMBEDDING, "{\"model\":\"m\",\"input\":[", "\"a\"", RV_API_MAX_PROMPTS, "]}", "input");
    assert_cap(RV_API_COMPLETION, "{\"model\":\"m\",\"n\":8,\"prompt\":[", "\"a\"", RV_API_MAX_CHOICES / 8, "]}", "n");
    assert_cap(RV_API_CHAT, "{\"model\":\"m\",\"messages\":[", "{\"role\":\"user\",\"content\":\"x\"}",
               RV_API_MAX_MESSAGES, "]}", "messages");
    assert_cap(RV_API_CHAT, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[",
               "{\"type\":\"text\",\"text\":\"x\"}", RV_API_MAX_PARTS, "]}]}", "messages[0].content");
    assert_cap(RV_API_CHAT, "{" BODY_CHAT ",\"stop\":[", "\"x\"", RV_API_MAX_STOPS, "]}", "stop");
    body = repeat("{" BODY_CHAT ",\"stop\":\"", "", 256, "\"}"); // 255 commas
    rv_api_request_free(body_parse_text(RV_API_CHAT, body));
    assert_int_equal(body_error.http_status, 0);
    rv_free(body);
    body = repeat("{" BODY_CHAT ",\"stop\":[\"a\",\"", "", 258, "\"]}"); // 257
    body_refused(RV_API_CHAT, body, "stop[1]");
    rv_free(body);
    body_refused_with(RV_API_CHAT, "\"stop\":\"\"", "stop");
    body_refused_with(RV_API_CHAT, "\"stop\":[1]", "stop[0]");
}

/* {"0":1,"1":1,...} of n pairs. */
static char *numbered(const char *head, size_t n, const char *value, const char *tail)
{
    struct rv_buf buf;

    rv_buf_init(&buf, (size_t)64 << 20);
    rv_buf_add_str(&buf, head);
    for (size_t i = 0; i < n; i++)
        rv_buf_addf(&buf, "%s\"%zu\":%s", i ? "," : "", i, value);
    rv_buf_add_str(&buf, tail);
    return rv_buf_take(&buf, NULL);
}

static void long_objects_are_capped(void **state)
{
    static const struct {
        const char *head, *value, *param;
        size_t max;
    } rows[] = {
        {"{" BODY_CHAT ",\"logit_bias\":{", "1", "logit_bias", RV_API_MAX_LOGIT_BIAS},
        {"{" BODY_CHAT ",\"metadata\":{", "\"v\"", "metadata", RV_API_MAX_METADATA},
    };

    (void)state;
    for (size_t i = 0; i < BODY_COUNT(rows); i++) {
        char *most = numbered(rows[i].head, rows[i].max, rows[i].value, "}}");
        char *more = numbered(rows[i].head, rows[i].max + 1, rows[i].value, "}}");
        struct rv_api_request *request = body_parse_text(RV_API_CHAT, most);

        assert_non_null(request);
        rv_api_request_free(request);
        body_refused(RV_API_CHAT, more, rows[i].param);
        rv_free(most);
        rv_free(more);
    }
}

static void a_key_given_twice_is_refused_at_any_depth(void **state)
{
    (void)state;
    for (size_t i = 0; i < 40; i++) { // few keys and many are looked at in different ways
        char tail[32], key[8], *body;

        snprintf(key, sizeof(key), "%zu", i / 2);
        snprintf(tail, sizeof(tail), ",\"%s\":2}}", key);
        body = numbered("{" BODY_CHAT ",\"logit_bias\":{", i + 1, "1", tail);
        body_refused(RV_API_CHAT, body, key);
        assert_string_equal(body_error.code, "duplicate_field");
        rv_free(body);
    }
    body_refused_with(RV_API_CHAT, "\"model\":\"n\"", "model");
    assert_string_equal(body_error.code, "duplicate_field");
    body_refused_with(RV_API_CHAT, "\"n\":1,\"n\":1", "n");
    body_refused_with(RV_API_CHAT, "\"kv\":{\"cold\":\"q4\",\"cold\":\"q8\"}", "cold");
    body_refused_with(RV_API_CHAT, "\"n\":1,\"\\u006e\":2", "n"); // the same key, spelled otherwise
    body_refused_with(RV_API_CHAT, "\"tools\":[[{\"a\":{\"b\":1,\"b\":1}}]]", "b");
}

static void depth_is_limited_and_refused_at_once(void **state)
{
    size_t len = 1000000;
    char *body = malloc(len + 1);
    struct timespec from, to;

    (void)state;
    memset(body, '[', len);
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int kind = RV_API_CHAT; kind <= RV_API_TEMPLATE; kind++)
        assert_null(body_parse((enum rv_api_kind)kind, body, len));
    clock_gettime(CLOCK_MONOTONIC, &to);
    assert_true((double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec) < 0.1);
    assert_string_equal(body_error.code, "invalid_json");
    free(body);
    body_refused(RV_API_CHAT, "{" BODY_CHAT ",\"tools\":[" NEST("[") NEST("]") "]}", "tools[0]"); // 62 levels: read
    body_refused(RV_API_CHAT, "{" BODY_CHAT ",\"tools\":[[[[" NEST("[") NEST("]") "]]]]}", "");   // 65: not
}

static void bodies_that_are_no_json_objects_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        " ",
        "[]",
        "5",
        "null",
        "\"x\"",
        "{",
        "{}x",
        "{\"a\"}",
        "{a:1}",
        "{'a':1}",
        "{\"a\":1,}",
        "{\"a\":\"\xff\"}",
        "{\"a\":\"\xed\xa0\x80\"}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\xc0\xaf\"}",
        "{\"a\":\"\t\"}",
        "// x\n{}",
        "\xef\xbb\xbf{}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\",
        "{\"\xff\":1}",
    };

    (void)state;
    for (int kind = RV_API_CHAT; kind <= RV_API_TEMPLATE; kind++) {
        for (size_t i = 0; i < BODY_COUNT(bad); i++) {
            assert_null(body_parse_text((enum rv_api_kind)kind, bad[i]));
            assert_string_equal(body_error.code, "invalid_json");
        }
        assert_null(body_parse((enum rv_api_kind)kind, "{}\0", 3));
        body_refused((enum rv_api_kind)kind, "{}", "model");
    }
}

/* Each allocation in turn fails: 503, nothing leaks (the sanitizer looks), and at last one too many to count. */
static void without_memory_a_request_is_a_503(void **state)
{
    char *prompt = repeat(",\"prompt\":[", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", 64, "]}");
    char *body = numbered("{\"model\":\"m\",\"stop\":[\"a\"],\"logit_bias\":{", 900, "1", "}");
    struct rv_api_request *request = NULL;
    struct rv_buf whole;
    size_t n = 0;

    (void)state;
    rv_buf_init(&whole, 1 << 20);
    rv_buf_add_str(&whole, body);
    rv_buf_add_str(&whole, prompt);
    while (!request) {
        ruvllm_status rc;

        fail_at = ++n;
        rc = rv_api_request_parse(RV_API_COMPLETION, whole.data, whole.len, &request, &body_error);
        assert_true(rc == RUVLLM_OK ? request != NULL : rc == RUVLLM_NO_MEMORY && body_error.http_status == 503);
    }
    fail_at = 0;
    assert_true(n > 4); // the owner, the sorted keys, blocks of the arena
    rv_api_request_check(request);
    rv_api_request_free(request);
    rv_buf_release(&whole);
    rv_free(body);
    rv_free(prompt);
}

/* The thread sanitizer keeps notes about every byte that is read: there a process grows by more than it takes. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define IS_WATCHED 1
#endif
#endif
#ifndef IS_WATCHED
#define IS_WATCHED 0
#endif

static long max_rss_kib(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* The bodies that take the most memory for their size, at the server's limit of 8 MiB. */
static void memory_is_bounded_by_the_body(void **state)
{
    char *tokens = repeat("{\"model\":\"m\",\"prompt\":[", "1", RV_API_MAX_VALUES - 8, "]}");
    char *values = repeat("{\"model\":\"m\",\"prompt\":[", "1", 4000000, "]}");
    char *parts = repeat("{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[",
                         "{\"type\":\"text\",\"text\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}",
                         RV_API_MAX_PARTS, "]}]}");
    struct rv_api_request *request;
    long before;

    (void)state;
    before = max_rss_kib();
    assert_null(body_parse_text(RV_API_COMPLETION, values));
    assert_non_null(strstr(body_error.message, "values"));
    assert_true(IS_WATCHED || max_rss_kib() - before < 1024); // refused before memory was taken
    request = body_parse_text(RV_API_COMPLETION, tokens);
    assert_non_null(request);
    assert_int_equal(request->inputs[0].n_tokens, RV_API_MAX_VALUES - 8);
    rv_api_request_free(request);
    request = body_parse_text(RV_API_CHAT, parts);
    assert_non_null(request);
    assert_int_equal(strlen(request->inputs[0].messages[0].content), 57 * RV_API_MAX_PARTS);
    rv_api_request_free(request);
    assert_true(IS_WATCHED || max_rss_kib() - before < 16 * 1024);
    rv_free(tokens);
    rv_free(values);
    rv_free(parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_bounded_by_the_body), // first: it looks at the most memory ever used
        cmocka_unit_test(fan_out_is_capped),
        cmocka_unit_test(long_objects_are_capped),
        cmocka_unit_test(a_key_given_twice_is_refused_at_any_depth),
        cmocka_unit_test(depth_is_limited_and_refused_at_once),
        cmocka_unit_test(bodies_that_are_no_json_objects_are_refused),
        cmocka_unit_test(without_memory_a_request_is_a_503),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
