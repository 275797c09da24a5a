/*
 * Two learners with a store handle each, as two servers have them, on the kind of store this run is about. What one is
 * taught the other answers with, to the bit, a moment later; and nobody pays for what he did himself.
 *
 * The linker puts our rv_store_events_replay and rv_store_learner_look before the store's, to count who reads.
 */
#include "base/clock.h"
#include "learn/learner_tenant.h"
#include "store/store_events.h"
#include "store/store_learner.h"
#include "support/learn_fixture.h"
#include "support/store_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { DIMS = 32, ROWS = 12 };

/* News are there in some tens of milliseconds; a busy machine may take a processor away for longer. */
static const int64_t SOON_US = TEST_SANITIZED(20, 10) * (int64_t)1000000;

static _Atomic int n_replays, n_looks;
static _Atomic int look_ms;                    // that the store takes for an answer
static _Atomic(struct ruvllm_store *) away_of; // whose log cannot be read

ruvllm_status __real_rv_store_events_replay(struct ruvllm_store *store, const char *tenant, int64_t after,
                                            rv_store_events_fn fn, void *user, struct ruvllm_error *err);
ruvllm_status __wrap_rv_store_events_replay(struct ruvllm_store *store, const char *tenant, int64_t after,
                                            rv_store_events_fn fn, void *user, struct ruvllm_error *err);
ruvllm_status __real_rv_store_learner_look(struct ruvllm_store *store, const char *tenant, const char *model,
                                           struct rv_store_look *out, struct ruvllm_error *err);
ruvllm_status __wrap_rv_store_learner_look(struct ruvllm_store *store, const char *tenant, const char *model,
                                           struct rv_store_look *out, struct ruvllm_error *err);

ruvllm_status __wrap_rv_store_events_replay(struct ruvllm_store *store, const char *tenant, int64_t after,
                                            rv_store_events_fn fn, void *user, struct ruvllm_error *err)
{
    n_replays++;
    if (store == away_of)
        return rv_fail(err, RUVLLM_IO, "the log is away");
    return __real_rv_store_events_replay(store, tenant, after, fn, user, err);
}

static void rest(int ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    nanosleep(&pause, NULL);
}

ruvllm_status __wrap_rv_store_learner_look(struct ruvllm_store *store, const char *tenant, const char *model,
                                           struct rv_store_look *out, struct ruvllm_error *err)
{
    n_looks++;
    rest(look_ms);
    return __real_rv_store_learner_look(store, tenant, model, out, err);
}

/* ---- two of them ---------------------------------------------------------------------------- */

static const struct learn_fixture shape = {.n_dims = DIMS, .n_rows = ROWS, .rank = 2};

struct replica {
    ruvllm_store *store;
    struct rv_learner *learner;
};

static struct replica open_replica(const char *url, uint64_t tenant_bytes)
{
    struct replica r = {.store = store_open(url)};
    struct learn_fixture f = shape;

    f.store = r.store;
    f.tenant_bytes = tenant_bytes;
    r.learner = learn_fixture_open(&f);
    assert_ok(rv_learner_follow(r.learner, err));
    return r;
}

static void close_replica(struct replica *r)
{
    rv_learner_free(r->learner);
    ruvllm_store_close(r->store);
}

/* Until whoever begins to listen has been told that he missed all before. */
static void wait_until_listening(const struct replica *r)
{
    int64_t until = rv_clock_us() + SOON_US;

    while (!r->learner->n_missed) {
        assert_true(rv_clock_us() < until);
        rest(5);
    }
}

static void open_both(struct replica *a, struct replica *b, const char *url)
{
    *a = open_replica(url, 0);
    *b = open_replica(url, 0);
    wait_until_listening(a);
    wait_until_listening(b);
}

static int64_t vote(struct rv_learner *learner, const char *tenant, uint64_t id)
{
    struct rv_learner_result result;

    learn_fixture_answer(learner, &shape, tenant, id);
    assert_ok(rv_learner_vote(learner, tenant, id, (double)(id % 5) / 4, &result, err));
    return result.seq;
}

static void correct(struct rv_learner *learner, const char *tenant, uint64_t id)
{
    struct rv_learner_lesson lesson = {.kind = RV_STORE_EVENT_CORRECTION, .correction = {.data = "so", .len = 2}};
    struct rv_learner_result result;
    struct rv_trace *good;

    learn_fixture_answer(learner, &shape, tenant, id);
    good = rv_trace_ring_find(rv_learner_traces(learner), id, tenant);
    lesson.lesson.good = good;
    assert_ok(rv_learner_teach(learner, tenant, &lesson, &result, err));
    rv_trace_unref(good);
}

/* Asks the second until it answers as the first does. */
static void expect_followed(struct rv_learner *first, struct rv_learner *second, const char *tenant)
{
    int64_t began = rv_clock_us(), generation, wanted;
    uint64_t bits = learn_fixture_bits(first, tenant, &wanted);

    while (learn_fixture_bits(second, tenant, &generation) != bits || generation != wanted) {
        if (rv_clock_us() - began > SOON_US)
            fail_msg("generation %lld is not answered with, but %lld", (long long)wanted, (long long)generation);
        rest(2);
    }
    print_message("generation %lld after %.1f ms\n", (long long)wanted, (double)(rv_clock_us() - began) / 1000);
}

/* And both are what the log gives to somebody who comes now. */
static void expect_as_the_log(struct rv_learner *learner, const char *url, const char *tenant)
{
    ruvllm_store *store = store_open(url);
    struct learn_fixture f = shape;
    struct rv_learner *fresh;
    int64_t of_log, here;
    uint64_t bits;

    f.store = store;
    fresh = learn_fixture_open(&f);
    bits = learn_fixture_bits(fresh, tenant, &of_log);
    assert_true(learn_fixture_bits(learner, tenant, &here) == bits);
    assert_int_equal(here, of_log);
    rv_learner_free(fresh);
    ruvllm_store_close(store);
}

/* ---- what the other does -------------------------------------------------------------------- */

static void what_one_is_taught_the_other_answers_with(void **state)
{
    const char *url = store_temp_url();
    struct rv_learner_result result;
    struct replica a, b;

    (void)state;
    open_both(&a, &b, url);
    learn_fixture_bits(b.learner, "anna", NULL); // is in memory there
    vote(a.learner, "anna", 1);
    expect_followed(a.learner, b.learner, "anna");
    correct(a.learner, "anna", 2);
    expect_followed(a.learner, b.learner, "anna");
    vote(b.learner, "anna", 3); // and the other way
    expect_followed(b.learner, a.learner, "anna");
    assert_ok(rv_learner_go_back(a.learner, "anna", 1, &result, err));
    assert_int_equal(result.generation, 4);
    expect_followed(a.learner, b.learner, "anna");
    expect_as_the_log(b.learner, url, "anna");
    close_replica(&a);
    close_replica(&b);
}

static void expect_patterns(struct rv_learner *learner, size_t wanted)
{
    struct rv_reasoning_pattern patterns[8];
    int64_t until = rv_clock_us() + SOON_US;
    size_t n;

    do {
        assert_true(rv_clock_us() < until);
        assert_ok(rv_reasoning_bank_list(rv_learner_bank(learner), "anna", patterns, 8, &n, NULL, err));
        rest(2);
    } while (n != wanted);
}

static void forgetting_is_heeded(void **state)
{
    const char *url = store_temp_url();
    struct rv_learner_result result;
    struct replica a, b;
    int64_t seq;

    (void)state;
    open_both(&a, &b, url);
    vote(a.learner, "anna", 1);
    seq = vote(a.learner, "anna", 2);
    vote(a.learner, "anna", 3);
    assert_ok(rv_reasoning_bank_flush(rv_learner_bank(a.learner), err));
    expect_followed(a.learner, b.learner, "anna");
    expect_patterns(b.learner, 3); // in memory there, as the state is
    assert_ok(rv_learner_forget(a.learner, "anna", seq, &result, err));
    expect_followed(a.learner, b.learner, "anna");
    expect_as_the_log(b.learner, url, "anna");
    expect_patterns(b.learner, 2);
    assert_ok(rv_reasoning_bank_forget(rv_learner_bank(a.learner), "anna", 0, 0, err));
    expect_patterns(b.learner, 0);
    close_replica(&a);
    close_replica(&b);
}

static void pausing_is_heeded_and_ends(void **state)
{
    const char *url = store_temp_url();
    struct rv_learner_summary summary;
    struct rv_learner_result result;
    struct ruvllm_error failure = {0};
    struct replica a, b;
    int64_t until;

    (void)state;
    open_both(&a, &b, url);
    vote(b.learner, "anna", 1);
    for (int i = 0; i < 2; i++) {
        assert_ok(rv_learner_pause(a.learner, "anna", i == 0, err));
        until = rv_clock_us() + SOON_US;
        do {
            assert_true(rv_clock_us() < until);
            assert_ok(rv_learner_sum_up(b.learner, "anna", &summary, err));
        } while (summary.is_paused != (i == 0));
        learn_fixture_answer(b.learner, &shape, "anna", 2);
        if (i == 0)
            assert_fails(rv_learner_vote(b.learner, "anna", 2, 1, &result, &failure), RUVLLM_CONFLICT, failure,
                         "paused");
        else
            assert_ok(rv_learner_vote(b.learner, "anna", 2, 1, &result, err));
    }
    close_replica(&a);
    close_replica(&b);
}

struct voter {
    struct rv_learner *learner;
    uint64_t first;
};

static void *vote_often(void *arg)
{
    const struct voter *v = arg;

    for (uint64_t i = 0; i < 40; i++) {
        vote(v->learner, "anna", v->first + i);
        learn_fixture_bits(v->learner, "anna", NULL);
    }
    return NULL;
}

static void both_may_teach_at_once(void **state)
{
    const char *url = store_temp_url();
    struct replica a, b;
    struct voter voters[4];
    pthread_t threads[4];
    int64_t last;

    (void)state;
    open_both(&a, &b, url);
    for (int i = 0; i < 4; i++) {
        voters[i] = (struct voter){.learner = i % 2 ? a.learner : b.learner, .first = 1 + 1000 * (uint64_t)i};
        assert_int_equal(pthread_create(&threads[i], NULL, vote_often, &voters[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_ok(rv_store_events_last(a.store, "anna", &last, err));
    assert_int_equal(last, 160);
    rest(300); // news of the last ones
    expect_followed(a.learner, b.learner, "anna");
    expect_as_the_log(a.learner, url, "anna");
    expect_as_the_log(b.learner, url, "anna");
    close_replica(&a);
    close_replica(&b);
}

/* ---- who pays ------------------------------------------------------------------------------- */

static void nobody_reads_again_what_he_did_himself(void **state)
{
    const char *url = store_temp_url();
    struct replica a, b;
    int replays, looks;

    (void)state;
    open_both(&a, &b, url);
    learn_fixture_bits(a.learner, "anna", NULL);
    replays = n_replays;
    looks = n_looks;
    for (uint64_t id = 1; id <= 50; id++)
        vote(a.learner, "anna", id);
    rest(400); // the news of it have come
    learn_fixture_bits(a.learner, "anna", NULL);
    vote(a.learner, "anna", 51);
    assert_int_equal(n_replays, replays);
    assert_int_equal(n_looks, looks);
    assert_ok(rv_learner_pause(a.learner, "anna", true, err));
    rest(400);
    learn_fixture_bits(a.learner, "anna", NULL);
    learn_fixture_bits(a.learner, "anna", NULL);
    assert_int_equal(n_replays, replays);
    assert_int_equal(n_looks, looks + 1); // one question, and once, by nobody who answers
    close_replica(&a);
    close_replica(&b);
}

/* The bits that the tenant is answered with; at once. */
static uint64_t bits_at_once(struct rv_learner *learner, const char *tenant)
{
    int64_t began = rv_clock_us();
    uint64_t bits = learn_fixture_bits(learner, tenant, NULL);

    assert_true(rv_clock_us() - began < 500000);
    return bits;
}

static void answers_do_not_wait_for_the_store(void **state)
{
    const char *url = store_temp_url();
    struct replica a, b;
    uint64_t before;

    (void)state;
    open_both(&a, &b, url);
    before = learn_fixture_bits(b.learner, "anna", NULL);
    look_ms = 2000;
    vote(a.learner, "anna", 1);
    rest(400); // who follows waits for the store now
    assert_true(bits_at_once(b.learner, "anna") == before);
    look_ms = 0;
    expect_followed(a.learner, b.learner, "anna");
    close_replica(&a);
    close_replica(&b);
}

/* What was forgotten elsewhere is known here, but not what is left of the log: answers go on with what they had. */
static void who_cannot_be_read_anew_goes_on(void **state)
{
    const char *url = store_temp_url();
    struct rv_learner_result result;
    struct replica a, b;
    uint64_t before;

    (void)state;
    open_both(&a, &b, url);
    learn_fixture_bits(b.learner, "anna", NULL);
    vote(a.learner, "anna", 1);
    vote(a.learner, "anna", 2);
    expect_followed(a.learner, b.learner, "anna");
    before = learn_fixture_bits(b.learner, "anna", NULL);
    away_of = b.store;
    assert_ok(rv_learner_forget(a.learner, "anna", 1, &result, err));
    rest(400);
    for (int i = 0; i < 3; i++)
        assert_true(bits_at_once(b.learner, "anna") == before);
    away_of = NULL;
    expect_followed(a.learner, b.learner, "anna"); // by itself
    expect_as_the_log(b.learner, url, "anna");
    close_replica(&a);
    close_replica(&b);
}

static void who_is_not_in_memory_costs_nothing(void **state)
{
    const char *url = store_temp_url();
    struct rv_tenant_table_stats before, after;
    struct replica a, b;
    int replays, looks;

    (void)state;
    open_both(&a, &b, url);
    learn_fixture_bits(b.learner, "bert", NULL);
    rv_learner_tenants(b.learner, &before);
    for (uint64_t id = 1; id <= 20; id++) {
        const char name[] = {'n', (char)('a' + id), '\0'};

        vote(a.learner, name, id);
    }
    replays = n_replays;
    looks = n_looks;
    rest(400);
    learn_fixture_bits(b.learner, "bert", NULL); // nor does it cost others
    rv_learner_tenants(b.learner, &after);
    assert_true(before.n == after.n && before.n_bytes == after.n_bytes);
    assert_int_equal(n_replays, replays);
    assert_int_equal(n_looks, looks);
    close_replica(&a);
    close_replica(&b);
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void expect_prompt_end(struct replica *r, int64_t at_most_us)
{
    int64_t began = rv_clock_us();

    rv_learner_free(r->learner);
    print_message("ended after %.1f ms\n", (double)(rv_clock_us() - began) / 1000);
    assert_true(rv_clock_us() - began < at_most_us);
    ruvllm_store_close(r->store);
}

static void ending_is_prompt(void **state)
{
    const char *url = store_temp_url();
    struct replica r;

    (void)state;
    for (int i = 0; i < 5; i++) { // while it begins, and while it waits
        r = open_replica(url, 0);
        if (i % 2)
            wait_until_listening(&r);
        expect_prompt_end(&r, SOON_US / 2);
    }
}

/* ---- a server that goes away ---------------------------------------------------------------- */

static void who_cannot_listen_goes_on_and_listens_later(void **state)
{
    char url[320];
    struct rv_learner_result result;
    struct replica a, b;
    int64_t until, last, generation = 0;

    (void)state;
    snprintf(url, sizeof(url), "%s&connect_timeout=2", store_temp_url());
    a = open_replica(url, 0);
    wait_until_listening(&a);
    vote(a.learner, "anna", 1);
    b = open_replica(url, 0);
    wait_until_listening(&b);
    expect_followed(a.learner, b.learner, "anna");
    vote(a.learner, "anna", 2); // news that may come before the end or not
    store_postgres_stop();
    rest(300);
    learn_fixture_answer(b.learner, &shape, "anna", 3);
    assert_ok(rv_learner_vote(b.learner, "anna", 3, 1, &result, err)); // is in memory: it goes on
    assert_int_equal(result.seq, 0);
    store_postgres_start();
    until = rv_clock_us() + (int64_t)60 * 1000000;
    while (rv_store_events_last(b.store, "anna", &last, NULL) || rv_store_events_are_spooled(b.store) ||
           rv_store_events_last(a.store, "anna", &last, NULL) || last != 3 || a.learner->n_missed < 2 ||
           b.learner->n_missed < 2 || generation != 3) {
        assert_true(rv_clock_us() < until);
        rest(50);
        learn_fixture_bits(a.learner, "anna", &generation);
    }
    expect_followed(a.learner, b.learner, "anna");
    expect_as_the_log(b.learner, url, "anna");
    store_postgres_freeze();
    rest(1500);
    expect_prompt_end(&b, 20 * (int64_t)1000000); // what a server has that does not answer
    store_postgres_thaw();
    store_postgres_stop();
    rest(1500);
    expect_prompt_end(&a, SOON_US / 2);
    store_postgres_start();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_one_is_taught_the_other_answers_with),
        cmocka_unit_test(forgetting_is_heeded),
        cmocka_unit_test(pausing_is_heeded_and_ends),
        cmocka_unit_test(both_may_teach_at_once),
        cmocka_unit_test(nobody_reads_again_what_he_did_himself),
        cmocka_unit_test(answers_do_not_wait_for_the_store),
        cmocka_unit_test(who_cannot_be_read_anew_goes_on),
        cmocka_unit_test(who_is_not_in_memory_costs_nothing),
        cmocka_unit_test(ending_is_prompt),
    };
    const struct CMUnitTest server[] = {
        cmocka_unit_test(who_cannot_listen_goes_on_and_listens_later),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    return failed + (store_is_postgres() ? cmocka_run_group_tests(server, NULL, NULL) : 0);
}
