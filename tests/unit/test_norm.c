/* Both norms against doubles in plain passes. */
#include "kernels/norm.h"
#include "support/test.h"

#include "base/rng.h"

#include <math.h>
#include <string.h>

enum { MAX = 1000 };

static const size_t sizes[] = {1, 2, 15, 16, 17, 31, 64, 100, 896, 1000};

struct rows {
    float x[MAX], weight[MAX], bias[MAX], y[MAX];
};

/* Numbers of about `size`, away from 0 by `offset`. */
static void make(struct rows *r, uint64_t seed, double size, double offset)
{
    struct rv_rng rng;

    rv_rng_init(&rng, seed);
    for (int i = 0; i < MAX; i++) {
        r->x[i] = (float)(rv_rng_normal(&rng) * size + offset);
        r->weight[i] = (float)rv_rng_normal(&rng);
        r->bias[i] = (float)rv_rng_normal(&rng);
    }
}

static double mean_of(const float *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)x[i];
    return sum / (double)n;
}

static double spread_of(const float *x, size_t n, double center)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += ((double)x[i] - center) * ((double)x[i] - center);
    return sum / (double)n;
}

/* Results are a few units in size at most; a handful of roundings of 2^-24 each, and of sums of up to 63 a lane. */
static void check(const char *what, size_t n, size_t i, float got, double wanted, double allowed)
{
    if (!(fabs((double)got - wanted) <= allowed * (1 + fabs(wanted))))
        fail_msg("%s of %zu: number %zu is %.9g, not %.9g", what, n, i, (double)got, wanted);
}

static void rms_norm_is_the_formula(void **state)
{
    static struct rows r;

    (void)state;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        size_t n = sizes[s];
        double factor;

        make(&r, s, s % 2 ? 100 : 1e-3, 0);
        factor = 1 / sqrt(spread_of(r.x, n, 0) + 1e-6);
        rv_norm_rms(r.x, r.weight, r.y, n, 1e-6f);
        for (size_t i = 0; i < n; i++)
            check("rms norm", n, i, r.y[i], (double)r.x[i] * factor * (double)r.weight[i], 1e-6);
        rv_norm_rms(r.x, NULL, r.y, n, 1e-6f);
        for (size_t i = 0; i < n; i++)
            check("rms norm without weight", n, i, r.y[i], (double)r.x[i] * factor, 1e-6);
    }
}

static void layer_norm_is_the_formula(void **state)
{
    static struct rows r;

    (void)state;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        size_t n = sizes[s];
        double mean, factor;

        make(&r, 50 + s, 1, 3);
        mean = mean_of(r.x, n);
        factor = 1 / sqrt(spread_of(r.x, n, mean) + 1e-5);
        rv_norm_layer(r.x, r.weight, r.bias, r.y, n, 1e-5f);
        for (size_t i = 0; i < n; i++)
            check("layer norm", n, i, r.y[i],
                  ((double)r.x[i] - mean) * factor * (double)r.weight[i] + (double)r.bias[i], 3e-6);
        rv_norm_layer(r.x, NULL, NULL, r.y, n, 1e-5f);
        for (size_t i = 0; i < n; i++)
            check("layer norm without weight", n, i, r.y[i], ((double)r.x[i] - mean) * factor, 3e-6);
    }
}

/* A mean a thousand times the spread: a variance as E[x^2] - E[x]^2 in floats would be noise. */
static void a_large_mean_does_not_drown_the_variance(void **state)
{
    static struct rows r;
    double mean, factor;

    (void)state;
    make(&r, 7, 1, 1000);
    mean = mean_of(r.x, MAX);
    factor = 1 / sqrt(spread_of(r.x, MAX, mean));
    rv_norm_layer(r.x, NULL, NULL, r.y, MAX, 0.0f);
    for (size_t i = 0; i < MAX; i++) // the mean as a float is off by up to 2^-15
        check("layer norm", MAX, i, r.y[i], ((double)r.x[i] - mean) * factor, 1e-4);
}

static void the_result_may_be_the_input(void **state)
{
    static struct rows r;
    float copy[MAX];

    (void)state;
    make(&r, 8, 1, 1);
    memcpy(copy, r.x, sizeof(copy));
    rv_norm_rms(r.x, r.weight, r.y, MAX, 1e-6f);
    rv_norm_rms(copy, r.weight, copy, MAX, 1e-6f);
    assert_memory_equal(copy, r.y, sizeof(copy));
    memcpy(copy, r.x, sizeof(copy));
    rv_norm_layer(r.x, r.weight, r.bias, r.y, MAX, 1e-6f);
    rv_norm_layer(copy, r.weight, r.bias, copy, MAX, 1e-6f);
    assert_memory_equal(copy, r.y, sizeof(copy));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rms_norm_is_the_formula),
        cmocka_unit_test(layer_norm_is_the_formula),
        cmocka_unit_test(a_large_mean_does_not_drown_the_variance),
        cmocka_unit_test(the_result_may_be_the_input),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
