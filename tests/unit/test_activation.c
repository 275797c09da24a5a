/* Activations against doubles. */
#include "kernels/activation.h"
#include "support/test.h"

#include "base/rng.h"

#include <math.h>

enum { MIDDLE = 1000, N = 2 * MIDDLE + 1 };

/* expf and tanhf are good to about one unit in the last place; some roundings follow. */
static const double TOLERANCE = 1e-6;

static void check(const char *what, float x, float got, double wanted)
{
    if (!(fabs((double)got - wanted) <= TOLERANCE * fabs(wanted) + 1e-37))
        fail_msg("%s(%g) is %.9g, not %.9g", what, (double)x, (double)got, wanted);
}

static void silu_is_the_formula(void **state)
{
    float x[N], y[N];

    (void)state;
    for (int i = 0; i < N; i++)
        x[i] = (float)(i - MIDDLE) * 0.08f; // to 80 either way: exp(80) is still a float
    rv_activation_silu(x, y, N);
    for (int i = 0; i < N; i++)
        check("silu", x[i], y[i], (double)x[i] / (1 + exp(-(double)x[i])));
}

/* Where tanh is nearly -1 the formula subtracts it from 1: what is left is small and coarse, in every library. */
static void gelu_is_the_tanh_formula(void **state)
{
    float x[N], y[N];

    (void)state;
    for (int i = 0; i < N; i++)
        x[i] = (float)(i - MIDDLE) * 0.02f;
    rv_activation_gelu(x, y, N);
    for (int i = 0; i < N; i++) {
        double v = (double)x[i];
        double wanted = 0.5 * v * (1 + tanh(sqrt(2 / acos(-1)) * (v + 0.044715 * v * v * v)));

        if (!(fabs((double)y[i] - wanted) <= TOLERANCE * (1 + fabs(wanted))))
            fail_msg("gelu(%g) is %.9g, not %.9g", v, (double)y[i], wanted);
    }
}

static void large_numbers_saturate(void **state)
{
    float x[] = {1000.0f, -1000.0f}, y[2];

    (void)state;
    rv_activation_silu(x, y, 2);
    assert_true(y[0] == 1000.0f && y[1] == 0.0f);
    rv_activation_gelu(x, y, 2);
    assert_true(y[0] == 1000.0f && y[1] == 0.0f);
}

static void softmax_is_the_formula(void **state)
{
    float x[N], y[N];
    struct rv_rng rng;
    double sum = 0, total = 0;

    (void)state;
    rv_rng_init(&rng, 1);
    for (int i = 0; i < N; i++) {
        x[i] = i % 7 ? (float)(5000 + rv_rng_normal(&rng) * 5) : -INFINITY; // would overflow without the maximum
        sum += exp((double)x[i] - 5000);
    }
    rv_activation_softmax(x, y, N);
    for (int i = 0; i < N; i++) {
        check("softmax", x[i], y[i], exp((double)x[i] - 5000) / sum);
        total += (double)y[i];
    }
    assert_true(fabs(total - 1) < 1e-6);
}

static void one_number_has_all_the_weight(void **state)
{
    float x[] = {-3e38f}, y[1];

    (void)state;
    rv_activation_softmax(x, y, 1);
    assert_true(y[0] == 1.0f);
}

static void nothing_but_minus_infinity_has_no_softmax(void **state)
{
    float x[] = {-INFINITY, -INFINITY}, y[2];

    (void)state;
    rv_activation_softmax(x, y, 2);
    assert_true(isnan(y[0]) && isnan(y[1]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silu_is_the_formula),           cmocka_unit_test(gelu_is_the_tanh_formula),
        cmocka_unit_test(large_numbers_saturate),        cmocka_unit_test(softmax_is_the_formula),
        cmocka_unit_test(one_number_has_all_the_weight), cmocka_unit_test(nothing_but_minus_infinity_has_no_softmax),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
