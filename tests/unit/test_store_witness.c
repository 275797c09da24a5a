/* The witness log through the public calls; a second connection that keeps the database locked plays the slow disk. */
#include "base/clock.h"
#include "support/store_fixture.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void append(ruvllm_store *store, int32_t i, const char *tenant, const char *model)
{
    struct ruvllm_witness entry = store_witness(i, tenant, model);

    assert_ok(ruvllm_witness_append(store, &entry, err));
}

static struct ruvllm_witness_stats stats_of(ruvllm_store *store)
{
    struct ruvllm_witness_stats stats = {.struct_size = sizeof(stats)};

    assert_ok(ruvllm_witness_stats_get(store, &stats, err));
    assert_true(stats.appended == stats.written + stats.waiting + stats.dropped);
    return stats;
}

static void rest(int ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&pause, NULL);
}

/* Until so many are written, for up to a minute: a slow machine is no failure. */
static void wait_for_written(ruvllm_store *store, uint64_t n)
{
    for (int i = 0; i < 6000 && stats_of(store).written < n; i++)
        rest(10);
    assert_int_equal(stats_of(store).written, n);
}

static bool copy_entry(void *user, const struct ruvllm_witness *entry)
{
    struct ruvllm_witness *out = user;

    assert_string_equal(entry->tenant, "acme");
    assert_string_equal(entry->key_id, "abcdefgh");
    assert_string_equal(entry->request_id, "req-1");
    assert_string_equal(entry->model, "stories");
    assert_string_equal(entry->endpoint, "/v1/chat/completions");
    assert_string_equal(entry->finish_reason, "stop");
    *out = *entry;
    return true;
}

static void every_field_comes_back_also_after_reopening(void **state)
{
    const char *path = store_temp_url();
    ruvllm_store *store = store_open(path);
    struct ruvllm_witness got = {0};

    (void)state;
    append(store, 1, "acme", "stories");
    ruvllm_store_close(store); // writes what waits
    store = store_open(path);
    assert_ok(ruvllm_witness_query(store, NULL, copy_entry, &got, err));
    assert_int_equal(got.time_us, 1700000000000001);
    assert_int_equal(got.adapter_generation, 3);
    assert_int_equal(got.status, 200);
    assert_int_equal(got.prompt_tokens, 1);
    assert_int_equal(got.cached_tokens, 2);
    assert_int_equal(got.generated_tokens, 4);
    assert_int_equal(got.queue_us, 5);
    assert_int_equal(got.prefill_us, 6);
    assert_int_equal(got.decode_us, 7);
    assert_int_equal(got.total_us, 18);
    ruvllm_store_close(store);
}

static void expect(ruvllm_store *store, const struct ruvllm_witness_filter *filter, const char *text)
{
    struct store_rows rows = {0};

    assert_ok(ruvllm_witness_query(store, filter, store_row_witness, &rows, err));
    assert_string_equal(rows.text, text);
}

static void queries_give_the_newest_first_and_filter(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct ruvllm_witness_filter filter = ruvllm_witness_filter_default();
    struct store_rows two = {.stop_after = 2};

    (void)state;
    for (int32_t i = 1; i <= 6; i++)
        append(store, i, i % 2 ? "acme" : "other", i % 3 ? "small" : "large");
    assert_ok(ruvllm_witness_flush(store, err));
    expect(store, NULL, "other large 6\nacme small 5\nother small 4\nacme large 3\nother small 2\nacme small 1\n");
    filter.tenant = "acme";
    expect(store, &filter, "acme small 5\nacme large 3\nacme small 1\n");
    filter.model = "small";
    expect(store, &filter, "acme small 5\nacme small 1\n");
    filter.tenant = NULL;
    expect(store, &filter, "acme small 5\nother small 4\nother small 2\nacme small 1\n");
    filter.since_us = 1700000000000002;
    filter.before_us = 1700000000000005;
    expect(store, &filter, "other small 4\nother small 2\n");
    filter.limit = 1;
    expect(store, &filter, "other small 4\n");
    assert_ok(ruvllm_witness_query(store, NULL, store_row_witness, &two, err));
    assert_int_equal(two.n, 2);
    ruvllm_store_close(store);
}

static void a_full_batch_is_written_without_being_asked(void **state)
{
    struct ruvllm_store_params params = ruvllm_store_params_default();
    ruvllm_store *store;

    (void)state;
    params.witness_flush_ms = 60000;
    assert_ok(ruvllm_store_open(&store, store_temp_url(), &params, err));
    for (int32_t i = 0; i < 255; i++)
        append(store, i, "acme", "m");
    rest(50);
    assert_int_equal(stats_of(store).written, 0);
    append(store, 255, "acme", "m");
    wait_for_written(store, 256);
    ruvllm_store_close(store);
}

static void a_single_entry_is_written_when_its_time_is_up(void **state)
{
    struct ruvllm_store_params params = ruvllm_store_params_default();
    ruvllm_store *store;
    uint64_t written;
    int64_t began;

    (void)state;
    params.witness_flush_ms = 100;
    assert_ok(ruvllm_store_open(&store, store_temp_url(), &params, err));
    began = rv_clock_us();
    append(store, 1, "acme", "m");
    written = stats_of(store).written;
    if (rv_clock_us() - began < 100000) // its time was not up when we asked
        assert_int_equal(written, 0);
    wait_for_written(store, 1);
    ruvllm_store_close(store);
}

static void a_flush_takes_several_batches_at_once(void **state)
{
    struct ruvllm_store_params params = ruvllm_store_params_default();
    struct timespec before, after;
    ruvllm_store *store;

    (void)state;
    params.witness_flush_ms = 60000;
    assert_ok(ruvllm_store_open(&store, store_temp_url(), &params, err));
    for (int32_t i = 0; i < 1000; i++)
        append(store, i, "acme", "m");
    clock_gettime(CLOCK_MONOTONIC, &before);
    assert_ok(ruvllm_witness_flush(store, err));
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_int_equal(stats_of(store).written, 1000);
    assert_true(after.tv_sec - before.tv_sec < 30); // half of what an entry may wait
    ruvllm_store_close(store);
}

static sqlite3 *lock_database(const char *path)
{
    sqlite3 *other;

    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return other;
}

static void a_full_buffer_drops_the_oldest_counts_them_and_never_blocks(void **state)
{
    struct ruvllm_store_params params = ruvllm_store_params_default();
    struct ruvllm_witness_filter filter = ruvllm_witness_filter_default();
    struct ruvllm_witness_stats stats;
    struct store_rows rows = {0};
    const char *path = store_temp_path();
    struct timespec before, after;
    ruvllm_store *store;
    sqlite3 *other;
    char text[65536] = "";

    (void)state;
    params.witness_buffer = 256;
    params.busy_timeout_ms = 600000;
    assert_ok(ruvllm_store_open(&store, path, &params, err));
    other = lock_database(path);
    clock_gettime(CLOCK_MONOTONIC, &before);
    for (int32_t i = 0; i < 5000; i++)
        append(store, i, "acme", "m");
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true(after.tv_sec - before.tv_sec < 60); // the lock outlasts it: nobody waited for it
    stats = stats_of(store);
    assert_int_equal(stats.appended, 5000);
    assert_int_equal(stats.written, 0);
    assert_true(stats.dropped >= 5000 - 512 && stats.dropped <= 5000 - 256); // up to a batch is in the writer's hands
    sqlite3_close(other);
    assert_ok(ruvllm_witness_flush(store, err));
    stats = stats_of(store);
    assert_int_equal(stats.waiting, 0);
    filter.limit = 256;
    for (int i = 4999; i >= 4744; i--)
        snprintf(text + strlen(text), 32, "acme m %d\n", i);
    assert_ok(ruvllm_witness_query(store, &filter, store_row_witness, &rows, err));
    assert_string_equal(rows.text, text); // the newest are all there
    ruvllm_store_close(store);
}

static void a_failed_flush_says_why_and_loses_nothing(void **state)
{
    struct ruvllm_store_params params = ruvllm_store_params_default();
    struct ruvllm_error failure = {0};
    const char *path = store_temp_path();
    ruvllm_store *store;
    sqlite3 *other;

    (void)state;
    params.busy_timeout_ms = 1;
    params.witness_flush_ms = 60000;
    assert_ok(ruvllm_store_open(&store, path, &params, err));
    other = lock_database(path);
    for (int32_t i = 0; i < 5; i++)
        append(store, i, "acme", "m");
    assert_fails(ruvllm_witness_flush(store, &failure), RUVLLM_BUSY, failure, "another process keeps it locked");
    assert_int_equal(stats_of(store).failed_flushes, 1);
    assert_int_equal(stats_of(store).waiting, 5);
    sqlite3_close(other);
    assert_ok(ruvllm_witness_flush(store, err));
    assert_int_equal(stats_of(store).written, 5);
    expect(store, NULL, "acme m 4\nacme m 3\nacme m 2\nacme m 1\nacme m 0\n");
    ruvllm_store_close(store);
}

static void wrong_entries_and_filters_are_refused(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct ruvllm_witness good = store_witness(1, "acme", "m"), e;
    struct ruvllm_witness_filter f = ruvllm_witness_filter_default();
    struct ruvllm_error failure = {0};
    char long_text[200];

    (void)state;
    memset(long_text, 'x', sizeof(long_text));
    long_text[199] = '\0';
    e = good, e.model = long_text;
    assert_fails(ruvllm_witness_append(store, &e, &failure), RUVLLM_INVALID, failure, "model is longer than 128");
    e = good, e.request_id = long_text;
    assert_fails(ruvllm_witness_append(store, &e, &failure), RUVLLM_INVALID, failure, "request is longer than 64");
    e = good, e.endpoint = "/v1\n/x";
    assert_fails(ruvllm_witness_append(store, &e, &failure), RUVLLM_INVALID, failure, "endpoint");
    e = good, e.total_us = -1;
    assert_fails(ruvllm_witness_append(store, &e, &failure), RUVLLM_INVALID, failure, "negative");
    e = good, e.struct_size = sizeof(e) + 8;
    assert_fails(ruvllm_witness_append(store, &e, &failure), RUVLLM_INVALID, failure, "struct_size");
    assert_int_equal(stats_of(store).appended, 0);
    for (int32_t limit = -1; limit <= 1001; limit += 501) { // -1, 500, 1001
        f.limit = limit;
        if (limit == 500)
            assert_ok(ruvllm_witness_query(store, &f, store_row_witness, NULL, err));
        else
            assert_fails(ruvllm_witness_query(store, &f, store_row_witness, NULL, &failure), RUVLLM_INVALID, failure,
                         "1 to 1000");
    }
    f = ruvllm_witness_filter_default();
    f.tenant = "";
    assert_ok(ruvllm_witness_query(store, &f, store_row_witness, NULL, err));
    f.tenant = "a' OR '1'='1";
    assert_fails(ruvllm_witness_query(store, &f, store_row_witness, NULL, &failure), RUVLLM_INVALID, failure, "tenant");
    ruvllm_store_close(store);
}

static void pruning_deletes_what_is_older_than_its_days(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct ruvllm_error failure = {0};
    struct ruvllm_witness fresh = store_witness(7, "acme", "new");
    uint64_t n;

    (void)state;
    for (int32_t i = 0; i < 2500; i++) // more than two pieces, of November 2023
        append(store, i, "acme", "old");
    fresh.time_us = 0;
    assert_ok(ruvllm_witness_append(store, &fresh, err));
    assert_ok(ruvllm_witness_flush(store, err));
    assert_ok(ruvllm_witness_prune(store, 30, &n, err));
    assert_int_equal(n, 2500);
    expect(store, NULL, "acme new 7\n");
    assert_fails(ruvllm_witness_prune(store, -1, &n, &failure), RUVLLM_INVALID, failure, "negative");
    assert_ok(ruvllm_witness_prune(store, 0, NULL, err));
    expect(store, NULL, "");
    ruvllm_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_comes_back_also_after_reopening),
        cmocka_unit_test(queries_give_the_newest_first_and_filter),
        cmocka_unit_test(a_full_batch_is_written_without_being_asked),
        cmocka_unit_test(a_single_entry_is_written_when_its_time_is_up),
        cmocka_unit_test(a_flush_takes_several_batches_at_once),
        cmocka_unit_test(a_full_buffer_drops_the_oldest_counts_them_and_never_blocks),
        cmocka_unit_test(a_failed_flush_says_why_and_loses_nothing),
        cmocka_unit_test(wrong_entries_and_filters_are_refused),
        cmocka_unit_test(pruning_deletes_what_is_older_than_its_days),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
