/* Losses of preferences: slopes against central differences, and what happens far out. */
#include "learn/preference.h"
#include "support/test.h"

#include <math.h>

static const double STEP = 1e-5;

static void dpos_slope_is_its_derivative(void **state)
{
    (void)state;
    for (double margin = -40; margin <= 40; margin += 1.7) {
        double slope, unused, up = rv_preference_dpo(0.3, margin + STEP, &unused);
        double down = rv_preference_dpo(0.3, margin - STEP, &unused);

        (void)rv_preference_dpo(0.3, margin, &slope);
        assert_true(fabs((up - down) / (2 * STEP) - slope) < 1e-8);
        assert_true(slope < 0); // a wider margin is always better
    }
}

static void ktos_slope_is_its_derivative(void **state)
{
    (void)state;
    for (int is_good = 0; is_good < 2; is_good++) {
        for (double gain = -40; gain <= 40; gain += 1.7) {
            double slope, unused, up = rv_preference_kto(0.2, gain + STEP, 1.5, is_good, &unused);
            double down = rv_preference_kto(0.2, gain - STEP, 1.5, is_good, &unused);

            (void)rv_preference_kto(0.2, gain, 1.5, is_good, &slope);
            assert_true(fabs((up - down) / (2 * STEP) - slope) < 1e-8);
            assert_true(is_good ? slope < 0 : slope > 0);
        }
    }
}

static void known_values_come_out(void **state)
{
    double slope;

    (void)state;
    assert_true(fabs(rv_preference_dpo(0.1, 0, &slope) - log(2)) < 1e-15 && fabs(slope + 0.05) < 1e-15);
    assert_true(fabs(rv_preference_kto(0.1, 2, 2, true, &slope) - 0.5) < 1e-15 && fabs(slope + 0.025) < 1e-15);
    assert_true(fabs(rv_preference_kto(1, 3, 0, false, &slope) - 1 / (1 + exp(-3))) < 1e-15);
}

static void nothing_overflows_far_out(void **state)
{
    static const double far[] = {-1e6, -800, 800, 1e6};
    double slope;

    (void)state;
    for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++) {
        assert_true(isfinite(rv_preference_dpo(1, far[i], &slope)) && isfinite(slope));
        assert_true(isfinite(rv_preference_kto(1, far[i], 0, true, &slope)) && isfinite(slope));
    }
    assert_true(fabs(rv_preference_dpo(1, -1e6, &slope) - 1e6) < 1e-6 && slope == -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dpos_slope_is_its_derivative),
        cmocka_unit_test(ktos_slope_is_its_derivative),
        cmocka_unit_test(known_values_come_out),
        cmocka_unit_test(nothing_overflows_far_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
