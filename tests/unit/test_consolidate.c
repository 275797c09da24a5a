/* Five ways to make one adapter of several: each by what it is for, and no two of them the same. */
#include "learn/consolidate.h"
#include "support/test.h"
#include "support/toy_head.h"

#include <math.h>
#include <string.h>

enum { DIMS = TOY_DIMS, RANK = 4 };

struct bed {
    struct toy_head toy;
    struct rv_head_adapter one, two, out;
    struct rv_head_fisher knows_one, knows_two;
};

/* An adapter that sends direction `from` to direction `to`. */
static void put_pair(struct rv_head_adapter *x, int from, int to, float size)
{
    float *a = x->a + x->n_pairs * DIMS, *b = x->b + x->n_pairs * DIMS;

    memset(a, 0, DIMS * sizeof(*a));
    memset(b, 0, DIMS * sizeof(*b));
    a[from] = 1;
    b[to] = size;
    x->n_pairs++;
}

/* What an adapter makes of direction `from` in direction `to`. */
static double get(const struct rv_head_adapter *x, int from, int to)
{
    float state[DIMS] = {0}, out[DIMS];

    state[from] = 1;
    rv_head_adapter_apply(x, state, out);
    return (double)out[to];
}

/* Certainty of 1 about everything in the directions of an adapter. */
static void know(struct rv_head_fisher *f, const struct rv_head_adapter *x, float value)
{
    rv_head_fisher_clear(f);
    rv_head_basis_add(&f->basis, x->a, x->n_pairs);
    for (int i = 0; i < f->basis.n * DIMS; i++)
        f->values[i] = value;
    f->n_seen = 1;
}

static void open_bed(struct bed *bed)
{
    toy_head_open(&bed->toy, 32, 9);
    assert_ok(rv_head_adapter_init(&bed->one, DIMS, RANK, err));
    assert_ok(rv_head_adapter_init(&bed->two, DIMS, RANK, err));
    assert_ok(rv_head_adapter_init(&bed->out, DIMS, RANK, err));
    assert_ok(rv_head_fisher_init(&bed->knows_one, &bed->toy.whitening, err));
    assert_ok(rv_head_fisher_init(&bed->knows_two, &bed->toy.whitening, err));
}

static void close_bed(struct bed *bed)
{
    rv_head_fisher_release(&bed->knows_one);
    rv_head_fisher_release(&bed->knows_two);
    rv_head_adapter_release(&bed->one);
    rv_head_adapter_release(&bed->two);
    rv_head_adapter_release(&bed->out);
    toy_head_close(&bed->toy);
}

static void merge(struct bed *bed, enum rv_consolidate_strategy strategy, double quality_one, double quality_two)
{
    struct rv_consolidate_member members[] = {
        {.adapter = &bed->one, .quality = quality_one, .fisher = &bed->knows_one},
        {.adapter = &bed->two, .quality = quality_two, .fisher = &bed->knows_two}};

    assert_ok(rv_consolidate(&bed->out, strategy, members, 2, &bed->toy.whitening, err));
}

static bool near(double x, double y)
{
    return fabs(x - y) < 0.02;
}

/* Each learned something of its own, and they disagree about a third thing. */
static void the_five_differ(void **state)
{
    struct bed bed;
    double shared[RV_CONSOLIDATE_N], first[RV_CONSOLIDATE_N];

    (void)state;
    open_bed(&bed);
    put_pair(&bed.one, 5, 10, 1.0f);
    put_pair(&bed.one, 7, 12, 0.5f);
    put_pair(&bed.two, 6, 11, 1.0f);
    put_pair(&bed.two, 7, 12, 0.25f);
    know(&bed.knows_one, &bed.one, 1);
    know(&bed.knows_two, &bed.two, 4);
    for (int s = 0; s < RV_CONSOLIDATE_N; s++) {
        merge(&bed, (enum rv_consolidate_strategy)s, 1, 9);
        first[s] = get(&bed.out, 5, 10);
        shared[s] = get(&bed.out, 7, 12);
    }
    assert_true(near(first[RV_CONSOLIDATE_EWC_MERGE], 1) && near(shared[RV_CONSOLIDATE_EWC_MERGE], 0.3));
    assert_true(near(first[RV_CONSOLIDATE_AVERAGE], 0.5) && near(shared[RV_CONSOLIDATE_AVERAGE], 0.375));
    assert_true(near(first[RV_CONSOLIDATE_QUALITY_WEIGHTED], 0.1));
    assert_true(near(shared[RV_CONSOLIDATE_QUALITY_WEIGHTED], 0.275));
    assert_true(near(first[RV_CONSOLIDATE_BEST_ONLY], 0) && near(shared[RV_CONSOLIDATE_BEST_ONLY], 0.25));
    assert_true(near(first[RV_CONSOLIDATE_ENSEMBLE], 1) && near(shared[RV_CONSOLIDATE_ENSEMBLE], 0.5));
    close_bed(&bed);
}

/* AVERAGE: ten noisy copies of one change would come out with a tenth of the noise; two with half of its square. */
static void averages_cancel_noise(void **state)
{
    struct bed bed;

    (void)state;
    open_bed(&bed);
    put_pair(&bed.one, 5, 10, 1);
    put_pair(&bed.one, 6, 3, 0.3f);
    put_pair(&bed.two, 5, 10, 1);
    put_pair(&bed.two, 6, 3, -0.3f);
    merge(&bed, RV_CONSOLIDATE_AVERAGE, 0, 0);
    assert_true(near(get(&bed.out, 5, 10), 1) && near(get(&bed.out, 6, 3), 0));
    close_bed(&bed);
}

/* QUALITY_WEIGHTED: what is no good does not count, and of nothing good nothing is left. */
static void what_is_no_good_does_not_count(void **state)
{
    struct bed bed;

    (void)state;
    open_bed(&bed);
    put_pair(&bed.one, 5, 10, 1);
    put_pair(&bed.two, 5, 10, -1);
    merge(&bed, RV_CONSOLIDATE_QUALITY_WEIGHTED, 0.2, -3);
    assert_true(near(get(&bed.out, 5, 10), 1));
    merge(&bed, RV_CONSOLIDATE_QUALITY_WEIGHTED, -0.2, -3);
    assert_true(near(get(&bed.out, 5, 10), 0));
    merge(&bed, RV_CONSOLIDATE_BEST_ONLY, -0.2, -3); // that one takes the lesser evil
    assert_true(near(get(&bed.out, 5, 10), 1));
    close_bed(&bed);
}

/* EWC_MERGE does not depend on how the members' factors are turned: only on the changes they are. */
static void certainty_turns_with_its_adapter(void **state)
{
    struct bed bed;
    float turned[DIMS * DIMS];
    struct rv_head_basis basis;

    (void)state;
    open_bed(&bed);
    put_pair(&bed.one, 5, 10, 1);
    put_pair(&bed.one, 6, 11, 1);
    know(&bed.knows_one, &bed.one, 2);
    assert_ok(rv_head_basis_init(&basis, &bed.toy.whitening, 2, err));
    for (int d = 0; d < DIMS; d++) { // the same plane, by other rows
        turned[d] = 0.6f * bed.one.a[d] + 0.8f * bed.one.a[DIMS + d];
        turned[DIMS + d] = bed.one.a[d] - bed.one.a[DIMS + d];
    }
    rv_head_basis_add(&basis, turned, 2);
    rv_head_fisher_read(&bed.knows_one, &basis, turned);
    for (int i = 0; i < 2 * DIMS; i++)
        assert_true(fabs((double)turned[i] - 2) < 0.01);
    rv_head_basis_release(&basis);
    close_bed(&bed);
}

static void a_basis_keeps_what_it_is_given(void **state)
{
    struct bed bed;

    (void)state;
    open_bed(&bed);
    put_pair(&bed.one, 5, 10, 3);
    put_pair(&bed.one, 0, 11, 1); // a direction in which states are large
    put_pair(&bed.two, 6, 12, 2);
    put_pair(&bed.out, 5, 10, 1);
    /* out + two - one */
    assert_ok(rv_head_basis_shift(&bed.out, &bed.two, &bed.one, &bed.toy.whitening, err));
    assert_true(near(get(&bed.out, 5, 10), -2) && near(get(&bed.out, 0, 11), -1) && near(get(&bed.out, 6, 12), 2));
    assert_int_equal(bed.out.n_pairs, 3);
    close_bed(&bed);
}

static void strategies_have_names(void **state)
{
    struct ruvllm_error failure;
    struct bed bed;

    (void)state;
    open_bed(&bed);
    for (int s = 0; s < RV_CONSOLIDATE_N; s++)
        assert_non_null(rv_consolidate_name((enum rv_consolidate_strategy)s));
    assert_null(rv_consolidate_name(RV_CONSOLIDATE_N));
    assert_fails(rv_consolidate(&bed.out, RV_CONSOLIDATE_N, &(struct rv_consolidate_member){.adapter = &bed.one}, 1,
                                &bed.toy.whitening, &failure),
                 RUVLLM_INVALID, failure, "strategy");
    close_bed(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_five_differ),
        cmocka_unit_test(averages_cancel_noise),
        cmocka_unit_test(what_is_no_good_does_not_count),
        cmocka_unit_test(certainty_turns_with_its_adapter),
        cmocka_unit_test(a_basis_keeps_what_it_is_given),
        cmocka_unit_test(strategies_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
