/* Every variant finds what a plain search finds; states become vectors in which a common part does not count. */
#include "learn/pattern_scan.h"
#include "support/test.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIMS = 96, STATES = 600, ROWS = 3000 };

static void make_whitening(struct rv_whitening *out, float *states, struct rv_rng *rng)
{
    for (int i = 0; i < STATES; i++) {
        for (int d = 0; d < DIMS; d++)
            states[i * DIMS + d] = (float)rv_rng_normal(rng) * (d < 4 ? 6.0f : 1.0f) + (d == 7 ? 30.0f : 0.0f);
    }
    assert_ok(rv_whitening_init(out, states, STATES, DIMS, err));
}

static void what_all_states_share_does_not_count(void **state)
{
    static float states[STATES * DIMS];
    uint16_t one[RV_PATTERN_SCAN_MAX_DIMS], two[RV_PATTERN_SCAN_MAX_DIMS];
    struct rv_whitening w;
    struct rv_rng rng;
    float zero[DIMS] = {0};
    double sum = 0;

    (void)state;
    rv_rng_init(&rng, 1);
    make_whitening(&w, states, &rng);
    assert_int_equal(rv_pattern_scan_n_dims(&w), 128);
    for (int i = 0; i + 1 < STATES; i += 2) {
        struct rv_pattern_scan_hit hit;

        assert_true(rv_pattern_scan_embed(&w, states + i * DIMS, one));
        assert_true(rv_pattern_scan_embed(&w, states + (i + 1) * DIMS, two));
        assert_int_equal(rv_pattern_scan(&rv_vec_scalar, one, 1, 128, one, &hit, 1), 1);
        assert_true(fabsf(hit.likeness - 1) < 0.02f); // of length 1, as far as 16 bits go
        assert_int_equal(rv_pattern_scan(&rv_vec_scalar, one, 1, 128, two, &hit, 1), 1);
        sum += (double)hit.likeness / (STATES / 2);
    }
    assert_true(fabs(sum) < 0.05); // the states themselves have a cosine of 0.8
    assert_false(rv_pattern_scan_embed(&w, zero, one));
    states[3] = NAN;
    assert_false(rv_pattern_scan_embed(&w, states, one));
    rv_whitening_release(&w);
}

static int by_likeness(const void *a, const void *b)
{
    const struct rv_pattern_scan_hit *x = a, *y = b;

    if (x->likeness != y->likeness)
        return x->likeness < y->likeness ? 1 : -1;
    return x->index < y->index ? 1 : -1;
}

static void every_variant_finds_the_best(void **state)
{
    const struct rv_vec_ops *variants[] = {&rv_vec_scalar, rv_vec_avx2(), rv_vec_avx512()};
    static uint16_t rows[ROWS * 128];
    static struct rv_pattern_scan_hit all[ROWS], hits[RV_PATTERN_SCAN_MAX_HITS];
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 2);
    for (int i = 0; i < ROWS * 128; i++)
        rows[i] = rv_vec_to_bf16(0.09f * (float)rv_rng_normal(&rng));
    memcpy(rows + 77 * 128, rows, 128 * sizeof(*rows)); // equals: the later one is first
    for (size_t v = 0; v < sizeof(variants) / sizeof(variants[0]); v++) {
        if (!variants[v])
            continue;
        for (size_t n = 1; n <= 64; n += 21) {
            for (size_t i = 0; i < ROWS; i++) {
                double sum = 0;

                for (size_t d = 0; d < 128; d++)
                    sum += (double)rv_vec_from_bf16(rows[d]) * (double)rv_vec_from_bf16(rows[i * 128 + d]);
                all[i] = (struct rv_pattern_scan_hit){.likeness = (float)sum, .index = i};
            }
            qsort(all, ROWS, sizeof(*all), by_likeness);
            assert_int_equal(rv_pattern_scan(variants[v], rows, ROWS, 128, rows, hits, n), n);
            assert_int_equal(hits[0].index, 77);
            for (size_t i = 0; i < n; i++)
                assert_true(hits[i].index == all[i].index || fabsf(hits[i].likeness - all[i].likeness) < 1e-5f);
        }
    }
    assert_int_equal(rv_pattern_scan(&rv_vec_scalar, rows, 3, 128, rows, hits, 10), 3);
    assert_int_equal(rv_pattern_scan(&rv_vec_scalar, rows, 3, 128, rows, hits, 0), 0);
    assert_int_equal(rv_pattern_scan(&rv_vec_scalar, rows, 0, 128, rows, hits, 10), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_all_states_share_does_not_count),
        cmocka_unit_test(every_variant_finds_the_best),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
