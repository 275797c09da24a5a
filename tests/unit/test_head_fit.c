/* Fitting at the head: what it measures is what the whole vocabulary says, and it learns within its budget. */
#include "learn/head_fit.h"
#include "support/test.h"
#include "support/toy_head.h"

#include "kernels/vec.h"

#include <math.h>
#include <string.h>

struct bed {
    struct toy_head toy;
    struct rv_head_table table;
    struct rv_head_fit fit;
    struct rv_rehearsal rehearsal;
    struct rv_rehearsal_answer *answers[2 * RV_REHEARSAL_MAX];
    size_t n;
    struct rv_head_adapter adapter;
};

static void open_bed(struct bed *bed, size_t n_vocab, int32_t rank, int n_votes)
{
    toy_head_open(&bed->toy, n_vocab, 5);
    assert_ok(rv_head_table_init(&bed->table, &bed->toy.manifest, &bed->toy.hparams, 1 << 20, err));
    assert_ok(rv_head_fit_init(&bed->fit, &bed->table, &bed->toy.whitening, &bed->toy.anchors, rank, err));
    assert_ok(rv_head_adapter_init(&bed->adapter, TOY_DIMS, rank, err));
    rv_rehearsal_init(&bed->rehearsal, 1 << 26);
    toy_head_vote(&bed->toy, NULL, 7, n_votes, &bed->rehearsal);
    bed->n = rv_rehearsal_take(&bed->rehearsal, bed->answers);
}

static void close_bed(struct bed *bed)
{
    for (size_t i = 0; i < bed->n; i++)
        rv_rehearsal_unref(bed->answers[i]);
    rv_rehearsal_clear(&bed->rehearsal);
    rv_head_adapter_release(&bed->adapter);
    rv_head_fit_release(&bed->fit);
    rv_head_table_release(&bed->table);
    toy_head_close(&bed->toy);
}

/* Mean KL on every so many anchors, over all tokens, in doubles. */
static double whole_kl(const struct bed *bed, int32_t every)
{
    double base[TOY_VOCAB_MAX], now[TOY_VOCAB_MAX], sum = 0;
    int n = 0;

    for (int32_t i = 0; i < bed->toy.anchors.n; i += every, n++) {
        float state[TOY_DIMS];

        for (int d = 0; d < TOY_DIMS; d++)
            state[d] = rv_vec_from_bf16(bed->toy.anchors.states[i * TOY_DIMS + d]);
        toy_head_read(&bed->toy, NULL, state, base);
        toy_head_read(&bed->toy, &bed->adapter, state, now);
        for (size_t v = 0; v < bed->toy.n_vocab; v++)
            sum += exp(base[v]) * (base[v] - now[v]);
    }
    return sum / n;
}

static void make_adapter(struct bed *bed, double size)
{
    struct rv_rng rng;

    rv_rng_init(&rng, 3);
    bed->adapter.n_pairs = bed->adapter.rank;
    for (int32_t i = 0; i < bed->adapter.rank * TOY_DIMS; i++) {
        bed->adapter.a[i] = (float)(size * rv_rng_normal(&rng));
        bed->adapter.b[i] = (float)(size * rv_rng_normal(&rng));
    }
}

static void divergence_is_that_of_the_whole_vocabulary(void **state)
{
    struct bed bed;
    double whole;

    (void)state;
    open_bed(&bed, RV_TRACE_TOP, 2, 0); // the set is all there is
    make_adapter(&bed, 0.1);
    whole = whole_kl(&bed, RV_ANCHORS_GUARD);
    assert_true(whole > 0.001 && fabs(rv_head_fit_kl(&bed.fit, &bed.adapter) - whole) < 1e-4 * whole);
    close_bed(&bed);
    open_bed(&bed, TOY_VOCAB_MAX, 2, 0); // half of it: the rest has little weight
    make_adapter(&bed, 0.1);
    whole = whole_kl(&bed, RV_ANCHORS_GUARD);
    assert_true(fabs(rv_head_fit_kl(&bed.fit, &bed.adapter) - whole) < 0.1 * whole);
    close_bed(&bed);
}

struct slopes {
    double along; // sum of gradient . change
    size_t n;
    const struct rv_head_adapter *adapter;
};

static void sum_slope(void *user, const float *state, const float *gradient)
{
    struct slopes *s = user;
    float change[TOY_DIMS];

    rv_head_adapter_apply(s->adapter, state, change);
    for (int d = 0; d < TOY_DIMS; d++)
        s->along += (double)gradient[d] * (double)change[d];
    s->n++;
}

/* The gradient of -log p, against what a small change does to it. */
static void gradients_are_what_a_small_change_shows(void **state)
{
    struct bed bed;
    struct slopes slopes = {0};
    double gain;

    (void)state;
    open_bed(&bed, RV_TRACE_TOP, 2, 40);
    assert_ok(rv_head_fit_load(&bed.fit, bed.answers, bed.n, 0.5, false, err));
    for (size_t i = 0; i < bed.fit.up.n; i++) // all alike, so that the sums can be compared
        bed.fit.up.rows[i].weight = 1;
    bed.fit.down.n = 0;
    make_adapter(&bed, 0.01);
    slopes.adapter = &bed.adapter;
    rv_head_fit_each(&bed.fit, &(struct rv_head_adapter){.n_dims = TOY_DIMS}, bed.fit.up.n, sum_slope, &slopes);
    assert_int_equal(slopes.n, bed.fit.up.n);
    gain = rv_head_fit_gain(&bed.fit, &bed.adapter);
    assert_true(fabs(gain + slopes.along) < 0.02 * fabs(gain));
    close_bed(&bed);
}

/* How many of 400 fresh answers have the token. */
static int count(struct bed *bed, const struct rv_head_adapter *adapter)
{
    int n = 0;

    for (int i = 0; i < 400; i++) {
        struct rv_trace *trace = toy_head_answer(&bed->toy, adapter);

        n += toy_head_has(trace, 7);
        rv_trace_unref(trace);
    }
    return n;
}

static void what_votes_are_about_becomes_likelier_within_the_budget(void **state)
{
    struct bed bed;
    int before, after;

    (void)state;
    open_bed(&bed, TOY_VOCAB_MAX, 2, 200);
    assert_ok(rv_head_fit_load(&bed.fit, bed.answers, bed.n, 0.2, false, err));
    assert_true(bed.fit.n_common > 0 && bed.fit.common[0] == 7); // only good answers have it
    for (int i = 0; i < 6; i++)
        rv_head_fit_run(&bed.fit, &bed.adapter, 0.02, 64, INT64_MAX);
    before = count(&bed, NULL);
    after = count(&bed, &bed.adapter);
    assert_true(after > before * 3 / 2 && after > before + 40);
    assert_true(whole_kl(&bed, 1) < 0.0205 && whole_kl(&bed, 1) > 0.01);
    assert_ok(rv_head_fit_load(&bed.fit, bed.answers, bed.n, 0.2, true, err));
    assert_true(rv_head_fit_gain(&bed.fit, &bed.adapter) > 0.05); // on answers it never saw
    close_bed(&bed);
}

static void a_change_beyond_the_budget_is_brought_back(void **state)
{
    struct bed bed;

    (void)state;
    open_bed(&bed, RV_TRACE_TOP, 4, 0);
    make_adapter(&bed, 0.3);
    assert_true(whole_kl(&bed, 1) > 0.1);
    assert_true(rv_head_fit_project(&bed.fit, &bed.adapter, 0.02) <= 0.02);
    assert_true(whole_kl(&bed, 1) <= 0.0201 && whole_kl(&bed, 1) > 0.01);
    close_bed(&bed);
}

static void the_same_votes_give_the_same_bits(void **state)
{
    struct bed beds[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        open_bed(&beds[i], TOY_VOCAB_MAX, 2, 100);
        assert_ok(rv_head_fit_load(&beds[i].fit, beds[i].answers, beds[i].n, 0.2, false, err));
        rv_head_fit_run(&beds[i].fit, &beds[i].adapter, 0.02, 32, INT64_MAX);
    }
    assert_memory_equal(beds[0].adapter.b, beds[1].adapter.b, 2 * TOY_DIMS * sizeof(float));
    assert_memory_equal(beds[0].adapter.a, beds[1].adapter.a, 2 * TOY_DIMS * sizeof(float));
    close_bed(&beds[0]);
    close_bed(&beds[1]);
}

static void without_votes_of_both_kinds_nothing_is_fitted(void **state)
{
    struct bed bed;

    (void)state;
    open_bed(&bed, RV_TRACE_TOP, 2, 20);
    assert_ok(rv_head_fit_load(&bed.fit, bed.answers, 0, 0.5, false, err));
    rv_head_fit_run(&bed.fit, &bed.adapter, 0.02, 8, INT64_MAX);
    assert_int_equal(bed.adapter.n_pairs, 0);
    close_bed(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(divergence_is_that_of_the_whole_vocabulary),
        cmocka_unit_test(gradients_are_what_a_small_change_shows),
        cmocka_unit_test(what_votes_are_about_becomes_likelier_within_the_budget),
        cmocka_unit_test(a_change_beyond_the_budget_is_brought_back),
        cmocka_unit_test(the_same_votes_give_the_same_bits),
        cmocka_unit_test(without_votes_of_both_kinds_nothing_is_fitted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
