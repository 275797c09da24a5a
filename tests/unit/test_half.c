/* Half precision against its definition in doubles, over every half and around every rounding. */
#include "kernels/half.h"
#include "support/test.h"

#include <math.h>

/* sign, five bits of exponent, ten of fraction. */
static double value_of(uint16_t half)
{
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double size = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);

    return half & 0x8000 ? -size : size;
}

static bool is_finite(uint16_t half)
{
    return (half & 0x7c00) != 0x7c00;
}

static void every_half_becomes_the_float_it_stands_for(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        float x = rv_half_to_float((uint16_t)i);

        if (is_finite((uint16_t)i))
            assert_true((double)x == value_of((uint16_t)i) && !signbit(x) == !(i & 0x8000));
        else if (i & 1023)
            assert_true(isnan(x));
        else
            assert_true(x == (i & 0x8000 ? -INFINITY : INFINITY));
    }
}

static void every_half_survives_being_a_float(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t back = rv_half_from_float(rv_half_to_float((uint16_t)i));

        if (is_finite((uint16_t)i) || !(i & 1023))
            assert_int_equal(back, i);
        else
            assert_true(isnan(rv_half_to_float(back)));
    }
}

/* The midpoint of neighbours goes to the even one, what lies beside it to the nearer one. */
static void rounding_is_to_nearest_and_even(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 0x7bff; i++) {
        float middle = (float)((value_of((uint16_t)i) + value_of((uint16_t)(i + 1))) / 2); // exact in a float
        uint32_t even = i & 1 ? i + 1 : i;

        assert_int_equal(rv_half_from_float(middle), even);
        assert_int_equal(rv_half_from_float(-middle), even | 0x8000);
        assert_int_equal(rv_half_from_float(nextafterf(middle, 0)), i);
        assert_int_equal(rv_half_from_float(nextafterf(middle, INFINITY)), i + 1);
    }
}

static void what_is_too_large_becomes_infinite_and_too_small_zero(void **state)
{
    (void)state;
    assert_int_equal(rv_half_from_float(65519.996f), 0x7bff);
    assert_int_equal(rv_half_from_float(65520.0f), 0x7c00);
    assert_int_equal(rv_half_from_float(3e38f), 0x7c00);
    assert_int_equal(rv_half_from_float(-INFINITY), 0xfc00);
    assert_int_equal(rv_half_from_float(0x1p-25f), 0);
    assert_int_equal(rv_half_from_float(-0x1p-149f), 0x8000);
    assert_true(isnan(rv_half_to_float(rv_half_from_float(NAN))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_becomes_the_float_it_stands_for),
        cmocka_unit_test(every_half_survives_being_a_float),
        cmocka_unit_test(rounding_is_to_nearest_and_even),
        cmocka_unit_test(what_is_too_large_becomes_infinite_and_too_small_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
