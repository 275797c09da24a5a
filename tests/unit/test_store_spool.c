/*
 * Events that wait on this machine's disk. By itself the suite delivers from one file to another; under
 * with_postgres.py the server is taken away, or stands still, while events stream.
 */
#include "base/clock.h"
#include "store/event_spool.h"
#include "store/sql_events.h"
#include "store/sql_identity.h"
#include "store/store_events.h"
#include "store/store_keys.h"
#include "store/store_news.h"
#include "store/store_sqlite.h"
#include "support/store_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void rest(int ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    nanosleep(&pause, NULL);
}

static struct rv_store_event event(const char *tenant, int i)
{
    struct rv_store_event e = {.tenant = tenant,
                               .model = "",
                               .response_id = "",
                               .kind = RV_STORE_EVENT_VOTE,
                               .score = i,
                               .time_us = 1,
                               .prompt = {.data = "p", .len = 1},
                               .delta = {.data = "\0\1", .len = 2}};

    e.uid[0] = 's';
    memcpy(e.uid + 4, &i, sizeof(i));
    return e;
}

/* ---- from file to file --------------------------------------------------------------------- */

static struct rv_store_db *connect_to(const char *path)
{
    struct ruvllm_store_params params = ruvllm_store_params_default();
    struct rv_store_db *db;

    assert_ok(rv_store_sqlite.open(&db, path, RV_STORE_ROLE_FIRST, &params, err));
    return db;
}

static void spool(struct rv_event_spool *s, const char *tenant, int i)
{
    struct rv_store_event e = event(tenant, i), *one = &e;

    assert_ok(rv_event_spool_write(s, &one, 1, err));
    assert_int_equal(e.fate, RV_STORE_EVENT_SPOOLED);
    assert_int_equal(e.seq, 0);
}

static void expect_in_order(struct rv_store_db *db, const char *tenant, int first, int step, int n)
{
    struct rv_sql_events_page page;
    int64_t after = 0;

    for (int i = 0; i < n;) {
        assert_ok(rv_sql_events_read(db, tenant, after, 100, &page, err));
        assert_true(page.n > 0);
        for (size_t k = 0; k < page.n; k++, i++) {
            assert_int_equal(page.rows[k].seq, i + 1);
            assert_true(page.rows[k].score == first + i * step);
            assert_string_equal(page.rows[k].prompt.data, "p");
            assert_int_equal(page.rows[k].delta.len, 2);
            after = page.rows[k].seq;
        }
        rv_sql_events_page_release(&page);
    }
    assert_ok(rv_sql_events_read(db, tenant, after, 100, &page, err));
    assert_int_equal(page.n, 0);
    rv_sql_events_page_release(&page);
}

static void what_waits_is_delivered_in_order_and_once(void **state)
{
    struct ruvllm_store_params params = ruvllm_store_params_default();
    const char *path = store_temp_path();
    struct rv_store_db *db = connect_to(store_temp_path());
    struct rv_store_event known = event("a", 2), *one = &known;
    struct rv_event_spool *s;

    (void)state;
    assert_ok(rv_sql_events_write(db, &one, 1, err)); // got there before its sender knew
    assert_ok(rv_event_spool_open(&s, path, &params, err));
    for (int i = 2; i < 302; i++)
        spool(s, i % 2 ? "b" : "a", i);
    spool(s, "a", 2); // a second time
    assert_int_equal(rv_event_spool_n(s), 300);
    assert_ok(rv_event_spool_deliver(s, db, 100, err));
    assert_int_equal(rv_event_spool_n(s), 300 - 128); // pages of 64
    rv_event_spool_close(s);
    assert_ok(rv_event_spool_open(&s, path, &params, err)); // a restart in between
    assert_int_equal(rv_event_spool_n(s), 172);
    assert_ok(rv_event_spool_deliver(s, db, 1000, err));
    assert_int_equal(rv_event_spool_n(s), 0);
    assert_ok(rv_event_spool_deliver(s, db, 1000, err));
    expect_in_order(db, "a", 2, 2, 150);
    expect_in_order(db, "b", 3, 2, 150);
    rv_event_spool_close(s);
    rv_sql_db_close(db);
}

/* Several processes share a spool: one that was slow removes what it delivered, and nothing that came meanwhile. */
static void what_came_meanwhile_stays(void **state)
{
    struct rv_store_db *db = connect_to(store_temp_path());
    struct rv_store_event first = event("a", 1), later = event("a", 2), *one = &first;
    struct rv_sql_events_page slow, fast;
    uint64_t n;

    (void)state;
    assert_ok(rv_sql_events_write(db, &one, 1, err));
    assert_ok(rv_sql_events_read(db, NULL, 0, 10, &slow, err));
    assert_ok(rv_sql_events_read(db, NULL, 0, 10, &fast, err));
    assert_ok(rv_sql_events_drop(db, &fast, err));
    one = &later;
    assert_ok(rv_sql_events_write(db, &one, 1, err)); // with the row's number of the one before
    assert_ok(rv_sql_events_drop(db, &slow, err));
    assert_ok(rv_sql_events_count(db, &n, err));
    assert_int_equal(n, 1);
    rv_sql_events_page_release(&slow);
    rv_sql_events_page_release(&fast);
    rv_sql_db_close(db);
}

/* It becomes part of a file's name, so it is believed only in its own alphabet. */
static void an_identity_is_a_word_of_its_own(void **state)
{
    static const char *const damaged[] = {
        "UPDATE identity SET id = '../../../tmp/x'",
        "UPDATE identity SET id = 'ABCDEF0123456789ABCDEF0123456789'",
        "DELETE FROM identity",
    };
    struct rv_store_db *one = connect_to(store_temp_path()), *other = connect_to(store_temp_path());
    char a[RV_SQL_IDENTITY_LEN + 1], b[RV_SQL_IDENTITY_LEN + 1];

    (void)state;
    assert_ok(rv_sql_identity_read(one, a, err));
    assert_ok(rv_sql_identity_read(other, b, err));
    assert_string_not_equal(a, b);
    assert_ok(rv_sql_identity_read(one, b, err));
    assert_string_equal(a, b);
    for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
        struct ruvllm_error failure = {0};

        assert_ok(rv_sql_db_run(one, damaged[i], "damage it", err));
        assert_fails(rv_sql_identity_read(one, a, &failure), RUVLLM_FORMAT, failure, "identity");
    }
    rv_sql_db_close(one);
    rv_sql_db_close(other);
}

static void a_spool_that_cannot_be_is_explained(void **state)
{
    struct ruvllm_store_params params = ruvllm_store_params_default();
    struct ruvllm_error failure = {0};
    struct rv_event_spool *s;

    (void)state;
    assert_fails(rv_event_spool_open(&s, "/dev/null/spool.db", &params, &failure), RUVLLM_IO, failure,
                 "cannot open the spool");
    assert_null(s);
    rv_event_spool_close(NULL);
}

/* ---- a server that goes away --------------------------------------------------------------- */

struct streamer {
    ruvllm_store *store;
    const char *tenant;
    atomic_bool *is_over;
    int n_sent;
    int n_spooled;
    int n_failed;
    int64_t slowest_us;
};

static void *stream_events(void *arg)
{
    struct streamer *s = arg;

    while (!atomic_load(s->is_over)) {
        struct rv_store_event e = event(s->tenant, s->n_sent);
        int64_t began = rv_clock_us();

        if (rv_store_events_append(s->store, &e, 1, NULL))
            s->n_failed++;
        else
            s->n_sent++;
        if (rv_clock_us() - began > s->slowest_us)
            s->slowest_us = rv_clock_us() - began;
        s->n_spooled += e.fate == RV_STORE_EVENT_SPOOLED;
        rest(2);
    }
    return NULL;
}

struct order {
    int n;
    bool is_right;
};

static bool check_order(void *user, const struct rv_store_event *e)
{
    struct order *o = user;

    o->is_right = o->is_right && e->seq == o->n + 1 && e->score == o->n;
    o->n++;
    return true;
}

static void wait_until_delivered(ruvllm_store *store)
{
    struct rv_event_writer_stats stats;

    for (int i = 0; i < 1200; i++) {
        assert_ok(rv_store_events_stats(store, &stats, err));
        if (!stats.n_in_spool)
            return;
        rest(100);
    }
    fail_msg("%llu events are still in the spool", (unsigned long long)stats.n_in_spool);
}

/* Four tenants who go on while something happens. */
struct streams {
    struct streamer streamers[4];
    pthread_t threads[4];
    atomic_bool is_over;
};

static void start_streams(struct streams *s, ruvllm_store *store)
{
    static const char *const tenants[] = {"a", "b", "c", "d"};

    atomic_init(&s->is_over, false);
    for (int i = 0; i < 4; i++) {
        s->streamers[i] = (struct streamer){.store = store, .tenant = tenants[i], .is_over = &s->is_over};
        assert_int_equal(pthread_create(&s->threads[i], NULL, stream_events, &s->streamers[i]), 0);
    }
}

static void end_streams(struct streams *s)
{
    atomic_store(&s->is_over, true);
    for (int i = 0; i < 4; i++)
        pthread_join(s->threads[i], NULL);
}

/* Nothing failed, nobody waited for longer than that, and the log has everything once and in order. */
static void expect_all_once(const struct streams *s, ruvllm_store *store, int64_t slowest_us)
{
    int n_spooled = 0;

    wait_until_delivered(store);
    for (int i = 0; i < 4; i++) {
        struct order o = {.is_right = true};

        assert_int_equal(s->streamers[i].n_failed, 0);
        assert_true(s->streamers[i].slowest_us < slowest_us);
        n_spooled += s->streamers[i].n_spooled;
        assert_ok(rv_store_events_replay(store, s->streamers[i].tenant, 0, check_order, &o, err));
        assert_true(o.is_right);
        assert_int_equal(o.n, s->streamers[i].n_sent);
    }
    print_message("%d events went through the spool\n", n_spooled);
    assert_true(n_spooled > 0);
}

static void no_event_fails_while_the_server_is_away(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct streams streams;

    (void)state;
    start_streams(&streams, store);
    for (int i = 0; i < 2; i++) {
        rest(300);
        store_postgres_stop(); // at once, as a crash would
        rest(1500);
        store_postgres_start();
    }
    rest(300);
    end_streams(&streams);
    expect_all_once(&streams, store, 30000000); // nobody waits for the server to come back
    ruvllm_store_close(store);
}

/* ---- a server that stands still ------------------------------------------------------------ */

/* Ten seconds of silence, then two to find that a new connection gets no answer either; and a busy machine. */
static const int64_t FROZEN_US = 20 * 1000000;

static const char *impatient_url(void)
{
    static char url[320];

    snprintf(url, sizeof(url), "%s&connect_timeout=2", store_temp_url());
    return url;
}

static void expect_io_in_time(ruvllm_status rc, int64_t began_us)
{
    assert_int_equal(rc, RUVLLM_IO);
    assert_true(rv_clock_us() - began_us < FROZEN_US);
}

static void a_server_that_freezes_is_as_one_that_is_gone(void **state)
{
    const char *url = impatient_url();
    ruvllm_store *store = store_open(url), *idle = store_open(url), *third;
    char endless[360];
    struct ruvllm_error failure = {0};
    struct streams streams;
    char key[RUVLLM_KEY_SIZE];
    int64_t began;
    uint64_t n;

    (void)state;
    store_make_key(store, "acme", key, NULL);
    assert_int_equal(store_check(store, key, NULL), RUVLLM_KEY_VALID);
    start_streams(&streams, store);
    rest(300);
    store_postgres_freeze(); // in the middle of somebody's transaction, or of his commit
    began = rv_clock_us();
    expect_io_in_time(ruvllm_keys_count(store, &n, &failure), began);
    assert_non_null(strstr(failure.message, "cannot count keys"));
    began = rv_clock_us();
    expect_io_in_time(ruvllm_keys_count(store, &n, NULL), began); // nor does a new connection get an answer
    began = rv_clock_us();
    expect_io_in_time(ruvllm_keys_count(store, &n, NULL), began);
    assert_true(rv_clock_us() - began < 1000000); // nobody answered a moment ago
    began = rv_clock_us();
    assert_int_equal(store_check(store, key, NULL), RUVLLM_KEY_VALID); // as when it is gone
    assert_true(rv_clock_us() - began < FROZEN_US);
    began = rv_clock_us();
    snprintf(endless, sizeof(endless), "%s&connect_timeout=0", url); // what comes later counts
    expect_io_in_time(ruvllm_store_open(&third, endless, NULL, &failure), began);
    began = rv_clock_us();
    ruvllm_store_close(idle);
    assert_true(rv_clock_us() - began < FROZEN_US);
    store_postgres_thaw();
    rest(300);
    end_streams(&streams);
    expect_all_once(&streams, store, FROZEN_US);
    for (int i = 0; i < 600 && ruvllm_keys_count(store, &n, NULL); i++)
        rest(100);
    assert_ok(ruvllm_keys_count(store, &n, err));
    assert_int_equal(n, 1);
    ruvllm_store_close(store);
}

static void what_a_dead_process_left_is_delivered_by_the_next(void **state)
{
    const char *url = store_temp_url();
    ruvllm_store *store = store_open(url);
    struct rv_store_event e = event("a", 0);
    struct order o = {.is_right = true};

    (void)state;
    assert_ok(rv_store_events_append(store, &e, 1, err));
    store_postgres_stop();
    for (int i = 1; i < 100; i++) {
        e = event("a", i);
        assert_ok(rv_store_events_append(store, &e, 1, err));
        assert_int_equal(e.fate, RV_STORE_EVENT_SPOOLED);
    }
    ruvllm_store_close(store);
    store_postgres_start();
    store = store_open(url);
    wait_until_delivered(store);
    assert_ok(rv_store_events_replay(store, "a", 0, check_order, &o, err));
    assert_true(o.is_right && o.n == 100);
    ruvllm_store_close(store);
}

/* The database may have taken it before it went: then nobody may be told that nothing was written. */
static void where_the_spool_fails_too_it_is_in_doubt(void **state)
{
    const char *url = store_temp_url(), *path = store_temp_path();
    struct ruvllm_store_params params = ruvllm_store_params_default();
    struct rv_store_event e = event("a", 0);
    struct ruvllm_error failure = {0};
    struct rv_store_db *other;
    ruvllm_store *store;

    (void)state;
    params.spool_path = path;
    params.busy_timeout_ms = 50;
    assert_ok(ruvllm_store_open(&store, url, &params, err));
    other = connect_to(path);
    assert_ok(rv_sql_db_begin(other, err)); // somebody writes for long
    store_postgres_stop();
    assert_fails(rv_store_events_append(store, &e, 1, &failure), RUVLLM_IO, failure, "spool fails");
    assert_int_equal(rv_store_events_append(store, &e, 1, &failure), RUVLLM_IO); // it was asked for again
    assert_ok(rv_sql_db_end(other, RUVLLM_OK, err));
    assert_ok(rv_store_events_append(store, &e, 1, err));
    assert_int_equal(e.fate, RV_STORE_EVENT_SPOOLED);
    store_postgres_start();
    wait_until_delivered(store);
    rv_sql_db_close(other);
    ruvllm_store_close(store);
}

/* Two databases, one user on one machine. */
static void what_waits_for_one_database_is_not_given_to_another(void **state)
{
    const char *url = store_temp_url(), *other_url;
    char home[256];
    ruvllm_store *store, *other;
    struct rv_store_event e = event("a", 0);
    struct order o = {.is_right = true};
    int64_t last;

    (void)state;
    snprintf(home, sizeof(home), "%s", getenv("XDG_STATE_HOME"));
    other_url = store_temp_url();
    setenv("XDG_STATE_HOME", home, 1);
    ruvllm_store_close(store_open(other_url)); // its tables are made
    store = store_open(url);
    store_postgres_stop();
    assert_ok(rv_store_events_append(store, &e, 1, err));
    assert_int_equal(e.fate, RV_STORE_EVENT_SPOOLED);
    ruvllm_store_close(store);
    store_postgres_start();
    other = store_open(other_url);
    wait_until_delivered(other);
    assert_ok(rv_store_events_last(other, "a", &last, err));
    assert_int_equal(last, 0);
    ruvllm_store_close(other);
    store = store_open(url);
    wait_until_delivered(store);
    assert_ok(rv_store_events_replay(store, "a", 0, check_order, &o, err));
    assert_true(o.is_right && o.n == 1);
    ruvllm_store_close(store);
}

static void keep_last(void *user, const struct rv_store_news *news)
{
    *(struct rv_store_news *)user = *news;
}

static void other_calls_fail_with_a_sentence_and_work_again(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct ruvllm_error failure = {0};
    struct rv_store_news_listener *listener;
    struct rv_store_news news = {0};
    char key[RUVLLM_KEY_SIZE], stranger[RUVLLM_KEY_SIZE];
    ruvllm_key_verdict verdict;
    uint64_t n;

    (void)state;
    store_make_key(store, "acme", key, NULL);
    memcpy(stranger, key, sizeof(key));
    assert_int_equal(store_check(store, key, NULL), RUVLLM_KEY_VALID);
    assert_ok(rv_store_news_open(&listener, store, err));
    assert_ok(rv_store_news_wait(listener, 0, keep_last, &news, err));
    news = (struct rv_store_news){0};
    store_postgres_stop();
    assert_fails(ruvllm_keys_count(store, &n, &failure), RUVLLM_IO, failure, "cannot count keys");
    assert_int_equal(store_check(store, key, NULL), RUVLLM_KEY_VALID); // it was, a moment ago
    stranger[5] = stranger[5] == 'x' ? 'y' : 'x';
    assert_fails(ruvllm_keys_check(store, stranger, sizeof(stranger) - 1, &verdict, NULL, &failure), RUVLLM_IO, failure,
                 "look up a key");
    assert_int_equal(rv_store_news_wait(listener, 10, keep_last, &news, &failure), RUVLLM_IO);
    store_postgres_start();
    for (int i = 0; i < 600 && ruvllm_keys_count(store, &n, NULL); i++)
        rest(100); // it is asked for once a second, and seldom where asking takes long
    assert_ok(ruvllm_keys_count(store, &n, err));
    assert_int_equal(n, 1);
    for (int i = 0; i < 600 && rv_store_news_wait(listener, 10, keep_last, &news, NULL); i++)
        rest(100);
    assert_int_equal(news.kind, RV_STORE_NEWS_ANY); // something may have been missed
    store_postgres_stop();
    store_postgres_start(); // nobody noticed: what only reads is asked a second time
    assert_ok(ruvllm_keys_count(store, &n, err));
    assert_int_equal(store_check(store, key, NULL), RUVLLM_KEY_VALID);
    rv_store_news_close(listener);
    ruvllm_store_close(store);
}

int main(void)
{
    const struct CMUnitTest files[] = {
        cmocka_unit_test(what_waits_is_delivered_in_order_and_once),
        cmocka_unit_test(what_came_meanwhile_stays),
        cmocka_unit_test(an_identity_is_a_word_of_its_own),
        cmocka_unit_test(a_spool_that_cannot_be_is_explained),
    };
    const struct CMUnitTest server[] = {
        cmocka_unit_test(no_event_fails_while_the_server_is_away),
        cmocka_unit_test(what_a_dead_process_left_is_delivered_by_the_next),
        cmocka_unit_test(where_the_spool_fails_too_it_is_in_doubt),
        cmocka_unit_test(what_waits_for_one_database_is_not_given_to_another),
        cmocka_unit_test(other_calls_fail_with_a_sentence_and_work_again),
        cmocka_unit_test(a_server_that_freezes_is_as_one_that_is_gone),
    };
    int failed = cmocka_run_group_tests(files, NULL, NULL);

    return failed + (store_is_postgres() ? cmocka_run_group_tests(server, NULL, NULL) : 0);
}
