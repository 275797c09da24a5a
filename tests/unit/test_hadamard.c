/* The rotation against its definition, and what it is for. */
#include "kernels/hadamard.h"
#include "support/test.h"

#include "base/rng.h"

#include <math.h>
#include <string.h>

enum { MAX = 512 };

static const int32_t sizes[] = {1, 2, 8, 40, 64, 72, 80, 96, 128, 256, 512};

static void fill(struct rv_rng *rng, float *row, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        row[i] = (float)rv_rng_normal(rng);
}

/* The sign of entry (i, j) is that of the number of bits i and j share. */
static double entry(int32_t i, int32_t j, int32_t run)
{
    int bits = 0;

    for (int32_t both = i & j; both; both &= both - 1)
        bits++;
    return (bits % 2 ? -1 : 1) / sqrt(run);
}

static void each_run_is_multiplied_by_the_matrix(void **state)
{
    struct rv_rng rng;
    float row[MAX], before[MAX];

    (void)state;
    rv_rng_init(&rng, 1);
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        int32_t n = sizes[s], run = n & -n;

        fill(&rng, row, n);
        memcpy(before, row, sizeof(row));
        rv_hadamard(row, n);
        for (int32_t i = 0; i < n; i++) {
            double wanted = 0;

            for (int32_t j = 0; j < run; j++)
                wanted += entry(i % run, j, run) * (double)before[i / run * run + j];
            assert_true(fabs((double)row[i] - wanted) < 1e-5); // nine rounds of additions of numbers about 1
        }
    }
}

static void twice_is_the_row_itself(void **state)
{
    struct rv_rng rng;
    float row[MAX], before[MAX];

    (void)state;
    rv_rng_init(&rng, 2);
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        fill(&rng, row, sizes[s]);
        memcpy(before, row, sizeof(row));
        rv_hadamard(row, sizes[s]);
        rv_hadamard(row, sizes[s]);
        for (int32_t i = 0; i < sizes[s]; i++)
            assert_true(fabsf(row[i] - before[i]) < 1e-5f);
    }
}

static void products_of_two_rotated_rows_stay(void **state)
{
    struct rv_rng rng;
    float a[128], b[128];
    double before = 0, after = 0;

    (void)state;
    rv_rng_init(&rng, 3);
    fill(&rng, a, 128);
    fill(&rng, b, 128);
    for (int i = 0; i < 128; i++)
        before += (double)a[i] * (double)b[i];
    rv_hadamard(a, 128);
    rv_hadamard(b, 128);
    for (int i = 0; i < 128; i++)
        after += (double)a[i] * (double)b[i];
    assert_true(fabs(before - after) < 1e-4);
}

static void an_outlier_is_spread_over_the_whole_run(void **state)
{
    float row[64] = {0};

    (void)state;
    row[17] = 80;
    rv_hadamard(row, 64);
    for (int i = 0; i < 64; i++)
        assert_true(fabsf(fabsf(row[i]) - 10.0f) < 1e-4f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_run_is_multiplied_by_the_matrix),
        cmocka_unit_test(twice_is_the_row_itself),
        cmocka_unit_test(products_of_two_rotated_rows_stay),
        cmocka_unit_test(an_outlier_is_spread_over_the_whole_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
