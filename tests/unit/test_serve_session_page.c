/* Which part of a list of sessions a query asks for. */
#include "server/session_page.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

static void a_page_is_what_the_query_says(void **state)
{
    struct rv_session_page page;
    struct rv_api_error wrong;

    (void)state;
    assert_true(rv_session_page_read(&page, "", &wrong));
    assert_int_equal(page.limit, 1000);
    assert_int_equal(page.before_us, 0);
    assert_true(rv_session_page_read(&page, "after=1700000000000000.a.b-c_d&limit=7", &wrong));
    assert_int_equal(page.limit, 7);
    assert_int_equal(page.before_us, 1700000000000000);
    assert_string_equal(page.before_id, "a.b-c_d");
}

static void what_next_says_leads_on(void **state)
{
    char id[RV_SESSION_PAGE_ID], next[RV_SESSION_PAGE_NEXT], query[128];
    struct rv_session_page page;
    struct rv_api_error wrong;

    (void)state;
    memset(id, 'z', sizeof(id) - 1);
    id[sizeof(id) - 1] = '\0';
    rv_session_page_next(999999999999999999, id, next); // as long as can be
    snprintf(query, sizeof(query), "after=%s", next);
    assert_true(rv_session_page_read(&page, query, &wrong));
    assert_int_equal(page.before_us, 999999999999999999);
    assert_string_equal(page.before_id, id);
}

static void everything_else_is_a_400_that_says_why(void **state)
{
    static const struct {
        const char *query;
        const char *code;
        const char *param;
    } cases[] = {
        {"limit=0", "invalid_value", "limit"},
        {"limit=1001", "invalid_value", "limit"},
        {"limit=+1", "invalid_value", "limit"},
        {"limit=1 ", "invalid_value", "limit"},
        {"limit=9999999999999999999", "invalid_value", "limit"},
        {"after=5", "invalid_value", "after"},
        {"after=5.", "invalid_value", "after"},
        {"after=0.a", "invalid_value", "after"},
        {"after=5.a%20b", "invalid_value", "after"},
        {"limit=1&limit=1", "duplicate_field", ""},
        {"after=5.a&after=5.a", "duplicate_field", ""},
        {"limits=1", "unknown_field", ""},
        {"limit=1&", "unknown_field", ""},
        {"&", "unknown_field", ""},
    };
    struct rv_session_page page;
    struct rv_api_error wrong;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_false(rv_session_page_read(&page, cases[i].query, &wrong));
        assert_int_equal(wrong.http_status, 400);
        assert_string_equal(wrong.code, cases[i].code);
        assert_string_equal(wrong.param, cases[i].param);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_is_what_the_query_says),
        cmocka_unit_test(what_next_says_leads_on),
        cmocka_unit_test(everything_else_is_a_400_that_says_why),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
