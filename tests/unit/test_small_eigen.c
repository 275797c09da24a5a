/* Eigenvectors by what they are: orthonormal, and the matrix is made of them. */
#include "learn/small_eigen.h"
#include "support/test.h"

#include "base/rng.h"

#include <math.h>
#include <string.h>

static void check(int n, uint64_t seed, int rank)
{
    double m[RV_SMALL_EIGEN_MAX * RV_SMALL_EIGEN_MAX] = {0}, copy[RV_SMALL_EIGEN_MAX * RV_SMALL_EIGEN_MAX];
    double values[RV_SMALL_EIGEN_MAX], vectors[RV_SMALL_EIGEN_MAX * RV_SMALL_EIGEN_MAX];
    struct rv_rng rng;

    rv_rng_init(&rng, seed);
    for (int k = 0; k < rank; k++) {
        double row[RV_SMALL_EIGEN_MAX];

        for (int i = 0; i < n; i++)
            row[i] = rv_rng_normal(&rng);
        for (int i = 0; i < n * n; i++)
            m[i] += (k % 3 ? 1 : -2) * row[i / n] * row[i % n];
    }
    memcpy(copy, m, sizeof(m));
    rv_small_eigen(m, n, values, vectors);
    for (int i = 0; i < n; i++) {
        assert_true(i == 0 || values[i] <= values[i - 1]);
        for (int j = 0; j < n; j++) {
            double dot = 0, made = 0;

            for (int k = 0; k < n; k++) {
                dot += vectors[i * n + k] * vectors[j * n + k];
                made += values[k] * vectors[k * n + i] * vectors[k * n + j];
            }
            assert_true(fabs(dot - (i == j)) < 1e-10);
            assert_true(fabs(made - copy[i * n + j]) < 1e-9);
        }
    }
}

static void a_matrix_is_made_of_its_vectors(void **state)
{
    (void)state;
    for (int n = 1; n <= RV_SMALL_EIGEN_MAX; n += 3) {
        check(n, (uint64_t)n, n);
        check(n, (uint64_t)n + 100, n / 2); // some of its values are 0
    }
    check(5, 1, 0); // and all of them
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_matrix_is_made_of_its_vectors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
