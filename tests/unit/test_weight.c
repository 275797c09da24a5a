/* Softmax weights: close to the true exponential, never negative, the same bits wherever they are computed. */
#include "base/rng.h"
#include "sample/weight.h"
#include "support/test.h"

#include <float.h>
#include <math.h>
#include <string.h>

static void weights_follow_the_exponential(void **state)
{
    float scale = rv_weight_scale(1.0f);

    (void)state;
    for (int i = 0; i <= 80000; i++) {
        float below = (float)i * 1e-3f;
        double expected = exp(-(double)below);
        double error = fabs((double)rv_weight_at(-below, 0.0f, scale) / expected - 1.0);

        /* 2^-22 for the polynomial, and the depth's own rounding: one ulp of it, as a power of two. */
        assert_true(error < 0x1p-22 + (double)below * 0x1p-22);
    }
    assert_true(rv_weight_at(3.0f, 3.0f, scale) == 1.0f);
    assert_true(rv_weight_at(-84.0f, 0.0f, scale) == 0.0f);
}

static void what_is_not_finite_weighs_nothing(void **state)
{
    const float row[] = {NAN, INFINITY, -INFINITY, -NAN};
    const float extremes[] = {-FLT_MAX, NAN, INFINITY};

    (void)state;
    assert_true(rv_weight_max(row, 4) == -INFINITY);
    assert_true(rv_weight_max(extremes, 3) == -FLT_MAX);
    for (int i = 0; i < 4; i++)
        assert_true(rv_weight_at(row[i], 1.0f, 1.0f) == 0.0f);
    assert_true(rv_weight_at(-FLT_MAX, FLT_MAX, 1.0f) == 0.0f);
    assert_true(rv_weight_at(FLT_MAX, FLT_MAX, rv_weight_scale(1e-45f)) == 1.0f);
    assert_true(rv_weight_at(0.0f, 1.0f, rv_weight_scale(1e-45f)) == 0.0f);
}

static void the_maximum_is_that_of_a_plain_loop(void **state)
{
    static float row[257];
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 5);
    for (int round = 0; round < 2000; round++) {
        size_t n = (size_t)rv_rng_below(&rng, 257);
        float max = -INFINITY;

        for (size_t i = 0; i < n; i++) {
            row[i] = (float)rv_rng_normal(&rng) - (round % 2 ? 10.0f : 0.0f);
            max = row[i] > max ? row[i] : max;
        }
        assert_true(rv_weight_max(row, n) == max);
    }
}

static void a_row_and_its_entries_agree_to_the_bit(void **state)
{
    static float row[2000], weights[2000];
    struct rv_rng rng;
    double sum, total = 0;
    float scale = rv_weight_scale(0.7f), max;

    (void)state;
    rv_rng_init(&rng, 6);
    for (size_t i = 0; i < 2000; i++)
        row[i] = (float)(5 * rv_rng_normal(&rng));
    max = rv_weight_max(row, 2000);
    sum = rv_weight_fill(weights, row, 2000, max, scale);
    for (size_t i = 0; i < 2000; i++) {
        float alone = rv_weight_at(row[i], max, scale);

        assert_memory_equal(&weights[i], &alone, sizeof(alone));
        total += (double)alone;
    }
    assert_true(fabs(sum / total - 1) < 1e-12);
    assert_true(rv_weight_sum(row, 2000, max, scale) == sum);
}

/* Fixed inputs, fixed bits: fails on a compiler or machine that rounds otherwise. */
static void known_weights_have_known_bits(void **state)
{
    static const struct {
        float depth;
        uint32_t bits;
    } known[] = {
        {0.1f, 0x3f6edb40}, {0.5f, 0x3f3504f3}, {1.7f, 0x3e9d9624}, {9.25f, 0x3ad744fd}, {33.3f, 0x2ecfefcd},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        float weight = rv_weight_at(-known[i].depth, 0.0f, 1.0f);
        uint32_t bits;

        memcpy(&bits, &weight, sizeof(bits));
        if (bits != known[i].bits)
            fail_msg("depth %g: bits %08x", (double)known[i].depth, (unsigned)bits);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_follow_the_exponential),      cmocka_unit_test(what_is_not_finite_weighs_nothing),
        cmocka_unit_test(the_maximum_is_that_of_a_plain_loop), cmocka_unit_test(a_row_and_its_entries_agree_to_the_bit),
        cmocka_unit_test(known_weights_have_known_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
