/* Where learning stands and who may go on with it, on the kind of store this run is about. */
#include "store/store_learner.h"
#include "support/store_fixture.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void the_state_comes_back(void **state)
{
    const char *url = store_temp_url();
    ruvllm_store *store = store_open(url);
    struct rv_store_learner l, got;

    (void)state;
    assert_ok(rv_store_learner_get(store, "acme", "m", &l, err));
    assert_true(l.applied_seq == 0 && l.mean == 0 && !l.is_paused && l.extra_len == 0);
    assert_string_equal(l.tenant, "acme");
    l.applied_seq = 42;
    l.n_votes = 17;
    l.mean = 0.1 + 0.2;
    l.deviation = 1e-300;
    l.kl_spent = 0.019;
    l.is_paused = true;
    l.extra_len = 5;
    memcpy(l.extra, "\0\1\2\3\xFF", 5);
    assert_ok(rv_store_learner_put(store, &l, err));
    l.applied_seq = 43;
    assert_ok(rv_store_learner_put(store, &l, err)); // in place of the first
    ruvllm_store_close(store);
    store = store_open(url);
    assert_ok(rv_store_learner_get(store, "acme", "m", &got, err));
    assert_int_equal(got.applied_seq, 43);
    assert_int_equal(got.n_votes, 17);
    assert_true(got.mean == l.mean && got.deviation == l.deviation && got.kl_spent == l.kl_spent && got.is_paused);
    assert_int_equal(got.extra_len, 5);
    assert_memory_equal(got.extra, l.extra, 5);
    assert_true(got.updated_us == l.updated_us);
    assert_ok(rv_store_learner_get(store, "acme", "other", &got, err));
    assert_int_equal(got.applied_seq, 0);
    ruvllm_store_close(store);
}

static void a_wrong_state_is_refused(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct rv_store_learner l;
    struct ruvllm_error failure = {0};

    (void)state;
    assert_ok(rv_store_learner_get(store, "acme", "m", &l, err));
    l.mean = (double)NAN;
    assert_fails(rv_store_learner_put(store, &l, &failure), RUVLLM_INVALID, failure, "finite");
    l.mean = 0;
    l.applied_seq = -1;
    assert_fails(rv_store_learner_put(store, &l, &failure), RUVLLM_INVALID, failure, "negative");
    l.applied_seq = 0;
    l.extra_len = RV_STORE_EXTRA_MAX + 1;
    assert_fails(rv_store_learner_put(store, &l, &failure), RUVLLM_TOO_LARGE, failure, "more than");
    assert_fails(rv_store_learner_get(store, "", "m", &l, &failure), RUVLLM_INVALID, failure, "a tenant");
    ruvllm_store_close(store);
}

static enum rv_store_claimed take(ruvllm_store *store, const char *tenant, const char *model)
{
    enum rv_store_claimed claimed;

    assert_ok(rv_store_learner_take(store, tenant, model, &claimed, err));
    return claimed;
}

static void one_teaches_at_a_time(void **state)
{
    const char *url = store_temp_url();
    ruvllm_store *here = store_open(url), *there = store_open(url);

    (void)state;
    assert_int_equal(take(here, "acme", "m"), RV_STORE_CLAIM_TAKEN);
    assert_int_equal(take(here, "acme", "m"), RV_STORE_CLAIM_KEPT);
    assert_int_equal(take(there, "acme", "m"), RV_STORE_CLAIM_OTHER);
    assert_int_equal(take(there, "acme", "n"), RV_STORE_CLAIM_TAKEN);
    assert_int_equal(take(there, "other", "m"), RV_STORE_CLAIM_TAKEN);
    assert_ok(rv_store_learner_leave(there, "acme", "m", err)); // is not his
    assert_int_equal(take(there, "acme", "m"), RV_STORE_CLAIM_OTHER);
    assert_ok(rv_store_learner_leave(here, "acme", "m", err));
    assert_int_equal(take(there, "acme", "m"), RV_STORE_CLAIM_TAKEN);
    assert_int_equal(take(here, "acme", "m"), RV_STORE_CLAIM_OTHER);
    ruvllm_store_close(here);
    ruvllm_store_close(there);
}

/* With PostgreSQL the connection's end ends the claim; a SQLite file only knows the time. */
static void a_claim_ends_with_its_owner(void **state)
{
    const char *url = store_temp_url();
    ruvllm_store *here = store_open(url), *there = store_open(url);

    (void)state;
    assert_int_equal(take(here, "acme", "m"), RV_STORE_CLAIM_TAKEN);
    ruvllm_store_close(here);
    if (!store_is_postgres()) {
        sqlite3 *other;

        assert_int_equal(take(there, "acme", "m"), RV_STORE_CLAIM_OTHER);
        assert_int_equal(sqlite3_open(url, &other), SQLITE_OK);
        assert_int_equal(sqlite3_exec(other, "UPDATE lease SET until_us = until_us - 30000000", NULL, NULL, NULL),
                         SQLITE_OK);
        sqlite3_close(other);
    }
    /* The server notices a little later that somebody is gone. */
    for (int i = 0; i < 1200 && take(there, "acme", "m") == RV_STORE_CLAIM_OTHER; i++) {
        struct timespec pause = {.tv_nsec = 50000000};

        nanosleep(&pause, NULL);
    }
    assert_int_equal(take(there, "acme", "m"), RV_STORE_CLAIM_KEPT);
    ruvllm_store_close(there);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_state_comes_back),
        cmocka_unit_test(a_wrong_state_is_refused),
        cmocka_unit_test(one_teaches_at_a_time),
        cmocka_unit_test(a_claim_ends_with_its_owner),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
