/* Where learning stands, on the kind of store this run is about. */
#include "store/store_learner.h"
#include "support/store_fixture.h"

#include <math.h>
#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_state_comes_back),
        cmocka_unit_test(a_wrong_state_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
