/* Keys, their memory, and serving without any. */
#include "server/auth.h"
#include "support/test.h"

#include <string.h>

/* A store of one key, "good"; counts how often it is asked. */
struct fake {
    uint64_t n_keys;
    bool is_revoked;
    bool is_admin;
    bool fails;
    int n_asked;
};

static ruvllm_status fake_check(void *user, const char *key, size_t len, ruvllm_key_verdict *verdict,
                                struct ruvllm_key_info *info, struct ruvllm_error *err)
{
    struct fake *fake = user;

    (void)err;
    fake->n_asked++;
    if (fake->fails)
        return RUVLLM_IO;
    *verdict = len == 4 && memcmp(key, "good", 4) == 0 ? fake->is_revoked ? RUVLLM_KEY_REVOKED : RUVLLM_KEY_VALID
                                                       : RUVLLM_KEY_UNKNOWN;
    memcpy(info->tenant, "acme", 5);
    memcpy(info->id, "k1", 3);
    info->requests_per_minute = 9;
    info->share = 2.5F;
    info->is_admin = fake->is_admin;
    return RUVLLM_OK;
}

static ruvllm_status fake_count(void *user, uint64_t *n, struct ruvllm_error *err)
{
    (void)err;
    *n = ((struct fake *)user)->n_keys;
    return RUVLLM_OK;
}

static void open_auth(struct rv_auth *auth, struct fake *fake)
{
    const struct rv_auth_source source = {.check = fake_check, .count = fake_count, .user = fake};

    assert_ok(rv_auth_init(auth, &source, err));
}

static enum rv_auth_verdict ask(struct rv_auth *auth, const char *authorization, int64_t now_us,
                                struct rv_auth_key *key)
{
    const struct rv_auth_request request = {
        .authorization = authorization, .host = "example.org", .is_loopback = false};

    return rv_auth_check(auth, &request, RV_AUTH_KEY, now_us, key);
}

static void a_valid_key_names_its_tenant_and_rate(void **state)
{
    struct fake fake = {.n_keys = 1};
    struct rv_auth_key key;
    struct rv_auth auth;

    (void)state;
    open_auth(&auth, &fake);
    assert_int_equal(ask(&auth, "Bearer good", 0, &key), RV_AUTH_OK);
    assert_string_equal(key.tenant, "acme");
    assert_string_equal(key.id, "k1");
    assert_int_equal(key.requests_per_minute, 9);
    assert_true(key.share == 2.5F);
    assert_int_equal(ask(&auth, "bearer  good", 0, &key), RV_AUTH_OK);
    rv_auth_release(&auth);
}

static void everything_else_is_refused_and_names_nobody(void **state)
{
    static const char *const wrong[] = {"Bearer bad", "Bearer goo", "Bearer goodx", "Bearer good ", "Bearer GOOD"};
    static const char *const missing[] = {NULL, "", "good", "Bearer", "Bearer ", "Basic good", "Bearergood"};
    struct fake fake = {.n_keys = 1};
    struct rv_auth_key key;
    struct rv_auth auth;

    (void)state;
    open_auth(&auth, &fake);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(ask(&auth, wrong[i], 0, &key), RV_AUTH_WRONG);
        assert_string_equal(key.tenant, "");
    }
    for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++)
        assert_int_equal(ask(&auth, missing[i], 0, &key), RV_AUTH_MISSING);
    rv_auth_release(&auth);
}

static void the_store_is_not_asked_for_every_request(void **state)
{
    struct fake fake = {.n_keys = 1};
    struct rv_auth_key key;
    struct rv_auth auth;

    (void)state;
    open_auth(&auth, &fake);
    for (int i = 0; i < 100; i++)
        assert_int_equal(ask(&auth, "Bearer good", i, &key), RV_AUTH_OK);
    assert_int_equal(fake.n_asked, 1);
    for (int i = 0; i < 100; i++)
        assert_int_equal(ask(&auth, "Bearer bad", i, &key), RV_AUTH_WRONG);
    assert_int_equal(fake.n_asked, 2);
    rv_auth_release(&auth);
}

static void a_revoked_key_stops_within_a_second(void **state)
{
    struct fake fake = {.n_keys = 1};
    struct rv_auth_key key;
    struct rv_auth auth;

    (void)state;
    open_auth(&auth, &fake);
    assert_int_equal(ask(&auth, "Bearer good", 5, &key), RV_AUTH_OK);
    fake.is_revoked = true;
    assert_int_equal(ask(&auth, "Bearer good", 1000005, &key), RV_AUTH_WRONG);
    rv_auth_release(&auth);
}

static void a_store_that_cannot_say_refuses_and_is_asked_again(void **state)
{
    struct fake fake = {.n_keys = 1, .fails = true};
    struct rv_auth_key key;
    struct rv_auth auth;

    (void)state;
    open_auth(&auth, &fake);
    assert_int_equal(ask(&auth, "Bearer good", 0, &key), RV_AUTH_FAILED);
    fake.fails = false;
    assert_int_equal(ask(&auth, "Bearer good", 0, &key), RV_AUTH_OK);
    rv_auth_release(&auth);
}

static void only_an_admin_key_may_what_admins_may(void **state)
{
    const struct rv_auth_request request = {.authorization = "Bearer good"};
    struct fake fake = {.n_keys = 1};
    struct rv_auth_key key;
    struct rv_auth auth;

    (void)state;
    open_auth(&auth, &fake);
    assert_int_equal(rv_auth_check(&auth, &request, RV_AUTH_ADMIN, 0, &key), RV_AUTH_FORBIDDEN);
    fake.is_admin = true;
    assert_int_equal(rv_auth_check(&auth, &request, RV_AUTH_ADMIN, 2000000, &key), RV_AUTH_OK);
    rv_auth_release(&auth);
}

static void without_keys_only_this_machine_is_served_under_its_own_name(void **state)
{
    static const struct {
        struct rv_auth_request request;
        enum rv_auth_verdict verdict;
    } cases[] = {
        {{.host = "localhost:8080", .is_loopback = true}, RV_AUTH_OK},
        {{.host = "127.0.0.1", .is_loopback = true}, RV_AUTH_OK},
        {{.host = "[::1]:80", .is_loopback = true}, RV_AUTH_OK},
        {{.host = "localhost:8080", .is_loopback = false}, RV_AUTH_FOREIGN},
        {{.host = NULL, .is_loopback = true}, RV_AUTH_FOREIGN},
        {{.host = "evil.example", .is_loopback = true}, RV_AUTH_FOREIGN},
        {{.host = "localhost:80", .origin = "http://localhost:80", .is_loopback = true}, RV_AUTH_OK},
        {{.host = "localhost:80", .origin = "http://localhost:81", .is_loopback = true}, RV_AUTH_FOREIGN},
        {{.host = "localhost:80", .origin = "null", .is_loopback = true}, RV_AUTH_FOREIGN},
        {{.host = "localhost", .origin = "https://a.b", .is_loopback = true, .origin_is_listed = true}, RV_AUTH_OK},
    };
    struct rv_auth_key key;
    struct rv_auth auth;

    (void)state;
    assert_ok(rv_auth_init(&auth, NULL, err));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(rv_auth_check(&auth, &cases[i].request, RV_AUTH_ADMIN, 0, &key), cases[i].verdict);
    assert_string_equal(key.tenant, "local");
    rv_auth_release(&auth);
}

static void a_first_key_ends_the_time_without_for_good(void **state)
{
    const struct rv_auth_request request = {.host = "localhost", .is_loopback = true};
    struct fake fake = {0};
    struct rv_auth_key key;
    struct rv_auth auth;

    (void)state;
    open_auth(&auth, &fake);
    assert_int_equal(rv_auth_check(&auth, &request, RV_AUTH_KEY, 0, &key), RV_AUTH_OK);
    fake.n_keys = 1;
    assert_ok(rv_auth_refresh(&auth, err));
    assert_int_equal(rv_auth_check(&auth, &request, RV_AUTH_KEY, 0, &key), RV_AUTH_MISSING);
    fake.n_keys = 0;
    assert_ok(rv_auth_refresh(&auth, err));
    assert_int_equal(rv_auth_check(&auth, &request, RV_AUTH_KEY, 0, &key), RV_AUTH_MISSING);
    rv_auth_release(&auth);
}

static void names_of_this_machine_are_told_from_lookalikes(void **state)
{
    static const char *const ours[] = {"localhost", "LOCALHOST:1", "127.0.0.1:80", "127.9.9.9", "[::1]", "[::1]:9"};
    static const char *const others[] = {
        "",       "localhost.evil.org", "127.0.0.1.evil.org", "127.0.0.1:80x", "127.0.0",   "127.0.0.1.",
        "[::1]x", "[::2]:80",           "0.0.0.0:80",         "localhost:",    "128.0.0.1", "evil.org:80"};

    (void)state;
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        assert_true(rv_auth_is_local_name(ours[i]));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(rv_auth_is_local_name(others[i]));
    assert_true(rv_auth_is_local_address("unix:/run/x"));
    assert_false(rv_auth_is_local_address("0.0.0.0:8080"));
    assert_false(rv_auth_is_local_address("[::]:8080"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_valid_key_names_its_tenant_and_rate),
        cmocka_unit_test(everything_else_is_refused_and_names_nobody),
        cmocka_unit_test(the_store_is_not_asked_for_every_request),
        cmocka_unit_test(a_revoked_key_stops_within_a_second),
        cmocka_unit_test(a_store_that_cannot_say_refuses_and_is_asked_again),
        cmocka_unit_test(only_an_admin_key_may_what_admins_may),
        cmocka_unit_test(without_keys_only_this_machine_is_served_under_its_own_name),
        cmocka_unit_test(a_first_key_ends_the_time_without_for_good),
        cmocka_unit_test(names_of_this_machine_are_told_from_lookalikes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
