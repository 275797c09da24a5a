/* How a run keeps to what it may forget, in numbers. */
#include "learn/deep_guard.h"
#include "support/test.h"

#include <math.h>

static struct rv_deep_config config_of(int32_t n_epochs)
{
    return (struct rv_deep_config){.n_epochs = n_epochs, .max_guard_kl = 0.02f, .guard_slack = 4};
}

static void short_runs_ask_the_guard_more_often(void **state)
{
    static const struct {
        int32_t n_epochs, n_rounds;
    } cases[] = {{1, 8}, {2, 4}, {3, 3}, {4, 2}, {7, 2}, {8, 1}, {60, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rv_deep_config c = config_of(cases[i].n_epochs);

        assert_int_equal(rv_deep_guard_rounds(&c), cases[i].n_rounds);
        c.max_guard_kl = 0;
        assert_int_equal(rv_deep_guard_rounds(&c), 1);
    }
}

static void room_at_first_is_for_long_runs_and_ends(void **state)
{
    struct rv_deep_config few = config_of(12), many = config_of(60);
    double tight = 0.9 * (double)few.max_guard_kl, last = INFINITY;

    (void)state;
    for (int32_t i = 0; i <= 12; i++)
        assert_true(fabs(rv_deep_guard_aim(&few, i) - tight) < 1e-12);
    for (int32_t i = 1; i <= 60; i++) {
        double aim = rv_deep_guard_aim(&many, i);

        assert_true(i <= 36 ? aim < last && aim <= 5 * tight : fabs(aim - tight) < 1e-12);
        last = aim;
    }
    assert_true(rv_deep_guard_aim(&many, 1) > 4.8 * tight);
    few.max_guard_kl = 0;
    assert_true(rv_deep_guard_aim(&few, 3) == 0);
}

static void weight_follows_what_the_guard_says(void **state)
{
    struct rv_deep_config one = config_of(12), often = config_of(2), many = config_of(80);

    (void)state;
    assert_true(rv_deep_guard_scale(&one, 2, 0.04, 0.02) == 4);
    assert_true(rv_deep_guard_scale(&one, 2, 9, 0.02) == 8); // four times at most
    assert_true(fabs(rv_deep_guard_scale(&one, 2, 0, 0.02) - 1.4) < 1e-12);
    assert_true(fabs(rv_deep_guard_scale(&often, 2, 9, 0.02) - 4) < 1e-12); // four rounds an epoch
    assert_true(fabs(rv_deep_guard_scale(&many, 2, 9, 0.02) - 2 * sqrt(2)) < 1e-12);
    assert_true(rv_deep_guard_scale(&one, 2, NAN, 0.02) == 2); // no guard says nothing
    assert_true(rv_deep_guard_scale(&one, 2, 1, 0) == 2);
    for (int i = 0; i < 200; i++) {
        assert_true(rv_deep_guard_scale(&one, pow(1.5, i), 9, 0.02) <= 1e6);
        assert_true(rv_deep_guard_scale(&one, pow(0.7, i), 0, 0.02) >= 1.0 / 64);
    }
}

static void divergence_goes_with_the_square_of_the_way(void **state)
{
    (void)state;
    assert_true(rv_deep_guard_share(0, 0.01, 0.02) == 1);
    assert_true(fabs(rv_deep_guard_share(0, 0.08, 0.02) - 0.5) < 1e-12);
    assert_true(fabs(rv_deep_guard_share(0.01, 0.05, 0.02) - 0.5) < 1e-12);
    assert_true(rv_deep_guard_share(0.03, 0.05, 0.02) == 0);
    assert_true(rv_deep_guard_is_lost(0.081, 0.02) && !rv_deep_guard_is_lost(0.079, 0.02));
    assert_true(!rv_deep_guard_is_lost(NAN, 0.02) && !rv_deep_guard_is_lost(1, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_runs_ask_the_guard_more_often),
        cmocka_unit_test(room_at_first_is_for_long_runs_and_ends),
        cmocka_unit_test(weight_follows_what_the_guard_says),
        cmocka_unit_test(divergence_goes_with_the_square_of_the_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
