/* Regular expressions: what texts they take, alone and inside JSON strings, and what is refused. */
#include "support/grammar_suite.h"

#include <stdio.h>
#include <string.h>

static void expressions_take_whole_texts(void **state)
{
    static const struct {
        const char *regex, *text;
        bool takes;
    } cases[] = {
        {"abc", "abc", true},
        {"abc", "abcd", false},
        {"^abc$", "abc", true},
        {"a|bc|", "", true},
        {"a|bc|", "bc", true},
        {"a|bc", "b", false},
        {"(?:ab)+c?", "ababc", true},
        {"(?<x>ab)*?", "abab", true},
        {"[a-f0-9]{2,4}", "beef", true},
        {"[a-f0-9]{2,4}", "beefs", false},
        {"\\d+\\.\\d{2}", "12.50", true},
        {"\\d+\\.\\d{2}", "12,50", false},
        {"[^\\d\\s]+", "abc", true},
        {"[^\\d\\s]+", "a c", false},
        {"\\W", "\xe2\x82\xac", true},
        {"\\w", "\xe2\x82\xac", false},
        {".", "\n", false},
        {".", "\xf0\x9f\x98\x80", true},
        {"\\u00e9\\x41\\u{1F600}",
         "\xc3\xa9"
         "A\xf0\x9f\x98\x80",
         true},
        {"[\\b\\-\\]]+", "\b-]", true},
        {"a{0}", "", true},
        {"a{,2}", "aa", true},
        {"(a*)*b", "aaab", true},
        {"\\/\\.\\(\\)", "/.()", true},
        {"\\t\\n", "\t\n", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (grammar_fixture_matches(&grammar_suite, RV_GRAMMAR_REGEX, cases[i].regex, cases[i].text) != cases[i].takes)
            fail_msg("'%s' and '%s'", cases[i].regex, cases[i].text);
}

/* "pattern" finds a match anywhere in the value; what JSON must escape is escaped. */
static void patterns_are_searched_for_in_strings(void **state)
{
    static const struct {
        const char *pattern, *text;
        bool takes;
    } cases[] = {
        {"b", "\"abc\"", true},           {"b", "\"ac\"", false},
        {"^b", "\"bc\"", true},           {"^b", "\"ab\"", false},
        {"b$", "\"ab\"", true},           {"b$", "\"bc\"", false},
        {"^a|b$", "\"xb\"", true},        {"^a|b$", "\"ax\"", true},
        {"^a|b$", "\"xax\"", false},      {"^[\\\"x]+$", "\"\\\"x\"", true},
        {"^[\\\"x]+$", "\"\"x\"", false}, {"^\\\\\\\\$", "\"\\\\\"", true},
        {"^[^a]$", "\"\\n\"", true},      {"^[^a]$", "\"\n\"", false},
        {"^\\\\s$", "\"\\t\"", true},     {"^[a-z]{2}$", "\"ab\"", true},
    };
    char schema[200];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(schema, sizeof(schema), "{\"type\": \"string\", \"pattern\": \"%s\"}", cases[i].pattern);
        if (grammar_fixture_matches(&grammar_suite, RV_GRAMMAR_JSON_SCHEMA, schema, cases[i].text) != cases[i].takes)
            fail_msg("'%s' and '%s'", cases[i].pattern, cases[i].text);
    }
}

static void what_is_not_regular_is_refused(void **state)
{
    static const char *const cases[][2] = {
        {"(?=a)b", "look-around"},
        {"(?<!a)b", "look-around"},
        {"(?i)a", "look-around and flags"},
        {"(a)\\1", "back references"},
        {"\\bword", "'\\b'"},
        {"\\p{L}", "'\\p'"},
        {"(^a)", "'^' and '$'"},
        {"a$b", "'^' and '$'"},
        {"x^", "'^' and '$'"},
        {"a\\|^b", "'^' and '$'"},
        {"(a", "a group is not closed"},
        {"a)", "closes no group"},
        {"[a", "a class is not closed"},
        {"*a", "nothing to repeat"},
        {"a**", "a repetition is repeated"},
        {"a++", "a repetition is repeated"},
        {"a{3,1}", "counts of a repetition"},
        {"a\\", "a backslash stands at the end"},
        {"\\q", "an escape is not known"},
        {"\\u{110000}", "names no character"},
        {"[b-a]", "a range of a class"},
        {"[]", "no text can ever match"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        grammar_fixture_refuses(&grammar_suite, RV_GRAMMAR_REGEX, cases[i][0], cases[i][1]);
}

static void hostile_expressions_are_refused_quickly(void **state)
{
    const struct grammar_suite_refusal cases[] = {
        {grammar_suite_repeat("", "(", 60000, ""), "nested deeper"},
        {grammar_suite_repeat("(a", "{100}", 1, "){100000}"), "too large"},
        {grammar_suite_repeat("(?:(?:(?:(?:(?:a", "){90}", 5, ""), "too large"},
        {grammar_suite_repeat("", "a?", 40000, ""), "bytes, more than"},
        {grammar_suite_repeat("(){99999}", "", 0,
                              "(){99999}(){99999}(){99999}(){99999}(){99999}(){99999}(){99999}(){99999}(){99999}()"
                              "{99999}(){99999}"),
         "too large"},
    };

    (void)state;
    grammar_suite_refuse(RV_GRAMMAR_REGEX, cases, sizeof(cases) / sizeof(cases[0]));
}

/* What makes backtracking matchers exponential costs nothing here. */
static void nested_quantifiers_are_linear(void **state)
{
    char text[2001];

    (void)state;
    memset(text, 'a', 2000);
    text[2000] = '\0';
    assert_true(grammar_fixture_matches(&grammar_suite, RV_GRAMMAR_REGEX, "(a+)+", text));
    assert_false(grammar_fixture_matches(&grammar_suite, RV_GRAMMAR_REGEX, "(a+)+b", text));
    assert_false(grammar_fixture_matches(&grammar_suite, RV_GRAMMAR_REGEX, "(a|aa|a*)*b", text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions_take_whole_texts),   cmocka_unit_test(patterns_are_searched_for_in_strings),
        cmocka_unit_test(what_is_not_regular_is_refused), cmocka_unit_test(hostile_expressions_are_refused_quickly),
        cmocka_unit_test(nested_quantifiers_are_linear),
    };

    return cmocka_run_group_tests(tests, grammar_suite_set_up, grammar_suite_tear_down);
}
