/* Anchors drawn by how far an adapter moves them: who is far out comes often, sums stay right, guards never come. */
#include "learn/anchor_draw.h"
#include "kernels/vec.h"
#include "support/test.h"

#include <math.h>

enum { DIMS = 4, N = 1024, FAR = 513, DRAWS = 200000 };

struct bed {
    struct rv_anchors anchors;
    struct rv_head_adapter adapter;
    struct rv_anchor_draw draw;
};

/* An adapter along the first number, which is 1 in all anchors but one. */
static void open_bed(struct bed *bed, float far)
{
    assert_ok(rv_anchors_init(&bed->anchors, DIMS, err));
    assert_ok(rv_head_adapter_init(&bed->adapter, DIMS, 1, err));
    assert_ok(rv_anchor_draw_init(&bed->draw, &bed->anchors, err));
    bed->anchors.n = N;
    for (size_t i = 0; i < N; i++)
        bed->anchors.states[i * DIMS] = rv_vec_to_bf16(i == FAR ? far : 1);
    bed->adapter.n_pairs = 1;
    bed->adapter.a[0] = 1;
    bed->adapter.b[1] = 0.5f;
    rv_anchor_draw_look(&bed->draw, &bed->adapter);
}

static void close_bed(struct bed *bed)
{
    rv_anchor_draw_release(&bed->draw);
    rv_head_adapter_release(&bed->adapter);
    rv_anchors_release(&bed->anchors);
}

static void who_is_far_out_comes_often_and_weighs_little(void **state)
{
    double sum = 0, squares = 0, whole = 0;
    struct rv_rng rng;
    struct bed bed;
    int n_far = 0;

    (void)state;
    open_bed(&bed, 32);
    rv_rng_init(&rng, 1);
    for (int i = 0; i < DRAWS; i++) {
        float weight;
        size_t at = rv_anchor_draw(&bed.draw, &rng, &weight);

        assert_true(at < N && at % RV_ANCHORS_GUARD != 0);
        n_far += at == FAR;
        sum += (double)weight;
        squares += (double)weight * (double)bed.draw.reach[at];
    }
    for (size_t i = 0; i < N; i++)
        whole += i % RV_ANCHORS_GUARD ? (double)bed.draw.reach[i] : 0;
    whole /= (double)(N - rv_anchors_n_guards(&bed.anchors));
    assert_true(n_far > DRAWS / 5 && n_far < DRAWS / 3); // evenly it were one in 768
    assert_true(fabs(sum / DRAWS - 1) < 0.01);
    assert_true(fabs(squares / DRAWS / whole - 1) < 0.01);
    close_bed(&bed);
}

static void where_nothing_is_moved_all_come_alike(void **state)
{
    struct rv_rng rng;
    struct bed bed;

    (void)state;
    open_bed(&bed, 1);
    bed.adapter.b[1] = 0;
    rv_anchor_draw_look(&bed.draw, &bed.adapter);
    rv_rng_init(&rng, 2);
    for (int i = 0; i < 1000; i++) {
        float weight;

        assert_true(rv_anchor_draw(&bed.draw, &rng, &weight) % RV_ANCHORS_GUARD != 0);
        assert_true(fabsf(weight - 1) < 0.001f);
    }
    close_bed(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_far_out_comes_often_and_weighs_little),
        cmocka_unit_test(where_nothing_is_moved_all_come_alike),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
