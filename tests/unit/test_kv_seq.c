/* One sequence's table of blocks: growing, sharing, cutting, falling precision. */
#include "kv/kv_seq.h"
#include "support/kv_fixture.h"
#include "support/test.h"

#include <string.h>

enum { BLOCKS = 48, B = RV_KV_BLOCK_TOKENS, MAX = 1536 };

struct fixture {
    struct rv_block_pool *pool;
    struct rv_tier_policy policy;
    struct rv_kv_seq a;
    struct rv_kv_seq b;
    int32_t tokens[MAX]; // of a
    int32_t others[MAX]; // differ from them everywhere
};

static int setup(void **state)
{
    static struct fixture f;

    f = (struct fixture){.pool = kv_fixture_pool(BLOCKS), .policy = rv_tier_policy_default()};
    assert_ok(rv_kv_seq_init(&f.a, f.pool, &f.policy, MAX, err));
    assert_ok(rv_kv_seq_init(&f.b, f.pool, &f.policy, MAX, err));
    for (int32_t i = 0; i < MAX; i++) {
        f.tokens[i] = 1 + (i * 7 + i / 50) % KV_FIXTURE_TOKENS;
        f.others[i] = 1 + f.tokens[i] % KV_FIXTURE_TOKENS;
    }
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    assert_true(rv_block_pool_check(f->pool));
    rv_kv_seq_release(&f->a);
    rv_kv_seq_release(&f->b);
    assert_true(rv_block_pool_check(f->pool));
    assert_int_equal(rv_block_pool_n_free(f->pool), BLOCKS);
    rv_block_pool_free(f->pool);
    return 0;
}

/* Computes to length n as the scheduler would: chunks within the room, then migration. */
static void grow(struct fixture *f, struct rv_kv_seq *seq, int32_t n)
{
    while (seq->len < n) {
        int32_t chunk = n - seq->len < rv_kv_seq_room(seq) ? n - seq->len : rv_kv_seq_room(seq);

        assert_true(kv_fixture_compute(seq, f->tokens, chunk));
        (void)rv_kv_seq_migrate(seq);
        assert_true(rv_kv_seq_check(seq));
    }
}

static int32_t n_of(const struct rv_kv_seq *seq, enum rv_kv_block_format format)
{
    int32_t n = 0;

    for (int32_t i = 0; i < seq->n_blocks; i++)
        n += rv_block_pool_format(seq->pool, seq->blocks[i]) == format;
    return n;
}

static void reserving_takes_what_was_announced_and_no_more(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(rv_kv_seq_n_needed(&f->a, B + 1), 2);
    assert_true(rv_kv_seq_reserve(&f->a, B + 1));
    assert_int_equal(f->a.n_blocks, 2);
    assert_int_equal(f->a.len, 0);
    assert_int_equal(rv_kv_seq_n_needed(&f->a, 2 * B), 0);
    rv_kv_seq_advance(&f->a, B + 1);
    assert_int_equal(rv_kv_seq_n_needed(&f->a, B - 1), 0);
    assert_int_equal(rv_kv_seq_n_needed(&f->a, B), 1);
}

static void a_step_that_failed_leaves_its_places_for_the_next(void **state)
{
    struct fixture *f = *state;

    assert_true(rv_kv_seq_reserve(&f->a, 4 * B));
    assert_int_equal(rv_kv_seq_n_needed(&f->a, 1), 0);
    assert_true(rv_kv_seq_reserve(&f->a, 1));
    assert_int_equal(f->a.n_blocks, 4);
    assert_true(rv_kv_seq_check(&f->a));
}

static void without_room_nothing_is_reserved(void **state)
{
    struct fixture *f = *state;

    assert_true(rv_kv_seq_reserve(&f->a, (BLOCKS - 1) * B));
    assert_false(rv_kv_seq_reserve(&f->b, 2 * B));
    assert_int_equal(f->b.n_blocks, 0);
    assert_true(rv_kv_seq_reserve(&f->b, B));
}

static void a_fork_shares_everything_and_who_goes_on_copies_the_last_block(void **state)
{
    struct fixture *f = *state;
    int32_t last;

    grow(f, &f->a, 2 * B + 5);
    rv_kv_seq_fork(&f->b, &f->a);
    assert_int_equal(f->b.len, f->a.len);
    assert_int_equal(rv_block_pool_n_used(f->pool, RV_KV_BLOCK_F16), 3);
    last = f->a.blocks[2];
    assert_int_equal(rv_kv_seq_n_needed(&f->b, 1), 1);
    assert_true(kv_fixture_compute(&f->b, f->others, 1));
    assert_true(f->b.blocks[2] != last);
    assert_int_equal(rv_kv_seq_n_needed(&f->a, 1), 0); // now alone with it
    assert_true(kv_fixture_compute(&f->a, f->tokens, 1));
    assert_int_equal(f->a.blocks[2], last);
    assert_true(kv_fixture_holds(&f->a, f->tokens));
    assert_int_equal(kv_fixture_read(f->pool, f->b.blocks[2], 4), f->tokens[2 * B + 4]);
    assert_int_equal(kv_fixture_read(f->pool, f->b.blocks[2], 5), f->others[2 * B + 5]);
}

static void places_reserved_before_a_fork_do_not_hide_the_copy(void **state)
{
    struct fixture *f = *state;

    grow(f, &f->a, 5);
    assert_true(rv_kv_seq_reserve(&f->a, 3 * B)); // and the step failed
    rv_kv_seq_fork(&f->b, &f->a);
    assert_int_equal(rv_kv_seq_n_needed(&f->a, 1), 1);
    assert_true(kv_fixture_compute(&f->a, f->others, 1));
    assert_true(f->a.blocks[0] != f->b.blocks[0]);
    assert_true(kv_fixture_holds(&f->b, f->tokens));
}

static void a_block_the_tree_knows_is_copied_before_it_is_written(void **state)
{
    struct fixture *f = *state;
    int32_t cached;

    grow(f, &f->a, B);
    cached = f->a.blocks[0];
    rv_block_pool_cache(f->pool, cached);
    assert_int_equal(rv_kv_seq_trim(&f->a, 10), 10);
    assert_int_equal(rv_kv_seq_n_needed(&f->a, 1), 1);
    assert_true(kv_fixture_compute(&f->a, f->others, B - 10));
    assert_true(f->a.blocks[0] != cached);
    for (int32_t i = 0; i < B; i++)
        assert_int_equal(kv_fixture_read(f->pool, cached, i), f->tokens[i]);
    assert_int_equal(rv_block_pool_n_idle(f->pool), 1);
    rv_block_pool_uncache(f->pool, cached);
}

static void trimming_keeps_what_lies_before(void **state)
{
    struct fixture *f = *state;

    grow(f, &f->a, 3 * B);
    assert_int_equal(rv_kv_seq_trim(&f->a, B + 1), B + 1);
    assert_int_equal(f->a.n_blocks, 2);
    assert_true(kv_fixture_holds(&f->a, f->tokens));
    assert_int_equal(rv_kv_seq_trim(&f->a, 2 * B), B + 1); // it cannot grow by that
    assert_int_equal(rv_kv_seq_trim(&f->a, 0), 0);
    assert_int_equal(f->a.n_blocks, 0);
}

static void a_cut_through_a_quantised_block_takes_the_whole_block(void **state)
{
    struct fixture *f = *state;

    grow(f, &f->a, 1024);
    assert_int_equal(rv_block_pool_format(f->pool, f->a.blocks[4]), RV_KV_BLOCK_Q4);
    assert_int_equal(rv_kv_seq_trim(&f->a, 4 * B + 7), 4 * B);
    assert_true(rv_kv_seq_check(&f->a));
    grow(f, &f->a, 5 * B);
    assert_true(kv_fixture_holds(&f->a, f->tokens));
}

static void blocks_age_through_the_tiers_and_keep_their_tokens(void **state)
{
    struct fixture *f = *state;

    grow(f, &f->a, 1024);
    assert_int_equal(n_of(&f->a, RV_KV_BLOCK_F16), 8 + 1); // 256 tokens and the first block
    assert_int_equal(n_of(&f->a, RV_KV_BLOCK_Q8), 8);
    assert_int_equal(n_of(&f->a, RV_KV_BLOCK_Q4), 15);
    assert_true(kv_fixture_holds(&f->a, f->tokens));
    assert_true(rv_kv_seq_bytes(&f->a) == rv_kv_seq_bytes_of(&f->a, 1024));
}

static void bytes_are_told_beforehand(void **state)
{
    struct fixture *f = *state;
    struct rv_kv_seq seq = f->a;

    for (int policy = 0; policy < 4; policy++) {
        seq.policy = policy == 3 ? rv_tier_policy_default() : rv_tier_policy_single((enum rv_kv_block_format)policy);
        for (int keeps_first = 0; keeps_first < 2; keeps_first++) {
            seq.policy.keeps_first = keeps_first;
            for (int32_t n = 0; n < MAX; n++) {
                size_t bytes = 0;

                for (int32_t i = 0; i < (n + B - 1) / B; i++)
                    bytes += rv_block_pool_block_bytes(f->pool, rv_tier_format(&seq.policy, i, n));
                assert_true(rv_kv_seq_bytes_of(&seq, n) == bytes);
            }
        }
    }
}

/* What a token sees must not depend on how the prompt was cut into steps. */
static void tiers_are_the_same_however_the_prompt_was_cut(void **state)
{
    struct fixture *f = *state;

    grow(f, &f->a, 900);
    while (f->b.len < 900) {
        int32_t n = f->b.len % 37 + 1;

        n = n < rv_kv_seq_room(&f->b) ? n : rv_kv_seq_room(&f->b);
        n = n < 900 - f->b.len ? n : 900 - f->b.len;
        assert_true(kv_fixture_compute(&f->b, f->tokens, n));
        (void)rv_kv_seq_migrate(&f->b);
    }
    for (int32_t i = 0; i < f->a.n_blocks; i++)
        assert_int_equal(rv_block_pool_format(f->pool, f->a.blocks[i]), rv_block_pool_format(f->pool, f->b.blocks[i]));
}

static void a_block_that_two_read_waits_until_one_is_left(void **state)
{
    struct fixture *f = *state;

    grow(f, &f->a, 512);
    rv_kv_seq_fork(&f->b, &f->a);
    grow(f, &f->a, 1024);
    assert_int_equal(rv_block_pool_format(f->pool, f->a.blocks[10]), RV_KV_BLOCK_F16);
    rv_kv_seq_clear(&f->b);
    assert_true(rv_kv_seq_migrate(&f->a) > 0);
    assert_int_equal(rv_block_pool_format(f->pool, f->a.blocks[10]), RV_KV_BLOCK_Q4);
    assert_int_equal(n_of(&f->a, RV_KV_BLOCK_F16), 8 + 1);
}

static void squeezing_stops_when_there_is_room(void **state)
{
    struct fixture *f = *state;

    grow(f, &f->a, 10 * B + 1);
    assert_true(rv_kv_seq_reserve(&f->b, (BLOCKS - 11) * B));
    assert_int_equal(rv_block_pool_n_free(f->pool), 0);
    assert_int_equal(rv_kv_seq_squeeze(&f->a, 1), 2); // two Q4 blocks are as large as an F16 block
    assert_int_equal(rv_block_pool_n_free(f->pool), 1);
    assert_int_equal(rv_block_pool_format(f->pool, f->a.blocks[1]), RV_KV_BLOCK_Q4); // the oldest went
    assert_int_equal(rv_block_pool_format(f->pool, f->a.blocks[3]), RV_KV_BLOCK_F16);
    assert_true(kv_fixture_holds(&f->a, f->tokens));
    assert_int_equal(rv_kv_seq_squeeze(&f->a, 1), 0);
}

static void squeezing_spares_the_first_block_and_the_one_that_fills(void **state)
{
    struct fixture *f = *state;

    grow(f, &f->a, 10 * B + 1);
    assert_int_equal(rv_kv_seq_squeeze(&f->a, INT32_MAX), 9);
    assert_int_equal(n_of(&f->a, RV_KV_BLOCK_Q4), 9);
    assert_int_equal(rv_block_pool_format(f->pool, f->a.blocks[0]), RV_KV_BLOCK_F16);
    assert_int_equal(rv_block_pool_format(f->pool, f->a.blocks[10]), RV_KV_BLOCK_F16);
    assert_true(kv_fixture_holds(&f->a, f->tokens));
    assert_true(rv_kv_seq_bytes(&f->a) == rv_kv_seq_bytes_squeezed(&f->a, 10 * B + 1));
    grow(f, &f->a, 1024); // goes on as if nothing had been
    assert_int_equal(rv_block_pool_format(f->pool, f->a.blocks[20]), RV_KV_BLOCK_Q8);
    assert_true(kv_fixture_holds(&f->a, f->tokens));
}

static void a_policy_of_f16_alone_has_all_the_room_and_nothing_to_squeeze(void **state)
{
    struct fixture *f = *state;
    struct rv_tier_policy policy = rv_tier_policy_single(RV_KV_BLOCK_F16);
    struct rv_kv_seq seq;

    assert_ok(rv_kv_seq_init(&seq, f->pool, &policy, MAX, err));
    assert_true(rv_kv_seq_room(&seq) >= MAX);
    assert_true(kv_fixture_compute(&seq, f->tokens, 700));
    assert_int_equal(rv_kv_seq_migrate(&seq), 0);
    assert_int_equal(rv_kv_seq_squeeze(&seq, INT32_MAX), 0);
    assert_true(rv_kv_seq_bytes(&seq) == rv_kv_seq_bytes_squeezed(&seq, 700));
    rv_kv_seq_release(&seq);
}

static void dropping_the_oldest_blocks_moves_the_rest_forward(void **state)
{
    struct fixture *f = *state;

    grow(f, &f->a, 1024 + 5);
    rv_kv_seq_drop_first(&f->a, 3);
    assert_int_equal(f->a.len, 1024 + 5 - 3 * B);
    assert_true(rv_kv_seq_check(&f->a));
    assert_int_equal(rv_block_pool_n_used(f->pool, RV_KV_BLOCK_F16) + rv_block_pool_n_used(f->pool, RV_KV_BLOCK_Q8) +
                         rv_block_pool_n_used(f->pool, RV_KV_BLOCK_Q4),
                     f->a.n_blocks);
    assert_true(kv_fixture_holds(&f->a, f->tokens + 3 * B));
    memmove(f->tokens, f->tokens + 3 * B, (MAX - 3 * B) * sizeof(f->tokens[0]));
    grow(f, &f->a, 1280);
    assert_true(kv_fixture_holds(&f->a, f->tokens));
    for (int32_t i = 0; i < (1280 - 512) / B; i++) // those that were settled, and those that were not
        assert_int_equal(rv_block_pool_format(f->pool, f->a.blocks[i]), RV_KV_BLOCK_Q4);
    rv_kv_seq_drop_first(&f->a, f->a.n_blocks);
    assert_int_equal(f->a.len, 0);
}

static void another_policy_counts_for_what_is_there(void **state)
{
    struct fixture *f = *state;
    struct rv_tier_policy policy = rv_tier_policy_single(RV_KV_BLOCK_F16);

    rv_kv_seq_set_policy(&f->a, &policy);
    assert_true(kv_fixture_compute(&f->a, f->tokens, 1024));
    assert_int_equal(rv_kv_seq_migrate(&f->a), 0);
    rv_kv_seq_set_policy(&f->a, &f->policy);
    assert_int_equal(rv_kv_seq_migrate(&f->a), 1024 / B - 1 - 256 / B);
    policy = rv_tier_policy_single(RV_KV_BLOCK_Q4);
    rv_kv_seq_set_policy(&f->a, &policy);
    assert_int_equal(rv_kv_seq_migrate(&f->a), 1 + 512 / B);
    assert_int_equal(n_of(&f->a, RV_KV_BLOCK_Q4), 1024 / B);
    assert_true(kv_fixture_holds(&f->a, f->tokens));
}

/* As from a spill file: the blocks are handed over, and what goes on is as if they had never been away. */
static void appended_blocks_are_its_own_and_age_on(void **state)
{
    struct fixture *f = *state;

    grow(f, &f->a, 600);
    for (int32_t i = 0; i < f->a.n_blocks; i++) {
        rv_block_pool_ref(f->pool, f->a.blocks[i]); // the one that is handed over
        rv_kv_seq_append(&f->b, f->a.blocks[i], 600 - i * B < B ? 600 - i * B : B);
    }
    rv_kv_seq_clear(&f->a);
    assert_int_equal(f->b.len, 600);
    assert_int_equal(rv_kv_seq_room_at(&f->a, 600), rv_kv_seq_room(&f->b));
    assert_true(rv_kv_seq_check(&f->b));
    grow(f, &f->b, 700);
    grow(f, &f->a, 700);
    assert_true(kv_fixture_holds(&f->b, f->tokens));
    for (int32_t i = 0; i < f->a.n_blocks; i++)
        assert_int_equal(rv_block_pool_format(f->pool, f->b.blocks[i]), rv_block_pool_format(f->pool, f->a.blocks[i]));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(reserving_takes_what_was_announced_and_no_more),
        CASE(a_step_that_failed_leaves_its_places_for_the_next),
        CASE(without_room_nothing_is_reserved),
        CASE(a_fork_shares_everything_and_who_goes_on_copies_the_last_block),
        CASE(places_reserved_before_a_fork_do_not_hide_the_copy),
        CASE(a_block_the_tree_knows_is_copied_before_it_is_written),
        CASE(trimming_keeps_what_lies_before),
        CASE(a_cut_through_a_quantised_block_takes_the_whole_block),
        CASE(blocks_age_through_the_tiers_and_keep_their_tokens),
        CASE(bytes_are_told_beforehand),
        CASE(tiers_are_the_same_however_the_prompt_was_cut),
        CASE(a_block_that_two_read_waits_until_one_is_left),
        CASE(squeezing_stops_when_there_is_room),
        CASE(squeezing_spares_the_first_block_and_the_one_that_fills),
        CASE(a_policy_of_f16_alone_has_all_the_room_and_nothing_to_squeeze),
        CASE(dropping_the_oldest_blocks_moves_the_rest_forward),
        CASE(another_policy_counts_for_what_is_there),
        CASE(appended_blocks_are_its_own_and_age_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
