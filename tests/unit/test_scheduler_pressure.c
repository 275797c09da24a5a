/* What is left of requests when blocks run out: all they said, and who says it first. */
#include "sched/scheduler.h"
#include "support/sched_fixture.h"
#include "support/test.h"

enum { B = RV_KV_BLOCK_TOKENS, ALICE = 100, BOB = 200 };

/* One result for each token that was chosen, at its place, and none for what was computed again. */
static void check_answer(const struct sched_request *r)
{
    assert_true(kv_fixture_holds(&r->request.kv, r->tokens));
    assert_int_equal(r->request.n_cached, 0);
    assert_int_equal(r->n_results, r->max_tokens - r->request.n_prompt + 1);
    for (int32_t pos = 0; pos < r->max_tokens; pos++)
        assert_int_equal(r->results[pos], pos >= r->request.n_prompt - 1);
}

/* Precision cannot fall, so blocks run out and sequences lose theirs; nothing of what they say may change. */
static void what_was_preempted_comes_back_and_says_the_same(void **state)
{
    enum { N = 4 };
    struct sched_fixture f;
    struct sched_request r[N];
    int32_t n_preempted = 0;

    (void)state;
    sched_fixture_open(&f, 16, NULL);
    f.policy = rv_tier_policy_single(RV_KV_BLOCK_F16);
    for (int i = 0; i < N; i++)
        sched_fixture_start(&f, &r[i], ALICE, 60 + 10 * i, 300);
    for (int n_done = 0, n_steps = 0; n_done < N; n_steps++) {
        assert_true(n_steps < 3000 && sched_fixture_step(&f));
        for (int i = 0; i < N; i++) {
            if (!r[i].tokens || !sched_request_is_done(&r[i]))
                continue;
            check_answer(&r[i]);
            n_preempted += r[i].request.n_preempted;
            sched_fixture_end(&f, &r[i]);
            n_done++;
        }
    }
    assert_true(n_preempted > 0);
    assert_int_equal(sched_fixture_stats(&f).n_preempted, n_preempted);
    assert_int_equal(sched_fixture_stats(&f).n_squeezed, 0);
    sched_fixture_close(&f);
}

static void the_youngest_gives_way_and_the_most_urgent_never_does(void **state)
{
    struct sched_fixture f;
    struct sched_request old, young, urgent;

    (void)state;
    sched_fixture_open(&f, 14, NULL); // for two of them
    f.policy = rv_tier_policy_single(RV_KV_BLOCK_F16);
    sched_fixture_start(&f, &old, ALICE, 30, 200);
    sched_fixture_start(&f, &young, ALICE, 30, 200);
    assert_true(sched_fixture_step(&f));
    sched_request_init(&f, &urgent, BOB, 30, 200);
    urgent.request.priority = 5;
    sched_fixture_submit(&f, &urgent);
    sched_fixture_run(&f, &urgent, 400);
    assert_int_equal(urgent.request.n_preempted, 0);
    assert_int_equal(old.request.n_preempted, 0);
    assert_int_equal(young.request.n_preempted, 1);
    sched_fixture_end(&f, &urgent);
    sched_fixture_run(&f, &old, 400);
    sched_fixture_run(&f, &young, 400);
    sched_fixture_end(&f, &old);
    sched_fixture_end(&f, &young);
    sched_fixture_close(&f);
}

/* The older one has room in its last block; nobody is less urgent than the younger one, which needs another. */
static void who_cannot_have_its_row_gives_its_blocks_back(void **state)
{
    struct sched_fixture f;
    struct sched_request old, young;
    struct rv_scheduler_step step;

    (void)state;
    sched_fixture_open(&f, 6, NULL);
    f.policy = rv_tier_policy_single(RV_KV_BLOCK_F16);
    sched_fixture_start(&f, &old, ALICE, 40, 150);
    sched_fixture_start(&f, &young, ALICE, 60, 150);
    while (young.request.kv.len < 3 * B)
        assert_true(sched_fixture_step(&f));
    assert_int_equal(sched_fixture_stats(&f).n_running, 2);
    assert_int_equal(rv_block_pool_n_free(f.pool), 0);
    assert_true(sched_fixture_plan(&f, &step));
    assert_int_equal(sched_fixture_rows(&step, &old), 1);
    assert_int_equal(young.request.state, RV_REQUEST_WAITING);
    assert_int_equal(young.request.n_preempted, 1);
    assert_int_equal(rv_block_pool_n_idle(f.pool), 3);
    sched_fixture_compute(&f, &step);
    sched_fixture_run(&f, &old, 200);
    assert_int_equal(old.request.n_preempted, 0);
    sched_fixture_end(&f, &old);
    sched_fixture_run(&f, &young, 200);
    assert_true(kv_fixture_holds(&young.request.kv, young.tokens));
    sched_fixture_end(&f, &young);
    sched_fixture_close(&f);
}

static void its_own_blocks_are_found_again_after_a_preemption(void **state)
{
    struct sched_fixture f;
    struct sched_request low, high;
    struct rv_scheduler_step step;
    int32_t len;

    (void)state;
    sched_fixture_open(&f, 64, &(struct rv_scheduler_config){.max_running = 1});
    sched_fixture_start(&f, &low, ALICE, 200, 300);
    for (int i = 0; i < 50; i++)
        assert_true(sched_fixture_step(&f));
    len = low.request.kv.len;
    sched_request_init(&f, &high, BOB, 20, 21);
    high.request.priority = 1;
    sched_fixture_submit(&f, &high);
    assert_true(sched_fixture_step(&f)); // takes the only place
    assert_int_equal(low.request.state, RV_REQUEST_WAITING);
    assert_int_equal(low.request.kv.n_blocks, 0);
    sched_fixture_run(&f, &high, 10);
    sched_fixture_end(&f, &high);
    assert_true(sched_fixture_plan(&f, &step));
    assert_int_equal(low.request.kv.len, len / B * B);
    assert_int_equal(sched_fixture_rows(&step, &low), len % B + 1);
    sched_fixture_compute(&f, &step);
    sched_fixture_run(&f, &low, 300);
    assert_int_equal(low.request.n_cached, 0);
    assert_int_equal(low.n_results, 300 - 200 + 1);
    assert_true(kv_fixture_holds(&low.request.kv, low.tokens));
    sched_fixture_end(&f, &low);
    sched_fixture_close(&f);
}

/* It loses its blocks in the middle of one, so what is computed again is part old, part new, in one chunk. */
static void all_rows_come_once_across_a_preemption(void **state)
{
    struct sched_fixture f;
    struct sched_request other, low, high;

    (void)state;
    sched_fixture_open(&f, 64, &(struct rv_scheduler_config){.max_running = 2});
    sched_fixture_start(&f, &other, ALICE, 600, 601);
    sched_request_init(&f, &low, ALICE, 500, 500);
    low.request.wants_all_rows = true;
    sched_fixture_submit(&f, &low);
    assert_true(sched_fixture_step(&f));
    assert_int_equal(low.request.kv.len, f.config.prefill_rows * 3 / 4); // 48: a block and a half
    sched_request_init(&f, &high, BOB, 20, 21);
    high.request.priority = 1;
    sched_fixture_submit(&f, &high);
    sched_fixture_run(&f, &high, 10);
    assert_int_equal(low.request.n_preempted, 1);
    sched_fixture_end(&f, &high);
    sched_fixture_run(&f, &low, 30);
    assert_int_equal(low.request.n_cached, 0);
    assert_int_equal(low.n_results, 500);
    for (int i = 0; i < 500; i++)
        assert_int_equal(low.results[i], 1);
    sched_fixture_end(&f, &low);
    sched_fixture_end(&f, &other);
    sched_fixture_close(&f);
}

/* Room for its own tokens is not enough when it would be taken from those that run in their next few steps. */
static void admission_leaves_a_block_to_each_of_those_that_run(void **state)
{
    struct sched_fixture f;
    struct sched_request r[3], late;

    (void)state;
    sched_fixture_open(&f, 10, &(struct rv_scheduler_config){.prefill_rows = 256});
    f.policy = rv_tier_policy_single(RV_KV_BLOCK_F16);
    for (int i = 0; i < 3; i++)
        sched_fixture_start(&f, &r[i], ALICE, 33, 64);
    assert_true(sched_fixture_step(&f));
    assert_int_equal(sched_fixture_stats(&f).n_running, 3);
    assert_int_equal(rv_block_pool_n_free(f.pool), 4);
    sched_fixture_start(&f, &late, BOB, 10, 20);
    assert_true(sched_fixture_step(&f));
    assert_int_equal(late.request.state, RV_REQUEST_WAITING); // one for its tokens, and one for each of four
    sched_fixture_end(&f, &r[0]);
    assert_true(sched_fixture_step(&f));
    assert_int_equal(late.request.state, RV_REQUEST_RUNNING);
    for (int i = 1; i < 3; i++)
        sched_fixture_end(&f, &r[i]);
    sched_fixture_end(&f, &late);
    sched_fixture_close(&f);
}

/* A prompt that was begun is not left without blocks by one that comes after it. */
static void what_running_prompts_still_need_is_not_given_away(void **state)
{
    struct sched_fixture f;
    struct sched_request r, late;

    (void)state;
    sched_fixture_open(&f, 12, NULL);
    f.policy = rv_tier_policy_single(RV_KV_BLOCK_F16);
    sched_fixture_start(&f, &r, ALICE, 8 * B, 9 * B);
    sched_fixture_start(&f, &late, ALICE, 8 * B, 9 * B);
    while (!sched_request_is_done(&r)) {
        assert_true(sched_fixture_step(&f));
        assert_int_equal(late.request.state, RV_REQUEST_WAITING);
    }
    sched_fixture_end(&f, &r);
    sched_fixture_run(&f, &late, 100);
    sched_fixture_end(&f, &late);
    assert_int_equal(sched_fixture_stats(&f).n_preempted, 0);
    sched_fixture_close(&f);
}

/* Cut back into a block of the tree, in a pool without room for the copy it then needs. */
static void one_that_lacks_the_room_for_a_copy_goes_on(void **state)
{
    struct sched_fixture f;
    struct sched_request r;

    (void)state;
    sched_fixture_open(&f, 2, NULL);
    f.policy = rv_tier_policy_single(RV_KV_BLOCK_F16);
    sched_fixture_start(&f, &r, ALICE, 2 * B - 1, 2 * B);
    assert_true(sched_fixture_step(&f));
    assert_true(sched_fixture_step(&f));
    assert_true(sched_request_is_done(&r));
    assert_int_equal(rv_kv_seq_trim(&r.request.kv, B + 10), B + 10);
    r.request.n_tokens = B + 11;
    assert_int_equal(rv_block_pool_n_free(f.pool), 0);
    sched_fixture_run(&f, &r, 2 * B);
    assert_true(kv_fixture_holds(&r.request.kv, r.tokens));
    sched_fixture_end(&f, &r);
    sched_fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_preempted_comes_back_and_says_the_same),
        cmocka_unit_test(the_youngest_gives_way_and_the_most_urgent_never_does),
        cmocka_unit_test(who_cannot_have_its_row_gives_its_blocks_back),
        cmocka_unit_test(its_own_blocks_are_found_again_after_a_preemption),
        cmocka_unit_test(all_rows_come_once_across_a_preemption),
        cmocka_unit_test(admission_leaves_a_block_to_each_of_those_that_run),
        cmocka_unit_test(what_running_prompts_still_need_is_not_given_away),
        cmocka_unit_test(one_that_lacks_the_room_for_a_copy_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
