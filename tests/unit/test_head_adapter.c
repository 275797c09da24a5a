/* Steps go where they should and no further; folding keeps what matters; the same log gives the same bits. */
#include "learn/head_adapter.h"
#include "learn/trace.h"
#include "support/test.h"

#include "base/rng.h"
#include "kernels/vec.h"

#include <math.h>
#include <stdlib.h>

enum { DIMS = 64, ROWS = 20, N = 2000 };

struct bed {
    struct rv_whitening whitening;
    uint16_t states[ROWS * DIMS], gradients[ROWS * DIMS];
    float weights[ROWS];
    float scratch[16 * DIMS];
    uint16_t a[2 * DIMS], b[2 * DIMS];
    struct rv_head_step step;
    struct rv_head_rows rows;
};

static struct bed *make_bed(uint64_t seed)
{
    struct bed *bed = calloc(1, sizeof(*bed));
    float *states = malloc(sizeof(float) * N * DIMS);
    struct ruvllm_error err;
    struct rv_rng rng;

    rv_rng_init(&rng, seed);
    for (int i = 0; i < N * DIMS; i++)
        states[i] = (float)rv_rng_normal(&rng) * (i % DIMS < 4 ? 5.0f : 1.0f);
    assert_int_equal(rv_whitening_init(&bed->whitening, states, N, DIMS, &err), RUVLLM_OK);
    for (int i = 0; i < ROWS * DIMS; i++) {
        bed->states[i] = rv_vec_to_bf16(states[i]);
        bed->gradients[i] = rv_vec_to_bf16(0.3f * (float)rv_rng_normal(&rng));
    }
    for (int i = 0; i < ROWS; i++)
        bed->weights[i] = 1;
    bed->step = (struct rv_head_step){.a = bed->a, .b = bed->b};
    bed->rows = (struct rv_head_rows){.n = ROWS,
                                      .states = bed->states,
                                      .gradients = bed->gradients,
                                      .probes = bed->gradients,
                                      .weights = bed->weights};
    free(states);
    return bed;
}

static void free_bed(struct bed *bed)
{
    rv_whitening_release(&bed->whitening);
    free(bed);
}

/* Change of -log p of row i to first order, under an adapter. */
static double slope(const struct bed *bed, const struct rv_head_adapter *adapter, int i)
{
    float state[DIMS], change[DIMS];
    double sum = 0;

    for (int d = 0; d < DIMS; d++)
        state[d] = rv_vec_from_bf16(bed->states[i * DIMS + d]);
    rv_head_adapter_apply(adapter, state, change);
    for (int d = 0; d < DIMS; d++)
        sum += (double)change[d] * (double)rv_vec_from_bf16(bed->gradients[i * DIMS + d]);
    return sum;
}

/* Tokens the model was certain of have next to no gradient, and none of it may be taken for leave to go far. */
static void rows_that_say_little_move_states_little(void **state)
{
    struct bed *bed = make_bed(2);
    struct rv_head_adapter adapter;
    struct ruvllm_error err;
    double moved = 0, square = 0;

    (void)state;
    for (int i = 0; i < ROWS * DIMS; i++)
        bed->gradients[i] = rv_vec_to_bf16(1e-4f * rv_vec_from_bf16(bed->gradients[i]));
    for (int i = 0; i < ROWS; i++)
        bed->weights[i] = -1;
    assert_int_equal(rv_head_adapter_init(&adapter, DIMS, 2, &err), RUVLLM_OK);
    rv_head_adapter_step(&bed->step, &bed->rows, &bed->whitening, 0.05, 2, bed->scratch);
    rv_head_adapter_fold(&adapter, &bed->step, 1.0f, &bed->whitening, bed->scratch);
    for (int i = 0; i < ROWS; i++) {
        float row[DIMS], change[DIMS];

        for (int d = 0; d < DIMS; d++)
            row[d] = rv_vec_from_bf16(bed->states[i * DIMS + d]);
        rv_head_adapter_apply(&adapter, row, change);
        for (int d = 0; d < DIMS; d++) {
            moved += (double)change[d] * (double)change[d];
            square += (double)row[d] * (double)row[d];
        }
    }
    assert_true(moved > 0);
    assert_true(sqrt(moved / square) < 0.06);
    rv_head_adapter_release(&adapter);
    free_bed(bed);
}

static void a_step_raises_what_it_should_by_what_it_may(void **state)
{
    struct bed *bed = make_bed(1);
    struct rv_head_adapter adapter;
    struct ruvllm_error err;
    double sum = 0, square = 0;

    (void)state;
    assert_int_equal(rv_head_adapter_init(&adapter, DIMS, 2, &err), RUVLLM_OK);
    rv_head_adapter_step(&bed->step, &bed->rows, &bed->whitening, 0.05, 1, bed->scratch);
    assert_int_equal(bed->step.n_pairs, 1);
    rv_head_adapter_fold(&adapter, &bed->step, 1.0f, &bed->whitening, bed->scratch);
    for (int i = 0; i < ROWS; i++) {
        double s = slope(bed, &adapter, i);

        sum += s;
        square += s * s / 2 / ROWS;
    }
    assert_true(sum < 0); // -log p falls
    assert_true(square < 0.052 && fabs(square - bed->step.kl) < 0.03 * square);
    for (int i = 0; i < ROWS; i++)
        bed->weights[i] = -1;
    rv_head_adapter_clear(&adapter);
    rv_head_adapter_step(&bed->step, &bed->rows, &bed->whitening, 0.05, 1, bed->scratch);
    rv_head_adapter_fold(&adapter, &bed->step, 1.0f, &bed->whitening, bed->scratch);
    sum = 0;
    for (int i = 0; i < ROWS; i++)
        sum += slope(bed, &adapter, i);
    assert_true(sum > 0);
    rv_head_adapter_release(&adapter);
    free_bed(bed);
}

static void rows_without_weight_make_no_step(void **state)
{
    struct bed *bed = make_bed(2);

    (void)state;
    for (int i = 0; i < ROWS; i++)
        bed->weights[i] = 0;
    rv_head_adapter_step(&bed->step, &bed->rows, &bed->whitening, 0.05, 2, bed->scratch);
    assert_int_equal(bed->step.n_pairs, 0);
    free_bed(bed);
}

/* As long as there is room, folding changes nothing; beyond it, the smallest goes. */
static void folding_keeps_the_largest(void **state)
{
    struct bed *bed = make_bed(3);
    struct rv_head_adapter adapter;
    struct ruvllm_error err;
    float x[DIMS], out[DIMS];

    (void)state;
    assert_int_equal(rv_head_adapter_init(&adapter, DIMS, 2, &err), RUVLLM_OK);
    for (int k = 0; k < 3; k++) { // pairs e_k+10 -> e_k of sizes 3, 2, 1, all on ordinary directions
        float size = (float)(3 - k);

        memset(bed->a, 0, sizeof(bed->a));
        memset(bed->b, 0, sizeof(bed->b));
        bed->a[10 + k] = rv_vec_to_bf16(1);
        bed->b[k] = rv_vec_to_bf16(size);
        bed->step.n_pairs = 1;
        rv_head_adapter_fold(&adapter, &bed->step, 1.0f, &bed->whitening, bed->scratch);
    }
    assert_int_equal(adapter.n_pairs, 2);
    memset(x, 0, sizeof(x));
    x[10] = x[11] = x[12] = 1;
    rv_head_adapter_apply(&adapter, x, out);
    assert_true(fabsf(out[0] - 3) < 0.2f && fabsf(out[1] - 2) < 0.2f && fabsf(out[2]) < 0.2f);
    rv_head_adapter_release(&adapter);
    free_bed(bed);
}

static void the_same_log_gives_the_same_bits(void **state)
{
    struct bed *bed = make_bed(4);
    struct rv_head_adapter one, two;
    struct ruvllm_error err;

    (void)state;
    assert_int_equal(rv_head_adapter_init(&one, DIMS, 8, &err), RUVLLM_OK);
    assert_int_equal(rv_head_adapter_init(&two, DIMS, 8, &err), RUVLLM_OK);
    for (int e = 0; e < 50; e++) {
        for (int i = 0; i < ROWS; i++)
            bed->weights[i] = (float)((e * 7 + i) % 5 - 2);
        rv_head_adapter_step(&bed->step, &bed->rows, &bed->whitening, 0.01, 2, bed->scratch);
        rv_head_adapter_fold(&one, &bed->step, 1.0f, &bed->whitening, bed->scratch);
        rv_head_adapter_fold(&two, &bed->step, 1.0f, &bed->whitening, bed->scratch);
    }
    assert_int_equal(one.n_pairs, two.n_pairs);
    assert_memory_equal(one.a, two.a, sizeof(float) * (size_t)one.n_pairs * DIMS);
    assert_memory_equal(one.b, two.b, sizeof(float) * (size_t)one.n_pairs * DIMS);
    rv_head_adapter_release(&one);
    rv_head_adapter_release(&two);
    free_bed(bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_raises_what_it_should_by_what_it_may),
        cmocka_unit_test(rows_that_say_little_move_states_little),
        cmocka_unit_test(rows_without_weight_make_no_step),
        cmocka_unit_test(folding_keeps_the_largest),
        cmocka_unit_test(the_same_log_gives_the_same_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
