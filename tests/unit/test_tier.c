/* Which precision a block has, by its age. */
#include "kv/tier.h"
#include "support/test.h"

enum { B = RV_KV_BLOCK_TOKENS };

static void precision_falls_at_the_ages_of_the_policy(void **state)
{
    struct rv_tier_policy policy = rv_tier_policy_default();

    (void)state;
    /* Block 3 ends at token 128; its age is what comes after. */
    assert_int_equal(rv_tier_format(&policy, 3, 128), RV_KV_BLOCK_F16);
    assert_int_equal(rv_tier_format(&policy, 3, 128 + 255), RV_KV_BLOCK_F16);
    assert_int_equal(rv_tier_format(&policy, 3, 128 + 256), RV_KV_BLOCK_Q8);
    assert_int_equal(rv_tier_format(&policy, 3, 128 + 511), RV_KV_BLOCK_Q8);
    assert_int_equal(rv_tier_format(&policy, 3, 128 + 512), RV_KV_BLOCK_Q4);
    assert_int_equal(rv_tier_format(&policy, 3, 1 << 30), RV_KV_BLOCK_Q4);
}

static void the_first_block_stays_where_the_policy_keeps_it(void **state)
{
    struct rv_tier_policy policy = rv_tier_policy_default();

    (void)state;
    assert_int_equal(rv_tier_format(&policy, 0, 100000), RV_KV_BLOCK_F16);
    policy.keeps_first = false;
    assert_int_equal(rv_tier_format(&policy, 0, 100000), RV_KV_BLOCK_Q4);
}

static void a_block_that_still_fills_is_f16_under_any_policy(void **state)
{
    struct rv_tier_policy policy = rv_tier_policy_single(RV_KV_BLOCK_Q4);

    (void)state;
    assert_int_equal(rv_tier_format(&policy, 1, 2 * B - 1), RV_KV_BLOCK_F16);
    assert_int_equal(rv_tier_format(&policy, 1, 2 * B), RV_KV_BLOCK_Q4);
}

static void policies_that_do_not_fall_are_not_valid(void **state)
{
    struct rv_tier_policy policy = rv_tier_policy_default(), wrong;

    (void)state;
    assert_true(rv_tier_policy_is_valid(&policy));
    for (int format = 0; format < RV_KV_BLOCK_N_FORMATS; format++) {
        wrong = rv_tier_policy_single((enum rv_kv_block_format)format);
        assert_true(rv_tier_policy_is_valid(&wrong));
    }
    wrong = policy;
    wrong.n_tiers = 0;
    assert_false(rv_tier_policy_is_valid(&wrong));
    wrong.n_tiers = RV_TIER_MAX + 1;
    assert_false(rv_tier_policy_is_valid(&wrong));
    wrong = policy;
    wrong.tiers[1].format = RV_KV_BLOCK_F16;
    assert_false(rv_tier_policy_is_valid(&wrong));
    wrong = policy;
    wrong.tiers[1].max_age = wrong.tiers[0].max_age;
    assert_false(rv_tier_policy_is_valid(&wrong));
    wrong = policy;
    wrong.tiers[0].max_age = -1;
    assert_false(rv_tier_policy_is_valid(&wrong));
    wrong = policy;
    wrong.tiers[2].format = RV_KV_BLOCK_N_FORMATS;
    assert_false(rv_tier_policy_is_valid(&wrong));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(precision_falls_at_the_ages_of_the_policy),
        cmocka_unit_test(the_first_block_stays_where_the_policy_keeps_it),
        cmocka_unit_test(a_block_that_still_fills_is_f16_under_any_policy),
        cmocka_unit_test(policies_that_do_not_fall_are_not_valid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
