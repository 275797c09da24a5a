/* Who runs, with how many rows, in which order. What happens when blocks run out is in test_scheduler_pressure.c. */
#include "sched/scheduler.h"
#include "support/sched_fixture.h"
#include "support/test.h"

#include <string.h>

enum { B = RV_KV_BLOCK_TOKENS, ALICE = 100, BOB = 200, MANY = 64 };

/* ---- steps ---------------------------------------------------------------------------------- */

static void a_prompt_is_computed_and_then_decoded_row_by_row(void **state)
{
    struct rv_scheduler_step step;
    struct sched_fixture f;
    struct sched_request r;

    (void)state;
    sched_fixture_open(&f, 64, NULL);
    assert_false(sched_fixture_plan(&f, &step));
    sched_fixture_start(&f, &r, ALICE, 100, 110);
    assert_true(sched_fixture_plan(&f, &step));
    assert_int_equal(sched_fixture_rows(&step, &r), 100);
    assert_int_equal(step.n_out, 1);
    assert_int_equal(step.out_rows[0], 99);
    sched_fixture_compute(&f, &step);
    for (int32_t pos = 100; pos < 110; pos++) {
        assert_true(sched_fixture_plan(&f, &step));
        assert_int_equal(step.n_rows, 1);
        assert_int_equal(step.pos[0], pos);
        sched_fixture_compute(&f, &step);
    }
    assert_true(sched_request_is_done(&r));
    assert_false(sched_fixture_plan(&f, &step)); // nothing to compute, though it is still in
    assert_true(kv_fixture_holds(&r.request.kv, r.tokens));
    sched_fixture_end(&f, &r);
    sched_fixture_close(&f);
}

static void every_decoding_sequence_has_a_row_in_every_step(void **state)
{
    struct sched_fixture f;
    struct sched_request r[4], late;
    struct rv_scheduler_step step;

    (void)state;
    sched_fixture_open(&f, 256, NULL);
    for (int i = 0; i < 4; i++)
        sched_fixture_start(&f, &r[i], ALICE, 10, 100);
    assert_true(sched_fixture_step(&f));
    sched_fixture_start(&f, &late, BOB, 1000, 1001);
    for (int i = 0; i < 10; i++) {
        assert_true(sched_fixture_plan(&f, &step));
        for (int k = 0; k < 4; k++) {
            assert_int_equal(sched_fixture_rows(&step, &r[k]), 1);
            assert_true(sched_fixture_part(&step, &r[k])->first_row < 4); // they come first
        }
        assert_int_equal(sched_fixture_rows(&step, &late), f.config.prefill_rows);
        sched_fixture_compute(&f, &step);
    }
    for (int k = 0; k < 4; k++)
        sched_fixture_end(&f, &r[k]);
    sched_fixture_end(&f, &late);
    sched_fixture_close(&f);
}

static void a_prompt_alone_takes_all_rows_and_another_makes_it_share(void **state)
{
    struct sched_fixture f;
    struct sched_request a, b;
    struct rv_scheduler_step step;

    (void)state;
    sched_fixture_open(&f, 256, NULL);
    f.policy = rv_tier_policy_single(RV_KV_BLOCK_F16); // no stride
    sched_fixture_start(&f, &a, ALICE, 2000, 2001);
    assert_true(sched_fixture_plan(&f, &step));
    assert_int_equal(sched_fixture_rows(&step, &a), f.config.max_rows);
    sched_fixture_compute(&f, &step);
    sched_fixture_start(&f, &b, BOB, 2000, 2001);
    assert_true(sched_fixture_plan(&f, &step));
    assert_int_equal(step.n_rows, f.config.prefill_rows);
    /* Alice was served 256, half a quantum: hers, having less left, goes on, and leaves a quarter. */
    assert_int_equal(sched_fixture_rows(&step, &a), f.config.prefill_rows * 3 / 4);
    assert_int_equal(sched_fixture_rows(&step, &b), f.config.prefill_rows / 4);
    sched_fixture_compute(&f, &step);
    sched_fixture_end(&f, &a);
    sched_fixture_end(&f, &b);
    sched_fixture_close(&f);
}

static void a_chunk_ends_where_blocks_change_their_tier(void **state)
{
    struct sched_fixture f;
    struct sched_request r;
    struct rv_scheduler_step step;

    (void)state;
    sched_fixture_open(&f, 64, NULL);
    sched_fixture_start(&f, &r, ALICE, 1000, 1001);
    while (r.request.kv.len < 896) {
        assert_true(sched_fixture_plan(&f, &step));
        assert_int_equal(step.n_rows, RV_KV_SEQ_STRIDE);
        sched_fixture_compute(&f, &step);
    }
    assert_true(sched_fixture_stats(&f).n_migrated > 0);
    sched_fixture_run(&f, &r, 10);
    sched_fixture_end(&f, &r);
    sched_fixture_close(&f);
}

/* The same for a tenant that has had much more than the other one. */
static void short_during_long(uint64_t short_tenant, int32_t n_warm)
{
    struct sched_fixture f;
    struct sched_request r, brief, warm;
    struct rv_scheduler_step step;

    sched_fixture_open(&f, 300, &(struct rv_scheduler_config){.prefill_rows = 128});
    sched_fixture_start(&f, &r, ALICE, 8000, 8001);
    if (n_warm > 0) {
        sched_fixture_start(&f, &warm, short_tenant, n_warm, n_warm + 1);
        sched_fixture_run(&f, &warm, 1000);
        sched_fixture_end(&f, &warm);
    }
    for (int i = 0; i < 20; i++)
        assert_true(sched_fixture_step(&f));
    assert_in_range(r.request.kv.len, 20 * 128, 8000 - 256);
    sched_fixture_start(&f, &brief, short_tenant, 24, 25);
    assert_true(sched_fixture_plan(&f, &step));
    assert_int_equal(sched_fixture_rows(&step, &brief), 24);
    assert_int_equal(sched_fixture_part(&step, &brief)->n_out, 1);
    assert_in_range(sched_fixture_rows(&step, &r), 1, 128 - 24);
    sched_fixture_compute(&f, &step);
    sched_fixture_end(&f, &r);
    sched_fixture_end(&f, &brief);
    sched_fixture_close(&f);
}

static void a_short_prompt_is_computed_in_the_step_after_it_came(void **state)
{
    (void)state;
    short_during_long(ALICE, 0);
    short_during_long(BOB, 0);
    short_during_long(BOB, 4000);
}

static void a_step_that_failed_is_planned_again(void **state)
{
    struct sched_fixture f;
    struct sched_request r;
    struct rv_scheduler_step step;
    int32_t n_free;

    (void)state;
    sched_fixture_open(&f, 64, NULL);
    sched_fixture_start(&f, &r, ALICE, 100, 200);
    assert_true(sched_fixture_plan(&f, &step));
    n_free = rv_block_pool_n_free(f.pool);
    assert_true(sched_fixture_plan(&f, &step));
    assert_int_equal(sched_fixture_rows(&step, &r), 100);
    assert_int_equal(rv_block_pool_n_free(f.pool), n_free);
    sched_fixture_compute(&f, &step);
    sched_fixture_run(&f, &r, 200);
    assert_true(kv_fixture_holds(&r.request.kv, r.tokens));
    sched_fixture_end(&f, &r);
    sched_fixture_close(&f);
}

static void a_request_may_leave_at_any_time(void **state)
{
    struct sched_fixture f;
    struct sched_request waits, prompt, decodes, planned, never = {0};
    struct rv_scheduler_step step;

    (void)state;
    sched_fixture_open(&f, 64, &(struct rv_scheduler_config){.max_running = 3});
    sched_fixture_start(&f, &decodes, ALICE, 5, 50);
    sched_fixture_start(&f, &planned, ALICE, 6, 50);
    assert_true(sched_fixture_step(&f));
    sched_fixture_start(&f, &prompt, ALICE, 500, 501);
    assert_true(sched_fixture_step(&f));
    sched_fixture_start(&f, &waits, ALICE, 500, 501);
    sched_request_init(&f, &never, ALICE, 5, 6);
    assert_true(sched_fixture_plan(&f, &step));
    assert_int_equal(step.n_parts, 3);
    sched_fixture_end(&f, &planned); // while the step is computed
    sched_fixture_compute(&f, &step);
    sched_fixture_check(&f);
    sched_fixture_end(&f, &waits);
    sched_fixture_end(&f, &prompt);
    sched_fixture_end(&f, &decodes);
    sched_fixture_end(&f, &never);
    sched_fixture_check(&f);
    assert_int_equal(sched_fixture_stats(&f).n_running + sched_fixture_stats(&f).n_waiting, 0);
    sched_fixture_close(&f);
}

/* How many of n tokens the tree has. */
static int32_t known_of(struct sched_fixture *f, const struct sched_request *r, const int32_t *tokens, int32_t n)
{
    int32_t blocks[16];

    assert_true(n <= 16 * B);
    return B * rv_prefix_tree_find(f->tree, &r->request.scope, tokens, n, blocks, NULL);
}

static void tokens_can_be_taken_back_between_steps(void **state)
{
    struct sched_fixture f;
    struct sched_request r;
    int32_t before[6 * B];

    (void)state;
    sched_fixture_open(&f, 64, NULL);
    sched_fixture_start(&f, &r, ALICE, 3 * B, 6 * B);
    for (int i = 0; i < 5; i++)
        assert_true(sched_fixture_step(&f));
    memcpy(before, r.tokens, 3 * B * sizeof(*before));
    /* Back into the second block, which the tree has; and on with other tokens. */
    assert_int_equal(rv_kv_seq_trim(&r.request.kv, B + 10), B + 10);
    r.request.n_tokens = B + 11;
    sched_request_change(&r, B + 10);
    sched_fixture_run(&f, &r, 500);
    assert_true(kv_fixture_holds(&r.request.kv, r.tokens));
    /* What was there is still found, what came instead too, and nothing that mixes them. */
    assert_int_equal(known_of(&f, &r, before, 3 * B), 3 * B);
    assert_int_equal(known_of(&f, &r, r.tokens, 6 * B), 6 * B);
    memcpy(before + 3 * B, r.tokens + 3 * B, 3 * B * sizeof(*before));
    assert_int_equal(known_of(&f, &r, before, 6 * B), 3 * B);
    sched_fixture_end(&f, &r);
    sched_fixture_close(&f);
}

/* ---- prefixes ------------------------------------------------------------------------------- */

static int32_t cached_of(struct sched_fixture *f, uint64_t tenant, int32_t n_prompt, int32_t n_same)
{
    struct sched_request r;
    struct rv_scheduler_step step;
    int32_t n_cached;

    sched_request_init(f, &r, tenant, n_prompt, n_prompt + 5);
    sched_request_begin_with(&r, 1, n_same);
    sched_fixture_submit(f, &r);
    assert_true(sched_fixture_plan(f, &step));
    n_cached = r.request.n_cached;
    assert_int_equal(n_cached, r.request.kv.len);
    assert_int_equal(step.pos[0], n_cached);
    sched_fixture_compute(f, &step);
    sched_fixture_run(f, &r, 100);
    assert_int_equal(r.request.n_cached, n_cached);
    assert_true(kv_fixture_holds(&r.request.kv, r.tokens));
    sched_fixture_end(f, &r);
    return n_cached;
}

static void a_prompt_seen_before_is_not_computed_again_but_for_its_end(void **state)
{
    struct sched_fixture f;

    (void)state;
    sched_fixture_open(&f, 64, NULL);
    assert_int_equal(cached_of(&f, ALICE, 4 * B, 4 * B), 0);
    assert_int_equal(cached_of(&f, ALICE, 4 * B, 4 * B), 3 * B); // the last token is computed: a result is wanted
    assert_int_equal(cached_of(&f, ALICE, 4 * B + 1, 4 * B), 4 * B);
    assert_int_equal(cached_of(&f, ALICE, 300, 2 * B + 7), 2 * B);
    assert_int_equal(cached_of(&f, ALICE, B, B), 0);
    assert_int_equal(cached_of(&f, BOB, 4 * B, 4 * B), 0);
    sched_fixture_close(&f);
}

static void blocks_are_shared_while_their_sequence_still_runs(void **state)
{
    struct sched_fixture f;
    struct sched_request a, b;

    (void)state;
    sched_fixture_open(&f, 64, NULL);
    sched_request_init(&f, &a, ALICE, 3 * B, 6 * B);
    sched_request_begin_with(&a, 1, 6 * B);
    sched_fixture_submit(&f, &a);
    while (a.request.kv.len < 4 * B) // what it generates can be shared too
        assert_true(sched_fixture_step(&f));
    sched_request_init(&f, &b, ALICE, 5 * B, 6 * B);
    sched_request_begin_with(&b, 1, 5 * B);
    sched_fixture_submit(&f, &b);
    assert_true(sched_fixture_step(&f));
    assert_int_equal(b.request.n_cached, 4 * B);
    for (int i = 0; i < 4; i++)
        assert_int_equal(a.request.kv.blocks[i], b.request.kv.blocks[i]);
    sched_fixture_run(&f, &a, 200);
    sched_fixture_run(&f, &b, 200);
    assert_true(kv_fixture_holds(&a.request.kv, a.tokens));
    assert_true(kv_fixture_holds(&b.request.kv, b.tokens));
    sched_fixture_end(&f, &a);
    sched_fixture_end(&f, &b);
    sched_fixture_close(&f);
}

static void who_wants_no_cache_takes_nothing_and_leaves_nothing(void **state)
{
    struct sched_fixture f;
    struct sched_request r;

    (void)state;
    sched_fixture_open(&f, 64, NULL);
    (void)cached_of(&f, ALICE, 4 * B, 4 * B);
    for (int i = 0; i < 2; i++) {
        sched_request_init(&f, &r, i == 0 ? ALICE : BOB, 4 * B, 5 * B);
        sched_request_begin_with(&r, 1, 4 * B);
        r.request.no_cache = true;
        sched_fixture_submit(&f, &r);
        sched_fixture_run(&f, &r, 100);
        assert_int_equal(r.request.n_cached, 0);
        sched_fixture_end(&f, &r);
    }
    assert_int_equal(cached_of(&f, BOB, 4 * B, 4 * B), 0);
    sched_fixture_close(&f);
}

static void who_wants_all_rows_gets_each_once(void **state)
{
    struct sched_fixture f;
    struct sched_request r;

    (void)state;
    sched_fixture_open(&f, 64, NULL);
    (void)cached_of(&f, ALICE, 4 * B, 4 * B);
    sched_request_init(&f, &r, ALICE, 200, 210);
    sched_request_begin_with(&r, 1, 4 * B);
    r.request.wants_all_rows = true;
    sched_fixture_submit(&f, &r);
    sched_fixture_run(&f, &r, 100);
    assert_int_equal(r.request.n_cached, 0); // what comes from the cache has no results
    assert_int_equal(r.n_results, 210);
    for (int i = 0; i < 210; i++)
        assert_int_equal(r.results[i], 1);
    sched_fixture_end(&f, &r);
    sched_fixture_close(&f);
}

/* ---- turns ---------------------------------------------------------------------------------- */

static void the_more_urgent_is_admitted_first(void **state)
{
    struct sched_fixture f;
    struct sched_request r[3];
    struct rv_scheduler_step step;

    (void)state;
    sched_fixture_open(&f, 64, &(struct rv_scheduler_config){.max_running = 1});
    for (int i = 0; i < 3; i++) {
        sched_request_init(&f, &r[i], ALICE, 20, 22);
        r[i].request.priority = i == 1;
        sched_fixture_submit(&f, &r[i]);
    }
    assert_true(sched_fixture_plan(&f, &step));
    assert_int_equal(step.n_parts, 1);
    assert_int_equal(sched_fixture_rows(&step, &r[1]), 20);
    sched_fixture_compute(&f, &step);
    sched_fixture_run(&f, &r[1], 10);
    sched_fixture_end(&f, &r[1]);
    sched_fixture_run(&f, &r[0], 10); // then who came first
    sched_fixture_end(&f, &r[0]);
    sched_fixture_end(&f, &r[2]);
    sched_fixture_close(&f);
}

/* Urgent requests keep coming, more than can be served; the other one is finished all the same. */
static void nobody_waits_for_ever(void **state)
{
    struct sched_fixture f;
    struct sched_request low, high[MANY] = {0};
    bool was_admitted = false;

    (void)state;
    sched_fixture_open(&f, 64, &(struct rv_scheduler_config){.max_running = 1, .max_waiting = 2 * MANY, .age_ms = 100});
    sched_fixture_start(&f, &low, ALICE, 40, 44);
    for (int i = 0; !sched_request_is_done(&low); i++) {
        struct sched_request *new = &high[i % MANY];

        if (new->tokens)
            sched_fixture_end(&f, new);
        sched_request_init(&f, new, BOB, 40, 44);
        new->request.priority = 3;
        sched_fixture_submit(&f, new);
        assert_true(sched_fixture_step(&f));
        for (int k = 0; k < MANY; k++) {
            if (high[k].tokens && sched_request_is_done(&high[k]))
                sched_fixture_end(&f, &high[k]);
        }
        if (low.request.was_admitted && !was_admitted)
            assert_in_range(f.now_us, 3 * 100 * 1000, 10 * 100 * 1000); // priority did count, and then waiting did
        was_admitted = low.request.was_admitted;
        assert_true(f.now_us < 5 * 1000 * 1000);
    }
    assert_in_range(low.request.n_preempted, 1, 3); // harder to move each time
    for (int i = 0; i < MANY; i++) {
        if (high[i].tokens)
            sched_fixture_end(&f, &high[i]);
    }
    sched_fixture_end(&f, &low);
    sched_fixture_close(&f);
}

/* A long prompt among short ones that never stop coming is not forgotten either. */
static void a_long_prompt_among_short_ones_goes_on(void **state)
{
    struct sched_fixture f;
    struct sched_request r, brief[MANY] = {0};

    (void)state;
    sched_fixture_open(&f, 128, &(struct rv_scheduler_config){.max_running = 16, .age_ms = 50});
    sched_fixture_start(&f, &r, ALICE, 1000, 1001);
    for (int i = 0; r.request.kv.len < 1000; i++) {
        assert_true(i < 1500); // four times as much is asked for as can be done, so it waits as long as the others
        for (int k = 0; k < MANY; k++) {
            if (brief[k].tokens && sched_request_is_done(&brief[k]))
                sched_fixture_end(&f, &brief[k]);
            if (!brief[k].tokens && k % 8 == i % 8)
                sched_fixture_start(&f, &brief[k], ALICE, 30, 31);
        }
        assert_true(sched_fixture_step(&f));
    }
    for (int k = 0; k < MANY; k++) {
        if (brief[k].tokens)
            sched_fixture_end(&f, &brief[k]);
    }
    sched_fixture_end(&f, &r);
    sched_fixture_close(&f);
}

/* Alice always has many waiting, Bob, whose share has this weight, a few. Returns tokens served to each. */
static void flood(int32_t n_steps, float weight, int32_t *of_alice, int32_t *of_bob)
{
    struct sched_fixture f;
    struct sched_request alice[MANY - 4] = {0}, bob[4] = {0};
    struct rv_scheduler_step step;

    *of_alice = *of_bob = 0;
    /* Hundreds of them wait for seconds, which is many steps of age. */
    sched_fixture_open(&f, 128, &(struct rv_scheduler_config){.max_running = 8, .age_ms = 100});
    for (int32_t i = 0; i < n_steps; i++) {
        for (int k = 0; k < MANY; k++) {
            struct sched_request *r = k < 4 ? &bob[k] : &alice[k - 4];

            if (r->tokens && sched_request_is_done(r))
                sched_fixture_end(&f, r);
            if (r->tokens)
                continue;
            sched_request_init(&f, r, k < 4 ? BOB : ALICE, 100, 104);
            r->request.share = k < 4 ? weight : 1;
            sched_fixture_submit(&f, r);
        }
        assert_true(sched_fixture_plan(&f, &step));
        for (int32_t k = 0; k < step.n_parts; k++)
            *(step.parts[k].request->scope.tenant == ALICE ? of_alice : of_bob) += step.parts[k].n_rows;
        sched_fixture_compute(&f, &step);
        f.now_us += 10000;
    }
    for (int k = 0; k < MANY; k++)
        sched_fixture_end(&f, k < 4 ? &bob[k] : &alice[k - 4]);
    sched_fixture_close(&f);
}

static void a_tenant_that_floods_gets_no_more_than_its_share(void **state)
{
    int32_t of_alice, of_bob;

    (void)state;
    flood(600, 1, &of_alice, &of_bob);
    /* Half each, give or take a quantum (512 tokens) and what decodes. */
    assert_true(of_alice + of_bob > 20000);
    assert_in_range(of_bob, (of_alice + of_bob) * 45 / 100, (of_alice + of_bob) * 55 / 100);
}

static void a_share_of_three_is_three_times_the_tokens(void **state)
{
    int32_t of_alice, of_bob;

    (void)state;
    flood(1200, 3, &of_alice, &of_bob);
    assert_in_range(of_bob * 100 / of_alice, 270, 330);
    flood(1200, 0.5F, &of_alice, &of_bob);
    assert_in_range(of_bob * 100 / of_alice, 45, 55);
}

/* ---- limits --------------------------------------------------------------------------------- */

static void a_full_queue_is_busy(void **state)
{
    struct sched_fixture f;
    struct sched_request r[4];
    struct ruvllm_error err;

    (void)state;
    sched_fixture_open(&f, 64, &(struct rv_scheduler_config){.max_waiting = 3});
    for (int i = 0; i < 3; i++)
        sched_fixture_start(&f, &r[i], ALICE, 10, 20);
    sched_request_init(&f, &r[3], ALICE, 10, 20);
    assert_fails(rv_scheduler_submit(f.scheduler, &r[3].request, 20, &err), RUVLLM_BUSY, err, "waiting");
    assert_int_equal(r[3].request.state, RV_REQUEST_OUT);
    assert_true(sched_fixture_step(&f));
    sched_fixture_submit(&f, &r[3]);
    for (int i = 0; i < 4; i++)
        sched_fixture_end(&f, &r[i]);
    sched_fixture_close(&f);
}

static void what_the_pool_can_never_hold_is_refused_and_the_rest_is_finished(void **state)
{
    enum { BLOCKS = 8, MOST = (2 + 2 * (BLOCKS - 2)) * B }; // first and last in F16, the rest at half size
    struct sched_fixture f;
    struct sched_request r, more;
    struct ruvllm_error err;

    (void)state;
    sched_fixture_open(&f, BLOCKS, NULL);
    sched_request_init(&f, &more, ALICE, 10, MOST + 1);
    assert_fails(rv_scheduler_submit(f.scheduler, &more.request, MOST + 1, &err), RUVLLM_TOO_LARGE, err, "tokens take");
    sched_fixture_end(&f, &more);
    sched_fixture_start(&f, &r, ALICE, 300, MOST);
    assert_true(sched_fixture_step(&f));
    sched_fixture_start(&f, &more, ALICE, 100, 200);
    sched_fixture_run(&f, &r, 1000);
    assert_true(kv_fixture_holds(&r.request.kv, r.tokens));
    assert_int_equal(r.request.n_preempted, 0);
    assert_true(sched_fixture_stats(&f).n_squeezed > 0);
    sched_fixture_end(&f, &r);
    sched_fixture_run(&f, &more, 1000);
    sched_fixture_end(&f, &more);
    sched_fixture_close(&f);
}

static void wrong_settings_are_refused(void **state)
{
    struct sched_fixture f;
    struct rv_scheduler *scheduler;
    struct rv_scheduler_config c;
    struct ruvllm_error err;

    (void)state;
    sched_fixture_open(&f, 8, NULL);
    c = f.config;
    c.max_running = 0;
    assert_fails(rv_scheduler_new(&scheduler, &c, &err), RUVLLM_INVALID, err, "max_running");
    c = f.config;
    c.max_rows = c.max_running - 1;
    assert_fails(rv_scheduler_new(&scheduler, &c, &err), RUVLLM_INVALID, err, "max_rows");
    c = f.config;
    c.max_waiting = 0;
    assert_fails(rv_scheduler_new(&scheduler, &c, &err), RUVLLM_INVALID, err, "max_waiting");
    c = f.config;
    c.prefill_rows = 0;
    assert_fails(rv_scheduler_new(&scheduler, &c, &err), RUVLLM_INVALID, err, "prefill_rows");
    assert_null(scheduler);
    sched_fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_is_computed_and_then_decoded_row_by_row),
        cmocka_unit_test(every_decoding_sequence_has_a_row_in_every_step),
        cmocka_unit_test(a_prompt_alone_takes_all_rows_and_another_makes_it_share),
        cmocka_unit_test(a_chunk_ends_where_blocks_change_their_tier),
        cmocka_unit_test(a_short_prompt_is_computed_in_the_step_after_it_came),
        cmocka_unit_test(a_step_that_failed_is_planned_again),
        cmocka_unit_test(a_request_may_leave_at_any_time),
        cmocka_unit_test(tokens_can_be_taken_back_between_steps),
        cmocka_unit_test(a_prompt_seen_before_is_not_computed_again_but_for_its_end),
        cmocka_unit_test(blocks_are_shared_while_their_sequence_still_runs),
        cmocka_unit_test(who_wants_no_cache_takes_nothing_and_leaves_nothing),
        cmocka_unit_test(who_wants_all_rows_gets_each_once),
        cmocka_unit_test(the_more_urgent_is_admitted_first),
        cmocka_unit_test(nobody_waits_for_ever),
        cmocka_unit_test(a_long_prompt_among_short_ones_goes_on),
        cmocka_unit_test(a_tenant_that_floods_gets_no_more_than_its_share),
        cmocka_unit_test(a_share_of_three_is_three_times_the_tokens),
        cmocka_unit_test(a_full_queue_is_busy),
        cmocka_unit_test(what_the_pool_can_never_hold_is_refused_and_the_rest_is_finished),
        cmocka_unit_test(wrong_settings_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
