/* What is found again, for whom, and what is dropped first. */
#include "kv/prefix_tree.h"
#include "base/rng.h"
#include "support/kv_fixture.h"
#include "support/test.h"

#include <string.h>

enum { BLOCKS = 64, B = RV_KV_BLOCK_TOKENS, MAX = 16, FLOOR = 3 };

struct fixture {
    struct rv_block_pool *pool;
    struct rv_prefix_tree *tree;
};

static const struct rv_prefix_scope alice = {.model = 1, .tenant = 100}, bob = {.model = 1, .tenant = 200};

static void make_tree(struct fixture *f, int32_t max_nodes, int32_t floor)
{
    struct rv_prefix_tree_config config = {.pool = f->pool, .max_nodes = max_nodes, .tenant_floor = floor};

    rv_prefix_tree_free(f->tree);
    memset(config.secret, 7, sizeof(config.secret));
    assert_ok(rv_prefix_tree_new(&f->tree, &config, err));
}

static int setup(void **state)
{
    static struct fixture f;

    f = (struct fixture){.pool = kv_fixture_pool(BLOCKS)};
    make_tree(&f, BLOCKS, 0);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    assert_true(rv_prefix_tree_check(f->tree));
    rv_prefix_tree_free(f->tree);
    assert_true(rv_block_pool_check(f->pool));
    assert_int_equal(rv_block_pool_n_free(f->pool), BLOCKS);
    rv_block_pool_free(f->pool);
    return 0;
}

/* n blocks of tokens, the same for the same seed; blocks from `from` on are those of `branch`. */
static void make_tokens(int32_t *tokens, int32_t n, int32_t seed, int32_t from, int32_t branch)
{
    for (int32_t i = 0; i < n * B; i++)
        tokens[i] = (i / B < from ? seed : branch) * 1000 + i;
}

/* Computes and enters n blocks, and ends: all of them are idle then. */
static void enter(struct fixture *f, const struct rv_prefix_scope *scope, const int32_t *tokens, int32_t n)
{
    int32_t blocks[MAX] = {0};

    for (int32_t i = 0; i < n; i++) {
        blocks[i] = rv_block_pool_take(f->pool, RV_KV_BLOCK_F16);
        assert_true(blocks[i] >= 0);
    }
    rv_prefix_tree_insert(f->tree, scope, tokens, blocks, n, NULL);
    for (int32_t i = 0; i < n; i++)
        rv_block_pool_unref(f->pool, blocks[i]);
    assert_true(rv_prefix_tree_check(f->tree));
}

static int32_t find(struct fixture *f, const struct rv_prefix_scope *scope, const int32_t *tokens, int32_t n_tokens)
{
    int32_t blocks[MAX];

    return rv_prefix_tree_find(f->tree, scope, tokens, n_tokens, blocks, NULL);
}

static void the_longest_run_of_full_blocks_is_found(void **state)
{
    struct fixture *f = *state;
    int32_t tokens[4 * B], blocks[4], found[4];

    make_tokens(tokens, 4, 1, 4, 0);
    for (int i = 0; i < 4; i++)
        blocks[i] = rv_block_pool_take(f->pool, RV_KV_BLOCK_F16);
    rv_prefix_tree_insert(f->tree, &alice, tokens, blocks, 4, NULL);
    assert_int_equal(rv_prefix_tree_n_nodes(f->tree), 4);
    assert_int_equal(rv_prefix_tree_find(f->tree, &alice, tokens, 4 * B, found, NULL), 4);
    assert_memory_equal(found, blocks, sizeof(blocks));
    assert_int_equal(find(f, &alice, tokens, 4 * B - 1), 3);
    assert_int_equal(find(f, &alice, tokens, B - 1), 0);
    tokens[2 * B + 5]++;
    assert_int_equal(find(f, &alice, tokens, 4 * B), 2);
    tokens[0]++;
    assert_int_equal(find(f, &alice, tokens, 4 * B), 0);
    for (int i = 0; i < 4; i++)
        rv_block_pool_unref(f->pool, blocks[i]);
    assert_int_equal(rv_block_pool_n_idle(f->pool), 4);
}

static void nothing_is_found_under_another_scope(void **state)
{
    struct fixture *f = *state;
    struct rv_prefix_scope scope = alice;
    int32_t tokens[2 * B];

    make_tokens(tokens, 2, 1, 2, 0);
    enter(f, &alice, tokens, 2);
    assert_int_equal(find(f, &alice, tokens, 2 * B), 2);
    assert_int_equal(find(f, &bob, tokens, 2 * B), 0);
    scope.model++;
    assert_int_equal(find(f, &scope, tokens, 2 * B), 0);
    scope = alice;
    scope.adapter_layers++;
    assert_int_equal(find(f, &scope, tokens, 2 * B), 0);
    scope = alice;
    scope.tiers++;
    assert_int_equal(find(f, &scope, tokens, 2 * B), 0);
}

static void prompts_that_begin_alike_share_their_start(void **state)
{
    struct fixture *f = *state;
    int32_t a[4 * B], b[4 * B];

    make_tokens(a, 4, 1, 2, 8);
    make_tokens(b, 4, 1, 2, 9);
    enter(f, &alice, a, 4);
    enter(f, &alice, b, 4);
    assert_int_equal(rv_prefix_tree_n_nodes(f->tree), 6);
    assert_int_equal(rv_block_pool_n_idle(f->pool), 6); // the second start was left out, and freed
    assert_int_equal(find(f, &alice, a, 4 * B), 4);
    assert_int_equal(find(f, &alice, b, 4 * B), 4);
}

static void the_least_recently_used_goes_first_and_leaves_go_before_their_parents(void **state)
{
    struct fixture *f = *state;
    int32_t a[3 * B], b[3 * B], c[3 * B];

    make_tokens(a, 3, 1, 3, 0);
    make_tokens(b, 3, 2, 3, 0);
    make_tokens(c, 3, 3, 3, 0);
    enter(f, &alice, a, 3);
    enter(f, &alice, b, 3);
    enter(f, &alice, c, 3);
    assert_int_equal(find(f, &alice, a, 3 * B), 3); // now b is the oldest, then c
    assert_int_equal(rv_prefix_tree_evict(f->tree, 0, 2), 2);
    assert_int_equal(rv_prefix_tree_evict(f->tree, 0, 2), 2);
    assert_int_equal(find(f, &alice, b, 3 * B), 0);
    assert_int_equal(find(f, &alice, c, 3 * B), 2);
    assert_int_equal(find(f, &alice, a, 3 * B), 3);
    assert_int_equal(rv_prefix_tree_evict(f->tree, 0, 100), 5);
    assert_int_equal(rv_prefix_tree_n_nodes(f->tree), 0);
    assert_int_equal(rv_prefix_tree_evict(f->tree, 0, 1), 0);
}

/* Only the end of what was found is marked as used; its start counts as used then too, when it comes to be the end. */
static void a_start_is_as_recent_as_what_was_used_after_it(void **state)
{
    struct fixture *f = *state;
    int32_t a[3 * B], b[3 * B];

    make_tree(f, BLOCKS, FLOOR);
    make_tokens(a, 3, 1, 3, 0);
    make_tokens(b, 3, 2, 3, 0);
    enter(f, &alice, a, 3);
    enter(f, &bob, b, 3);
    assert_int_equal(find(f, &alice, a, 3 * B), 3);
    assert_int_equal(rv_prefix_tree_evict(f->tree, alice.tenant, 1), 1); // her own, though Bob's are older
    assert_int_equal(rv_prefix_tree_evict(f->tree, 12345, 3), 3);
    assert_int_equal(find(f, &bob, b, 3 * B), 0);
    assert_int_equal(find(f, &alice, a, 3 * B), 2);
}

static void blocks_in_use_are_not_dropped(void **state)
{
    struct fixture *f = *state;
    int32_t a[2 * B], b[2 * B], blocks[2];

    make_tokens(a, 2, 1, 2, 0);
    make_tokens(b, 2, 2, 2, 0);
    enter(f, &alice, a, 2);
    enter(f, &alice, b, 2);
    assert_int_equal(rv_prefix_tree_find(f->tree, &alice, a, 2 * B, blocks, NULL), 2);
    rv_block_pool_ref(f->pool, blocks[0]);
    rv_block_pool_ref(f->pool, blocks[1]);
    enter(f, &alice, b, 2);
    assert_int_equal(rv_prefix_tree_evict(f->tree, 0, 10), 2);
    assert_int_equal(find(f, &alice, a, 2 * B), 2);
    assert_int_equal(find(f, &alice, b, 2 * B), 0);
    rv_block_pool_unref(f->pool, blocks[0]);
    rv_block_pool_unref(f->pool, blocks[1]);
    assert_int_equal(rv_prefix_tree_evict(f->tree, 0, 10), 2);
}

/* Two computed the same start at once; the one that was entered ends, the other goes on behind its blocks. */
static void an_idle_start_under_a_block_in_use_can_still_be_had(void **state)
{
    struct fixture *f = *state;
    int32_t tokens[3 * B], blocks[3];

    make_tokens(tokens, 3, 1, 3, 0);
    enter(f, &alice, tokens, 2);
    for (int i = 0; i < 3; i++)
        blocks[i] = rv_block_pool_take(f->pool, RV_KV_BLOCK_F16);
    rv_prefix_tree_insert(f->tree, &alice, tokens, blocks, 3, NULL);
    assert_int_equal(rv_prefix_tree_n_nodes(f->tree), 3);
    assert_int_equal(rv_block_pool_n_idle(f->pool), 2);
    assert_int_equal(rv_prefix_tree_evict(f->tree, 0, 1), 1);
    assert_int_equal(rv_prefix_tree_n_nodes(f->tree), 1);
    assert_false(rv_block_pool_is_cached(f->pool, blocks[2]));
    assert_int_equal(rv_prefix_tree_evict(f->tree, 0, 1), 1);
    assert_int_equal(rv_prefix_tree_n_nodes(f->tree), 0);
    for (int i = 0; i < 3; i++)
        rv_block_pool_unref(f->pool, blocks[i]);
}

static void a_tenants_floor_is_kept_from_others_but_not_from_itself(void **state)
{
    struct fixture *f = *state;
    int32_t a[MAX * B], b[MAX * B];

    make_tree(f, BLOCKS, FLOOR);
    make_tokens(a, MAX, 1, MAX, 0);
    make_tokens(b, MAX, 2, MAX, 0);
    enter(f, &alice, a, 5);
    enter(f, &bob, b, 8);
    /* Alice's are older, and all but three of them go. Then Bob's, until three are left. */
    assert_int_equal(rv_prefix_tree_evict(f->tree, bob.tenant, 4), 4);
    assert_int_equal(find(f, &alice, a, 8 * B), FLOOR);
    assert_int_equal(find(f, &bob, b, 8 * B), 6);
    assert_int_equal(rv_prefix_tree_evict(f->tree, bob.tenant, 3), 3);
    assert_int_equal(find(f, &alice, a, 8 * B), FLOOR);
    assert_int_equal(find(f, &bob, b, 8 * B), FLOOR);
    /* For Bob's sake Bob's own go first, though they were used last. */
    assert_int_equal(rv_prefix_tree_evict(f->tree, bob.tenant, 2), 2);
    assert_int_equal(find(f, &bob, b, 8 * B), 1);
    assert_int_equal(find(f, &alice, a, 8 * B), FLOOR);
    /* When nothing else is left, the others' too. */
    assert_int_equal(rv_prefix_tree_evict(f->tree, bob.tenant, 2), 2);
    assert_int_equal(find(f, &bob, b, 8 * B), 0);
    assert_int_equal(find(f, &alice, a, 8 * B), FLOOR - 1);
    assert_int_equal(rv_prefix_tree_evict(f->tree, 12345, 10), FLOOR - 1);
}

static void a_full_tree_drops_the_oldest_for_the_new(void **state)
{
    struct fixture *f = *state;
    int32_t a[4 * B], b[4 * B];

    make_tree(f, 4, 0);
    make_tokens(a, 4, 1, 4, 0);
    make_tokens(b, 4, 2, 4, 0);
    enter(f, &alice, a, 4);
    enter(f, &alice, b, 3);
    assert_int_equal(find(f, &alice, a, 4 * B), 1);
    assert_int_equal(find(f, &alice, b, 4 * B), 3);
    assert_int_equal(rv_prefix_tree_n_nodes(f->tree), 4);
}

static void a_tree_full_of_blocks_in_use_leaves_the_rest_out(void **state)
{
    struct fixture *f = *state;
    struct rv_prefix_cursor cursor = {0};
    int32_t tokens[4 * B], blocks[4];

    make_tree(f, 2, 0);
    make_tokens(tokens, 4, 1, 4, 0);
    for (int i = 0; i < 4; i++)
        blocks[i] = rv_block_pool_take(f->pool, RV_KV_BLOCK_F16);
    rv_prefix_tree_insert(f->tree, &alice, tokens, blocks, 4, &cursor);
    assert_int_equal(cursor.n_blocks, 2);
    assert_true(cursor.is_closed);
    assert_int_equal(find(f, &alice, tokens, 4 * B), 2);
    for (int i = 0; i < 4; i++)
        rv_block_pool_unref(f->pool, blocks[i]);
    rv_prefix_tree_insert(f->tree, &alice, tokens, blocks, 3, &cursor); // says no more
    assert_int_equal(rv_prefix_tree_n_nodes(f->tree), 2);
}

/* The only node that could go is the one the new one would hang on. */
static void a_new_node_does_not_take_its_parents_place(void **state)
{
    struct fixture *f = *state;
    int32_t tokens[3 * B], blocks[3];

    make_tree(f, 2, 0);
    make_tokens(tokens, 3, 1, 3, 0);
    enter(f, &alice, tokens, 2);
    for (int i = 0; i < 3; i++)
        blocks[i] = rv_block_pool_take(f->pool, RV_KV_BLOCK_F16);
    rv_prefix_tree_insert(f->tree, &alice, tokens, blocks, 3, NULL);
    assert_true(rv_prefix_tree_check(f->tree));
    assert_int_equal(find(f, &alice, tokens, 3 * B), 2);
    for (int i = 0; i < 3; i++)
        rv_block_pool_unref(f->pool, blocks[i]);
}

static void blocks_enter_one_by_one_behind_a_cursor(void **state)
{
    struct fixture *f = *state;
    struct rv_prefix_cursor cursor = {0}, found;
    int32_t tokens[4 * B], blocks[4], same[4];

    make_tokens(tokens, 4, 1, 4, 0);
    for (int i = 0; i < 4; i++) {
        blocks[i] = rv_block_pool_take(f->pool, RV_KV_BLOCK_F16);
        rv_prefix_tree_insert(f->tree, &alice, tokens, blocks, i + 1, &cursor);
        assert_int_equal(cursor.n_blocks, i + 1);
        assert_int_equal(rv_prefix_tree_n_nodes(f->tree), i + 1);
    }
    assert_int_equal(rv_prefix_tree_find(f->tree, &alice, tokens, 4 * B, same, &found), 4);
    assert_memory_equal(same, blocks, sizeof(blocks));
    assert_int_equal(found.n_blocks, 4);
    assert_memory_equal(&found.key, &cursor.key, sizeof(found.key));
    for (int i = 0; i < 4; i++)
        rv_block_pool_unref(f->pool, blocks[i]);
}

static void a_cursor_whose_node_is_gone_begins_again(void **state)
{
    struct fixture *f = *state;
    struct rv_prefix_cursor cursor = {0};
    int32_t tokens[3 * B], blocks[3];

    make_tokens(tokens, 3, 1, 3, 0);
    enter(f, &alice, tokens, 2); // another's
    for (int i = 0; i < 3; i++)
        blocks[i] = rv_block_pool_take(f->pool, RV_KV_BLOCK_F16);
    rv_prefix_tree_insert(f->tree, &alice, tokens, blocks, 2, &cursor);
    assert_int_equal(rv_prefix_tree_evict(f->tree, 0, 2), 2);
    assert_int_equal(rv_prefix_tree_n_nodes(f->tree), 0);
    rv_prefix_tree_insert(f->tree, &alice, tokens, blocks, 3, &cursor);
    assert_int_equal(cursor.n_blocks, 3);
    assert_int_equal(find(f, &alice, tokens, 3 * B), 3);
    for (int i = 0; i < 3; i++)
        assert_true(rv_block_pool_is_cached(f->pool, blocks[i]));
    for (int i = 0; i < 3; i++)
        rv_block_pool_unref(f->pool, blocks[i]);
}

static void forgetting_a_tenant_leaves_nothing_of_it_and_all_of_the_others(void **state)
{
    struct fixture *f = *state;
    struct rv_prefix_scope adapted = alice;
    int32_t a[4 * B], b[4 * B], blocks[4];

    make_tree(f, BLOCKS, FLOOR);
    adapted.adapter_layers = 5;
    make_tokens(a, 4, 1, 2, 8);
    make_tokens(b, 4, 1, 2, 9);
    enter(f, &alice, a, 4);
    enter(f, &alice, b, 4);
    enter(f, &adapted, a, 3);
    enter(f, &bob, a, 4);
    assert_int_equal(rv_prefix_tree_find(f->tree, &alice, a, B, blocks, NULL), 1);
    rv_block_pool_ref(f->pool, blocks[0]); // one of them runs
    assert_int_equal(rv_prefix_tree_forget_tenant(f->tree, alice.tenant), 6 + 3);
    assert_true(rv_prefix_tree_check(f->tree));
    assert_int_equal(find(f, &alice, a, 4 * B), 0);
    assert_int_equal(find(f, &adapted, a, 4 * B), 0);
    assert_int_equal(find(f, &bob, a, 4 * B), 4);
    assert_int_equal(rv_block_pool_refs(f->pool, blocks[0]), 1);
    rv_block_pool_unref(f->pool, blocks[0]);
    assert_int_equal(rv_prefix_tree_forget_tenant(f->tree, alice.tenant), 0);
}

static void random_use_keeps_the_books_straight(void **state)
{
    struct fixture *f = *state;
    int32_t tokens[6 * B];
    struct rv_rng rng;

    make_tree(f, 24, FLOOR);
    rv_rng_init(&rng, 17);
    for (int i = 0; i < 5000; i++) {
        struct rv_prefix_scope scope = {.tenant = rv_rng_below(&rng, 5)};
        int32_t n = 1 + (int32_t)rv_rng_below(&rng, 6);

        make_tokens(tokens, 6, (int32_t)rv_rng_below(&rng, 3), (int32_t)rv_rng_below(&rng, 6),
                    (int32_t)rv_rng_below(&rng, 3));
        switch (rv_rng_below(&rng, 8)) {
        case 0:
            (void)rv_prefix_tree_evict(f->tree, scope.tenant, n);
            break;
        case 1:
            (void)find(f, &scope, tokens, n * B);
            break;
        case 2:
            if (rv_rng_below(&rng, 10) == 0)
                (void)rv_prefix_tree_forget_tenant(f->tree, scope.tenant);
            break;
        default:
            enter(f, &scope, tokens, n);
            assert_int_equal(find(f, &scope, tokens, n * B), n);
        }
        assert_true(rv_prefix_tree_check(f->tree));
        assert_int_equal(rv_block_pool_n_idle(f->pool), rv_prefix_tree_n_nodes(f->tree));
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_longest_run_of_full_blocks_is_found),
        CASE(nothing_is_found_under_another_scope),
        CASE(prompts_that_begin_alike_share_their_start),
        CASE(the_least_recently_used_goes_first_and_leaves_go_before_their_parents),
        CASE(a_start_is_as_recent_as_what_was_used_after_it),
        CASE(blocks_in_use_are_not_dropped),
        CASE(an_idle_start_under_a_block_in_use_can_still_be_had),
        CASE(a_tenants_floor_is_kept_from_others_but_not_from_itself),
        CASE(a_full_tree_drops_the_oldest_for_the_new),
        CASE(a_tree_full_of_blocks_in_use_leaves_the_rest_out),
        CASE(a_new_node_does_not_take_its_parents_place),
        CASE(blocks_enter_one_by_one_behind_a_cursor),
        CASE(a_cursor_whose_node_is_gone_begins_again),
        CASE(forgetting_a_tenant_leaves_nothing_of_it_and_all_of_the_others),
        CASE(random_use_keeps_the_books_straight),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
