/* The event log, on the kind of store this run is about. */
#include "store/store_events.h"
#include "support/store_fixture.h"

#include <math.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct rv_str str(const char *text)
{
    return (struct rv_str){.data = text, .len = strlen(text)};
}

static struct rv_store_event vote(const char *tenant, double score)
{
    return (struct rv_store_event){.tenant = tenant, .kind = RV_STORE_EVENT_VOTE, .score = score};
}

static int64_t append(ruvllm_store *store, const char *tenant, double score)
{
    struct rv_store_event e = vote(tenant, score);

    assert_ok(rv_store_events_append(store, &e, 1, err));
    assert_int_equal(e.fate, RV_STORE_EVENT_ADDED);
    return e.seq;
}

/* ---- what comes back ----------------------------------------------------------------------- */

static bool check_whole(void *user, const struct rv_store_event *e)
{
    const struct rv_store_event *wanted = user;

    assert_string_equal(e->tenant, "acme");
    assert_string_equal(e->model, "stories");
    assert_string_equal(e->response_id, "resp-1");
    assert_memory_equal(e->uid, wanted->uid, sizeof(e->uid));
    assert_int_equal(e->seq, 1);
    assert_int_equal(e->time_us, 1700000000000001);
    assert_int_equal(e->generation, 7);
    assert_int_equal(e->kind, RV_STORE_EVENT_CORRECTION);
    assert_true(e->score == 0.1 + 0.2); // every bit of it
    assert_false(e->is_forgotten);
    assert_string_equal(e->prompt.data, "wie gr\xC3\xBC\xC3\x9Ft man?");
    assert_string_equal(e->answer.data, "gar nicht\n");
    assert_string_equal(e->correction.data, "freundlich");
    assert_int_equal(e->reason.len, 0);
    assert_int_equal(e->result.len, 3);
    assert_memory_equal(e->result.data, "\0\1\xFF", 3);
    assert_int_equal(e->memory.len, 0);
    assert_int_equal(e->delta.len, wanted->delta.len);
    assert_memory_equal(e->delta.data, wanted->delta.data, e->delta.len);
    return true;
}

static void every_field_comes_back_also_after_reopening(void **state)
{
    static char delta[16384];
    const char *url = store_temp_url();
    ruvllm_store *store = store_open(url);
    struct rv_store_event e = {.tenant = "acme",
                               .model = "stories",
                               .response_id = "resp-1",
                               .time_us = 1700000000000001,
                               .generation = 7,
                               .kind = RV_STORE_EVENT_CORRECTION,
                               .score = 0.1 + 0.2,
                               .prompt = str("wie gr\xC3\xBC\xC3\x9Ft man?"),
                               .answer = str("gar nicht\n"),
                               .correction = str("freundlich"),
                               .result = {.data = "\0\1\xFF", .len = 3},
                               .delta = {.data = delta, .len = sizeof(delta)}};

    (void)state;
    for (size_t i = 0; i < sizeof(delta); i++)
        delta[i] = (char)(i * 7);
    assert_ok(rv_store_events_append(store, &e, 1, err));
    assert_int_equal(e.seq, 1);
    ruvllm_store_close(store);
    store = store_open(url);
    assert_ok(rv_store_events_replay(store, "acme", 0, check_whole, &e, err));
    ruvllm_store_close(store);
}

struct seen {
    int64_t seqs[4096];
    double scores[4096];
    size_t n;
    size_t stop_after;
    size_t n_bytes;
};

static bool see(void *user, const struct rv_store_event *e)
{
    struct seen *seen = user;

    assert_true(seen->n < 4096);
    seen->seqs[seen->n] = e->seq;
    seen->scores[seen->n] = e->score;
    seen->n_bytes += e->delta.len;
    return ++seen->n != seen->stop_after;
}

static void replay_goes_on_where_it_is_told_to(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    static struct seen all, rest, two;

    (void)state;
    for (int i = 0; i < 200; i++)
        append(store, i % 2 ? "acme" : "other", i);
    assert_ok(rv_store_events_replay(store, "acme", 0, see, &all, err));
    assert_int_equal(all.n, 100);
    for (size_t i = 0; i < all.n; i++) {
        assert_int_equal(all.seqs[i], i + 1);
        assert_true(all.scores[i] == (double)(2 * i + 1));
    }
    assert_ok(rv_store_events_replay(store, "acme", 97, see, &rest, err));
    assert_int_equal(rest.n, 3);
    two.stop_after = 2;
    assert_ok(rv_store_events_replay(store, "acme", 0, see, &two, err));
    assert_int_equal(two.n, 2);
    ruvllm_store_close(store);
}

static void large_events_come_in_many_pages(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    char *large = calloc(1, 3 << 20);
    static struct seen seen;

    (void)state;
    assert_non_null(large);
    for (int i = 0; i < 20; i++) {
        struct rv_store_event e = vote("acme", i);

        e.delta = (struct rv_str){.data = large, .len = 3 << 20};
        assert_ok(rv_store_events_append(store, &e, 1, err));
    }
    assert_ok(rv_store_events_replay(store, "acme", 0, see, &seen, err));
    assert_int_equal(seen.n, 20);
    assert_int_equal(seen.n_bytes, 20 * (3 << 20));
    free(large);
    ruvllm_store_close(store);
}

/* ---- numbers ------------------------------------------------------------------------------- */

static void the_same_uid_is_added_once(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct rv_store_event e = vote("acme", 1), both[2];
    int64_t last;

    (void)state;
    append(store, "acme", 0);
    memcpy(e.uid, "sixteen bytes!!!", 16);
    assert_ok(rv_store_events_append(store, &e, 1, err));
    assert_int_equal(e.seq, 2);
    e.seq = 0;
    assert_ok(rv_store_events_append(store, &e, 1, err));
    assert_int_equal(e.seq, 2);
    assert_int_equal(e.fate, RV_STORE_EVENT_KNOWN);
    e.tenant = "other";
    assert_ok(rv_store_events_append(store, &e, 1, err));
    assert_int_equal(e.seq, 1);
    assert_int_equal(e.fate, RV_STORE_EVENT_ADDED);
    both[0] = both[1] = vote("acme", 2);
    memcpy(both[0].uid, "another sixteen!", 16);
    memcpy(both[1].uid, "another sixteen!", 16);
    assert_ok(rv_store_events_append(store, both, 2, err));
    assert_true(both[0].seq == 3 && both[1].seq == 3 && both[1].fate == RV_STORE_EVENT_KNOWN);
    assert_int_equal(append(store, "acme", 0), 4); // a known one leaves no gap
    assert_ok(rv_store_events_last(store, "acme", &last, err));
    assert_int_equal(last, 4);
    assert_ok(rv_store_events_last(store, "nobody", &last, err));
    assert_int_equal(last, 0);
    ruvllm_store_close(store);
}

enum { N_WRITERS = 16, N_EACH = 60, N_TENANTS = 4 };

struct writer {
    ruvllm_store *store;
    int number;
    int n_wrong;
    struct ruvllm_error failure; // the last one's
};

static void *write_events(void *arg)
{
    struct writer *w = arg;
    int64_t last[N_TENANTS] = {0};
    char tenant[8];

    for (int i = 0; i < N_EACH; i++) {
        struct rv_store_event e = vote(tenant, w->number * 1000 + i);

        snprintf(tenant, sizeof(tenant), "t%d", i % N_TENANTS);
        if (rv_store_events_append(w->store, &e, 1, &w->failure) || e.seq <= last[i % N_TENANTS])
            w->n_wrong++; // what is acknowledged first has the smaller number
        last[i % N_TENANTS] = e.seq;
    }
    return NULL;
}

static void write_from_all(struct writer writers[N_WRITERS], ruvllm_store *const *stores, size_t n_stores)
{
    pthread_t threads[N_WRITERS];

    for (int i = 0; i < N_WRITERS; i++) {
        writers[i] = (struct writer){.store = stores[(size_t)i % n_stores], .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, write_events, &writers[i]), 0);
    }
    for (int i = 0; i < N_WRITERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < N_WRITERS; i++) {
        if (writers[i].n_wrong)
            fail_msg("%d of %d went wrong: %s", writers[i].n_wrong, N_EACH, writers[i].failure.message);
    }
}

static void expect_no_gaps(ruvllm_store *store)
{
    char tenant[8];

    for (int i = 0; i < N_TENANTS; i++) {
        static struct seen seen;

        memset(&seen, 0, sizeof(seen));
        snprintf(tenant, sizeof(tenant), "t%d", i);
        assert_ok(rv_store_events_replay(store, tenant, 0, see, &seen, err));
        assert_int_equal(seen.n, N_WRITERS * N_EACH / N_TENANTS);
        for (size_t k = 0; k < seen.n; k++)
            assert_int_equal(seen.seqs[k], k + 1);
    }
}

static void many_threads_get_numbers_without_gaps(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct rv_event_writer_stats stats;
    struct writer writers[N_WRITERS];

    (void)state;
    write_from_all(writers, &store, 1);
    expect_no_gaps(store);
    assert_ok(rv_store_events_stats(store, &stats, err));
    assert_int_equal(stats.n_events, N_WRITERS * N_EACH);
    assert_int_equal(stats.n_failed, 0);
    assert_true(stats.n_batches <= stats.n_events);
    ruvllm_store_close(store);
}

static void two_handles_of_a_store_share_the_numbers(void **state)
{
    const char *url = store_temp_url();
    ruvllm_store *stores[] = {store_open(url), store_open(url)};
    struct writer writers[N_WRITERS];

    (void)state;
    write_from_all(writers, stores, 2);
    expect_no_gaps(stores[0]);
    ruvllm_store_close(stores[0]);
    ruvllm_store_close(stores[1]);
}

/* While another connection keeps the file locked all wait; then one transaction serves them. */
static void those_who_wait_share_a_commit(void **state)
{
    const char *path = store_temp_path();
    struct timespec pause = {.tv_nsec = 300000000};
    struct ruvllm_store_params params = ruvllm_store_params_default();
    ruvllm_store *store;
    struct rv_event_writer_stats before, after;
    struct rv_store_event first = vote("t0", 0);
    struct writer writers[N_WRITERS];
    pthread_t threads[N_WRITERS];
    sqlite3 *other;

    (void)state;
    params.busy_timeout_ms = 600000;
    assert_ok(ruvllm_store_open(&store, path, &params, err));
    assert_ok(rv_store_events_append(store, &first, 1, err));
    assert_ok(rv_store_events_stats(store, &before, err));
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    for (int i = 0; i < N_WRITERS; i++) {
        writers[i] = (struct writer){.store = store, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, write_events, &writers[i]), 0);
    }
    nanosleep(&pause, NULL);
    assert_ok(rv_store_events_stats(store, &after, err));
    assert_int_equal(after.n_events, before.n_events); // nobody was told before it is so
    assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    for (int i = 0; i < N_WRITERS; i++)
        pthread_join(threads[i], NULL);
    assert_ok(rv_store_events_stats(store, &after, err));
    assert_int_equal(after.n_events - before.n_events, N_WRITERS * N_EACH);
    /* At the least the fifteen that waited behind the first were served together. */
    assert_true(after.n_batches - before.n_batches <= N_WRITERS * N_EACH - 14);
    ruvllm_store_close(store);
}

static void events_of_one_call_are_written_together(void **state)
{
    static struct rv_store_event events[513];
    ruvllm_store *store = store_open(store_temp_url());
    struct ruvllm_error failure = {0};
    int64_t last;

    (void)state;
    for (size_t i = 0; i < 513; i++)
        events[i] = vote(i % 2 ? "a" : "b", (double)i);
    assert_fails(rv_store_events_append(store, events, 513, &failure), RUVLLM_TOO_LARGE, failure, "513 events");
    assert_ok(rv_store_events_append(store, events, 512, err));
    for (size_t i = 0; i < 512; i++)
        assert_int_equal(events[i].seq, i / 2 + 1); // in the order they were given
    events[0] = vote("c", 0);
    events[1] = vote("c", (double)NAN);
    assert_fails(rv_store_events_append(store, events, 2, &failure), RUVLLM_INVALID, failure, "not a number");
    assert_ok(rv_store_events_last(store, "c", &last, err));
    assert_int_equal(last, 0);
    assert_ok(rv_store_events_append(store, NULL, 0, err));
    ruvllm_store_close(store);
}

/* ---- rules --------------------------------------------------------------------------------- */

static void refused(ruvllm_store *store, struct rv_store_event e, ruvllm_status status, const char *text)
{
    struct ruvllm_error failure = {0};

    assert_fails(rv_store_events_append(store, &e, 1, &failure), status, failure, text);
}

static void wrong_events_are_refused(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    char *large = calloc(1, RV_STORE_EVENT_BYTES_MAX + 1);
    struct rv_store_event e;

    (void)state;
    assert_non_null(large);
    memset(large, ' ', RV_STORE_EVENT_BYTES_MAX + 1);
    refused(store, vote("a b", 1), RUVLLM_INVALID, "a tenant is named");
    refused(store, vote(NULL, 1), RUVLLM_INVALID, "a tenant is named");
    refused(store, vote("acme", (double)INFINITY), RUVLLM_INVALID, "not a number");
    e = vote("acme", 1), e.kind = (enum rv_store_event_kind)8;
    refused(store, e, RUVLLM_INVALID, "no kind 8");
    e = vote("acme", 1), e.prompt = (struct rv_str){.data = "a\0b", .len = 3};
    refused(store, e, RUVLLM_INVALID, "without NUL");
    e = vote("acme", 1), e.reason = str("\xFF");
    refused(store, e, RUVLLM_INVALID, "UTF-8");
    e = vote("acme", 1), e.response_id = "line\nbreak";
    refused(store, e, RUVLLM_INVALID, "the id of the response");
    e = vote("acme", 1), e.time_us = -1;
    refused(store, e, RUVLLM_INVALID, "negative");
    e = vote("acme", 1), e.answer = (struct rv_str){.data = large, .len = RV_STORE_EVENT_BYTES_MAX + 1};
    refused(store, e, RUVLLM_TOO_LARGE, "bytes");
    e = vote("acme", 1), e.answer = (struct rv_str){.data = large, .len = RV_STORE_EVENT_BYTES_MAX};
    e.delta = str("x");
    refused(store, e, RUVLLM_TOO_LARGE, "bytes");
    e.delta.len = 0;
    assert_ok(rv_store_events_append(store, &e, 1, err));
    free(large);
    ruvllm_store_close(store);
}

static bool is_empty(void *user, const struct rv_store_event *e)
{
    *(bool *)user = e->is_forgotten && !e->prompt.len && !e->delta.len && !e->correction.len && e->score == 0.5;
    return true;
}

static void a_forgotten_event_keeps_its_number_and_nothing_else(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct rv_store_event e = vote("acme", 0.5);
    struct ruvllm_error failure = {0};
    bool empty = false;
    int64_t seq;

    (void)state;
    e.prompt = str("a secret");
    e.correction = str("another");
    e.delta = str("bytes");
    e.response_id = "resp-9";
    assert_ok(rv_store_events_append(store, &e, 1, err));
    assert_ok(rv_store_events_about(store, "acme", "resp-9", &seq, err));
    assert_int_equal(seq, 1);
    assert_ok(rv_store_events_about(store, "other", "resp-9", &seq, err));
    assert_int_equal(seq, 0);
    assert_fails(rv_store_events_forget(store, "other", 1, &failure), RUVLLM_NOT_FOUND, failure, "no event 1");
    assert_ok(rv_store_events_forget(store, "acme", 1, err));
    assert_ok(rv_store_events_replay(store, "acme", 0, is_empty, &empty, err));
    assert_true(empty);
    assert_int_equal(append(store, "acme", 1), 2);
    ruvllm_store_close(store);
}

static bool count_forgotten(void *user, const struct rv_store_event *e)
{
    char *seen = user;

    seen[e->seq - 1] = e->is_forgotten ? 'f' : '.';
    return true;
}

static void what_came_later_is_forgotten_by_its_kind_and_model(void **state)
{
    static const enum rv_store_event_kind kinds[] = {RV_STORE_EVENT_TICK, RV_STORE_EVENT_VOTE, RV_STORE_EVENT_TICK,
                                                     RV_STORE_EVENT_TICK, RV_STORE_EVENT_DEEP, RV_STORE_EVENT_TICK};
    ruvllm_store *store = store_open(store_temp_url());
    char seen[7] = "";

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        struct rv_store_event e = vote("acme", 0.5);

        e.kind = kinds[i];
        e.model = i == 3 ? "other" : "m";
        e.result = str("bytes");
        assert_ok(rv_store_events_append(store, &e, 1, err));
    }
    assert_int_equal(append(store, "nobody", 1), 1);
    assert_ok(rv_store_events_forget_later(store, "nobody", "m", 0, RV_STORE_EVENT_TICK, err));
    assert_ok(rv_store_events_forget_later(store, "acme", "m", 2, RV_STORE_EVENT_TICK, err));
    assert_ok(rv_store_events_replay(store, "acme", 0, count_forgotten, seen, err));
    assert_string_equal(seen, "..f..f");
    ruvllm_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_comes_back_also_after_reopening),
        cmocka_unit_test(replay_goes_on_where_it_is_told_to),
        cmocka_unit_test(large_events_come_in_many_pages),
        cmocka_unit_test(the_same_uid_is_added_once),
        cmocka_unit_test(many_threads_get_numbers_without_gaps),
        cmocka_unit_test(two_handles_of_a_store_share_the_numbers),
        cmocka_unit_test(those_who_wait_share_a_commit),
        cmocka_unit_test(events_of_one_call_are_written_together),
        cmocka_unit_test(wrong_events_are_refused),
        cmocka_unit_test(a_forgotten_event_keeps_its_number_and_nothing_else),
        cmocka_unit_test(what_came_later_is_forgotten_by_its_kind_and_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
