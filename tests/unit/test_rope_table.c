/* Rotations against the formulas in doubles; ggml's own are in golden/test_kernel_oracle.c. */
#include "kernels/rope_table.h"
#include "support/test.h"

#include "base/rng.h"

#include <math.h>
#include <string.h>

enum { DIM = 64, HEAD = 72, HEADS = 3, MAX_POS = 40000 };

static struct ruvllm_rope_config config(ruvllm_rope_scaling scaling, float factor)
{
    return (struct ruvllm_rope_config){.struct_size = sizeof(struct ruvllm_rope_config),
                                       .dim = DIM,
                                       .max_positions = MAX_POS,
                                       .base = 10000.0f,
                                       .scaling = scaling,
                                       .factor = factor,
                                       .original_context = 2048};
}

/* The angle of a pair at position 1. */
static double step(const struct ruvllm_rope_config *c, int i)
{
    double base = (double)c->base;

    if (c->scaling == RUVLLM_ROPE_NTK)
        base *= pow((double)c->factor, DIM / (DIM - 2.0));
    return pow(base, -2.0 * i / DIM) / (c->scaling == RUVLLM_ROPE_LINEAR ? (double)c->factor : 1);
}

/* Rows of floats: sine and cosine are exact to 2^-25, then three roundings. */
static void check_rotation(const struct ruvllm_rope_config *c, ruvllm_rope_pairing pairing, int32_t pos)
{
    float rows[HEADS * HEAD], old[HEADS * HEAD];
    struct ruvllm_rope_table *table;
    struct rv_rng rng;

    rv_rng_init(&rng, (uint64_t)pos);
    for (int i = 0; i < HEADS * HEAD; i++)
        old[i] = rows[i] = (float)rv_rng_normal(&rng);
    assert_ok(rv_rope_table_new(&table, c, err));
    assert_int_equal(rv_rope_table_dim(table), DIM);
    assert_int_equal(rv_rope_table_n_positions(table), MAX_POS);
    rv_rope_table_rotate(table, pos, pairing, rows, HEADS, HEAD);
    for (int head = 0; head < HEADS; head++) {
        const float *row = rows + head * HEAD, *was = old + head * HEAD;

        for (int i = 0; i < DIM / 2; i++) {
            int a = pairing == RUVLLM_ROPE_PAIRING_NEOX ? i : 2 * i;
            int b = pairing == RUVLLM_ROPE_PAIRING_NEOX ? i + DIM / 2 : 2 * i + 1;
            double angle = pos * step(c, i), x = (double)was[a], y = (double)was[b];

            assert_true(fabs((double)row[a] - (x * cos(angle) - y * sin(angle))) < 1e-6);
            assert_true(fabs((double)row[b] - (x * sin(angle) + y * cos(angle))) < 1e-6);
        }
        assert_memory_equal(row + DIM, was + DIM, (HEAD - DIM) * sizeof(float));
    }
    rv_rope_table_free(table);
}

static void pairs_turn_by_the_formula_even_far_out(void **state)
{
    static const ruvllm_rope_scaling kinds[] = {RUVLLM_ROPE_NONE, RUVLLM_ROPE_LINEAR, RUVLLM_ROPE_NTK};
    static const int32_t positions[] = {0, 1, 777, MAX_POS - 1};

    (void)state;
    for (int k = 0; k < 3; k++) {
        struct ruvllm_rope_config c = config(kinds[k], 4.0f);

        for (int p = 0; p < 4; p++) {
            check_rotation(&c, RUVLLM_ROPE_PAIRING_NORMAL, positions[p]);
            check_rotation(&c, RUVLLM_ROPE_PAIRING_NEOX, positions[p]);
        }
    }
}

static float cosine(const struct ruvllm_rope_config *c, int32_t pos, int i)
{
    struct ruvllm_rope_table *table;
    float row[DIM] = {0};

    assert_ok(rv_rope_table_new(&table, c, err));
    row[i] = 1;
    rv_rope_table_rotate(table, pos, RUVLLM_ROPE_PAIRING_NEOX, row, 1, DIM);
    rv_rope_table_free(table);
    return row[i];
}

/* Pair 0 turns 2048 / 2 pi times in the original context: it stays. The last one never completes a turn: divided. */
static void yarn_keeps_fast_pairs_and_divides_slow_ones(void **state)
{
    struct ruvllm_rope_config yarn = config(RUVLLM_ROPE_YARN, 4.0f);
    double magnitude = 0.1 * log(4) + 1, slowest = pow(10000, -(DIM - 2.0) / DIM);

    (void)state;
    assert_true(fabs((double)cosine(&yarn, 1, 0) - magnitude * cos(1)) < 1e-6);
    assert_true(fabs((double)cosine(&yarn, 8000, DIM / 2 - 1) - magnitude * cos(8000 * slowest / 4)) < 1e-6);
    yarn.yarn_attention = 2.0f;
    assert_true(fabs((double)cosine(&yarn, 1, 0) - 2 * magnitude * cos(1)) < 1e-6);
}

static void refuse(const struct ruvllm_rope_config *c, const char *field)
{
    struct ruvllm_rope_table *table = (void *)1;
    struct ruvllm_error err = {0};

    assert_fails(rv_rope_table_new(&table, c, &err), RUVLLM_INVALID, err, field);
    assert_null(table);
}

static void what_makes_no_table_is_refused_by_name(void **state)
{
    struct ruvllm_rope_config c;

    (void)state;
    c = config(RUVLLM_ROPE_FROM_MODEL, 1.0f);
    refuse(&c, "'scaling'");
    c = config((ruvllm_rope_scaling)77, 1.0f);
    refuse(&c, "'scaling'");
    c = config(RUVLLM_ROPE_LINEAR, 0.5f);
    refuse(&c, "'factor'");
    c = config(RUVLLM_ROPE_LINEAR, NAN);
    refuse(&c, "'factor'");
    c = config(RUVLLM_ROPE_YARN, 2.0f);
    c.original_context = 0;
    refuse(&c, "'original_context'");
    c = config(RUVLLM_ROPE_NTK, 2.0f);
    c.dim = 2;
    refuse(&c, "'dim'");
    c.dim = 63;
    refuse(&c, "'dim'");
    c.dim = 0;
    refuse(&c, "'dim'");
    c = config(RUVLLM_ROPE_NONE, 1.0f);
    c.max_positions = 0;
    refuse(&c, "'max_positions'");
    c = config(RUVLLM_ROPE_NONE, 1.0f);
    c.base = -1.0f;
    refuse(&c, "'base'");
    c = config(RUVLLM_ROPE_YARN, 1.0f);
    c.yarn_beta_fast = -1.0f;
    refuse(&c, "'yarn_beta_fast'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_turn_by_the_formula_even_far_out),
        cmocka_unit_test(yarn_keeps_fast_pairs_and_divides_slow_ones),
        cmocka_unit_test(what_makes_no_table_is_refused_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
