/* The public kernels against ggml's own: rotary positions with every scaling, quantised products. */
#include "ruvllm_kernels.h"
#include "support/test.h"

#include "base/rng.h"

#include <ggml-cpu.h>
#include <ggml.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = 64, HEAD = 80, HEADS = 2, TOKENS = 40, ROWS = 24, COLS = 256 };

struct rotation {
    const char *name;
    struct ruvllm_rope_config config;
    float freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow; // what ggml is told
};

static struct rotation rotation(const char *name, ruvllm_rope_scaling scaling, float factor)
{
    struct rotation r = {.name = name,
                         .config = ruvllm_rope_config_default(),
                         .freq_base = 10000.0f,
                         .freq_scale = 1.0f / factor,
                         .attn_factor = 1.0f,
                         .beta_fast = 32.0f,
                         .beta_slow = 1.0f};

    r.config.dim = DIM;
    r.config.max_positions = 1024;
    r.config.scaling = scaling;
    r.config.factor = factor;
    r.config.original_context = 512;
    if (scaling == RUVLLM_ROPE_YARN)
        r.ext_factor = 1.0f;
    if (scaling == RUVLLM_ROPE_NTK) { // as the engine tells ggml: hparams.c
        r.freq_scale = 1.0f;
        r.freq_base *= powf(factor, DIM / (DIM - 2.0f));
    }
    return r;
}

static void ggml_rotate(const struct rotation *r, int mode, const float *x, const int32_t *positions, float *out)
{
    struct ggml_init_params params = {.mem_size = 1 << 24};
    struct ggml_context *ctx = ggml_init(params);
    struct ggml_tensor *a = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, HEAD, HEADS, TOKENS);
    struct ggml_tensor *pos = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, TOKENS), *y;
    struct ggml_cgraph *graph = ggml_new_graph(ctx);

    memcpy(a->data, x, ggml_nbytes(a));
    memcpy(pos->data, positions, ggml_nbytes(pos));
    y = ggml_rope_ext(ctx, a, pos, NULL, DIM, mode, r->config.original_context, r->freq_base, r->freq_scale,
                      r->ext_factor, r->attn_factor, r->beta_fast, r->beta_slow);
    ggml_build_forward_expand(graph, y);
    assert_int_equal(ggml_graph_compute_with_ctx(ctx, graph, 1), GGML_STATUS_SUCCESS);
    memcpy(out, y->data, ggml_nbytes(y));
    ggml_free(ctx);
}

/*
 * ggml multiplies angles up in floats from pair to pair: up to 32 roundings of 2^-24 of an angle of up to 1000, 2e-3 at
 * the worst and in practice a tenth of it. Numbers are about 1.
 */
static void compare_rotation(const struct rotation *r, ruvllm_rope_pairing pairing)
{
    static float x[TOKENS * HEADS * HEAD], theirs[TOKENS * HEADS * HEAD];
    int32_t positions[TOKENS];
    ruvllm_rope_table *table;
    struct rv_rng rng;
    double worst = 0;

    rv_rng_init(&rng, 4);
    for (int i = 0; i < TOKENS * HEADS * HEAD; i++)
        x[i] = (float)rv_rng_normal(&rng);
    for (int i = 0; i < TOKENS; i++)
        positions[i] = (int32_t)rv_rng_below(&rng, 1024);
    ggml_rotate(r, pairing == RUVLLM_ROPE_PAIRING_NEOX ? 2 : 0, x, positions, theirs);
    assert_ok(ruvllm_rope_table_new(&table, &r->config, err));
    assert_ok(ruvllm_rope(table, pairing, x, TOKENS, HEADS, HEAD, positions, err));
    ruvllm_rope_table_free(table);
    for (int i = 0; i < TOKENS * HEADS * HEAD; i++)
        worst = fmax(worst, fabs((double)x[i] - (double)theirs[i]));
    print_message("%s: largest difference %g\n", r->name, worst);
    assert_true(worst < 5e-4);
}

static void rotations_are_ggmls(void **state)
{
    struct rotation all[] = {
        rotation("none", RUVLLM_ROPE_NONE, 1.0f),        rotation("linear", RUVLLM_ROPE_LINEAR, 4.0f),
        rotation("ntk", RUVLLM_ROPE_NTK, 4.0f),          rotation("yarn", RUVLLM_ROPE_YARN, 4.0f),
        rotation("yarn, tuned", RUVLLM_ROPE_YARN, 8.0f),
    };
    struct rotation *tuned = &all[4];

    (void)state;
    tuned->config.base = tuned->freq_base = 500000.0f;
    tuned->config.yarn_attention = tuned->attn_factor = 0.8f;
    tuned->config.yarn_beta_fast = tuned->beta_fast = 16.0f;
    tuned->config.yarn_beta_slow = tuned->beta_slow = 2.0f;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        compare_rotation(&all[i], RUVLLM_ROPE_PAIRING_NORMAL);
        compare_rotation(&all[i], RUVLLM_ROPE_PAIRING_NEOX);
    }
}

/* Rounding of a float sum in 16 lanes, of terms whose sizes sum up to `size`. */
static void check_products(const float *weights, const float *x, const float *y)
{
    for (int r = 0; r < ROWS; r++) {
        double wanted = 0, size = 0;

        for (int c = 0; c < COLS; c++) {
            wanted += (double)weights[r * COLS + c] * (double)x[c];
            size += fabs((double)weights[r * COLS + c] * (double)x[c]);
        }
        assert_true(fabs((double)y[r] - wanted) <= 16 * 0x1p-24 * size);
    }
}

static void products_are_those_of_ggmls_numbers(void **state)
{
    static const enum ggml_type types[] = {GGML_TYPE_Q8_0, GGML_TYPE_Q4_0};
    static float weights[ROWS * COLS], back[ROWS * COLS], x[COLS], y[ROWS];
    static uint8_t bytes[ROWS * COLS * 2];
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 5);
    for (int i = 0; i < ROWS * COLS; i++)
        weights[i] = (float)rv_rng_normal(&rng);
    for (int i = 0; i < COLS; i++)
        x[i] = (float)rv_rng_normal(&rng);
    for (int t = 0; t < 2; t++) {
        size_t n = ggml_quantize_chunk(types[t], weights, bytes, 0, ROWS, COLS, NULL);

        assert_int_equal(n, (size_t)ROWS * COLS / 32 * (t ? 18 : 34));
        ggml_get_type_traits(types[t])->to_float(bytes, back, (int64_t)ROWS * COLS);
        assert_ok((t ? ruvllm_gemv_int4 : ruvllm_gemv_int8)(bytes, ROWS, COLS, x, y, err));
        check_products(back, x, y);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rotations_are_ggmls),
        cmocka_unit_test(products_are_those_of_ggmls_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
