/* Sums over rows in registers against the plain ones, and the same bits in whatever company. */
#include "kernels/row_sums.h"
#include "kernels/vec.h"
#include "support/test.h"

#include "base/rng.h"

#include <math.h>

enum { ROWS = 21, MAX = 150, VECTORS = RV_ROW_SUMS_MAX };

static const size_t sizes[] = {1, 7, 8, 16, 31, 64, 150}, counts[] = {0, 1, 4, 8, 9, 21};

struct numbers {
    uint16_t rows[ROWS * MAX];
    float x[VECTORS * MAX], c[ROWS * VECTORS];
};

static void draw(struct numbers *out)
{
    struct rv_rng rng;

    rv_rng_init(&rng, 5);
    for (size_t i = 0; i < ROWS * MAX; i++)
        out->rows[i] = rv_vec_to_bf16((float)rv_rng_normal(&rng));
    for (size_t i = 0; i < VECTORS * MAX; i++)
        out->x[i] = (float)rv_rng_normal(&rng);
    for (size_t i = 0; i < ROWS * VECTORS; i++)
        out->c[i] = (float)rv_rng_normal(&rng);
}

static void check_against_plain(const struct rv_row_sums_ops *ops, const struct numbers *in, size_t n_rows, size_t n_x,
                                size_t n)
{
    float dots[ROWS * VECTORS], plain_dots[ROWS * VECTORS], sums[VECTORS * MAX], plain_sums[VECTORS * MAX];

    ops->dots(in->rows, n_rows, in->x, n_x, n, dots);
    rv_row_sums_scalar.dots(in->rows, n_rows, in->x, n_x, n, plain_dots);
    for (size_t i = 0; i < n_rows * n_x; i++)
        assert_true(fabsf(dots[i] - plain_dots[i]) < 1e-4f); // of at most 150 products of about 1
    memcpy(sums, in->x, sizeof(sums));
    memcpy(plain_sums, in->x, sizeof(sums));
    ops->adds(in->rows, n_rows, in->c, sums, n_x, n);
    rv_row_sums_scalar.adds(in->rows, n_rows, in->c, plain_sums, n_x, n);
    for (size_t i = 0; i < VECTORS * MAX; i++) // also those that were not asked for, which stay as they are
        assert_true(fabsf(sums[i] - plain_sums[i]) < 2e-5f && (i < n_x * n || sums[i] == in->x[i]));
}

/* All rows and vectors at once, and each row with each vector alone. */
static void check_company(const struct rv_row_sums_ops *ops, const struct numbers *in, size_t n)
{
    float dots[ROWS * VECTORS], sums[VECTORS * MAX], alone[MAX], one;

    ops->dots(in->rows, ROWS, in->x, VECTORS, n, dots);
    memcpy(sums, in->x, sizeof(sums));
    ops->adds(in->rows, ROWS, in->c, sums, VECTORS, n);
    for (size_t k = 0; k < VECTORS; k++) {
        memcpy(alone, in->x + k * n, n * sizeof(*alone));
        for (size_t t = 0; t < ROWS; t++) {
            ops->dots(in->rows + t * n, 1, in->x + k * n, 1, n, &one);
            assert_memory_equal(&one, &dots[t * VECTORS + k], sizeof(one));
            ops->adds(in->rows + t * n, 1, &in->c[t * VECTORS + k], alone, 1, n);
        }
        assert_memory_equal(alone, sums + k * n, n * sizeof(*alone));
    }
}

static void each_variant(void (*check)(const struct rv_row_sums_ops *ops, const struct numbers *in))
{
    const struct rv_row_sums_ops *const variants[] = {rv_row_sums_avx2(), rv_row_sums_avx512(), rv_row_sums_best()};
    struct numbers in;

    draw(&in);
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
        if (variants[i])
            check(variants[i], &in);
    }
}

static void check_sums(const struct rv_row_sums_ops *ops, const struct numbers *in)
{
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (size_t r = 0; r < sizeof(counts) / sizeof(counts[0]); r++) {
            for (size_t k = 1; k <= VECTORS; k++)
                check_against_plain(ops, in, counts[r], k, sizes[s]);
        }
    }
}

static void check_bits(const struct rv_row_sums_ops *ops, const struct numbers *in)
{
    if (ops == &rv_row_sums_scalar)
        return; // it adds up in double, all rows at once
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
        check_company(ops, in, sizes[s]);
}

static void registers_sum_as_the_plain_statement_does(void **state)
{
    (void)state;
    each_variant(check_sums);
}

static void company_changes_no_bit(void **state)
{
    (void)state;
    each_variant(check_bits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registers_sum_as_the_plain_statement_does),
        cmocka_unit_test(company_changes_no_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
