/*
 * Products of narrow matrices against plain loops over the full ones. The singular values a truncation must find are
 * made: factors with orthonormal vectors and chosen lengths.
 */
#include "kernels/low_rank.h"

#include "base/rng.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *expand(const struct rv_low_rank *p)
{
    double *out = calloc(p->n_out * p->n_in, sizeof(*out));

    assert_non_null(out);
    for (size_t r = 0; r < p->rank; r++) {
        for (size_t i = 0; i < p->n_out; i++) {
            for (size_t j = 0; j < p->n_in; j++)
                out[i * p->n_in + j] += p->b[r * p->n_out + i] * p->a[r * p->n_in + j];
        }
    }
    return out;
}

static double norm2(const double *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sum;
}

static double distance2(const double *x, const double *y, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (x[i] - y[i]) * (x[i] - y[i]);
    return sum;
}

static void fill(double *x, size_t n, struct rv_rng *rng)
{
    for (size_t i = 0; i < n; i++)
        x[i] = rv_rng_normal(rng);
}

static struct rv_low_rank random_product(size_t n_out, size_t n_in, size_t rank, uint64_t seed)
{
    struct rv_low_rank p;
    struct rv_rng rng;

    rv_rng_init(&rng, seed);
    assert_true(rv_low_rank_init(&p, n_out, n_in, rank));
    fill(p.b, rank * n_out, &rng);
    fill(p.a, rank * n_in, &rng);
    return p;
}

/* Orthonormal vectors by plain Gram and Schmidt. */
static void make_orthonormal(double *x, size_t k, size_t n)
{
    for (size_t i = 0; i < k; i++) {
        for (int pass = 0; pass < 3; pass++) {
            for (size_t j = 0; j < i; j++) {
                double sum = 0;

                for (size_t l = 0; l < n; l++)
                    sum += x[i * n + l] * x[j * n + l];
                for (size_t l = 0; l < n; l++)
                    x[i * n + l] -= sum * x[j * n + l];
            }
        }
        double length = sqrt(norm2(x + i * n, n));
        for (size_t l = 0; l < n; l++)
            x[i * n + l] /= length;
    }
}

/* Singular values 2^-s, hidden behind a random change of both factors that leaves the product as it is. */
static struct rv_low_rank known_product(size_t n_out, size_t n_in, size_t rank, uint64_t seed)
{
    struct rv_low_rank p = random_product(n_out, n_in, rank, seed);

    make_orthonormal(p.b, rank, n_out);
    make_orthonormal(p.a, rank, n_in);
    for (size_t s = 0; s < rank; s++) {
        for (size_t i = 0; i < n_out; i++)
            p.b[s * n_out + i] *= exp2(-(double)s);
    }
    /* b_0 += 3 b_1 and a_1 -= 3 a_0: the same product of vectors that are orthogonal no more. */
    for (size_t s = 0; s + 1 < rank; s++) {
        for (size_t i = 0; i < n_out; i++)
            p.b[s * n_out + i] += 3 * p.b[(s + 1) * n_out + i];
        for (size_t i = 0; i < n_in; i++)
            p.a[(s + 1) * n_in + i] -= 3 * p.a[s * n_in + i];
    }
    return p;
}

static void inner_products_are_those_of_the_matrices(void **state)
{
    struct rv_low_rank x = random_product(37, 21, 5, 1), y = random_product(37, 21, 3, 2);
    double *fx = expand(&x), *fy = expand(&y), sum = 0, row[21];

    (void)state;
    for (size_t i = 0; i < (size_t)37 * 21; i++)
        sum += fx[i] * fy[i];
    assert_true(fabs(rv_low_rank_dot(&x, &y) - sum) < 1e-9);
    rv_low_rank_row(&x, 30, row);
    assert_true(distance2(row, fx + (size_t)30 * 21, 21) < 1e-20);
    free(fx);
    free(fy);
    rv_low_rank_release(&x);
    rv_low_rank_release(&y);
}

static void truncation_finds_the_largest_singular_values(void **state)
{
    static const size_t shapes[][3] = {{40, 24, 8}, {24, 40, 8}, {16, 16, 16}, {9, 50, 9}};

    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (size_t rank = 1; rank <= shapes[i][2]; rank++) {
            size_t n = shapes[i][0] * shapes[i][1];
            struct rv_low_rank p = known_product(shapes[i][0], shapes[i][1], shapes[i][2], 7 + i);
            struct rv_low_rank_loss loss;
            double *before = expand(&p), *after, dropped = 0, total = 0;

            assert_true(rv_low_rank_truncate(&p, rank, &loss));
            after = expand(&p);
            for (size_t s = 0; s < shapes[i][2]; s++) {
                total += exp2(-2.0 * (double)s);
                dropped += s < rank ? 0 : exp2(-2.0 * (double)s);
            }
            assert_int_equal(p.rank, rank);
            assert_true(fabs(loss.total - total) < 1e-10 && fabs(loss.dropped - dropped) < 1e-10);
            /* Nothing of that rank is nearer (Eckart and Young). */
            assert_true(fabs(distance2(before, after, n) - dropped) < 1e-10);
            free(before);
            free(after);
            rv_low_rank_release(&p);
        }
    }
}

/* As when an adapter is merged with itself, or the ranks come to more than the width. */
static void dependent_vectors_are_no_obstacle(void **state)
{
    struct rv_low_rank p = random_product(12, 10, 6, 3), twice;
    struct rv_low_rank_loss loss;
    double *before, *after;

    (void)state;
    assert_true(rv_low_rank_init(&twice, 12, 10, 18));
    for (int i = 0; i < 3; i++) {
        memcpy(twice.b + (size_t)i * 6 * 12, p.b, (size_t)6 * 12 * sizeof(double));
        memcpy(twice.a + (size_t)i * 6 * 10, p.a, (size_t)6 * 10 * sizeof(double));
    }
    before = expand(&twice);
    assert_true(rv_low_rank_truncate(&twice, 6, &loss));
    after = expand(&twice);
    assert_true(loss.dropped < 1e-20 * loss.total && distance2(before, after, 120) < 1e-20 * loss.total);
    free(before);
    free(after);
    rv_low_rank_release(&p);
    rv_low_rank_release(&twice);
}

static void full_matrices_become_products(void **state)
{
    static const size_t shapes[][3] = {{30, 20, 20}, {20, 30, 4}, {90, 70, 12}, {70, 90, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        size_t n_out = shapes[i][0], n_in = shapes[i][1], n = n_out * n_in;
        struct rv_low_rank p = known_product(n_out, n_in, 16, 11 + i), q;
        struct rv_low_rank_loss loss;
        double *full = expand(&p), *after, best = 0;
        float *matrix = calloc(n, sizeof(*matrix));

        for (size_t j = 0; j < n; j++) {
            matrix[j] = (float)full[j];
            full[j] = (double)matrix[j];
        }
        assert_true(rv_low_rank_from_matrix(&q, matrix, n_out, n_in, shapes[i][2], 5, &loss));
        after = expand(&q);
        for (size_t s = shapes[i][2]; s < 16; s++)
            best += exp2(-2.0 * (double)s);
        /* The loss it tells is the loss there is, and that is the best one, but for the rounding to floats. */
        assert_true(fabs(distance2(full, after, n) - loss.dropped) < 1e-10);
        assert_true(loss.dropped < best * 1.000001 + 1e-10 && loss.dropped > best * 0.999999 - 1e-10);
        free(full);
        free(after);
        free(matrix);
        rv_low_rank_release(&p);
        rv_low_rank_release(&q);
    }
}

static void zeros_stay_zeros(void **state)
{
    struct rv_low_rank p;
    struct rv_low_rank_loss loss;

    (void)state;
    assert_true(rv_low_rank_init(&p, 8, 9, 4));
    assert_true(rv_low_rank_truncate(&p, 2, &loss));
    assert_true(loss.total == 0 && loss.dropped == 0 && norm2(p.a, 18) == 0 && norm2(p.b, 16) == 0);
    rv_low_rank_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inner_products_are_those_of_the_matrices),
        cmocka_unit_test(truncation_finds_the_largest_singular_values),
        cmocka_unit_test(dependent_vectors_are_no_obstacle),
        cmocka_unit_test(full_matrices_become_products),
        cmocka_unit_test(zeros_stay_zeros),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
