/* What tells adapters apart, and norms against plain sums over whole matrices. */
#include "model/adapter_digest.h"

#include "kernels/half.h"
#include "support/adapter_shelf.h"
#include "support/test.h"

#include <math.h>
#include <string.h>

static void hashes_tell_head_and_layers_apart(void **state)
{
    static const uint64_t seeds[][2] = {{1, 1}, {1, 2}, {2, 1}, {0, 1}, {1, 0}};
    struct rv_adapter_digest d[5], again;

    (void)state;
    for (int i = 0; i < 5; i++) {
        struct rv_adapter *adapter = adapter_shelf_make(seeds[i][0], seeds[i][1]);

        assert_ok(rv_adapter_digest(&d[i], adapter, err));
        rv_adapter_unref(adapter);
        assert_int_equal(d[i].n_pairs, seeds[i][0] ? 2 : 0);
        assert_int_equal(d[i].changes_head, seeds[i][1] != 0);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(d[i].hash, d[k].hash);
        adapter = adapter_shelf_make(seeds[i][0], seeds[i][1]);
        assert_ok(rv_adapter_digest(&again, adapter, err));
        rv_adapter_unref(adapter);
        assert_string_equal(d[i].hash, again.hash);
        assert_int_equal(d[i].layers, again.layers);
    }
    assert_true(d[0].layers != 0 && d[0].layers == d[1].layers && d[0].layers == d[4].layers);
    assert_true(d[2].layers != 0 && d[0].layers != d[2].layers);
    assert_int_equal(d[3].layers, 0);
}

static void a_scale_and_a_place_are_part_of_the_content(void **state)
{
    struct rv_adapter *adapter = adapter_shelf_make(1, 0);
    struct rv_adapter_pair *q = &adapter->layers[0][RV_PART_Q], *o = &adapter->layers[0][RV_PART_O];
    struct rv_adapter_digest before, scaled, moved;

    (void)state;
    assert_ok(rv_adapter_digest(&before, adapter, err));
    q->scale *= 2;
    assert_ok(rv_adapter_digest(&scaled, adapter, err));
    q->scale /= 2;
    *o = *q;
    *q = (struct rv_adapter_pair){0};
    assert_ok(rv_adapter_digest(&moved, adapter, err));
    assert_true(before.layers != scaled.layers && before.layers != moved.layers && scaled.layers != moved.layers);
    assert_string_not_equal(before.hash, moved.hash);
    rv_adapter_unref(adapter);
}

/* One entry of scale B A. */
static double entry(const struct rv_adapter_pair *p, int64_t row, int64_t column)
{
    double sum = 0;

    for (int64_t r = 0; r < p->rank; r++)
        sum +=
            (double)rv_half_to_float(p->b[r * p->n_out + row]) * (double)rv_half_to_float(p->a[r * p->n_in + column]);
    return sum * (double)p->scale;
}

static double square_of_difference(const struct rv_adapter_pair *p, const struct rv_adapter_pair *q)
{
    const struct rv_adapter_pair *shape = p->rank ? p : q;
    double sum = 0;

    for (int64_t row = 0; row < shape->n_out; row++) {
        for (int64_t column = 0; column < shape->n_in; column++) {
            double x = (p->rank ? entry(p, row, column) : 0) - (q->rank ? entry(q, row, column) : 0);

            sum += x * x;
        }
    }
    return sum;
}

static double plain_distance(const struct rv_adapter *a, const struct rv_adapter *b)
{
    static const struct rv_adapter_pair nothing;
    double sum = square_of_difference(&a->head, b ? &b->head : &nothing);

    for (int32_t layer = 0; layer < a->n_layers; layer++) {
        for (int part = 0; part < RV_N_PARTS; part++)
            sum += square_of_difference(a->layers ? &a->layers[layer][part] : &nothing,
                                        b && b->layers ? &b->layers[layer][part] : &nothing);
    }
    return sqrt(sum);
}

static void norms_are_those_of_whole_matrices(void **state)
{
    struct rv_adapter *all[] = {adapter_shelf_make(1, 1), adapter_shelf_make(2, 1), adapter_shelf_make(0, 3)};
    struct rv_adapter_digest digest;
    double distance;

    (void)state;
    for (int i = 0; i < 3; i++) {
        double plain = plain_distance(all[i], NULL);

        assert_ok(rv_adapter_digest(&digest, all[i], err));
        assert_true(plain > 0.1 && fabs(digest.norm - plain) < 1e-12 * plain); // doubles in another order
        for (int k = 0; k < 3; k++) {
            plain = plain_distance(all[i], all[k]);
            assert_ok(rv_adapter_digest_distance(&distance, all[i], all[k], err));
            assert_true(fabs(distance - plain) < 1e-7 * digest.norm);
        }
    }
    for (int i = 0; i < 3; i++)
        rv_adapter_unref(all[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_tell_head_and_layers_apart),
        cmocka_unit_test(a_scale_and_a_place_are_part_of_the_content),
        cmocka_unit_test(norms_are_those_of_whole_matrices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
