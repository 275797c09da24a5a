/* Who gives way, and how much, when blocks run out. */
#include "sched/running_set.h"
#include "support/kv_fixture.h"
#include "support/test.h"

#include <string.h>

enum { BLOCKS = 16, B = RV_KV_BLOCK_TOKENS, MAX = 1024, MEMBERS = 4 };

struct fixture {
    struct rv_block_pool *pool;
    struct rv_prefix_tree *tree;
    struct rv_running_set set;
    struct rv_request requests[MEMBERS];
    int32_t tokens[MEMBERS][MAX];
};

static int setup(void **state)
{
    static struct fixture f;
    struct rv_tier_policy policy = rv_tier_policy_default();
    struct rv_prefix_tree_config tree = {.max_nodes = 4 * BLOCKS};

    f = (struct fixture){.pool = kv_fixture_pool(BLOCKS)};
    tree.pool = f.pool;
    assert_ok(rv_prefix_tree_new(&f.tree, &tree, err));
    assert_ok(rv_running_set_init(&f.set, f.pool, f.tree, MEMBERS, err));
    for (int i = 0; i < MEMBERS; i++) {
        for (int32_t k = 0; k < MAX; k++)
            f.tokens[i][k] = 1 + (i + k) % KV_FIXTURE_TOKENS;
        f.requests[i] = (struct rv_request){
            .ticket = (uint64_t)i, .tokens = f.tokens[i], .i_waiting = -1, .scope = {.tenant = (uint64_t)i}};
        assert_ok(rv_kv_seq_init(&f.requests[i].kv, f.pool, &policy, MAX, err));
    }
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < MEMBERS; i++)
        rv_kv_seq_release(&f->requests[i].kv);
    rv_running_set_release(&f->set);
    rv_prefix_tree_free(f->tree);
    assert_int_equal(rv_block_pool_n_free(f->pool), BLOCKS);
    rv_block_pool_free(f->pool);
    return 0;
}

static void add(struct fixture *f, int i, int32_t n_blocks)
{
    struct rv_request *r = &f->requests[i];

    assert_true(kv_fixture_compute(&r->kv, r->tokens, n_blocks * B));
    r->n_tokens = n_blocks * B + 1;
    rv_running_set_add(&f->set, r);
}

static void members_are_ordered_by_priority_and_then_by_age(void **state)
{
    struct fixture *f = *state;

    f->requests[2].priority = 1;
    f->requests[3].priority = 1;
    for (int i = MEMBERS - 1; i >= 0; i--)
        add(f, i, 1);
    assert_ptr_equal(f->set.requests[0], &f->requests[2]);
    assert_ptr_equal(f->set.requests[1], &f->requests[3]);
    assert_ptr_equal(f->set.requests[2], &f->requests[0]);
    assert_ptr_equal(rv_running_set_last(&f->set), &f->requests[1]);
    assert_true(rv_running_set_check(&f->set));
    rv_running_set_remove(&f->set, &f->requests[3]);
    assert_int_equal(f->set.n, 3);
    assert_ptr_equal(f->set.requests[1], &f->requests[0]);
    assert_true(rv_running_set_check(&f->set));
}

static void idle_blocks_go_before_anybody_is_touched(void **state)
{
    struct fixture *f = *state;
    struct rv_request *r = &f->requests[0];

    add(f, 0, 6);
    add(f, 1, 8);
    rv_prefix_tree_insert(f->tree, &f->requests[1].scope, f->tokens[1], f->requests[1].kv.blocks, 8, NULL);
    rv_running_set_remove(&f->set, &f->requests[1]);
    rv_kv_seq_clear(&f->requests[1].kv);
    assert_int_equal(rv_block_pool_n_free(f->pool), 2);
    assert_true(rv_running_set_available(&f->set) == 10 * rv_block_pool_block_bytes(f->pool, RV_KV_BLOCK_F16));
    assert_int_equal(rv_running_set_reserve(&f->set, r, 4 * B), 4 * B);
    assert_int_equal(f->set.n_evicted, 2);
    assert_int_equal(f->set.n_squeezed, 0);
    assert_int_equal(f->set.n_preempted, 0);
}

static void a_chunk_is_cut_short_before_anybody_is_touched(void **state)
{
    struct fixture *f = *state;

    add(f, 0, 6);
    add(f, 1, 8);
    assert_int_equal(rv_running_set_reserve(&f->set, &f->requests[0], 100), 2 * B);
    assert_int_equal(f->requests[0].kv.n_blocks, 8);
    assert_int_equal(f->set.n_squeezed + f->set.n_preempted, 0);
}

static void old_blocks_are_squeezed_before_anybody_is_preempted(void **state)
{
    struct fixture *f = *state;

    add(f, 0, 8);
    add(f, 1, 8);
    assert_int_equal(rv_running_set_reserve(&f->set, &f->requests[0], 1), 1);
    assert_int_equal(f->set.n_squeezed, 2);
    assert_int_equal(f->set.n_preempted, 0);
    /* The least urgent one's, oldest first, but the very first. */
    assert_int_equal(rv_block_pool_format(f->pool, f->requests[1].kv.blocks[1]), RV_KV_BLOCK_Q4);
    assert_int_equal(rv_block_pool_format(f->pool, f->requests[0].kv.blocks[1]), RV_KV_BLOCK_F16);
    for (int i = 0; i < 2; i++)
        assert_true(kv_fixture_holds(&f->requests[i].kv, f->tokens[i]));
}

/* A full pool in which nothing is left to squeeze. */
static void fill_with_four(struct fixture *f)
{
    for (int i = 0; i < MEMBERS; i++)
        add(f, i, 4);
    for (int i = 0; i < MEMBERS; i++)
        assert_int_equal(rv_kv_seq_squeeze(&f->requests[i].kv, INT32_MAX), 3);
    /* 4 first blocks and 12 at half size make 10; one of the members takes the other 6 in F16. */
    assert_int_equal(rv_block_pool_n_free(f->pool), 6);
    assert_true(rv_kv_seq_reserve(&f->requests[0].kv, 6 * B));
}

static void the_least_urgent_loses_its_blocks_at_last(void **state)
{
    struct fixture *f = *state;

    fill_with_four(f);
    assert_int_equal(rv_running_set_reserve(&f->set, &f->requests[1], 1), 1);
    assert_int_equal(f->set.n_preempted, 1);
    assert_ptr_equal(f->set.lost, &f->requests[3]);
    assert_int_equal(f->requests[3].state, RV_REQUEST_WAITING);
    assert_int_equal(f->requests[3].n_preempted, 1);
    assert_int_equal(f->requests[3].kv.len, 0);
    assert_int_equal(f->requests[2].state, RV_REQUEST_RUNNING);
    assert_true(kv_fixture_holds(&f->requests[2].kv, f->tokens[2]));
}

static void nobody_loses_blocks_for_somebody_less_urgent(void **state)
{
    struct fixture *f = *state;

    fill_with_four(f);
    assert_int_equal(rv_running_set_reserve(&f->set, &f->requests[3], 1), 0);
    assert_int_equal(f->set.n, 4);
    assert_int_equal(f->set.n_preempted, 0);
}

static void the_most_urgent_gets_everything_in_the_end(void **state)
{
    struct fixture *f = *state;
    struct rv_request *r = &f->requests[0];
    /* With everything squeezed: the first and the last in F16, what lies between at half size. */
    int32_t n_blocks = 2 + 2 * (BLOCKS - 2);

    for (int i = 0; i < MEMBERS; i++)
        add(f, i, 4);
    for (int32_t len = r->kv.len; len < n_blocks * B; len++) {
        assert_int_equal(rv_running_set_reserve(&f->set, r, 1), 1);
        kv_fixture_write(f->pool, r->kv.blocks[len / B], len % B, r->tokens[len]);
        rv_kv_seq_advance(&r->kv, 1);
    }
    assert_int_equal(f->set.n, 1);
    assert_true(kv_fixture_holds(&r->kv, r->tokens));
    assert_true(rv_kv_seq_bytes_squeezed(&r->kv, n_blocks * B) <= rv_block_pool_budget(f->pool));
    assert_true(rv_kv_seq_bytes_squeezed(&r->kv, n_blocks * B + 1) > rv_block_pool_budget(f->pool));
}

static void what_two_shared_can_be_squeezed_when_one_is_left(void **state)
{
    struct fixture *f = *state;
    struct rv_request *a = &f->requests[0], *b = &f->requests[1];

    add(f, 0, BLOCKS);
    rv_kv_seq_fork(&b->kv, &a->kv);
    b->n_tokens = b->kv.len + 1;
    rv_running_set_add(&f->set, b);
    assert_int_equal(rv_running_set_reserve(&f->set, a, 1), 1);
    assert_int_equal(f->set.n, 1);
    assert_int_equal(f->set.n_squeezed, 2);
    assert_true(kv_fixture_holds(&a->kv, a->tokens));
}

static void note_vacant(void *user, int32_t slot)
{
    int32_t *last = user;

    *last = slot;
}

static void a_slot_is_ones_own_until_it_is_left(void **state)
{
    struct fixture *f = *state;
    int32_t vacant = -1, lost;

    f->set.on_vacant = note_vacant;
    f->set.user = &vacant;
    for (int i = 0; i < MEMBERS; i++)
        add(f, i, 1);
    for (int i = 0; i < MEMBERS; i++) {
        assert_in_range(f->requests[i].slot, 0, MEMBERS - 1);
        for (int k = 0; k < i; k++)
            assert_int_not_equal(f->requests[i].slot, f->requests[k].slot);
    }
    assert_true(rv_running_set_check(&f->set));
    rv_running_set_remove(&f->set, &f->requests[1]);
    assert_int_equal(vacant, f->requests[1].slot);
    lost = f->requests[MEMBERS - 1].slot;
    rv_running_set_preempt_last(&f->set);
    assert_int_equal(vacant, lost);
    f->set.lost = NULL;
    rv_kv_seq_clear(&f->requests[1].kv);
    add(f, 1, 1);
    assert_int_equal(f->requests[1].slot, lost);
    assert_true(rv_running_set_check(&f->set));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(members_are_ordered_by_priority_and_then_by_age),
        CASE(idle_blocks_go_before_anybody_is_touched),
        CASE(a_chunk_is_cut_short_before_anybody_is_touched),
        CASE(old_blocks_are_squeezed_before_anybody_is_preempted),
        CASE(the_least_urgent_loses_its_blocks_at_last),
        CASE(nobody_loses_blocks_for_somebody_less_urgent),
        CASE(the_most_urgent_gets_everything_in_the_end),
        CASE(what_two_shared_can_be_squeezed_when_one_is_left),
        CASE(a_slot_is_ones_own_until_it_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
