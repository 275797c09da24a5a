/*
 * What a store does when memory runs out at any moment, when the process is killed at any moment, and when threads
 * meet. SQLite's allocator is replaced before its first use, so that its allocations fail as ours do.
 */
#include "base/alloc.h"
#include "support/store_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- allocations that fail ----------------------------------------------------------------- */

void *__real_rv_malloc(size_t bytes);
void *__real_rv_calloc(size_t n, size_t size);
void *__real_rv_realloc_array(void *array, size_t n, size_t size);
void *__wrap_rv_malloc(size_t bytes);
void *__wrap_rv_calloc(size_t n, size_t size);
void *__wrap_rv_realloc_array(void *array, size_t n, size_t size);

static atomic_long n_until_failure; // counts down; the one that reaches 0 fails
static atomic_long n_failed;
static sqlite3_mem_methods plain;

static bool fails_now(void)
{
    if (atomic_fetch_sub(&n_until_failure, 1) != 1)
        return false;
    atomic_fetch_add(&n_failed, 1);
    return true;
}

void *__wrap_rv_malloc(size_t bytes)
{
    return fails_now() ? NULL : __real_rv_malloc(bytes);
}

void *__wrap_rv_calloc(size_t n, size_t size)
{
    return fails_now() ? NULL : __real_rv_calloc(n, size);
}

void *__wrap_rv_realloc_array(void *array, size_t n, size_t size)
{
    return fails_now() ? NULL : __real_rv_realloc_array(array, n, size);
}

static void *failing_malloc(int bytes)
{
    return fails_now() ? NULL : plain.xMalloc(bytes);
}

static void *failing_realloc(void *memory, int bytes)
{
    return fails_now() ? NULL : plain.xRealloc(memory, bytes);
}

static void replace_allocator(void)
{
    sqlite3_mem_methods failing;

    assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &plain), SQLITE_OK);
    failing = plain;
    failing.xMalloc = failing_malloc;
    failing.xRealloc = failing_realloc;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &failing), SQLITE_OK);
}

struct round {
    struct ruvllm_error err;
    char key[RUVLLM_KEY_SIZE];
    bool has_key;
    bool has_session;
};

/* One call of everything; stops at the first that fails, whose status it returns. */
static ruvllm_status use_all(ruvllm_store *store, struct round *r)
{
    struct ruvllm_session session = {.struct_size = sizeof(session), .tenant = "acme", .id = "s", .messages = ""};
    struct ruvllm_witness entry = store_witness(1, "acme", "m");
    struct ruvllm_key_params params = ruvllm_key_params_default();
    struct ruvllm_session *got = NULL;
    struct store_rows rows = {0};
    ruvllm_key_verdict verdict;
    ruvllm_status rc;

    params.tenant = "acme";
    rc = ruvllm_keys_create(store, &params, r->key, NULL, &r->err);
    r->has_key = !rc;
    if (!rc)
        rc = ruvllm_keys_check(store, r->key, RUVLLM_KEY_SIZE - 1, &verdict, NULL, &r->err);
    if (!rc)
        rc = ruvllm_witness_append(store, &entry, &r->err);
    if (!rc)
        rc = ruvllm_witness_flush(store, &r->err);
    if (!rc)
        rc = ruvllm_sessions_put(store, &session, &r->err);
    r->has_session = !rc;
    if (!rc)
        rc = ruvllm_sessions_get(store, "acme", "s", &got, &r->err);
    ruvllm_free(got);
    if (!rc)
        rc = ruvllm_sessions_list(store, "acme", 0, NULL, 5, store_row_session, &rows, &r->err);
    if (!rc)
        rc = ruvllm_keys_list(store, NULL, store_row_key, &rows, &r->err);
    if (!rc)
        rc = ruvllm_witness_query(store, NULL, store_row_witness, &rows, &r->err);
    return rc;
}

/* With the nth allocation failing; false when there are not that many. */
static bool survives(const char *path, long n)
{
    struct round r = {0};
    ruvllm_store *store;
    ruvllm_status rc;

    store_remove(path);
    atomic_store(&n_failed, 0);
    atomic_store(&n_until_failure, n);
    rc = ruvllm_store_open(&store, path, NULL, &r.err);
    if (!rc)
        rc = use_all(store, &r);
    ruvllm_store_close(store);
    atomic_store(&n_until_failure, 0);
    if (rc != RUVLLM_OK && (rc != RUVLLM_NO_MEMORY || !r.err.message[0]))
        fail_msg("allocation %ld: %s: %s", n, ruvllm_status_name(rc), r.err.message);
    if (!r.has_key)
        return atomic_load(&n_failed) > 0;
    store = store_open(path);
    assert_int_equal(store_check(store, r.key, NULL), RUVLLM_KEY_VALID);
    if (r.has_session) {
        struct ruvllm_session *got;

        assert_ok(ruvllm_sessions_get(store, "acme", "s", &got, err));
        ruvllm_free(got);
    }
    ruvllm_store_close(store);
    return atomic_load(&n_failed) > 0;
}

static void every_allocation_may_fail(void **state)
{
    const char *path = store_temp_path();
    long n = 1;

    (void)state;
    /* All of the first, then every 23rd: SQLite allocates the same kinds again and again. */
    while (survives(path, n))
        n += n < 100 ? 1 : 23;
    print_message("%ld allocations\n", n - 1);
    assert_true(n > 200);
}

/* ---- a process that is killed -------------------------------------------------------------- */

/* Makes keys and flushed entries for as long as it lives; tells of each only when the store said it is done. */
static void work_until_killed(const char *path, int out)
{
    struct ruvllm_key_params params = ruvllm_key_params_default();
    char key[RUVLLM_KEY_SIZE];
    ruvllm_store *store;

    params.tenant = "acme";
    if (ruvllm_store_open(&store, path, NULL, NULL))
        _exit(1);
    for (int32_t i = 0;; i++) {
        struct ruvllm_witness entry = store_witness(i, "acme", "m");

        if (ruvllm_keys_create(store, &params, key, NULL, NULL) || ruvllm_witness_append(store, &entry, NULL) ||
            ruvllm_witness_flush(store, NULL) || write(out, key, sizeof(key)) != sizeof(key))
            _exit(1);
    }
}

/* Reads what was acknowledged, kills after `n`, and goes on reading what was on its way. */
static size_t acknowledged(const char *path, size_t n, char keys[][RUVLLM_KEY_SIZE], size_t max)
{
    size_t got = 0;
    int ends[2], status;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        work_until_killed(path, ends[1]);
    close(ends[1]);
    while (got < max && read(ends[0], keys[got], RUVLLM_KEY_SIZE) == RUVLLM_KEY_SIZE) {
        if (++got == n)
            kill(child, SIGKILL);
    }
    close(ends[0]);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return got;
}

static void what_was_acknowledged_survives_a_kill(void **state)
{
    static char keys[50 * 64][RUVLLM_KEY_SIZE];
    const char *path = store_temp_path();
    size_t n = 0;

    (void)state;
    for (size_t loop = 0; loop < 50; loop++) {
        struct ruvllm_witness_filter filter = ruvllm_witness_filter_default();
        struct store_rows rows = {0};
        ruvllm_store *store;

        n += acknowledged(path, 1 + loop % 5, keys + n, 64);
        store = store_open(path);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(store_check(store, keys[i], NULL), RUVLLM_KEY_VALID);
        filter.limit = 1000;
        assert_ok(ruvllm_witness_query(store, &filter, store_row_witness, &rows, err));
        assert_true(rows.n >= (n < 1000 ? n : 1000));
        ruvllm_store_close(store);
    }
    assert_true(n >= 50);
}

static void processes_that_come_at_once_all_find_the_store(void **state)
{
    (void)state;
    for (int loop = 0; loop < 10; loop++) {
        const char *path = store_temp_path();
        pid_t children[4];

        for (size_t i = 0; i < 4; i++) {
            children[i] = fork();
            assert_true(children[i] >= 0);
            if (children[i] == 0) {
                struct ruvllm_key_params params = ruvllm_key_params_default();
                char key[RUVLLM_KEY_SIZE];
                ruvllm_store *store;

                params.tenant = "acme";
                if (ruvllm_store_open(&store, path, NULL, NULL) || ruvllm_keys_create(store, &params, key, NULL, NULL))
                    _exit(1);
                ruvllm_store_close(store);
                _exit(0);
            }
        }
        for (size_t i = 0; i < 4; i++) {
            int status;

            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            assert_int_equal(status, 0);
        }
        {
            ruvllm_store *store = store_open(path);
            uint64_t n;

            assert_ok(ruvllm_keys_count(store, &n, err));
            assert_int_equal(n, 4);
            ruvllm_store_close(store);
        }
    }
}

/* ---- threads ------------------------------------------------------------------------------- */

struct hammer {
    ruvllm_store *store;
    const char *key;
    atomic_int n_wrong;
};

static void *check_keys(void *arg)
{
    struct hammer *h = arg;
    struct ruvllm_key_info info = {.struct_size = sizeof(info)};
    ruvllm_key_verdict verdict;

    for (int i = 0; i < 2000; i++) {
        if (ruvllm_keys_check(h->store, h->key, RUVLLM_KEY_SIZE - 1, &verdict, &info, NULL) ||
            verdict != RUVLLM_KEY_VALID || strcmp(info.tenant, "acme") != 0)
            atomic_fetch_add(&h->n_wrong, 1);
    }
    return NULL;
}

static void *append_entries(void *arg)
{
    struct hammer *h = arg;

    for (int32_t i = 0; i < 2000; i++) {
        struct ruvllm_witness entry = store_witness(i, "acme", "m");

        if (ruvllm_witness_append(h->store, &entry, NULL) || (i % 500 == 0 && ruvllm_witness_flush(h->store, NULL)))
            atomic_fetch_add(&h->n_wrong, 1);
    }
    return NULL;
}

static void *change_sessions(void *arg)
{
    struct hammer *h = arg;

    for (int i = 0; i < 50; i++) {
        struct ruvllm_session s = {.struct_size = sizeof(s), .tenant = "acme", .id = "s", .messages = ""};

        if (ruvllm_sessions_put(h->store, &s, NULL) || ruvllm_sessions_delete(h->store, "acme", "s", NULL))
            atomic_fetch_add(&h->n_wrong, 1);
    }
    return NULL;
}

static void threads_do_not_disturb_each_other(void **state)
{
    void *(*const jobs[])(void *) = {check_keys, append_entries, change_sessions, check_keys, append_entries};
    struct ruvllm_witness_stats stats = {.struct_size = sizeof(stats)};
    struct hammer h = {.store = store_open(store_temp_path())};
    char key[RUVLLM_KEY_SIZE];
    pthread_t threads[5];

    (void)state;
    store_make_key(h.store, "acme", key, NULL);
    h.key = key;
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, jobs[i], &h), 0);
    for (size_t i = 0; i < 5; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(h.n_wrong, 0);
    assert_ok(ruvllm_witness_flush(h.store, err));
    assert_ok(ruvllm_witness_stats_get(h.store, &stats, err));
    assert_int_equal(stats.appended, 4000);
    assert_int_equal(stats.written + stats.dropped, 4000);
    ruvllm_store_close(h.store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_acknowledged_survives_a_kill), // first: forks before there are threads
        cmocka_unit_test(processes_that_come_at_once_all_find_the_store),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(threads_do_not_disturb_each_other),
    };

    replace_allocator();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
