/* Patterns, on the kind of store this run is about. */
#include "store/store_patterns.h"
#include "store/store_events.h"
#include "support/store_fixture.h"

#include <stdio.h>
#include <string.h>

static struct rv_store_pattern pattern(const char *tenant, const char *text)
{
    return (struct rv_store_pattern){.tenant = tenant,
                                     .model = "m",
                                     .seq = 7,
                                     .outcome = 0.1 + 0.2,
                                     .verdict = 2,
                                     .embedding = {.data = "\0\1\2\xFF", .len = 4},
                                     .text = {.data = text, .len = strlen(text)}};
}

struct seen {
    char text[4096];
    int64_t last;
    size_t n;
};

static bool see(void *user, const struct rv_store_pattern *p)
{
    struct seen *seen = user;

    assert_true(p->row > seen->last);
    assert_true(p->outcome == 0.1 + 0.2 && p->verdict == 2 && p->seq == 7 && p->time_us > 1600000000000000);
    assert_int_equal(p->embedding.len, 4);
    assert_memory_equal(p->embedding.data, "\0\1\2\xFF", 4);
    seen->last = p->row;
    seen->n++;
    if (seen->n <= 5)
        snprintf(seen->text + strlen(seen->text), sizeof(seen->text) - strlen(seen->text), "%s ", p->text.data);
    return true;
}

static void patterns_of_a_tenant_come_back_in_order(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct seen seen = {0}, rest = {0};
    int64_t third = 0;
    uint64_t n;

    (void)state;
    for (int i = 0; i < 600; i++) {
        struct rv_store_pattern p = pattern(i % 2 ? "acme" : "other", i < 20 ? "one" : "two");

        assert_ok(rv_store_patterns_add(store, &p, err));
        if (i == 5)
            third = p.row;
    }
    assert_ok(rv_store_patterns_list(store, "acme", "m", 0, see, &seen, err));
    assert_int_equal(seen.n, 300);
    assert_string_equal(seen.text, "one one one one one ");
    assert_ok(rv_store_patterns_delete(store, "other", "m", third, &n, err));
    assert_int_equal(n, 0); // another tenant's
    assert_ok(rv_store_patterns_delete(store, "acme", "m", third, &n, err));
    assert_int_equal(n, 1);
    assert_ok(rv_store_patterns_list(store, "acme", "m", third, see, &rest, err));
    assert_int_equal(rest.n, 297);
    assert_ok(rv_store_patterns_delete(store, "acme", "m", 0, &n, err));
    assert_int_equal(n, 299);
    seen = (struct seen){0};
    assert_ok(rv_store_patterns_list(store, "other", "m", 0, see, &seen, err));
    assert_int_equal(seen.n, 300);
    ruvllm_store_close(store);
}

/* Whoever forgets an event does not wait for patterns that are still to be written. */
static void a_pattern_of_what_was_forgotten_is_not_added(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct seen seen = {0};

    (void)state;
    for (int i = 0; i < 7; i++) {
        struct rv_store_event e = {.tenant = "acme", .model = "m", .kind = RV_STORE_EVENT_VOTE};

        assert_ok(rv_store_events_append(store, &e, 1, err));
    }
    for (int i = 0; i < 2; i++) {
        struct rv_store_pattern p = pattern("acme", "one"); // of the seventh

        assert_ok(rv_store_patterns_add(store, &p, err));
        if (i == 0)
            assert_ok(rv_store_events_forget(store, "acme", 7, err));
    }
    assert_ok(rv_store_patterns_list(store, "acme", "m", 0, see, &seen, err));
    assert_int_equal(seen.n, 1); // who was there before is removed by who forgets
    ruvllm_store_close(store);
}

static void wrong_patterns_are_refused(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct rv_store_pattern p = pattern("acme", "\xFF");
    struct ruvllm_error failure = {0};

    (void)state;
    assert_fails(rv_store_patterns_add(store, &p, &failure), RUVLLM_INVALID, failure, "UTF-8");
    p = pattern("acme", "x");
    p.verdict = -1;
    assert_fails(rv_store_patterns_add(store, &p, &failure), RUVLLM_INVALID, failure, "negative");
    p = pattern("acme", "x");
    p.embedding.len = RV_STORE_EMBEDDING_MAX + 1;
    assert_fails(rv_store_patterns_add(store, &p, &failure), RUVLLM_TOO_LARGE, failure, "larger");
    p = pattern("", "x");
    assert_fails(rv_store_patterns_add(store, &p, &failure), RUVLLM_INVALID, failure, "a tenant");
    ruvllm_store_close(store);
}

static bool sum_up(void *user, const struct rv_store_pattern *p)
{
    double *sum = user;

    *sum = *sum * 10 + p->outcome;
    return true;
}

static void many_are_added_at_once_or_none(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct rv_store_pattern patterns[4];
    struct ruvllm_error failure = {0};
    double sum = 0;
    uint64_t n;

    (void)state;
    for (int i = 0; i < 4; i++) {
        patterns[i] = pattern("acme", "x");
        patterns[i].outcome = i + 1;
    }
    assert_ok(rv_store_patterns_add_all(store, patterns, 4, err));
    assert_true(patterns[0].row < patterns[3].row);
    patterns[3].verdict = -1;
    assert_fails(rv_store_patterns_add_all(store, patterns, 4, &failure), RUVLLM_INVALID, failure, "negative");
    assert_ok(rv_store_patterns_add_all(store, patterns, 0, err));
    assert_ok(rv_store_patterns_list(store, "acme", "m", 0, sum_up, &sum, err));
    assert_true(sum == 1234);
    assert_ok(rv_store_patterns_keep_newest(store, "acme", "m", 4, &n, err));
    assert_int_equal(n, 0);
    assert_ok(rv_store_patterns_keep_newest(store, "other", "m", 1, &n, err));
    assert_int_equal(n, 0);
    assert_ok(rv_store_patterns_keep_newest(store, "acme", "m", 3, &n, err));
    assert_int_equal(n, 1);
    assert_ok(rv_store_patterns_delete_event(store, "other", "m", 7, 0, &n, err));
    assert_int_equal(n, 0);
    assert_ok(rv_store_patterns_delete_event(store, "acme", "m", 8, 0, &n, err));
    assert_int_equal(n, 0);
    assert_ok(rv_store_patterns_delete_event(store, "acme", "m", 7, 0, &n, err));
    assert_int_equal(n, 3);
    patterns[0].seq = 0; // its event had no number yet, and is known by its time
    patterns[0].time_us = 1234;
    assert_ok(rv_store_patterns_add(store, &patterns[0], err));
    assert_ok(rv_store_patterns_delete_event(store, "acme", "m", 9, 1233, &n, err));
    assert_int_equal(n, 0);
    assert_ok(rv_store_patterns_delete_event(store, "acme", "m", 9, 1234, &n, err));
    assert_int_equal(n, 1);
    assert_ok(rv_store_patterns_keep_newest(store, "acme", "m", 0, NULL, err));
    sum = 0;
    assert_ok(rv_store_patterns_list(store, "acme", "m", 0, sum_up, &sum, err));
    assert_true(sum == 0);
    ruvllm_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_of_a_tenant_come_back_in_order),
        cmocka_unit_test(a_pattern_of_what_was_forgotten_is_not_added),
        cmocka_unit_test(wrong_patterns_are_refused),
        cmocka_unit_test(many_are_added_at_once_or_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
