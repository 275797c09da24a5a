/*
 * Learning while memory runs out, or the store fails, at any one moment: learning is begun, there are votes, a way
 * back, a correction and a pair, questions about what was learned, a restart. Whatever was reported as done is in the
 * log, under its number; whatever was reported as failed is done again, as a client would, and is there once; and what
 * answers afterwards is what the log says, to the bit.
 *
 * Failures of the store come between the SQL and the database: a statement, a beginning, an end that undid everything,
 * and an end that did not, but could not say so.
 */
#include "learn/whitening_store.h"
#include "store/sql_statement.h"
#include "store/store_events.h"
#include "support/learn_fixture.h"
#include "support/store_fixture.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { DIMS = 16, ROWS = 6, N_OPS = 8 };

/* ---- what fails ----------------------------------------------------------------------------- */

void *__real_rv_malloc(size_t bytes);
void *__real_rv_calloc(size_t n, size_t size);
void *__real_rv_realloc_array(void *array, size_t n, size_t size);
void *__wrap_rv_malloc(size_t bytes);
void *__wrap_rv_calloc(size_t n, size_t size);
void *__wrap_rv_realloc_array(void *array, size_t n, size_t size);
ruvllm_status __real_rv_sql_db_begin(struct rv_store_db *db, struct ruvllm_error *err);
ruvllm_status __real_rv_sql_db_end(struct rv_store_db *db, ruvllm_status rc, struct ruvllm_error *err);
ruvllm_status __real_rv_sql_statement_step(struct rv_sql_statement *s, bool *has_row, struct ruvllm_error *err);
ruvllm_status __wrap_rv_sql_db_begin(struct rv_store_db *db, struct ruvllm_error *err);
ruvllm_status __wrap_rv_sql_db_end(struct rv_store_db *db, ruvllm_status rc, struct ruvllm_error *err);
ruvllm_status __wrap_rv_sql_statement_step(struct rv_sql_statement *s, bool *has_row, struct ruvllm_error *err);

enum fault { NO_FAULT, NO_MEMORY, STORE_FAILS, STORE_IS_SILENT };

static atomic_int fault;            // an enum fault; the store has threads of its own
static atomic_long n_until_failure; // counts down; the one that reaches 0 fails
static atomic_bool has_failed;
static sqlite3_mem_methods plain;

static bool fails_now(bool is_kind)
{
    if (!is_kind || atomic_fetch_sub(&n_until_failure, 1) != 1)
        return false;
    atomic_store(&has_failed, true);
    return true;
}

void *__wrap_rv_malloc(size_t bytes)
{
    return fails_now(fault == NO_MEMORY) ? NULL : __real_rv_malloc(bytes);
}

void *__wrap_rv_calloc(size_t n, size_t size)
{
    return fails_now(fault == NO_MEMORY) ? NULL : __real_rv_calloc(n, size);
}

void *__wrap_rv_realloc_array(void *array, size_t n, size_t size)
{
    return fails_now(fault == NO_MEMORY) ? NULL : __real_rv_realloc_array(array, n, size);
}

static void *failing_malloc(int bytes)
{
    return fails_now(fault == NO_MEMORY) ? NULL : plain.xMalloc(bytes);
}

static void *failing_realloc(void *memory, int bytes)
{
    return fails_now(fault == NO_MEMORY) ? NULL : plain.xRealloc(memory, bytes);
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

static ruvllm_status disk_fails(struct ruvllm_error *err)
{
    return rv_fail_kind(err, RUVLLM_IO, RUVLLM_ERROR_STORAGE, "the disk failed");
}

ruvllm_status __wrap_rv_sql_db_begin(struct rv_store_db *db, struct ruvllm_error *err)
{
    return fails_now(fault == STORE_FAILS) ? disk_fails(err) : __real_rv_sql_db_begin(db, err);
}

ruvllm_status __wrap_rv_sql_db_end(struct rv_store_db *db, ruvllm_status rc, struct ruvllm_error *err)
{
    if (!rc && fails_now(fault == STORE_FAILS))
        return __real_rv_sql_db_end(db, disk_fails(err), err);
    rc = __real_rv_sql_db_end(db, rc, err);
    return !rc && fails_now(fault == STORE_IS_SILENT) ? disk_fails(err) : rc;
}

ruvllm_status __wrap_rv_sql_statement_step(struct rv_sql_statement *s, bool *has_row, struct ruvllm_error *err)
{
    if (!fails_now(fault == STORE_FAILS))
        return __real_rv_sql_statement_step(s, has_row, err);
    *has_row = false;
    return disk_fails(err);
}

/* ---- the story ------------------------------------------------------------------------------ */

struct life {
    struct learn_fixture fixture;
    ruvllm_store *store;
    struct rv_learner *learner;
    const char *path;
    int64_t seqs[N_OPS]; // as they were told; 0: not told
    int64_t n_done;
};

static ruvllm_status begin(struct life *life, struct ruvllm_error *err)
{
    ruvllm_status rc = ruvllm_store_open(&life->store, life->path, NULL, err);

    life->fixture = (struct learn_fixture){
        .n_dims = DIMS, .n_rows = ROWS, .rank = 2, .store = life->store, .tenant_bytes = 1}; // everybody goes at once
    return rc ? rc : learn_fixture_try(&life->fixture, &life->learner, err);
}

static void end(struct life *life)
{
    rv_learner_free(life->learner);
    ruvllm_store_close(life->store);
    life->learner = NULL;
    life->store = NULL;
}

static enum rv_store_event_kind kind_of(int i)
{
    return i == 5   ? RV_STORE_EVENT_ROLLBACK
           : i == 3 ? RV_STORE_EVENT_CORRECTION
           : i == 6 ? RV_STORE_EVENT_PAIR
                    : RV_STORE_EVENT_VOTE;
}

/* The answer itself is what should have been said; of a pair, the one before it is what should not. */
static ruvllm_status teach(struct life *life, int i, struct rv_learner_result *result, struct ruvllm_error *err)
{
    struct rv_trace *good = rv_trace_ring_find(rv_learner_traces(life->learner), (uint64_t)i + 1, "anna");
    struct rv_trace *bad = rv_trace_ring_find(rv_learner_traces(life->learner), (uint64_t)i, "anna");
    struct rv_learner_lesson lesson = {
        .kind = kind_of(i), .lesson = {.good = good}, .correction = {.data = "so", .len = 2}};
    ruvllm_status rc;

    assert_non_null(good);
    if (kind_of(i) == RV_STORE_EVENT_PAIR)
        lesson.lesson.bad = bad;
    rc = rv_learner_teach(life->learner, "anna", &lesson, result, err);
    rv_trace_unref(good);
    rv_trace_unref(bad);
    return rc;
}

/* The i-th thing that is wished. */
static ruvllm_status wish(struct life *life, int i, struct ruvllm_error *err)
{
    struct rv_learner_result result = {0};
    ruvllm_status rc = kind_of(i) == RV_STORE_EVENT_ROLLBACK
                           ? rv_learner_go_back(life->learner, "anna", 2, &result, err)
                       : kind_of(i) == RV_STORE_EVENT_VOTE
                           ? rv_learner_vote(life->learner, "anna", (uint64_t)i + 1, i % 2, &result, err)
                           : teach(life, i, &result, err);

    if (!rc) {
        assert_true(life->seqs[i] == 0 || life->seqs[i] == result.seq);
        life->seqs[i] = result.seq;
        life->n_done++;
        assert_int_equal(result.generation, life->n_done);
    }
    return rc;
}

static void expect_sentence(ruvllm_status rc, const struct ruvllm_error *err)
{
    if (rc && ((rc != RUVLLM_NO_MEMORY && rc != RUVLLM_IO) || !err->message[0]))
        fail_msg("%s: '%s'", ruvllm_status_name(rc), err->message);
}

static void do_wish(struct life *life, int i, enum fault kind)
{
    struct ruvllm_error trouble = {0};
    struct rv_learner_summary sum;
    struct rv_adapter *adapter;
    struct rv_memory *memory;
    int64_t generation;
    ruvllm_status rc;

    fault = NO_FAULT;
    learn_fixture_answer(life->learner, &life->fixture, "anna", (uint64_t)i + 1);
    fault = kind;
    expect_sentence(rv_learner_sum_up(life->learner, "anna", &sum, &trouble), &trouble);
    expect_sentence(rv_learner_current(life->learner, "anna", &adapter, &memory, &generation, &trouble), &trouble);
    rv_adapter_unref(adapter);
    rv_memory_unref(memory);
    rc = wish(life, i, &trouble);
    expect_sentence(rc, &trouble);
    fault = NO_FAULT;
    if (rc)
        assert_ok(wish(life, i, err)); // a client tries again
    fault = kind;
}

/* Begins, again without faults where they kept it from beginning. */
static void begin_somehow(struct life *life, enum fault kind)
{
    struct ruvllm_error trouble = {0};
    ruvllm_status rc;

    fault = kind;
    rc = begin(life, &trouble);
    expect_sentence(rc, &trouble);
    fault = NO_FAULT;
    if (rc) {
        end(life);
        assert_ok(begin(life, err));
    }
}

static uint64_t expected_bits(void)
{
    struct life sure = {.fixture = {.n_dims = DIMS, .n_rows = ROWS, .rank = 2}};
    struct ruvllm_error trouble;
    uint64_t bits;

    sure.learner = learn_fixture_open(&sure.fixture);
    for (int i = 0; i < N_OPS; i++) {
        learn_fixture_answer(sure.learner, &sure.fixture, "anna", (uint64_t)i + 1);
        assert_int_equal(wish(&sure, i, &trouble), RUVLLM_OK);
    }
    bits = learn_fixture_bits(sure.learner, "anna", NULL);
    rv_learner_free(sure.learner);
    return bits;
}

struct count {
    const struct life *life;
    int n;
};

static bool see(void *user, const struct rv_store_event *e)
{
    struct count *c = user;

    assert_true(c->n < N_OPS);
    assert_int_equal(e->kind, kind_of(c->n));
    assert_int_equal(e->seq, c->n + 1);
    assert_int_equal(c->life->seqs[c->n], e->seq);
    c->n++;
    return true;
}

/* The whole story with one failure; false when there are not that many moments. */
static bool survives(const char *path, enum fault kind, long n, uint64_t bits)
{
    struct life life = {.path = path};
    struct count count = {.life = &life};
    int64_t generation;

    store_remove(path);
    atomic_store(&has_failed, false);
    atomic_store(&n_until_failure, n);
    begin_somehow(&life, kind);
    fault = kind;
    for (int i = 0; i < N_OPS; i++) {
        if (i == 4) {
            end(&life);
            begin_somehow(&life, kind);
            fault = kind;
        }
        do_wish(&life, i, kind);
    }
    fault = NO_FAULT;
    assert_true(learn_fixture_bits(life.learner, "anna", &generation) == bits);
    assert_int_equal(generation, N_OPS);
    end(&life);
    assert_ok(begin(&life, err));
    assert_true(learn_fixture_bits(life.learner, "anna", NULL) == bits);
    assert_ok(rv_store_events_replay(life.store, "anna", 0, see, &count, err));
    assert_int_equal(count.n, N_OPS);
    end(&life);
    return atomic_load(&has_failed);
}

/* Threads meet in the same places whichever moment fails. */
enum { DENSE = TEST_WATCHED(10, 1000000), STRIDE = TEST_WATCHED(9, 1) };

static void survives_all(enum fault kind, long dense, long step)
{
    const char *path = store_memory_path();
    uint64_t bits;
    long n = 1;

    fault = NO_FAULT;
    bits = expected_bits();
    while (survives(path, kind, n, bits))
        n += n < dense ? 1 : step;
    print_message("%ld moments\n", n - 1);
    assert_true(n > 5);
}

/* All of the first, then every 101st: SQLite allocates the same kinds again and again. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    survives_all(NO_MEMORY, DENSE < 50 ? DENSE : 50, 101 * STRIDE);
}

static void every_operation_of_the_store_may_fail(void **state)
{
    (void)state;
    survives_all(STORE_FAILS, DENSE, STRIDE);
}

static void every_commit_may_be_silent_about_its_success(void **state)
{
    (void)state;
    survives_all(STORE_IS_SILENT, DENSE, STRIDE);
}

/* ---- the model's whitening ------------------------------------------------------------------ */

static bool whitening_survives(const char *path, enum fault kind, long n)
{
    float states[64 * DIMS];
    struct rv_whitening whitening = {0}, got = {0};
    struct ruvllm_error trouble = {0};
    ruvllm_store *store;
    ruvllm_status rc;

    store_remove(path);
    store = store_open(path);
    for (int i = 0; i < 64 * DIMS; i++)
        states[i] = (float)((i * 37) % 101) - 50.0f;
    atomic_store(&has_failed, false);
    atomic_store(&n_until_failure, n);
    fault = kind;
    rc = rv_whitening_init(&whitening, states, 64, DIMS, &trouble);
    if (!rc)
        rc = rv_whitening_store_save(store, "m", &whitening, &trouble);
    if (!rc)
        rc = rv_whitening_store_load(store, "m", DIMS, &got, &trouble);
    expect_sentence(rc, &trouble);
    fault = NO_FAULT;
    rv_whitening_release(&got);
    rv_whitening_release(&whitening);
    ruvllm_store_close(store);
    return atomic_load(&has_failed);
}

static void the_beginning_may_fail_anywhere(void **state)
{
    const char *path = store_memory_path();

    (void)state;
    for (long n = 1; whitening_survives(path, NO_MEMORY, n);)
        n += n < 50 ? 1 : 7;
    for (long n = 1; whitening_survives(path, STORE_FAILS, n); n++)
        ;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(every_operation_of_the_store_may_fail),
        cmocka_unit_test(every_commit_may_be_silent_about_its_success),
        cmocka_unit_test(the_beginning_may_fail_anywhere),
    };

    replace_allocator();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
