/* The route table: what is in it, who may, and that nothing else is open. */
#include "server/route_table.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

/* A path that a pattern means. */
static void example_of(const char *pattern, char out[128])
{
    size_t n = 0;

    for (; *pattern; pattern++) {
        if (*pattern != '*')
            out[n++] = *pattern;
        else if (n == 0 || out[n - 1] != 'x')
            out[n++] = 'x';
    }
    out[n] = '\0';
}

static ruvllm_status one_key(void *user, uint64_t *n, struct ruvllm_error *err)
{
    (void)user;
    (void)err;
    *n = 1;
    return RUVLLM_OK;
}

static ruvllm_status knows_none(void *user, const char *key, size_t len, ruvllm_key_verdict *verdict,
                                struct ruvllm_key_info *info, struct ruvllm_error *err)
{
    (void)user, (void)key, (void)len, (void)info, (void)err;
    *verdict = RUVLLM_KEY_UNKNOWN;
    return RUVLLM_OK;
}

static void every_route_but_the_open_ones_denies_without_a_key(void **state)
{
    static const char *const open[] = {"/", "/page/*", "/healthz", "/readyz"};
    const struct rv_auth_source source = {.check = knows_none, .count = one_key};
    const struct rv_auth_request nobody = {.host = "localhost", .is_loopback = true};
    const struct rv_auth_request stranger = {.host = "localhost", .is_loopback = true, .authorization = "Bearer x"};
    struct rv_auth auth;
    size_t n_open = 0;

    (void)state;
    assert_ok(rv_auth_init(&auth, &source, err));
    for (size_t i = 0; i < rv_route_table_count(); i++) {
        const struct rv_route *route = rv_route_table_at(i);
        struct rv_auth_key key;
        bool is_open = false;

        for (size_t k = 0; k < sizeof(open) / sizeof(open[0]); k++)
            is_open |= strcmp(open[k], route->pattern) == 0;
        n_open += is_open;
        assert_int_equal(rv_auth_check(&auth, &nobody, route->access, 0, &key), is_open ? RV_AUTH_OK : RV_AUTH_MISSING);
        assert_int_equal(rv_auth_check(&auth, &stranger, route->access, 0, &key), is_open ? RV_AUTH_OK : RV_AUTH_WRONG);
    }
    assert_int_equal(n_open, 4);
    rv_auth_release(&auth);
}

static void a_row_that_says_nothing_needs_a_key(void **state)
{
    const struct rv_route route = {.pattern = "/new"};

    (void)state;
    assert_int_equal(route.access, RV_AUTH_KEY);
}

static void every_route_is_found_by_a_path_of_its_pattern(void **state)
{
    (void)state;
    for (size_t i = 0; i < rv_route_table_count(); i++) {
        const struct rv_route *route = rv_route_table_at(i), *found;
        char path[128], arg[RV_ROUTE_ARG];

        example_of(route->pattern, path);
        assert_int_equal(rv_route_table_find(route->method, path, &found, arg), RV_ROUTE_FOUND);
        assert_ptr_equal(found, route);
        assert_int_equal(rv_route_table_index(found), i);
        assert_string_equal(arg, strchr(route->pattern, '*') ? "x" : "");
        assert_true((route->answer != NULL) != (route->work != NULL));
    }
}

static void paths_that_only_look_like_one_are_not_there(void **state)
{
    static const char *const paths[] = {"",
                                        "/healthz/",
                                        "//healthz",
                                        "/HEALTHZ",
                                        "/healthz?x",
                                        "/v1",
                                        "/v1/",
                                        "/v1/models/",
                                        "/page/",
                                        "/page/a/b",
                                        "/v1/./models",
                                        "/v1/sessions/a/b",
                                        "/v1/sessions//save",
                                        "/v1/sessions/a/save/",
                                        "healthz"};
    const struct rv_route *found;
    char arg[RV_ROUTE_ARG];

    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        assert_int_equal(rv_route_table_find(RV_HTTP_GET, paths[i], &found, arg), RV_ROUTE_NONE);
}

static void another_method_is_told_which_ones_there_are(void **state)
{
    const struct rv_route *found;
    char arg[RV_ROUTE_ARG];

    (void)state;
    assert_int_equal(rv_route_table_find(RV_HTTP_POST, "/v1/sessions/a", &found, arg), RV_ROUTE_OTHER_METHOD);
    assert_string_equal(arg, "GET, HEAD, DELETE");
    assert_int_equal(rv_route_table_find(RV_HTTP_HEAD, "/healthz", &found, arg), RV_ROUTE_FOUND);
    assert_int_equal(rv_route_table_find(RV_HTTP_HEAD, "/v1/completions", &found, arg), RV_ROUTE_OTHER_METHOD);
}

static void an_argument_that_is_too_long_is_no_argument(void **state)
{
    const struct rv_route *found;
    char path[400], arg[RV_ROUTE_ARG];

    (void)state;
    memset(path, 'a', sizeof(path));
    memcpy(path, "/v1/models/", 11);
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(rv_route_table_find(RV_HTTP_GET, path, &found, arg), RV_ROUTE_NONE);
    path[11 + RV_ROUTE_ARG - 1] = '\0';
    assert_int_equal(rv_route_table_find(RV_HTTP_GET, path, &found, arg), RV_ROUTE_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_route_but_the_open_ones_denies_without_a_key),
        cmocka_unit_test(a_row_that_says_nothing_needs_a_key),
        cmocka_unit_test(every_route_is_found_by_a_path_of_its_pattern),
        cmocka_unit_test(paths_that_only_look_like_one_are_not_there),
        cmocka_unit_test(another_method_is_told_which_ones_there_are),
        cmocka_unit_test(an_argument_that_is_too_long_is_no_argument),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
