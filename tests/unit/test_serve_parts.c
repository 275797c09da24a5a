/* The server's small parts: rates, metrics, log lines, traces, workers. */
#include "server/access_log.h"
#include "server/metrics.h"
#include "server/rate_limit.h"
#include "server/trace_context.h"
#include "server/worker_pool.h"
#include "support/test.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- rates ---- */

static void a_minute_holds_as_many_requests_as_the_key_may_make(void **state)
{
    struct rv_rate_limit limit;

    (void)state;
    assert_ok(rv_rate_limit_init(&limit, 4, err));
    for (int i = 0; i < 10; i++)
        assert_int_equal(rv_rate_limit_take(&limit, 1, 10, 0), 0);
    assert_int_equal(rv_rate_limit_take(&limit, 1, 10, 0), 6);       // one every six seconds
    assert_int_equal(rv_rate_limit_take(&limit, 1, 10, 3000000), 3); // half of it is there
    assert_int_equal(rv_rate_limit_take(&limit, 1, 10, 6000000), 0);
    assert_int_equal(rv_rate_limit_take(&limit, 1, 10, 6000000), 6);
    assert_int_equal(rv_rate_limit_take(&limit, 2, 10, 6000000), 0); // another key is not held up
    rv_rate_limit_release(&limit);
}

static void no_limit_is_no_limit_and_a_pause_saves_up_one_minute_only(void **state)
{
    struct rv_rate_limit limit;

    (void)state;
    assert_ok(rv_rate_limit_init(&limit, 4, err));
    for (int i = 0; i < 1000; i++)
        assert_int_equal(rv_rate_limit_take(&limit, 1, 0, 0), 0);
    assert_int_equal(rv_rate_limit_take(&limit, 1, 2, 0), 0);
    assert_int_equal(rv_rate_limit_take(&limit, 1, 2, (int64_t)3600 * 1000000), 0);
    assert_int_equal(rv_rate_limit_take(&limit, 1, 2, (int64_t)3600 * 1000000), 0);
    assert_true(rv_rate_limit_take(&limit, 1, 2, (int64_t)3600 * 1000000) > 0);
    rv_rate_limit_release(&limit);
}

static void more_keys_than_there_is_room_for_are_served(void **state)
{
    struct rv_rate_limit limit;

    (void)state;
    assert_ok(rv_rate_limit_init(&limit, 3, err));
    for (uint64_t key = 0; key < 1000; key++)
        assert_int_equal(rv_rate_limit_take(&limit, key, 1, (int64_t)key), 0);
    rv_rate_limit_release(&limit);
}

/* ---- metrics ---- */

static const char *name_of(size_t i)
{
    return i ? "/b" : "/a";
}

static const char *method_of(size_t i)
{
    (void)i;
    return "GET";
}

static void the_page_has_what_was_counted(void **state)
{
    struct rv_metrics_model_view models[2] = {
        {.name = "m", .is_loaded = true, .stats = {.running = 3, .kv_used = 1, .kv_budget = 4}}, {.name = "n"}};
    struct rv_metrics_view view = {.route_name = name_of, .route_method = method_of, .models = models};
    struct rv_metrics metrics;
    struct rv_buf out;

    (void)state;
    assert_ok(rv_metrics_init(&metrics, 2, 2, err));
    rv_buf_init(&out, 1 << 20);
    rv_metrics_request(&metrics, 1, 200);
    rv_metrics_request(&metrics, 1, 200);
    rv_metrics_request(&metrics, 2, 404);
    rv_metrics_request(&metrics, 0, 299); // nothing we answer with
    rv_metrics_observe(&metrics.models[0].first_token, 0.02, 1);
    rv_metrics_observe(&metrics.models[0].first_token, 1000, 2);
    rv_metrics_write(&metrics, &view, &out);
    assert_int_equal(out.failed, RUVLLM_OK);
    assert_non_null(strstr(out.data, "ruvllm_http_requests_total{route=\"/b\",method=\"GET\",status=\"200\"} 2\n"));
    assert_non_null(strstr(out.data, "{route=\"none\",method=\"any\",status=\"404\"} 1\n"));
    assert_non_null(strstr(out.data, "{route=\"/a\",method=\"GET\",status=\"0\"} 1\n"));
    assert_non_null(strstr(out.data, "vllm:num_requests_running{model_name=\"m\"} 3\n"));
    assert_non_null(strstr(out.data, "vllm:kv_cache_usage_perc{model_name=\"m\"} 0.25\n"));
    assert_null(strstr(out.data, "vllm:num_requests_running{model_name=\"n\"}")); // not loaded
    assert_non_null(strstr(out.data, "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"0.01\"} 0\n"));
    assert_non_null(strstr(out.data, "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"0.025\"} 1\n"));
    assert_non_null(strstr(out.data, "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"120\"} 1\n"));
    assert_non_null(strstr(out.data, "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"+Inf\"} 3\n"));
    assert_non_null(strstr(out.data, "vllm:time_to_first_token_seconds_count{model_name=\"m\"} 3\n"));
    rv_buf_release(&out);
    rv_metrics_release(&metrics);
}

/* Prometheus wants a TYPE line before each family, once. */
static void every_family_is_typed_once(void **state)
{
    struct rv_metrics_model_view models[1] = {{.name = "m", .is_loaded = true}};
    struct rv_metrics_view view = {.route_name = name_of, .route_method = method_of, .models = models};
    struct rv_metrics metrics;
    struct rv_buf out;

    (void)state;
    assert_ok(rv_metrics_init(&metrics, 1, 2, err));
    rv_buf_init(&out, 1 << 20);
    rv_metrics_request(&metrics, 0, 200);
    rv_metrics_write(&metrics, &view, &out);
    for (const char *at = out.data; (at = strstr(at, "# TYPE ")); at++) {
        char line[128];
        size_t len = strcspn(at + 7, " ") + 8;

        snprintf(line, sizeof(line), "%.*s", (int)len, at);
        assert_null(strstr(at + 1, line));
    }
    assert_int_equal(out.data[out.len - 1], '\n');
    rv_buf_release(&out);
    rv_metrics_release(&metrics);
}

/* ---- log ---- */

static void a_line_stays_one_line_whatever_a_path_holds(void **state)
{
    const struct rv_access_log_record record = {
        .method = "GET", .path = "/a\n\"b\"\\\x1b[31m\x7f\xff\xe2\x80\xa8\xc3\xa9", .status = 404, .total_us = 1500};
    struct rv_buf line;

    (void)state;
    rv_buf_init(&line, 4096);
    rv_access_log_format(&line, &record, 1700000000123456);
    assert_string_equal(line.data,
                        "{\"time\":\"2023-11-14T22:13:20.123Z\",\"event\":\"request\",\"method\":\"GET\",\"path\":\"/"
                        "a\\u000a\\\"b\\\"\\\\\\u001b[31m\\u007f\\ufffd\\u2028\xc3\xa9\",\"status\":404,\"ms\":1.500}"
                        "\n");
    rv_buf_release(&line);
}

static void what_was_logged_is_written_before_the_log_is_closed(void **state)
{
    struct rv_access_log *log;
    char text[64 << 10];
    size_t n_lines = 0;
    int ends[2];
    ssize_t n;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_ok(rv_access_log_open(&log, ends[1], err));
    for (int i = 0; i < 100; i++)
        rv_access_log_message(log, "info", "a line");
    rv_access_log_close(log);
    close(ends[1]);
    while ((n = read(ends[0], text, sizeof(text))) > 0)
        for (ssize_t i = 0; i < n; i++)
            n_lines += text[i] == '\n';
    close(ends[0]);
    assert_int_equal(n_lines, 100);
}

/* ---- traces ---- */

static void a_trace_goes_on_and_a_malformed_one_is_replaced(void **state)
{
    static const char good[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    static const char *const bad[] = {"",
                                      "00",
                                      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
                                      "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                                      "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                                      "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                      "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                                      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
                                      "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"};
    struct rv_trace_context trace;
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 1);
    rv_trace_context_begin(&trace, good, &rng);
    assert_memory_equal(trace.text, good, 36);
    assert_string_equal(trace.text + 52, "-01");
    assert_memory_not_equal(trace.text + 36, good + 36, 16); // a span of our own
    assert_true(rv_trace_context_is_valid(trace.text));
    assert_true(rv_trace_context_is_valid("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more"));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(rv_trace_context_is_valid(bad[i]));
        rv_trace_context_begin(&trace, bad[i], &rng);
        assert_true(rv_trace_context_is_valid(trace.text));
    }
}

/* ---- workers ---- */

enum { PIECES = 1000 };

struct piece {
    struct rv_work work;
    struct rv_worker_pool *pool;
    _Atomic int *n_done;
    bool again;
};

static void do_piece(void *user)
{
    struct piece *piece = user;

    atomic_fetch_add(piece->n_done, 1);
    if (piece->again) {
        piece->again = false;
        rv_worker_pool_push(piece->pool, &piece->work);
    }
}

static void all_work_is_done_before_the_workers_end(void **state)
{
    static struct piece pieces[PIECES];
    struct rv_worker_pool *pool;
    _Atomic int n_done = 0;

    (void)state;
    assert_ok(rv_worker_pool_open(&pool, 3, err));
    for (int i = 0; i < PIECES; i++) {
        pieces[i] = (struct piece){.pool = pool, .n_done = &n_done, .again = i % 2};
        pieces[i].work = (struct rv_work){.fn = do_piece, .user = &pieces[i]};
        rv_worker_pool_push(pool, &pieces[i].work);
    }
    rv_worker_pool_close(pool);
    assert_int_equal(n_done, PIECES + PIECES / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_minute_holds_as_many_requests_as_the_key_may_make),
        cmocka_unit_test(no_limit_is_no_limit_and_a_pause_saves_up_one_minute_only),
        cmocka_unit_test(more_keys_than_there_is_room_for_are_served),
        cmocka_unit_test(the_page_has_what_was_counted),
        cmocka_unit_test(every_family_is_typed_once),
        cmocka_unit_test(a_line_stays_one_line_whatever_a_path_holds),
        cmocka_unit_test(what_was_logged_is_written_before_the_log_is_closed),
        cmocka_unit_test(a_trace_goes_on_and_a_malformed_one_is_replaced),
        cmocka_unit_test(all_work_is_done_before_the_workers_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
