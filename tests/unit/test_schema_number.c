/* Ranges of numbers against comparing: every integer near the bounds, and decimals around them. */
#include "base/rng.h"
#include "support/grammar_suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void integers_between_bounds_are_exact(void **state)
{
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 1);
    for (int round = 0; round < 60; round++) {
        int spread = round % 3 == 0 ? 30 : round % 3 == 1 ? 1500 : 200000;
        int lo = (int)rv_rng_below(&rng, (uint32_t)spread) - spread / 2,
            hi = lo + (int)rv_rng_below(&rng, (uint32_t)spread);
        struct rv_grammar *g;
        char text[120];

        snprintf(text, sizeof(text), "{\"type\":\"integer\",\"minimum\":%d,\"maximum\":%d}", lo, hi);
        g = grammar_fixture_new(&grammar_suite, RV_GRAMMAR_JSON_SCHEMA, text);
        for (int i = 0; i < 200; i++) {
            int value = i < 20   ? lo - 10 + i
                        : i < 40 ? hi - 10 + (i - 20)
                                 : lo - 50 + (int)rv_rng_below(&rng, (uint32_t)(hi - lo + 100));

            snprintf(text, sizeof(text), "%d", value);
            if (grammar_fixture_takes(g, text) != (value >= lo && value <= hi))
                fail_msg("%d between %d and %d", value, lo, hi);
        }
        rv_grammar_unref(g);
    }
}

/* Whatever is taken lies within the bounds; whole numbers and the bounds themselves are taken. */
static void numbers_never_leave_their_bounds(void **state)
{
    static const struct {
        const char *bounds;
        double min, max; // excluded ones: a little inside
        const char *taken[4], *refused[4];
    } cases[] = {
        {"\"minimum\":0,\"maximum\":1", 0, 1, {"0", "0.5", "1", "0.999"}, {"1.1", "-0.5", "2", "1.000001"}},
        {"\"minimum\":0.5,\"maximum\":0.75", 0.5, 0.75, {"0.5", "0.75", "0.61", "0.7499"}, {"0.4", "0.76", "1", "0"}},
        {"\"minimum\":-1.5,\"maximum\":2.25", -1.5, 2.25, {"-1.5", "0", "2.25", "-0.3"}, {"-1.6", "2.26", "3", "-2"}},
        {"\"exclusiveMinimum\":0", 1e-9, 1e300, {"1", "0.5", "100.25", "7"}, {"0", "-1", "0.0", "-0"}},
        {"\"exclusiveMaximum\":10", -1e300, 10 - 1e-9, {"9", "9.5", "-3", "0"}, {"10", "10.0", "11", "10.5"}},
        {"\"minimum\":99.9,\"maximum\":100.1",
         99.9,
         100.1,
         {"99.9", "100", "100.1", "99.95"},
         {"99.8", "100.2", "99", "101"}},
        {"\"maximum\":-3", -1e300, -3, {"-3", "-3.5", "-100", "-4"}, {"-2", "0", "-2.9", "3"}},
    };
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 2);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rv_grammar *g;
        char text[160];

        snprintf(text, sizeof(text), "{\"type\":\"number\",%s}", cases[i].bounds);
        g = grammar_fixture_new(&grammar_suite, RV_GRAMMAR_JSON_SCHEMA, text);
        for (size_t k = 0; k < 4; k++) {
            if (!grammar_fixture_takes(g, cases[i].taken[k]))
                fail_msg("%s does not take %s", cases[i].bounds, cases[i].taken[k]);
            if (grammar_fixture_takes(g, cases[i].refused[k]))
                fail_msg("%s takes %s", cases[i].bounds, cases[i].refused[k]);
        }
        for (int k = 0; k < 3000; k++) {
            double value = (rv_rng_uniform(&rng) - 0.5) * (k % 2 ? 8 : 300);

            snprintf(text, sizeof(text), "%.*f", k % 7, value);
            value = strtod(text, NULL);
            if (grammar_fixture_takes(g, text) && (value < cases[i].min || value > cases[i].max))
                fail_msg("%s takes %s", cases[i].bounds, text);
        }
        rv_grammar_unref(g);
    }
}

/* What is taken near a bound of many digits is read as a number within it. */
static void bounds_of_many_digits_are_kept(void **state)
{
    static const char *const keywords[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
    struct rv_rng rng;
    int n_taken = 0;

    (void)state;
    rv_rng_init(&rng, 3);
    for (int round = 0; round < 160; round++) {
        const char *keyword = keywords[round % 4];
        bool is_min = strstr(keyword, "inimum") != NULL, is_excluded = keyword[0] == 'e';
        double size = (double[]){1, 1e4, 1e8, 1e9}[round / 4 % 4], bound;
        struct rv_grammar *g;
        char text[160];

        snprintf(text, sizeof(text), "%.*f", (int)rv_rng_below(&rng, 8), (rv_rng_uniform(&rng) - 0.5) * 2 * size);
        bound = strtod(text, NULL);
        snprintf(text, sizeof(text), "{\"type\":\"number\",\"%s\":%.17g}", keyword, bound);
        g = grammar_fixture_new(&grammar_suite, RV_GRAMMAR_JSON_SCHEMA, text);
        for (int k = 0; k < 60; k++) {
            double off = ldexp(rv_rng_uniform(&rng) - 0.5, -(int)rv_rng_below(&rng, 40)), value;

            snprintf(text, sizeof(text), "%.*f", (int)rv_rng_below(&rng, 10), bound + off * (size > 1 ? size : 1));
            value = strtod(text, NULL);
            if (!grammar_fixture_takes(g, text))
                continue;
            n_taken++;
            if ((is_min ? value < bound : value > bound) || (is_excluded && value == bound))
                fail_msg("%s %.17g takes %s", keyword, bound, text);
        }
        rv_grammar_unref(g);
    }
    assert_true(n_taken > 1000);
    assert_false(grammar_fixture_matches(&grammar_suite, RV_GRAMMAR_JSON_SCHEMA,
                                         "{\"type\":\"number\",\"maximum\":99999999.95}", "100000000"));
    assert_false(grammar_fixture_matches(&grammar_suite, RV_GRAMMAR_JSON_SCHEMA,
                                         "{\"type\":\"number\",\"maximum\":999999999.1234565}", "999999999.123457"));
    assert_false(grammar_fixture_matches(&grammar_suite, RV_GRAMMAR_JSON_SCHEMA,
                                         "{\"type\":\"number\",\"exclusiveMaximum\":999999999.123456}",
                                         "999999999.123455999"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_between_bounds_are_exact),
        cmocka_unit_test(numbers_never_leave_their_bounds),
        cmocka_unit_test(bounds_of_many_digits_are_kept),
    };

    return cmocka_run_group_tests(tests, grammar_suite_set_up, grammar_suite_tear_down);
}
