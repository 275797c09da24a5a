/* Hostile names: 500 and more of them, for everything that takes one. */
#include "store/store_name.h"
#include "store/store_rows.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

static const char *const nasty[] = {
    "../x",
    "..",
    "a/b",
    "/etc/passwd",
    "a\\b",
    "a b",
    " a",
    "a ",
    "a'b",
    "a\"b",
    "a;b",
    "a--'",
    "a`b",
    "a$b",
    "a%00b",
    "a\nb",
    "a\tb",
    "a\rb",
    "a\x01",
    "a\x7f",
    "a\x1b[2J",
    "a*",
    "a?",
    "a<b",
    "a>b",
    "a|b",
    "a&b",
    "a(b",
    "a)b",
    "a{b",
    "a}b",
    "a[b",
    "a]b",
    "a=b",
    "a+b",
    "a,b",
    "a:b",
    "a@b",
    "a!b",
    "a#b",
    "a~b",
    "a^b",
    "\xC3\xA9",
    "a\xC3\xA9",
    "\xE2\x80\x8D"
    "a",
    "\xEF\xBC\xA1",
    "\xD0\xB0"
    "cme",
    "\xF0\x9F\x98\x80",
    "a\xFF",
    "\xC0\xAF",
    "\xED\xA0\x80",
    "' OR 1=1 --",
    "'; DROP TABLE api_key; --",
    "a' UNION SELECT * FROM api_key --",
    "\" OR \"\"=\"",
    "%27",
    "a%",
    "",
    NULL,
};

static size_t refused_by_all(const char *name)
{
    struct ruvllm_error failure = {0};

    assert_fails(rv_store_name_tenant(name, &failure), RUVLLM_INVALID, failure, "tenant");
    assert_fails(rv_store_name_session(name, &failure), RUVLLM_INVALID, failure, "session");
    assert_fails(rv_store_name_key_id(name, &failure), RUVLLM_INVALID, failure, "id of a key");
    if (!name || !*name)
        return 3; // no snapshot at all is fine
    assert_fails(rv_store_name_snapshot(name, &failure), RUVLLM_INVALID, failure, "snapshot");
    return 4;
}

static void hostile_names_are_refused(void **state)
{
    size_t n = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(nasty) / sizeof(nasty[0]); i++) {
        char name[80] = "..";

        if (nasty[i] && strcmp(nasty[i], "..") == 0)
            continue; // a tenant may be called that: it is no path
        n += refused_by_all(nasty[i]);
        if (!nasty[i] || !*nasty[i])
            continue;
        snprintf(name, sizeof(name), "acme%s", nasty[i]);
        n += refused_by_all(name);
        snprintf(name, sizeof(name), "%sacme", nasty[i]);
        n += refused_by_all(name);
    }
    assert_true(n >= 500);
}

static void every_byte_outside_the_alphabet_is_refused(void **state)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

    (void)state;
    for (int c = 1; c < 256; c++) {
        char name[] = {'a', 'b', 'c', 'd', 'e', 'f', 'g', (char)c, '\0'};
        bool is_in = strchr(alphabet, c) != NULL;

        assert_int_equal(rv_store_name_session(name, NULL) == RUVLLM_OK, is_in);
        assert_int_equal(rv_store_name_key_id(name, NULL) == RUVLLM_OK, is_in);
        assert_int_equal(rv_store_name_tenant(name, NULL) == RUVLLM_OK, is_in || c == '.');
        assert_int_equal(rv_store_name_snapshot(name, NULL) == RUVLLM_OK, is_in || c == '.');
    }
}

static void lengths_end_where_they_should(void **state)
{
    char name[400];

    (void)state;
    memset(name, 'a', sizeof(name));
    name[64] = '\0';
    assert_ok(rv_store_name_tenant(name, err));
    assert_ok(rv_store_name_session(name, err));
    name[64] = 'a';
    name[65] = '\0';
    assert_int_equal(rv_store_name_tenant(name, NULL), RUVLLM_INVALID);
    assert_int_equal(rv_store_name_session(name, NULL), RUVLLM_INVALID);
    name[65] = 'a';
    name[129] = '\0';
    assert_int_equal(rv_store_name_snapshot(name, NULL), RUVLLM_INVALID);
    assert_ok(rv_store_name_snapshot(name + 1, err));
    assert_ok(rv_store_name_snapshot("", err));
    assert_ok(rv_store_name_snapshot(NULL, err));
    assert_int_equal(rv_store_name_snapshot(".hidden", NULL), RUVLLM_INVALID);
    assert_int_equal(rv_store_name_key_id("abcdefg", NULL), RUVLLM_INVALID);
    assert_int_equal(rv_store_name_key_id("abcdefghi", NULL), RUVLLM_INVALID);
}

static void text_for_people_is_utf8_without_control_characters(void **state)
{
    struct ruvllm_error failure = {0};

    (void)state;
    assert_ok(rv_store_name_text("Gr\xC3\xBC\xC3\x9F Gott, \xF0\x9F\x98\x80", 64, "it", err));
    assert_ok(rv_store_name_text(NULL, 0, "it", err));
    assert_ok(rv_store_name_text("four", 4, "it", err));
    assert_fails(rv_store_name_text("fives", 4, "it", &failure), RUVLLM_INVALID, failure, "it is longer than 4 bytes");
    assert_fails(rv_store_name_text("\x1b[31m", 64, "it", &failure), RUVLLM_INVALID, failure, "control characters");
    assert_fails(rv_store_name_text("a\nb", 64, "it", &failure), RUVLLM_INVALID, failure, "control characters");
    assert_fails(rv_store_name_text("\xC2\x9B", 64, "it", &failure), RUVLLM_INVALID, failure, "control characters");
    assert_fails(rv_store_name_text("\xFF", 64, "it", &failure), RUVLLM_INVALID, failure, "UTF-8");
    assert_fails(rv_store_name_text("cut \xE2\x82", 64, "it", &failure), RUVLLM_INVALID, failure, "UTF-8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_names_are_refused),
        cmocka_unit_test(every_byte_outside_the_alphabet_is_refused),
        cmocka_unit_test(lengths_end_where_they_should),
        cmocka_unit_test(text_for_people_is_utf8_without_control_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
