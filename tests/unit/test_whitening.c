/* The inverse covariance against the one a plain elimination finds. */
#include "learn/whitening.h"
#include "support/test.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>

enum { DIMS = 24, N = 4000 };

/* States with a few large directions, as a model's are. */
static float *make_states(void)
{
    float *states = malloc(sizeof(float) * N * DIMS), mix[4][DIMS];
    struct rv_rng rng;

    rv_rng_init(&rng, 5);
    for (int i = 0; i < 4; i++) {
        for (int d = 0; d < DIMS; d++)
            mix[i][d] = (float)rv_rng_normal(&rng);
    }
    for (int t = 0; t < N; t++) {
        for (int d = 0; d < DIMS; d++)
            states[t * DIMS + d] = 0.3f * (float)rv_rng_normal(&rng);
        for (int i = 0; i < 4; i++) {
            float size = (float)(4 >> i) * (float)rv_rng_normal(&rng);

            for (int d = 0; d < DIMS; d++)
                states[t * DIMS + d] += size * mix[i][d];
        }
    }
    return states;
}

/* x C = row, by elimination in doubles. */
static void solve(const float *states, const float *row, double *x)
{
    static double m[DIMS][DIMS + 1];
    double trace = 0;

    for (int i = 0; i < DIMS; i++) {
        for (int j = 0; j < DIMS; j++) {
            m[i][j] = 0;
            for (int t = 0; t < N; t++)
                m[i][j] += (double)states[t * DIMS + i] * (double)states[t * DIMS + j] / N;
        }
        trace += m[i][i];
    }
    for (int i = 0; i < DIMS; i++) {
        m[i][i] += 0.02 * trace / DIMS;
        m[i][DIMS] = (double)row[i] * trace / DIMS; // C is normed to a mean variance of 1
    }
    for (int c = 0; c < DIMS; c++) { // positive definite: no pivots
        for (int i = 0; i < DIMS; i++) {
            double f = i == c ? 0 : m[i][c] / m[c][c];

            for (int j = c; j <= DIMS && f != 0; j++)
                m[i][j] -= f * m[c][j];
        }
    }
    for (int i = 0; i < DIMS; i++)
        x[i] = m[i][DIMS] / m[i][i];
}

static void a_row_is_multiplied_by_the_inverse(void **state)
{
    float *states = make_states(), row[DIMS], out[DIMS];
    struct rv_whitening w;
    struct ruvllm_error err;
    double wanted[DIMS], square = 0, off = 0;
    struct rv_rng rng;

    (void)state;
    assert_int_equal(rv_whitening_init(&w, states, N, DIMS, &err), RUVLLM_OK);
    rv_rng_init(&rng, 6);
    for (int d = 0; d < DIMS; d++)
        row[d] = (float)rv_rng_normal(&rng);
    solve(states, row, wanted);
    rv_whitening_apply(&w, row, 1, out);
    for (int d = 0; d < DIMS; d++) {
        square += wanted[d] * wanted[d];
        off += (wanted[d] - (double)out[d]) * (wanted[d] - (double)out[d]);
    }
    assert_true(off < 1e-4 * square);
    rv_whitening_release(&w);
    free(states);
}

/* Twice the root is the inverse; and rows together are the bits of each alone. */
static void a_root_is_half_the_way_for_each_of_many_rows(void **state)
{
    enum { ROWS = 7 };
    float *states = make_states(), rows[ROWS * DIMS], alone[ROWS * DIMS], whole[DIMS];
    struct rv_whitening w;
    struct ruvllm_error err;
    struct rv_rng rng;

    (void)state;
    assert_int_equal(rv_whitening_init(&w, states, N, DIMS, &err), RUVLLM_OK);
    rv_rng_init(&rng, 7);
    for (int d = 0; d < ROWS * DIMS; d++)
        rows[d] = alone[d] = (float)rv_rng_normal(&rng);
    rv_whitening_apply(&w, rows, 1, whole);
    rv_whitening_root(&w, rows, ROWS);
    for (size_t i = 0; i < ROWS; i++)
        rv_whitening_root(&w, alone + i * DIMS, 1);
    assert_memory_equal(rows, alone, sizeof(rows));
    rv_whitening_root(&w, rows, 1);
    for (int d = 0; d < DIMS; d++) // directions rounded to 8 bits are not quite at right angles
        assert_true(fabsf(rows[d] - whole[d]) < 2e-3f * (1 + fabsf(whole[d])));
    rv_whitening_release(&w);
    free(states);
}

static void states_that_say_nothing_are_refused(void **state)
{
    float zeros[8] = {0}, bad[8] = {1, NAN};
    struct rv_whitening w;
    struct ruvllm_error err;

    (void)state;
    assert_int_equal(rv_whitening_init(&w, zeros, 2, 4, &err), RUVLLM_INVALID);
    assert_int_equal(rv_whitening_init(&w, bad, 2, 4, &err), RUVLLM_INVALID);
    assert_int_equal(rv_whitening_init(&w, zeros, 0, 4, &err), RUVLLM_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_multiplied_by_the_inverse),
        cmocka_unit_test(a_root_is_half_the_way_for_each_of_many_rows),
        cmocka_unit_test(states_that_say_nothing_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
