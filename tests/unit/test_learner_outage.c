/*
 * PostgreSQL goes away while tenants learn. Who is in memory goes on and stays there; who is not is refused with a
 * sentence, and nothing of it is written; afterwards all is as if the refused had never been said. The measure is a
 * learner without a store that was told what was acknowledged. Runs under with_postgres.py alone.
 */
#include "base/clock.h"
#include "learn/learner.h"
#include "store/store_events.h"
#include "support/learn_fixture.h"
#include "support/store_fixture.h"

#include <string.h>
#include <time.h>

enum { DIMS = 32, ROWS = 12 };

static struct learn_fixture with(ruvllm_store *store, uint64_t tenant_bytes)
{
    return (struct learn_fixture){
        .n_dims = DIMS, .n_rows = ROWS, .rank = 2, .store = store, .tenant_bytes = tenant_bytes};
}

static ruvllm_status try_vote(struct rv_learner *learner, const char *tenant, uint64_t id,
                              struct rv_learner_result *result, struct ruvllm_error *err)
{
    const struct learn_fixture f = with(NULL, 0);

    learn_fixture_answer(learner, &f, tenant, id);
    return rv_learner_vote(learner, tenant, id, (double)(id % 5) / 4, result, err);
}

static void vote(struct rv_learner *learner, const char *tenant, uint64_t id)
{
    struct rv_learner_result result;

    assert_ok(try_vote(learner, tenant, id, &result, err));
}

static void expect_same(struct rv_learner *a, struct rv_learner *b, const char *tenant)
{
    int64_t of_a, of_b;
    uint64_t bits = learn_fixture_bits(a, tenant, &of_a);

    assert_true(bits == learn_fixture_bits(b, tenant, &of_b));
    assert_int_equal(of_a, of_b);
}

/* Until the server is reached again and has all that waited. */
static void wait_until_back(ruvllm_store *store)
{
    const struct timespec nap = {.tv_nsec = 50000000};
    int64_t until = rv_clock_us() + (int64_t)60 * 1000000, last;

    while (rv_store_events_last(store, "anna", &last, NULL) || rv_store_events_are_spooled(store)) {
        assert_true(rv_clock_us() < until);
        (void)nanosleep(&nap, NULL);
    }
}

static void who_is_not_in_memory_is_refused_and_nothing_else_happens(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    const struct learn_fixture small = with(store, 1), unbounded = with(NULL, 0); // nobody stays
    struct rv_learner *learner = learn_fixture_open(&small), *sure = learn_fixture_open(&unbounded);
    struct rv_event_writer_stats before, after;
    struct rv_learner_result result;
    struct rv_learner_voice voice;
    struct ruvllm_error failure = {0};
    int64_t last;

    (void)state;
    for (uint64_t id = 1; id <= 4; id++) {
        vote(learner, "anna", id);
        vote(sure, "anna", id);
    }
    vote(learner, "bert", 5); // anna goes
    assert_ok(rv_store_events_stats(store, &before, err));
    store_postgres_stop();
    for (uint64_t id = 6; id <= 7; id++) { // also when it is known to be away
        assert_fails(try_vote(learner, "anna", id, &result, &failure), RUVLLM_IO, failure,
                     "cannot read what was learned for tenant 'anna'");
        assert_int_equal(failure.kind, RUVLLM_ERROR_STORAGE);
        assert_true(result.seq == 0 && result.generation == 0);
    }
    assert_fails(rv_learner_voice(learner, "anna", &voice, &failure), RUVLLM_IO, failure, "anna");
    assert_true(!voice.head && !voice.deep && !voice.memory && voice.generation == 0);
    assert_ok(rv_store_events_stats(store, &after, err));
    assert_true(before.n_events == after.n_events && after.n_in_spool == 0 && after.n_spooled == 0);
    store_postgres_start();
    wait_until_back(store);
    assert_ok(rv_store_events_last(store, "anna", &last, err));
    assert_int_equal(last, 4);
    expect_same(learner, sure, "anna");
    assert_ok(rv_learner_vote(learner, "anna", 6, 0.25, &result, err)); // the same again, as it was refused
    assert_true(result.seq == 5 && result.generation == 5);
    vote(sure, "anna", 6);
    expect_same(learner, sure, "anna");
    rv_learner_free(learner);
    rv_learner_free(sure);
    ruvllm_store_close(store);
}

static void nobody_who_was_read_goes_while_it_is_away(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    const struct learn_fixture unbounded = with(NULL, 0);
    struct learn_fixture room_for_two = with(store, 0);
    struct rv_learner *sure = learn_fixture_open(&unbounded), *learner;
    struct rv_tenant_table_stats stats;
    struct rv_learner_result result;
    struct ruvllm_error failure = {0};

    (void)state;
    vote(sure, "anna", 1);
    rv_learner_tenants(sure, &stats);
    room_for_two.tenant_bytes = stats.n_bytes * 5 / 2;
    learner = learn_fixture_open(&room_for_two);
    vote(learner, "anna", 1);
    vote(learner, "bert", 2);
    vote(sure, "bert", 2);
    store_postgres_stop();
    assert_ok(try_vote(learner, "bert", 3, &result, err));
    assert_int_equal(result.seq, 0); // it waits
    vote(sure, "bert", 3);
    for (int i = 0; i < 8; i++) { // more than there is room for
        const char name[] = {'n', (char)('0' + i), '\0'};

        assert_fails(try_vote(learner, name, 10 + (uint64_t)i, &result, &failure), RUVLLM_IO, failure, name);
    }
    rv_learner_tenants(learner, &stats);
    assert_true(stats.n_gone >= 6); // those who were not read
    vote(learner, "anna", 4);
    vote(sure, "anna", 4);
    expect_same(learner, sure, "anna");
    expect_same(learner, sure, "bert");
    store_postgres_start();
    wait_until_back(store);
    rv_learner_free(learner);
    learner = learn_fixture_open(&room_for_two);
    expect_same(learner, sure, "anna"); // from the log
    expect_same(learner, sure, "bert");
    rv_learner_free(learner);
    rv_learner_free(sure);
    ruvllm_store_close(store);
}

/* Its pattern was made when the event had no number yet. */
static void a_vote_that_waited_is_forgotten_with_its_pattern(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    const struct learn_fixture here = with(store, 0);
    struct rv_learner *learner = learn_fixture_open(&here);
    struct rv_reasoning_pattern patterns[4];
    struct rv_learner_result result;
    size_t n;

    (void)state;
    vote(learner, "anna", 1);
    store_postgres_stop();
    assert_ok(try_vote(learner, "anna", 2, &result, err));
    assert_int_equal(result.seq, 0);
    store_postgres_start();
    wait_until_back(store);
    assert_ok(rv_reasoning_bank_flush(rv_learner_bank(learner), err));
    assert_ok(rv_learner_forget(learner, "anna", 2, &result, err));
    assert_ok(rv_reasoning_bank_list(rv_learner_bank(learner), "anna", patterns, 4, &n, NULL, err));
    assert_int_equal(n, 1);
    assert_int_equal(patterns[0].seq, 1);
    rv_learner_free(learner);
    ruvllm_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_not_in_memory_is_refused_and_nothing_else_happens),
        cmocka_unit_test(nobody_who_was_read_goes_while_it_is_away),
        cmocka_unit_test(a_vote_that_waited_is_forgotten_with_its_pattern),
    };

    if (!store_is_postgres())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
