/* What tenants were served, and that nobody saves up. */
#include "sched/fair_share.h"
#include "base/rng.h"
#include "support/test.h"

static uint64_t served(const struct rv_fair_share *share, int32_t row)
{
    return share->tenants[row].served;
}

static int setup(void **state)
{
    static struct rv_fair_share share;

    assert_ok(rv_fair_share_init(&share, 4, err));
    *state = &share;
    return 0;
}

static int teardown(void **state)
{
    assert_true(rv_fair_share_check(*state));
    rv_fair_share_release(*state);
    return 0;
}

static void tokens_are_counted_by_tenant(void **state)
{
    struct rv_fair_share *share = *state;
    int32_t a = rv_fair_share_enter(share, 100), b = rv_fair_share_enter(share, 200);

    assert_true(a != b);
    assert_int_equal(rv_fair_share_enter(share, 100), a);
    rv_fair_share_charge(share, a, 30, 1);
    rv_fair_share_charge(share, a, 12, 1);
    rv_fair_share_charge(share, b, 1, 1);
    assert_int_equal(served(share, a), 42);
    assert_int_equal(served(share, b), 1);
}

static void a_newcomer_starts_with_the_one_served_least(void **state)
{
    struct rv_fair_share *share = *state;
    int32_t a = rv_fair_share_enter(share, 100), b = rv_fair_share_enter(share, 200);

    rv_fair_share_charge(share, a, 1000, 1);
    rv_fair_share_charge(share, b, 700, 1);
    assert_int_equal(served(share, rv_fair_share_enter(share, 300)), 700);
}

static void a_pause_is_not_saved_up(void **state)
{
    struct rv_fair_share *share = *state;
    int32_t a = rv_fair_share_enter(share, 100), b = rv_fair_share_enter(share, 200);

    rv_fair_share_charge(share, a, 10, 1);
    rv_fair_share_leave(share, a);
    rv_fair_share_charge(share, b, 5000, 1);
    assert_int_equal(rv_fair_share_enter(share, 100), a);
    assert_int_equal(served(share, a), 5000);
}

static void leaving_does_not_wipe_out_what_a_tenant_had(void **state)
{
    struct rv_fair_share *share = *state;
    int32_t a = rv_fair_share_enter(share, 100), b = rv_fair_share_enter(share, 200);

    rv_fair_share_charge(share, a, 5000, 1);
    rv_fair_share_charge(share, b, 10, 1);
    rv_fair_share_leave(share, a);
    assert_int_equal(rv_fair_share_enter(share, 100), a);
    assert_int_equal(served(share, a), 5000);
}

static void a_weight_divides_what_is_counted(void **state)
{
    struct rv_fair_share *share = *state;
    int32_t a = rv_fair_share_enter(share, 100), b = rv_fair_share_enter(share, 200), c;

    for (int i = 0; i < 3000; i++)
        rv_fair_share_charge(share, a, 1, 3); // a token at a time: the fractions add up
    assert_in_range(served(share, a), 999, 1000);
    rv_fair_share_charge(share, b, 100, 0.5F);
    assert_int_equal(served(share, b), 200);
    rv_fair_share_charge(share, b, 7, 0);
    assert_int_equal(served(share, b), 207);
    c = rv_fair_share_enter(share, 300);
    rv_fair_share_charge(share, c, 1, 1e-30F); // as light as can be
    assert_int_equal(served(share, c), 207 + 1000);
}

static void tenants_that_are_gone_make_room_for_new_ones(void **state)
{
    struct rv_fair_share *share = *state;
    struct rv_rng rng;
    int32_t rows[4];
    int n = 0;

    rv_rng_init(&rng, 1);
    for (int i = 0; i < 20000; i++) {
        if (n < 4 && rv_rng_below(&rng, 2)) {
            rows[n++] = rv_fair_share_enter(share, rv_rng_below(&rng, 1000));
        } else if (n > 0) {
            int k = (int)rv_rng_below(&rng, (uint64_t)n);

            rv_fair_share_charge(share, rows[k], (int32_t)rv_rng_below(&rng, 100), 1);
            if (rv_rng_below(&rng, 2)) {
                rv_fair_share_leave(share, rows[k]);
                rows[k] = rows[--n];
            }
        }
        assert_true(rv_fair_share_check(share));
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(tokens_are_counted_by_tenant),     CASE(a_newcomer_starts_with_the_one_served_least),
        CASE(a_pause_is_not_saved_up),          CASE(leaving_does_not_wipe_out_what_a_tenant_had),
        CASE(a_weight_divides_what_is_counted), CASE(tenants_that_are_gone_make_room_for_new_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
