/* Sequences that lose their blocks find them in the spill file; when they do not, it costs time and nothing else. */
#include "sched/scheduler.h"
#include "support/sched_fixture.h"
#include "support/spill_fixture.h"
#include "support/test.h"

enum { B = RV_KV_BLOCK_TOKENS, ALICE = 100, BOB = 200, MAX_REQUESTS = 4 };

/* A request that shares nothing, so that all it loses is in the file or nowhere. */
static void start(struct sched_fixture *f, struct sched_request *r, int32_t n_prompt, int32_t max_tokens)
{
    sched_request_init(f, r, ALICE, n_prompt, max_tokens);
    r->request.no_cache = true;
    sched_fixture_submit(f, r);
}

/* Preempts everybody that runs where there is one place, and leaves again. */
static void interrupt(struct sched_fixture *f)
{
    struct sched_request high;

    sched_request_init(f, &high, BOB, 20, 21);
    high.request.priority = 100; // each preemption makes the next one harder
    sched_fixture_submit(f, &high);
    sched_fixture_run(f, &high, 10);
    sched_fixture_end(f, &high);
}

static void finish(struct sched_fixture *f, struct sched_request *r)
{
    sched_fixture_run(f, r, 1000);
    assert_true(kv_fixture_holds(&r->request.kv, r->tokens));
    assert_int_equal(r->n_results, r->request.wants_all_rows ? r->max_tokens : r->max_tokens - r->request.n_prompt + 1);
    sched_fixture_end(f, r);
}

/* One place; a request of 200 tokens has it and has said 50 more. */
static void open_and_run(struct sched_fixture *f, struct sched_request *r, int32_t n_spilled, size_t step_bytes)
{
    struct rv_scheduler_config config = {.max_running = 1, .spill_step_bytes = step_bytes};

    sched_fixture_open_spilling(f, 64, &config, n_spilled);
    start(f, r, 200, 300);
    while (r->request.n_tokens < 250)
        assert_true(sched_fixture_step(f));
    assert_int_equal(r->request.kv.len, 249); // seven blocks and a part of one
}

static void what_was_spilled_is_not_computed_again(void **state)
{
    struct sched_fixture f;
    struct sched_request r;
    struct rv_scheduler_step step;

    (void)state;
    open_and_run(&f, &r, 64, 0);
    interrupt(&f);
    assert_int_equal(r.request.state, RV_REQUEST_WAITING);
    assert_int_equal(r.request.kv.n_blocks, 0);
    assert_int_equal(rv_spill_file_n_blocks(f.spill), 8);
    assert_int_equal(rv_request_n_pending(&r.request), 1);
    assert_true(sched_fixture_plan(&f, &step));
    assert_int_equal(step.n_rows, 1);
    assert_int_equal(r.request.kv.len, 249);
    assert_true(kv_fixture_holds(&r.request.kv, r.tokens));
    assert_int_equal(rv_spill_file_n_blocks(f.spill), 0);
    assert_int_equal(sched_fixture_stats(&f).n_spilled, 8);
    assert_int_equal(sched_fixture_stats(&f).n_restored, 8);
    sched_fixture_compute(&f, &step);
    finish(&f, &r);
    sched_fixture_close(&f);
}

/* Blocks run out all the time, and yet each token is computed once. */
static void under_pressure_every_token_is_computed_once(void **state)
{
    struct sched_fixture f;
    struct sched_request r[MAX_REQUESTS];
    int32_t n_rows = 0, n_done = 0;

    (void)state;
    sched_fixture_open_spilling(&f, 16, NULL, 64);
    f.policy = rv_tier_policy_single(RV_KV_BLOCK_F16);
    for (int i = 0; i < MAX_REQUESTS; i++)
        start(&f, &r[i], 60 + 10 * i, 300);
    while (n_done < MAX_REQUESTS) {
        struct rv_scheduler_step step;

        assert_true(sched_fixture_plan(&f, &step));
        n_rows += step.n_rows;
        sched_fixture_compute(&f, &step);
        sched_fixture_check(&f);
        for (int i = 0; i < MAX_REQUESTS; i++) {
            if (!r[i].tokens || !sched_request_is_done(&r[i]))
                continue;
            finish(&f, &r[i]);
            n_done++;
        }
    }
    assert_true(sched_fixture_stats(&f).n_preempted > 0);
    assert_int_equal(sched_fixture_stats(&f).n_restored, sched_fixture_stats(&f).n_spilled);
    assert_int_equal(n_rows, MAX_REQUESTS * 300);
    sched_fixture_close(&f);
}

/* Precision that had fallen comes back fallen. */
static void blocks_come_back_in_their_tiers(void **state)
{
    enum rv_kv_block_format formats[32] = {0};
    struct sched_fixture f;
    struct sched_request r;
    struct rv_scheduler_step step;
    int32_t n;

    (void)state;
    sched_fixture_open_spilling(&f, 64, &(struct rv_scheduler_config){.max_running = 1}, 64);
    start(&f, &r, 900, 1000);
    while (r.request.n_tokens < 920)
        assert_true(sched_fixture_step(&f));
    n = r.request.kv.n_blocks;
    for (int32_t i = 0; i < n; i++)
        formats[i] = rv_block_pool_format(f.pool, r.request.kv.blocks[i]);
    assert_int_equal(formats[1], RV_KV_BLOCK_Q4);
    interrupt(&f);
    assert_true(sched_fixture_plan(&f, &step));
    assert_int_equal(step.n_rows, 1);
    for (int32_t i = 0; i < n; i++)
        assert_int_equal(rv_block_pool_format(f.pool, r.request.kv.blocks[i]), formats[i]);
    sched_fixture_compute(&f, &step);
    finish(&f, &r);
    sched_fixture_close(&f);
}

static void what_the_tree_still_has_is_not_read(void **state)
{
    struct sched_fixture f;
    struct sched_request r;
    struct rv_scheduler_step step;

    (void)state;
    sched_fixture_open_spilling(&f, 64, &(struct rv_scheduler_config){.max_running = 1}, 64);
    sched_request_init(&f, &r, ALICE, 200, 300);
    sched_fixture_submit(&f, &r);
    while (r.request.n_tokens < 250)
        assert_true(sched_fixture_step(&f));
    interrupt(&f);
    assert_int_equal(rv_block_pool_n_idle(f.pool), 7);
    assert_int_equal(rv_prefix_tree_evict(f.tree, ALICE, 3), 3);
    assert_true(sched_fixture_plan(&f, &step));
    assert_int_equal(step.n_rows, 1);
    assert_int_equal(sched_fixture_stats(&f).n_spilled, 8);
    assert_int_equal(sched_fixture_stats(&f).n_restored, 4); // three, and the one that is not full
    assert_int_equal(rv_spill_file_n_blocks(f.spill), 0);
    sched_fixture_compute(&f, &step);
    finish(&f, &r);
    sched_fixture_close(&f);
}

static void a_full_file_keeps_the_beginning_and_the_rest_is_computed(void **state)
{
    struct sched_fixture f;
    struct sched_request r;
    struct rv_scheduler_step step;

    (void)state;
    open_and_run(&f, &r, 3, 0);
    interrupt(&f);
    assert_int_equal(rv_spill_file_n_blocks(f.spill), 3);
    assert_int_equal(rv_request_n_pending(&r.request), 250 - 3 * B);
    assert_true(sched_fixture_plan(&f, &step));
    assert_int_equal(step.pos[0], 3 * B);
    sched_fixture_compute(&f, &step);
    finish(&f, &r);
    sched_fixture_close(&f);
}

static void damaged_blocks_are_computed_again(void **state)
{
    struct sched_fixture f;
    struct sched_request r;
    struct rv_scheduler_step step;

    (void)state;
    open_and_run(&f, &r, 64, 0);
    interrupt(&f);
    spill_fixture_damage((off_t)(2 * rv_block_pool_block_bytes(f.pool, RV_KV_BLOCK_F16)), 1);
    assert_true(sched_fixture_plan(&f, &step));
    assert_int_equal(step.pos[0], 2 * B);
    assert_int_equal(sched_fixture_stats(&f).n_restored, 2);
    assert_int_equal(rv_spill_file_n_blocks(f.spill), 0);
    assert_int_equal(rv_spill_file_n_failed(f.spill), 1);
    sched_fixture_compute(&f, &step);
    finish(&f, &r);
    sched_fixture_close(&f);
}

static void without_a_working_disk_it_goes_on_as_without_a_file(void **state)
{
    struct sched_fixture f;
    struct sched_request r;
    int kept;

    (void)state;
    open_and_run(&f, &r, 64, 0);
    kept = spill_fixture_break();
    interrupt(&f);
    assert_int_equal(sched_fixture_stats(&f).n_spilled, 0);
    assert_int_equal(rv_spill_file_n_failed(f.spill), 1);
    assert_true(sched_fixture_step(&f));
    spill_fixture_mend(kept);
    interrupt(&f);
    assert_true(sched_fixture_stats(&f).n_spilled > 0);
    kept = spill_fixture_break();
    assert_true(sched_fixture_step(&f));
    assert_int_equal(sched_fixture_stats(&f).n_restored, 0);
    finish(&f, &r);
    spill_fixture_mend(kept);
    sched_fixture_close(&f);
}

static void who_leaves_while_waiting_leaves_nothing_in_the_file(void **state)
{
    struct sched_fixture f;
    struct sched_request r;

    (void)state;
    open_and_run(&f, &r, 64, 0);
    interrupt(&f);
    assert_int_equal(rv_spill_file_n_blocks(f.spill), 8);
    sched_fixture_end(&f, &r);
    assert_int_equal(rv_spill_file_n_blocks(f.spill), 0);
    sched_fixture_close(&f);
}

/* Others wait while a plan writes. */
static void a_plan_writes_no_more_than_it_may(void **state)
{
    struct sched_fixture f;
    struct sched_request r;
    size_t block = 16384;

    (void)state;
    open_and_run(&f, &r, 64, 5 * block + 1);
    assert_int_equal(rv_block_pool_block_bytes(f.pool, RV_KV_BLOCK_F16), block);
    interrupt(&f);
    assert_int_equal(rv_spill_file_n_blocks(f.spill), 5);
    finish(&f, &r);
    sched_fixture_close(&f);
}

/* Two have four blocks each in the file, written by two plans; a plan may read six. The first is always read. */
static void a_plan_reads_no_more_than_it_may(void **state)
{
    struct rv_scheduler_config config = {.max_running = 2, .spill_step_bytes = (size_t)6 * 16384};
    struct sched_request low[2], high[2];
    struct sched_fixture f;

    (void)state;
    sched_fixture_open_spilling(&f, 64, &config, 64);
    for (int i = 0; i < 2; i++)
        start(&f, &low[i], 100, 200);
    while (low[0].request.n_tokens < 102 || low[1].request.n_tokens < 102)
        assert_true(sched_fixture_step(&f));
    for (int i = 0; i < 2; i++) {
        sched_request_init(&f, &high[i], BOB, 20, 100);
        high[i].request.priority = 1;
        sched_fixture_submit(&f, &high[i]);
        assert_true(sched_fixture_step(&f));
    }
    assert_int_equal(rv_spill_file_n_blocks(f.spill), 8);
    for (int i = 0; i < 2; i++)
        sched_fixture_end(&f, &high[i]);
    for (int i = 0; i < 2; i++) {
        assert_true(sched_fixture_step(&f));
        assert_int_equal(sched_fixture_stats(&f).n_restored, 4 * (i + 1));
        assert_int_equal(sched_fixture_stats(&f).n_running, i + 1);
    }
    for (int i = 0; i < 2; i++)
        finish(&f, &low[i]);
    sched_fixture_close(&f);
}

static void every_row_is_a_result_once(void **state)
{
    struct sched_fixture f;
    struct sched_request r;

    (void)state;
    sched_fixture_open_spilling(&f, 64, &(struct rv_scheduler_config){.max_running = 1, .max_rows = 50}, 64);
    sched_request_init(&f, &r, ALICE, 500, 500);
    r.request.wants_all_rows = true;
    sched_fixture_submit(&f, &r);
    for (int i = 0; i < 5; i++) {
        assert_true(sched_fixture_step(&f));
        interrupt(&f);
    }
    sched_fixture_run(&f, &r, 30);
    for (int i = 0; i < 500; i++)
        assert_int_equal(r.results[i], 1);
    assert_true(sched_fixture_stats(&f).n_restored > 0);
    finish(&f, &r);
    sched_fixture_close(&f);
}

/* Reading is all or nothing: what would not fit stays where it is. */
static void what_waits_for_room_is_not_read(void **state)
{
    struct sched_fixture f;
    struct sched_request low, high;

    (void)state;
    sched_fixture_open_spilling(&f, 12, NULL, 64);
    f.policy = rv_tier_policy_single(RV_KV_BLOCK_F16);
    start(&f, &low, 6 * B, 8 * B);
    while (low.request.n_tokens < 7 * B)
        assert_true(sched_fixture_step(&f));
    sched_request_init(&f, &high, BOB, 8 * B, 10 * B);
    high.request.priority = 1;
    sched_fixture_submit(&f, &high);
    while (!sched_request_is_done(&high)) {
        assert_true(sched_fixture_step(&f));
        assert_int_equal(low.request.state, RV_REQUEST_WAITING);
        assert_int_equal(rv_spill_file_n_blocks(f.spill), 7);
    }
    assert_int_equal(sched_fixture_stats(&f).n_restored, 0);
    sched_fixture_end(&f, &high);
    finish(&f, &low);
    assert_int_equal(sched_fixture_stats(&f).n_restored, 7);
    sched_fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_spilled_is_not_computed_again),
        cmocka_unit_test(under_pressure_every_token_is_computed_once),
        cmocka_unit_test(blocks_come_back_in_their_tiers),
        cmocka_unit_test(what_the_tree_still_has_is_not_read),
        cmocka_unit_test(a_full_file_keeps_the_beginning_and_the_rest_is_computed),
        cmocka_unit_test(damaged_blocks_are_computed_again),
        cmocka_unit_test(without_a_working_disk_it_goes_on_as_without_a_file),
        cmocka_unit_test(who_leaves_while_waiting_leaves_nothing_in_the_file),
        cmocka_unit_test(a_plan_writes_no_more_than_it_may),
        cmocka_unit_test(a_plan_reads_no_more_than_it_may),
        cmocka_unit_test(every_row_is_a_result_once),
        cmocka_unit_test(what_waits_for_room_is_not_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
