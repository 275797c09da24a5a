/* Blocks: references, the budget over three precisions, contents when precision falls. */
#include "kv/block_pool.h"
#include "base/rng.h"
#include "support/kv_fixture.h"
#include "support/test.h"

#include <string.h>

enum { BLOCKS = 6 };

static int setup(void **state)
{
    *state = kv_fixture_pool(BLOCKS);
    return 0;
}

static int teardown(void **state)
{
    rv_block_pool_free(*state);
    return 0;
}

static int32_t take(struct rv_block_pool *pool)
{
    int32_t block = rv_block_pool_take(pool, RV_KV_BLOCK_F16);

    assert_true(block >= 0 && block < rv_block_pool_n_ids(pool));
    return block;
}

static void the_budget_is_the_limit_and_what_is_given_back_can_be_taken_again(void **state)
{
    struct rv_block_pool *pool = *state;
    int32_t blocks[BLOCKS];

    assert_int_equal(rv_block_pool_n_free(pool), BLOCKS);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = take(pool);
    assert_int_equal(rv_block_pool_n_free(pool), 0);
    assert_int_equal(rv_block_pool_take(pool, RV_KV_BLOCK_F16), -1);
    assert_int_equal(rv_block_pool_take(pool, RV_KV_BLOCK_Q4), -1);
    assert_true(rv_block_pool_used(pool) == rv_block_pool_budget(pool));
    rv_block_pool_unref(pool, blocks[2]);
    assert_int_equal(rv_block_pool_n_free(pool), 1);
    assert_int_equal(take(pool), blocks[2]);
    assert_true(rv_block_pool_check(pool));
}

static void a_block_is_free_when_its_last_reference_goes(void **state)
{
    struct rv_block_pool *pool = *state;
    int32_t block = take(pool);

    rv_block_pool_ref(pool, block);
    assert_int_equal(rv_block_pool_refs(pool, block), 2);
    rv_block_pool_unref(pool, block);
    assert_int_equal(rv_block_pool_n_used(pool, RV_KV_BLOCK_F16), 1);
    rv_block_pool_unref(pool, block);
    assert_int_equal(rv_block_pool_n_used(pool, RV_KV_BLOCK_F16), 0);
    assert_true(rv_block_pool_check(pool));
}

static void a_cached_block_without_references_is_idle_until_it_is_uncached(void **state)
{
    struct rv_block_pool *pool = *state;
    int32_t block = take(pool);

    rv_block_pool_cache(pool, block);
    assert_true(rv_block_pool_is_cached(pool, block));
    assert_int_equal(rv_block_pool_n_idle(pool), 0);
    rv_block_pool_unref(pool, block);
    assert_int_equal(rv_block_pool_n_idle(pool), 1);
    assert_true(rv_block_pool_idle_bytes(pool) == rv_block_pool_block_bytes(pool, RV_KV_BLOCK_F16));
    rv_block_pool_ref(pool, block);
    assert_int_equal(rv_block_pool_n_idle(pool), 0);
    assert_true(rv_block_pool_idle_bytes(pool) == 0);
    rv_block_pool_unref(pool, block);
    assert_true(rv_block_pool_check(pool));
    rv_block_pool_uncache(pool, block);
    assert_int_equal(rv_block_pool_n_idle(pool), 0);
    assert_int_equal(rv_block_pool_n_free(pool), BLOCKS);
    assert_true(rv_block_pool_check(pool));
}

static void uncaching_a_block_in_use_leaves_it_to_its_users(void **state)
{
    struct rv_block_pool *pool = *state;
    int32_t block = take(pool);

    rv_block_pool_cache(pool, block);
    rv_block_pool_uncache(pool, block);
    assert_int_equal(rv_block_pool_refs(pool, block), 1);
    assert_int_equal(rv_block_pool_n_free(pool), BLOCKS - 1);
    assert_true(rv_block_pool_check(pool));
}

static void a_copy_has_the_contents_and_a_life_of_its_own(void **state)
{
    struct rv_block_pool *pool = *state;
    int32_t block = take(pool), copy;

    for (int32_t i = 0; i < RV_KV_BLOCK_TOKENS; i++)
        kv_fixture_write(pool, block, i, 1 + i % KV_FIXTURE_TOKENS);
    copy = rv_block_pool_copy(pool, block);
    assert_true(copy >= 0 && copy != block);
    kv_fixture_write(pool, block, 0, 9);
    rv_block_pool_unref(pool, block);
    for (int32_t i = 0; i < RV_KV_BLOCK_TOKENS; i++)
        assert_int_equal(kv_fixture_read(pool, copy, i), 1 + i % KV_FIXTURE_TOKENS);
}

static void converting_keeps_the_number_and_the_contents_and_frees_bytes(void **state)
{
    struct rv_block_pool *pool = *state;
    int32_t block = take(pool);
    size_t used = rv_block_pool_used(pool);

    for (int32_t i = 0; i < RV_KV_BLOCK_TOKENS; i++)
        kv_fixture_write(pool, block, i, 1 + i % KV_FIXTURE_TOKENS);
    for (int format = RV_KV_BLOCK_Q8; format <= RV_KV_BLOCK_Q4; format++) {
        rv_block_pool_convert(pool, block, (enum rv_kv_block_format)format);
        assert_int_equal(rv_block_pool_format(pool, block), format);
        assert_int_equal(rv_block_pool_n_used(pool, (enum rv_kv_block_format)format), 1);
        assert_true(rv_block_pool_used(pool) < used);
        used = rv_block_pool_used(pool);
        for (int32_t i = 0; i < RV_KV_BLOCK_TOKENS; i++)
            assert_int_equal(kv_fixture_read(pool, block, i), 1 + i % KV_FIXTURE_TOKENS);
        assert_ptr_equal(rv_block_pool_blocks(pool)[block].data, rv_block_pool_data(pool, block));
        assert_true(rv_block_pool_check(pool));
    }
    rv_block_pool_unref(pool, block);
    assert_true(rv_block_pool_used(pool) == 0);
    assert_true(rv_block_pool_check(pool));
}

static void a_full_pool_can_still_convert(void **state)
{
    struct rv_block_pool *pool = *state;
    int32_t blocks[BLOCKS];

    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = take(pool);
        for (int32_t j = 0; j < RV_KV_BLOCK_TOKENS; j++)
            kv_fixture_write(pool, blocks[i], j, 1 + i);
    }
    assert_true(rv_block_pool_used(pool) == rv_block_pool_budget(pool));
    for (int i = 0; i < BLOCKS; i++) {
        rv_block_pool_convert(pool, blocks[i], i % 2 ? RV_KV_BLOCK_Q4 : RV_KV_BLOCK_Q8);
        assert_true(rv_block_pool_check(pool));
    }
    for (int i = 0; i < BLOCKS; i++) {
        for (int32_t j = 0; j < RV_KV_BLOCK_TOKENS; j++)
            assert_int_equal(kv_fixture_read(pool, blocks[i], j), 1 + i);
    }
    assert_true(rv_block_pool_n_free(pool) > 0);
}

static void an_idle_block_that_is_converted_gives_back_fewer_bytes(void **state)
{
    struct rv_block_pool *pool = *state;
    int32_t block = take(pool);

    rv_block_pool_cache(pool, block);
    rv_block_pool_unref(pool, block);
    rv_block_pool_convert(pool, block, RV_KV_BLOCK_Q4);
    assert_true(rv_block_pool_idle_bytes(pool) == rv_block_pool_block_bytes(pool, RV_KV_BLOCK_Q4));
    assert_true(rv_block_pool_check(pool));
}

static void a_freed_block_is_poisoned(void **state)
{
    struct rv_block_pool *pool = *state;
    int32_t block = take(pool);

    kv_fixture_write(pool, block, 0, 5);
    rv_block_pool_unref(pool, block);
    assert_int_equal(take(pool), block);
    assert_int_equal(kv_fixture_read(pool, block, 0), -1);
}

static void rows_that_cannot_be_quantised_stay_f16(void **state)
{
    struct rv_block_pool_config config = {.n_layers = 1, .n_kv_heads = 1, .head_dim = 40, .budget = 1 << 20};
    struct rv_block_pool *pool;

    (void)state;
    assert_ok(rv_block_pool_new(&pool, &config, err));
    assert_false(rv_block_pool_can_quantize(pool));
    assert_true(take(pool) >= 0);
    assert_true(rv_block_pool_check(pool));
    rv_block_pool_free(pool);
}

static void a_budget_below_one_block_is_refused(void **state)
{
    struct rv_block_pool_config config = {.n_layers = 2, .n_kv_heads = 2, .head_dim = 64, .budget = 4096};
    struct rv_block_pool *pool;
    struct ruvllm_error err;

    (void)state;
    assert_fails(rv_block_pool_new(&pool, &config, &err), RUVLLM_INVALID, err, "less than one block");
    assert_null(pool);
}

static void the_budget_for_blocks_holds_just_them(void **state)
{
    struct rv_block_pool_config config = {
        .n_layers = 1, .n_kv_heads = 1, .head_dim = 40}; // less than two pages a block
    struct rv_block_pool *pool;

    (void)state;
    config.budget = rv_block_pool_budget_for(&config, 5);
    assert_ok(rv_block_pool_new(&pool, &config, err));
    assert_int_equal(rv_block_pool_n_free(pool), 5);
    assert_true(rv_block_pool_block_bytes(pool, RV_KV_BLOCK_F16) * 5 == config.budget);
    rv_block_pool_free(pool);
}

static void heads_and_layers_do_not_overlap(void **state)
{
    struct rv_block_pool *pool = *state;

    for (int i = 0; i < RV_KV_BLOCK_N_FORMATS; i++) {
        enum rv_kv_block_format format = (enum rv_kv_block_format)i;
        size_t k = rv_kv_block_k_bytes(format, 32), v = rv_kv_block_v_bytes(format, 32);

        assert_true(rv_block_pool_v_offset(pool, format, 0, 0) - rv_block_pool_k_offset(pool, format, 0, 0) == k);
        assert_true(rv_block_pool_k_offset(pool, format, 1, 0) - rv_block_pool_v_offset(pool, format, 0, 0) == v);
        assert_true(rv_block_pool_v_offset(pool, format, 3, 0) + v <= rv_block_pool_block_bytes(pool, format));
    }
}

/* Bytes move between the precisions all the time; never more than the budget are resident (the walker looks). */
static void random_use_keeps_the_books_straight(void **state)
{
    struct rv_block_pool *pool = *state;
    int32_t held[64], token[64], n = 0;
    struct rv_rng rng;

    rv_rng_init(&rng, 11);
    for (int i = 0; i < 20000; i++) {
        uint64_t what = rv_rng_below(&rng, 10);

        if (what < 5 && n < 64) {
            held[n] = rv_block_pool_take(pool, RV_KV_BLOCK_F16);
            token[n] = (int32_t)rv_rng_below(&rng, KV_FIXTURE_TOKENS) + 1;
            if (held[n] >= 0) {
                kv_fixture_write(pool, held[n], 31, token[n]);
                n++;
            }
        } else if (n > 0) {
            int32_t k = (int32_t)rv_rng_below(&rng, (uint64_t)n);
            enum rv_kv_block_format format = rv_block_pool_format(pool, held[k]);

            assert_int_equal(kv_fixture_read(pool, held[k], 31), token[k]);
            if (what < 8 && format < RV_KV_BLOCK_Q4) {
                rv_block_pool_convert(pool, held[k], format + 1);
                assert_int_equal(kv_fixture_read(pool, held[k], 31), token[k]);
            } else {
                rv_block_pool_unref(pool, held[k]);
                held[k] = held[--n];
                token[k] = token[n];
            }
        }
        assert_true(rv_block_pool_check(pool));
    }
    while (n > 0)
        rv_block_pool_unref(pool, held[--n]);
    assert_int_equal(rv_block_pool_n_free(pool), BLOCKS);
    assert_true(rv_block_pool_check(pool));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_budget_is_the_limit_and_what_is_given_back_can_be_taken_again),
        CASE(a_block_is_free_when_its_last_reference_goes),
        CASE(a_cached_block_without_references_is_idle_until_it_is_uncached),
        CASE(uncaching_a_block_in_use_leaves_it_to_its_users),
        CASE(a_copy_has_the_contents_and_a_life_of_its_own),
        CASE(converting_keeps_the_number_and_the_contents_and_frees_bytes),
        CASE(a_full_pool_can_still_convert),
        CASE(an_idle_block_that_is_converted_gives_back_fewer_bytes),
        CASE(a_freed_block_is_poisoned),
        CASE(the_budget_for_blocks_holds_just_them),
        CASE(heads_and_layers_do_not_overlap),
        CASE(random_use_keeps_the_books_straight),
        cmocka_unit_test(rows_that_cannot_be_quantised_stay_f16),
        cmocka_unit_test(a_budget_below_one_block_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
