/* Checkpoints, on the kind of store this run is about. */
#include "base/alloc.h"
#include "store/store_checkpoints.h"
#include "store/store_events.h"
#include "support/store_fixture.h"

#include <stdlib.h>
#include <string.h>

static void expect(ruvllm_store *store, const char *tenant, const char *model, int64_t seq, const char *text)
{
    int64_t got_seq;
    size_t len;
    void *got;

    assert_ok(rv_store_checkpoints_get(store, tenant, model, &got_seq, &got, &len, err));
    assert_int_equal(got_seq, seq);
    if (!text)
        assert_null(got);
    else
        assert_true(got && len == strlen(text) && memcmp(got, text, len) == 0);
    rv_free(got);
}

static void the_last_one_comes_back_also_after_reopening(void **state)
{
    const char *url = store_temp_url();
    ruvllm_store *store = store_open(url);
    size_t len = (3 << 20) + 7;
    char *large = calloc(1, len);
    int64_t seq;
    void *got;

    (void)state;
    assert_non_null(large);
    large[len - 1] = 5;
    expect(store, "acme", "m", 0, NULL);
    assert_ok(rv_store_checkpoints_put(store, "acme", "m", 10, "ten", 3, err));
    assert_ok(rv_store_checkpoints_put(store, "acme", "n", 11, "other model", 11, err));
    assert_ok(rv_store_checkpoints_put(store, "other", "m", 12, "other tenant", 12, err));
    assert_ok(rv_store_checkpoints_put(store, "acme", "m", 20, "twenty", 6, err));
    ruvllm_store_close(store);
    store = store_open(url);
    expect(store, "acme", "m", 20, "twenty");
    expect(store, "acme", "n", 11, "other model");
    expect(store, "other", "m", 12, "other tenant");
    assert_ok(rv_store_checkpoints_put(store, "acme", "m", 21, large, len, err));
    assert_ok(rv_store_checkpoints_get(store, "acme", "m", &seq, &got, &len, err));
    assert_memory_equal(got, large, len);
    rv_free(got);
    free(large);
    ruvllm_store_close(store);
}

static void forgetting_an_event_removes_those_it_is_in(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct rv_store_event e = {.tenant = "acme", .kind = RV_STORE_EVENT_VOTE, .score = 1};
    struct ruvllm_error failure = {0};

    (void)state;
    for (int i = 0; i < 3; i++) {
        memset(e.uid, 0, sizeof(e.uid));
        assert_ok(rv_store_events_append(store, &e, 1, err));
    }
    assert_ok(rv_store_checkpoints_put(store, "acme", "m", 1, "before", 6, err));
    assert_ok(rv_store_checkpoints_put(store, "acme", "n", 2, "with", 4, err));
    assert_ok(rv_store_checkpoints_put(store, "other", "m", 3, "other", 5, err));
    assert_fails(rv_store_events_forget(store, "acme", 9, &failure), RUVLLM_NOT_FOUND, failure, "no event 9");
    expect(store, "acme", "n", 2, "with");
    assert_ok(rv_store_events_forget(store, "acme", 2, err));
    expect(store, "acme", "m", 1, "before");
    expect(store, "acme", "n", 0, NULL);
    expect(store, "other", "m", 3, "other");
    /* What came of an event, too. */
    assert_ok(rv_store_checkpoints_put(store, "acme", "m", 3, "later", 5, err));
    assert_ok(rv_store_events_forget_later(store, "acme", "m", 1, RV_STORE_EVENT_TICK, err));
    expect(store, "acme", "m", 0, NULL);
    expect(store, "other", "m", 3, "other");
    ruvllm_store_close(store);
}

static void wrong_ones_are_refused(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    char *large = calloc(1, RV_STORE_CHECKPOINT_MAX + 1);
    struct ruvllm_error failure = {0};
    int64_t seq;
    size_t len;
    void *got;

    (void)state;
    assert_non_null(large);
    assert_fails(rv_store_checkpoints_put(store, "a b", "m", 1, "x", 1, &failure), RUVLLM_INVALID, failure, "a tenant");
    assert_fails(rv_store_checkpoints_put(store, "a", "m", 0, "x", 1, &failure), RUVLLM_INVALID, failure, "events");
    assert_fails(rv_store_checkpoints_put(store, "a", "m", 1, large, RV_STORE_CHECKPOINT_MAX + 1, &failure),
                 RUVLLM_TOO_LARGE, failure, "larger");
    assert_fails(rv_store_checkpoints_get(store, "", "m", &seq, &got, &len, &failure), RUVLLM_INVALID, failure,
                 "a tenant");
    free(large);
    ruvllm_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_one_comes_back_also_after_reopening),
        cmocka_unit_test(forgetting_an_event_removes_those_it_is_in),
        cmocka_unit_test(wrong_ones_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
