/* Checkpoints, on the kind of store this run is about. */
#include "base/alloc.h"
#include "store/store_checkpoints.h"
#include "store/store_events.h"
#include "store/store_learner.h"
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

static void add_event(ruvllm_store *store, const char *tenant)
{
    struct rv_store_event e = {.tenant = tenant, .kind = RV_STORE_EVENT_VOTE, .score = 1};

    assert_ok(rv_store_events_append(store, &e, 1, err));
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
    add_event(store, "acme");
    add_event(store, "other");
    expect(store, "acme", "m", 0, NULL);
    assert_ok(rv_store_checkpoints_put(store, "acme", "m", 10, 0, "ten", 3, err));
    assert_ok(rv_store_checkpoints_put(store, "acme", "n", 11, 0, "other model", 11, err));
    assert_ok(rv_store_checkpoints_put(store, "other", "m", 12, 0, "other tenant", 12, err));
    assert_ok(rv_store_checkpoints_put(store, "acme", "m", 20, 0, "twenty", 6, err));
    ruvllm_store_close(store);
    store = store_open(url);
    expect(store, "acme", "m", 20, "twenty");
    expect(store, "acme", "n", 11, "other model");
    expect(store, "other", "m", 12, "other tenant");
    assert_ok(rv_store_checkpoints_put(store, "acme", "m", 21, 0, large, len, err));
    assert_ok(rv_store_checkpoints_get(store, "acme", "m", &seq, &got, &len, err));
    assert_memory_equal(got, large, len);
    rv_free(got);
    free(large);
    ruvllm_store_close(store);
}

static void forgetting_an_event_removes_those_it_is_in(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct ruvllm_error failure = {0};

    (void)state;
    for (int i = 0; i < 3; i++)
        add_event(store, "acme");
    add_event(store, "other");
    assert_ok(rv_store_checkpoints_put(store, "acme", "m", 1, 0, "before", 6, err));
    assert_ok(rv_store_checkpoints_put(store, "acme", "n", 2, 0, "with", 4, err));
    assert_ok(rv_store_checkpoints_put(store, "other", "m", 3, 0, "other", 5, err));
    assert_fails(rv_store_events_forget(store, "acme", 9, &failure), RUVLLM_NOT_FOUND, failure, "no event 9");
    expect(store, "acme", "n", 2, "with");
    assert_ok(rv_store_events_forget(store, "acme", 2, err));
    expect(store, "acme", "m", 1, "before");
    expect(store, "acme", "n", 0, NULL);
    expect(store, "other", "m", 3, "other");
    /* What came of an event, too. */
    assert_ok(rv_store_checkpoints_put(store, "acme", "m", 3, 1, "later", 5, err));
    assert_ok(rv_store_events_forget_later(store, "acme", "m", 1, RV_STORE_EVENT_TICK, err));
    expect(store, "acme", "m", 0, NULL);
    expect(store, "other", "m", 3, "other");
    ruvllm_store_close(store);
}

/* Who has read the log before something of it was forgotten, here or elsewhere, would bring it back. */
static void nothing_is_kept_of_what_was_read_before_somebody_forgot(void **state)
{
    const char *url = store_temp_url();
    ruvllm_store *here = store_open(url), *there = store_open(url);
    struct rv_store_look before, after;

    (void)state;
    add_event(here, "acme");
    add_event(here, "acme");
    assert_ok(rv_store_learner_look(there, "acme", "m", &before, err));
    assert_true(before.last_seq == 2 && before.n_forgotten == 0 && !before.is_paused);
    assert_ok(rv_store_events_forget(here, "acme", 1, err));
    assert_ok(rv_store_checkpoints_put(there, "acme", "m", 2, before.n_forgotten, "with it", 7, err));
    expect(here, "acme", "m", 0, NULL);
    assert_ok(rv_store_learner_look(there, "acme", "m", &after, err));
    assert_true(after.last_seq == 2 && after.n_forgotten == 1);
    assert_ok(rv_store_checkpoints_put(there, "acme", "m", 2, after.n_forgotten, "without", 7, err));
    expect(here, "acme", "m", 2, "without");
    assert_ok(rv_store_events_forget_later(here, "acme", "m", 9, RV_STORE_EVENT_TICK, err)); // nothing
    assert_ok(rv_store_learner_look(there, "acme", "m", &after, err));
    assert_int_equal(after.n_forgotten, 1);
    ruvllm_store_close(there);
    ruvllm_store_close(here);
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
    assert_fails(rv_store_checkpoints_put(store, "a b", "m", 1, 0, "x", 1, &failure), RUVLLM_INVALID, failure,
                 "a tenant");
    assert_fails(rv_store_checkpoints_put(store, "a", "m", 0, 0, "x", 1, &failure), RUVLLM_INVALID, failure, "events");
    assert_fails(rv_store_checkpoints_put(store, "a", "m", 1, 0, large, RV_STORE_CHECKPOINT_MAX + 1, &failure),
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
        cmocka_unit_test(nothing_is_kept_of_what_was_read_before_somebody_forgot),
        cmocka_unit_test(wrong_ones_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
