/*
 * The scalar tiles against plain loops in doubles, every vector variant of this machine against them, and whole
 * products through weights of several types against the same with the weights decoded.
 */
#include "kernels/tile_gemm.h"
#include "support/test.h"

#include "base/rng.h"

#include <ggml.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STRIP = RV_TILE_GEMM_STRIP, MAX_OPS = 3 };

static int all_ops(const struct rv_tile_gemm_ops *out[MAX_OPS])
{
    int n = 0;

    out[n++] = rv_tile_gemm_scalar();
    if (rv_tile_gemm_avx2())
        out[n++] = rv_tile_gemm_avx2();
    if (rv_tile_gemm_avx512())
        out[n++] = rv_tile_gemm_avx512();
    return n;
}

static float *random_floats(struct rv_rng *rng, size_t n)
{
    float *x = malloc(n * sizeof(*x)); // to the byte, for who watches accesses

    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)rv_rng_normal(rng);
    return x;
}

/* Numbers are about 1, so a sum of n products in floats is off by some rounding steps of its square root. */
static void expect_near(const char *name, double got, double want, int32_t n)
{
    double tolerance = 1e-6 * (1 + 4 * sqrt((double)n));

    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s: %.9g, not %.9g (of %d products)", name, got, want, n);
}

static void tiles_are_sums_of_products(void **state)
{
    const struct rv_tile_gemm_ops *ops[MAX_OPS];
    int n_ops = all_ops(ops);
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 1);
    for (int round = 0; round < 60; round++) {
        int32_t n_rows = 1 + (int32_t)rv_rng_below(&rng, RV_TILE_GEMM_ROWS), k = 1 + (int32_t)rv_rng_below(&rng, 90);
        bool turned = round % 2;
        size_t a_stride = (size_t)(turned ? n_rows : k) + 3, c_stride = STRIP + 5;
        float *a = random_floats(&rng, a_stride * (size_t)(turned ? k : n_rows)),
              *b = random_floats(&rng, (size_t)k * STRIP);
        float *c = random_floats(&rng, c_stride * (size_t)n_rows),
              *out = malloc(c_stride * (size_t)n_rows * sizeof(*c));

        assert_non_null(out);
        for (int o = 0; o < n_ops; o++) {
            memcpy(out, c, c_stride * (size_t)n_rows * sizeof(*c));
            (turned ? ops[o]->tile_transposed : ops[o]->tile)(a, a_stride, n_rows, b, k, out, c_stride);
            for (int32_t i = 0; i < n_rows; i++)
                for (size_t t = 0; t < c_stride; t++) {
                    double want = (double)c[(size_t)i * c_stride + t];

                    for (int32_t j = 0; j < k && t < STRIP; j++)
                        want +=
                            (double)a[turned ? (size_t)j * a_stride + (size_t)i : (size_t)i * a_stride + (size_t)j] *
                            (double)b[(size_t)j * STRIP + t];
                    expect_near(ops[o]->name, (double)out[(size_t)i * c_stride + t], want, k);
                }
        }
        free(a);
        free(b);
        free(c);
        free(out);
    }
}

static void dots_are_sums_over_tokens(void **state)
{
    const struct rv_tile_gemm_ops *ops[MAX_OPS];
    int n_ops = all_ops(ops);
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 2);
    for (int round = 0; round < 40; round++) {
        int32_t n_a = 1 + (int32_t)rv_rng_below(&rng, 9), n_b = 1 + (int32_t)rv_rng_below(&rng, 9);
        int32_t n = STRIP * (1 + (int32_t)rv_rng_below(&rng, 4));
        size_t stride = (size_t)n;
        float *a = random_floats(&rng, stride * (size_t)n_a), *b = random_floats(&rng, stride * (size_t)n_b), out[81];

        for (int o = 0; o < n_ops; o++) {
            for (int i = 0; i < 81; i++)
                out[i] = 0.5f;
            ops[o]->dots(a, n_a, b, n_b, stride, n, 0.25f, out, (size_t)n_b);
            for (int32_t i = 0; i < n_a; i++)
                for (int32_t j = 0; j < n_b; j++) {
                    double want = 0;

                    for (int32_t t = 0; t < n; t++)
                        want += (double)a[(size_t)i * stride + (size_t)t] * (double)b[(size_t)j * stride + (size_t)t];
                    expect_near(ops[o]->name, (double)out[i * n_b + j], 0.5 + 0.25 * want, n);
                }
        }
        free(a);
        free(b);
    }
}

static void exp_and_tanh_are_those_of_the_library(void **state)
{
    const struct rv_tile_gemm_ops *ops[MAX_OPS];
    int n_ops = all_ops(ops);
    float x[STRIP], max[STRIP], y[STRIP];

    (void)state;
    for (int o = 0; o < n_ops; o++) {
        for (int round = 0; round < 100; round++) {
            for (int t = 0; t < STRIP; t++) {
                max[t] = (float)(t - 16);
                x[t] = t == 7 ? -INFINITY : max[t] - (float)(round * STRIP + t) * 0.01f;
                y[t] = x[t];
            }
            ops[o]->exp_below(y, max, STRIP);
            for (int t = 0; t < STRIP; t++)
                assert_true(fabs((double)y[t] - exp((double)x[t] - (double)max[t])) < 1e-6);
            assert_true(y[7] == 0.0f);
            for (int t = 0; t < STRIP; t++)
                x[t] = (float)(t - 16) * (float)round * 0.02f;
            ops[o]->tanh_scaled(x, 0.5f, y, STRIP);
            for (int t = 0; t < STRIP; t++)
                assert_true(fabs((double)y[t] - tanh(0.5 * (double)x[t])) < 1e-6);
        }
    }
}

struct shape {
    enum ggml_type type;
    int32_t n_rows, n_cols, n_columns;
};

/* W x and W' y for weights in their type, against plain loops over the decoded ones. */
static void check_products(const struct shape *s, const struct rv_tile_gemm_ops *ops, struct rv_rng *rng)
{
    size_t n_rows = (size_t)s->n_rows, n_cols = (size_t)s->n_cols, n = (size_t)s->n_columns;
    size_t row_bytes = ggml_row_size(s->type, s->n_cols);
    float *w = random_floats(rng, n_rows * n_cols), *x = random_floats(rng, n_cols * n),
          *y = random_floats(rng, n_rows * n);
    float *packed = malloc((n_rows + n_cols) * n * sizeof(float)),
          *scratch = malloc(RV_TILE_GEMM_SCRATCH * sizeof(float));
    float *forward = calloc(n_rows * n, sizeof(float)), *back = calloc(n_cols * n, sizeof(float));
    void *data = malloc(row_bytes * n_rows);
    const struct ggml_type_traits *traits = ggml_get_type_traits(s->type);
    struct rv_tile_gemm_matrix m = {.data = data,
                                    .row_bytes = row_bytes,
                                    .n_rows = s->n_rows,
                                    .n_cols = s->n_cols,
                                    .block = (int32_t)traits->blck_size,
                                    .block_bytes = traits->type_size,
                                    .decode = s->type == GGML_TYPE_F32 ? NULL : traits->to_float};
    int32_t split = s->n_cols / 2 / m.block * m.block;

    assert_true(packed && scratch && forward && back && data);
    if (s->type == GGML_TYPE_F32) {
        memcpy(data, w, n_rows * n_cols * sizeof(float));
    } else {
        ggml_quantize_chunk(s->type, w, data, 0, s->n_rows, s->n_cols, NULL);
        traits->to_float(data, w, (int64_t)(n_rows * n_cols));
    }
    rv_tile_gemm_pack(x, n, s->n_cols, s->n_columns, packed);
    rv_tile_gemm_multiply(ops, &m, 0, 5, packed, s->n_columns, forward, n, scratch);
    rv_tile_gemm_multiply(ops, &m, 5, s->n_rows, packed, s->n_columns, forward, n, scratch);
    rv_tile_gemm_pack(y, n, s->n_rows, s->n_columns, packed);
    rv_tile_gemm_multiply_transposed(ops, &m, 0, split, packed, s->n_columns, back, n, scratch);
    rv_tile_gemm_multiply_transposed(ops, &m, split, s->n_cols, packed, s->n_columns, back, n, scratch);
    for (int round = 0; round < 300; round++) {
        size_t i = (size_t)rv_rng_below(rng, n_rows), j = (size_t)rv_rng_below(rng, n_cols),
               t = (size_t)rv_rng_below(rng, n);
        double want = 0, want_back = 0;

        for (size_t k = 0; k < n_cols; k++)
            want += (double)w[i * n_cols + k] * (double)x[k * n + t];
        for (size_t k = 0; k < n_rows; k++)
            want_back += (double)w[k * n_cols + j] * (double)y[k * n + t];
        expect_near(ops->name, (double)forward[i * n + t], want, s->n_cols);
        expect_near(ops->name, (double)back[j * n + t], want_back, s->n_rows);
    }
    free(w);
    free(x);
    free(y);
    free(packed);
    free(scratch);
    free(forward);
    free(back);
    free(data);
}

static void products_go_through_every_type_both_ways(void **state)
{
    static const struct shape shapes[] = {
        {GGML_TYPE_F32, 71, 530, 64},   {GGML_TYPE_F16, 40, 96, 32},   {GGML_TYPE_BF16, 40, 96, 32},
        {GGML_TYPE_Q8_0, 200, 544, 64}, {GGML_TYPE_Q4_0, 130, 96, 96}, {GGML_TYPE_Q4_K, 150, 768, 32},
        {GGML_TYPE_Q6_K, 9, 256, 32},
    };
    const struct rv_tile_gemm_ops *ops[MAX_OPS];
    int n_ops = all_ops(ops);
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 3);
    for (int o = 0; o < n_ops; o++)
        for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
            check_products(&shapes[i], ops[o], &rng);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_are_sums_of_products),
        cmocka_unit_test(dots_are_sums_over_tokens),
        cmocka_unit_test(exp_and_tanh_are_those_of_the_library),
        cmocka_unit_test(products_go_through_every_type_both_ways),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
