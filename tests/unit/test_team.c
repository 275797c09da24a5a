/*
 * Every part of every round is computed once, whoever was asleep, and is seen by the caller when the round is over; and
 * helpers do help.
 */
#include "learn/team.h"
#include "support/test.h"

#include "base/rng.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { MAX_PARTS = 64, N_ROUNDS = 20000, MAX_TEAM = 5 };

struct work {
    int32_t n_threads;
    int32_t effort;
    int32_t seen[MAX_PARTS]; // plain: a part is one thread's, and the caller's once the round is over
    atomic_int n_busy[MAX_TEAM];
    atomic_int n_wrong; // parts on a thread that is none, or that computes another: helpers cannot assert
    atomic_int n_begun;
};

static void rest(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static void compute_part(void *work, int32_t part, int32_t thread)
{
    struct work *w = work;

    if (thread < 0 || thread >= w->n_threads || atomic_fetch_add(&w->n_busy[thread], 1) != 0) {
        atomic_fetch_add(&w->n_wrong, 1);
        return;
    }
    for (int i = 0; i < w->effort; i++)
        atomic_signal_fence(memory_order_seq_cst);
    w->seen[part]++;
    atomic_fetch_sub(&w->n_busy[thread], 1);
}

static void check_rounds(int32_t n_threads)
{
    struct rv_rng rng;
    struct rv_team *team;

    rv_rng_init(&rng, (uint64_t)n_threads);
    assert_ok(rv_team_open(&team, n_threads, n_threads % 2 == 0, err));
    assert_int_equal(rv_team_n_threads(team), n_threads);
    for (int round = 0; round < N_ROUNDS; round++) {
        struct work w = {.n_threads = n_threads, .effort = (int32_t)rv_rng_below(&rng, 50)};
        int32_t n_parts = (int32_t)rv_rng_below(&rng, MAX_PARTS + 1);

        rv_team_run(team, n_parts, compute_part, &w);
        for (int32_t i = 0; i < MAX_PARTS; i++)
            assert_int_equal(w.seen[i], i < n_parts);
        assert_int_equal(w.n_wrong, 0);
        memset(&w, 0xff, sizeof(w)); // whoever still touched it would be seen
        if (round % 500 == 0)
            rest(3000); // helpers fall asleep
    }
    rv_team_close(team);
}

static void every_part_is_computed_once(void **state)
{
    (void)state;
    for (int32_t n = 1; n <= MAX_TEAM; n++)
        check_rounds(n);
}

/* Parts that take long: the caller ends first and has to wait, asleep in the end. */
static void rest_part(void *work, int32_t part, int32_t thread)
{
    struct work *w = work;

    if (thread > 0)
        rest(5000);
    w->seen[part]++;
}

static void who_joined_is_waited_for(void **state)
{
    struct rv_team *team;

    (void)state;
    assert_ok(rv_team_open(&team, 3, false, err));
    for (int round = 0; round < 50; round++) {
        struct work w = {0};

        rv_team_run(team, 8, rest_part, &w);
        for (int32_t i = 0; i < 8; i++)
            assert_int_equal(w.seen[i], 1);
    }
    rv_team_close(team);
}

/* Until all parts have begun, which one thread alone never sees; for ten seconds at most. */
static void meet(void *work, int32_t part, int32_t thread)
{
    struct work *w = work;

    (void)thread;
    atomic_fetch_add(&w->n_begun, 1);
    for (int i = 0; i < 10000 && atomic_load(&w->n_begun) < w->n_threads; i++)
        rest(1000);
    w->seen[part] = atomic_load(&w->n_begun);
}

static void all_threads_of_a_team_compute(void **state)
{
    struct rv_team *team;

    (void)state;
    assert_ok(rv_team_open(&team, 3, false, err));
    for (int round = 0; round < 10; round++) {
        struct work w = {.n_threads = 3};

        rv_team_run(team, 3, meet, &w);
        for (int32_t i = 0; i < 3; i++)
            assert_int_equal(w.seen[i], 3);
        rest(round % 2 ? 3000 : 0); // asleep or not
    }
    rv_team_close(team);
}

static void a_team_can_end_at_any_time(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct rv_team *team;
        struct work w = {.n_threads = 4};

        assert_ok(rv_team_open(&team, 4, false, err));
        if (i % 2)
            rv_team_run(team, 4, compute_part, &w);
        if (i % 50 == 0)
            rest(3000);
        rv_team_close(team);
    }
    rv_team_close(NULL);
}

static void a_team_has_a_size(void **state)
{
    struct ruvllm_error error;
    struct rv_team *team;

    (void)state;
    assert_fails(rv_team_open(&team, 0, false, &error), RUVLLM_INVALID, error, "between 1 and 256");
    assert_fails(rv_team_open(&team, 257, false, &error), RUVLLM_INVALID, error, "between 1 and 256");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_is_computed_once),
        cmocka_unit_test(who_joined_is_waited_for),
        cmocka_unit_test(all_threads_of_a_team_compute),
        cmocka_unit_test(a_team_can_end_at_any_time),
        cmocka_unit_test(a_team_has_a_size),
    };

    return cmocka_run_group_tests_name("team", tests, NULL, NULL);
}
