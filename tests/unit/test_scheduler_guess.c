/* Guesses in the scheduler: they take rows that nobody else wants, and what was wrong leaves nothing behind. */
#include "base/rng.h"
#include "sched/scheduler.h"
#include "support/sched_fixture.h"
#include "support/test.h"

enum { B = RV_KV_BLOCK_TOKENS, ALICE = 100 };

static void guesses_are_rows_of_the_same_step(void **state)
{
    struct sched_fixture f;
    struct sched_request r;
    struct rv_scheduler_step step;

    (void)state;
    sched_fixture_open(&f, 32, NULL);
    sched_fixture_start(&f, &r, ALICE, 40, 200);
    assert_true(sched_fixture_step(&f));
    assert_int_equal(r.request.n_tokens, 41);
    sched_request_guess(&r, 3, 2);
    assert_true(sched_fixture_plan(&f, &step));
    assert_int_equal(step.n_rows, 6);
    assert_int_equal(step.n_out, 6);
    sched_fixture_compute(&f, &step);
    /* Three guesses held, and the token behind them is known. */
    assert_int_equal(r.request.n_tokens, 45);
    assert_int_equal(r.request.kv.len, 44);
    assert_true(kv_fixture_holds(&r.request.kv, r.tokens));
    sched_fixture_run(&f, &r, 400);
    sched_fixture_end(&f, &r);
    sched_fixture_close(&f);
}

/* Where blocks change their tier, what lies before must be certain. */
static void guesses_end_before_blocks_change_their_tier(void **state)
{
    struct sched_fixture f;
    struct sched_request r;
    struct rv_scheduler_step step;

    (void)state;
    sched_fixture_open(&f, 64, NULL);
    sched_fixture_start(&f, &r, ALICE, RV_KV_SEQ_STRIDE - 4, 300);
    assert_true(sched_fixture_step(&f));
    while (r.request.kv.len < RV_KV_SEQ_STRIDE) {
        int32_t room = rv_kv_seq_room(&r.request.kv);

        sched_request_guess(&r, 8, 0);
        assert_true(sched_fixture_plan(&f, &step));
        assert_int_equal(step.n_rows, room > 2 ? room - 1 : 1);
        sched_fixture_compute(&f, &step);
    }
    sched_fixture_run(&f, &r, 400);
    sched_fixture_end(&f, &r);
    sched_fixture_close(&f);
}

static void nobody_gives_way_to_a_guess(void **state)
{
    struct sched_fixture f;
    struct sched_request r[2];
    struct rv_scheduler_step step;

    (void)state;
    sched_fixture_open(&f, 7, NULL);
    f.policy = rv_tier_policy_single(RV_KV_BLOCK_F16);
    for (int i = 0; i < 2; i++)
        sched_fixture_start(&f, &r[i], ALICE, B, 4 * B);
    while (r[0].request.kv.len < 3 * B - 2 || r[1].request.kv.len < 3 * B - 2)
        assert_true(sched_fixture_step(&f));
    assert_int_equal(rv_block_pool_n_free(f.pool), 1);
    for (int i = 0; i < 2; i++)
        sched_request_guess(&r[i], 0, 8);
    assert_true(sched_fixture_plan(&f, &step));
    assert_int_equal(step.n_rows, 9 + 1); // there is a block for one of them
    sched_fixture_compute(&f, &step);
    assert_int_equal(sched_fixture_stats(&f).n_preempted, 0);
    for (int i = 0; i < 2; i++) {
        sched_fixture_run(&f, &r[i], 400);
        sched_fixture_end(&f, &r[i]);
    }
    sched_fixture_close(&f);
}

/* Many, with too little room, prefixes in common and guesses of all kinds: everybody's blocks hold what was said. */
static void any_guesses_under_pressure_change_nothing(void **state)
{
    enum { N = 6, LEN = 260 };
    struct rv_rng rng;
    struct sched_fixture f;
    struct sched_request r[N] = {0};
    int n_done = 0, n_guessed = 0;

    (void)state;
    rv_rng_init(&rng, 7);
    sched_fixture_open(&f, 24, NULL);
    for (int i = 0; i < N; i++) {
        sched_request_init(&f, &r[i], ALICE, 50 + 7 * i, LEN);
        sched_request_begin_with(&r[i], 1, 40);
        sched_fixture_submit(&f, &r[i]);
    }
    for (int n_steps = 0; n_done < N; n_steps++) {
        assert_true(n_steps < 5000);
        for (int i = 0; i < N; i++) {
            if (r[i].tokens)
                sched_request_guess(&r[i], (int32_t)rv_rng_below(&rng, 5), (int32_t)rv_rng_below(&rng, 5));
            n_guessed += r[i].tokens ? r[i].request.n_guessed : 0;
        }
        assert_true(sched_fixture_step(&f));
        sched_fixture_check(&f);
        for (int i = 0; i < N; i++) {
            if (!r[i].tokens)
                continue;
            assert_true(kv_fixture_holds(&r[i].request.kv, r[i].tokens));
            if (!sched_request_is_done(&r[i]))
                continue;
            sched_fixture_end(&f, &r[i]);
            n_done++;
        }
    }
    assert_true(n_guessed > 100);
    sched_fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guesses_are_rows_of_the_same_step),
        cmocka_unit_test(guesses_end_before_blocks_change_their_tier),
        cmocka_unit_test(nobody_gives_way_to_a_guess),
        cmocka_unit_test(any_guesses_under_pressure_change_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
