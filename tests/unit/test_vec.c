/* Sums in registers against the plain ones. */
#include "kernels/vec.h"
#include "support/test.h"

#include "base/rng.h"

#include <math.h>

enum { MAX = 500 };

static const size_t sizes[] = {0, 1, 15, 16, 63, 64, 65, 288, 499};

static void check(const struct rv_vec_ops *ops)
{
    float x[MAX], y[MAX], z[MAX], w[MAX];
    uint16_t halves[MAX];
    struct rv_rng rng;

    if (!ops)
        return;
    rv_rng_init(&rng, 3);
    for (size_t i = 0; i < MAX; i++) {
        x[i] = (float)rv_rng_normal(&rng);
        y[i] = (float)rv_rng_normal(&rng);
        halves[i] = rv_vec_to_bf16(y[i]);
    }
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        size_t n = sizes[s];

        assert_true(fabsf(ops->dot(x, y, n) - rv_vec_scalar.dot(x, y, n)) < 1e-4f);
        assert_true(fabsf(ops->dot_bf16(x, halves, n) - rv_vec_scalar.dot_bf16(x, halves, n)) < 1e-4f);
        memcpy(z, x, sizeof(z));
        memcpy(w, x, sizeof(w));
        ops->add(z, y, 0.3f, n);
        rv_vec_scalar.add(w, y, 0.3f, n);
        ops->add_bf16(z, halves, -2.0f, n);
        rv_vec_scalar.add_bf16(w, halves, -2.0f, n);
        for (size_t i = 0; i < MAX; i++)
            assert_true(fabsf(z[i] - w[i]) < 1e-5f);
    }
}

static void check_search(const struct rv_vec_ops *ops)
{
    float x[MAX];
    struct rv_rng rng;

    if (!ops)
        return;
    rv_rng_init(&rng, 4);
    for (int round = 0; round < 2000; round++) {
        size_t n = rv_rng_below(&rng, MAX + 1), from = rv_rng_below(&rng, (uint32_t)n + 1);
        float bound = round % 3 ? 2.5f : 4.0f;

        for (size_t i = 0; i < n; i++)
            x[i] = (float)rv_rng_normal(&rng);
        if (n > 0)
            x[rv_rng_below(&rng, (uint32_t)n)] = round % 2 ? NAN : bound;
        assert_int_equal(ops->first_above(x, from, n, bound), rv_vec_scalar.first_above(x, from, n, bound));
    }
}

static void registers_find_what_is_above(void **state)
{
    (void)state;
    check_search(rv_vec_avx2());
    check_search(rv_vec_avx512());
    check_search(rv_vec_best());
}

static void registers_sum_as_the_plain_statement_does(void **state)
{
    (void)state;
    check(rv_vec_avx2());
    check(rv_vec_avx512());
    check(rv_vec_best());
}

static void sixteen_bits_are_rounded_to_nearest(void **state)
{
    (void)state;
    assert_int_equal(rv_vec_to_bf16(1.0f), 0x3f80);
    assert_int_equal(rv_vec_to_bf16(1.0f + 1.0f / 256), 0x3f80);  // a tie: to even
    assert_int_equal(rv_vec_to_bf16(1.0f + 3.0f / 256), 0x3f82);  // likewise
    assert_int_equal(rv_vec_to_bf16(1.0f + 1.01f / 256), 0x3f81); // above it
    assert_int_equal(rv_vec_to_bf16(-INFINITY), 0xff80);
    assert_true(isnan(rv_vec_from_bf16(rv_vec_to_bf16(NAN))));
    assert_true(rv_vec_from_bf16(rv_vec_to_bf16(-0.15625f)) == -0.15625f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registers_sum_as_the_plain_statement_does),
        cmocka_unit_test(registers_find_what_is_above),
        cmocka_unit_test(sixteen_bits_are_rounded_to_nearest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
