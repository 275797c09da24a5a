/*
 * Tenants that go and come back, logs that others write too, checkpoints: whatever happens, what answers is what the
 * log says, to the bit. The measure is a learner without a store that is told the same and never lets anybody go.
 *
 * The linker puts our rv_store_events_append before the store's, to see what happens when nobody knows whether an
 * event was written; our rv_reasoning_bank_note before the bank's, and our rv_store_checkpoints_put before the
 * store's, to have somebody come in between.
 */
#include "learn/learner_tenant.h"
#include "store/store_checkpoints.h"
#include "store/store_events.h"
#include "support/learn_fixture.h"
#include "support/store_fixture.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { DIMS = 32, ROWS = 12 };

ruvllm_status __real_rv_store_events_append(struct ruvllm_store *store, struct rv_store_event *events, size_t n,
                                            struct ruvllm_error *err);
ruvllm_status __wrap_rv_store_events_append(struct ruvllm_store *store, struct rv_store_event *events, size_t n,
                                            struct ruvllm_error *err);

static enum { HONEST, SAYS_IO_BUT_WRITES, SAYS_IO, SPOOLS } append_mode;

ruvllm_status __wrap_rv_store_events_append(struct ruvllm_store *store, struct rv_store_event *events, size_t n,
                                            struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;

    if (append_mode == SPOOLS) {
        events->fate = RV_STORE_EVENT_SPOOLED;
        return RUVLLM_OK;
    }
    if (append_mode != SAYS_IO)
        rc = __real_rv_store_events_append(store, events, n, err);
    return rc || append_mode == HONEST ? rc : rv_fail(err, RUVLLM_IO, "the disk went away");
}

bool __real_rv_store_events_are_spooled(struct ruvllm_store *store);
bool __wrap_rv_store_events_are_spooled(struct ruvllm_store *store);

bool __wrap_rv_store_events_are_spooled(struct ruvllm_store *store)
{
    return append_mode == SPOOLS || __real_rv_store_events_are_spooled(store);
}

/* Somebody who has a vote forgotten just when something is done that depends on it. */
static struct {
    struct rv_learner *learner; // NULL: nobody
    int64_t seq;
    bool at_checkpoint; // else when its pattern is noted
    pthread_t thread;
    ruvllm_status rc;
    _Atomic bool is_done;
} intruder;

static void *forget(void *arg)
{
    struct rv_learner_result result;

    (void)arg;
    intruder.rc = rv_learner_forget(intruder.learner, "anna", intruder.seq, &result, NULL);
    atomic_store(&intruder.is_done, true);
    return NULL;
}

/* Who is let in is done when it returns. */
static void let_forget(void)
{
    assert_int_equal(pthread_create(&intruder.thread, NULL, forget, NULL), 0);
    for (int i = 0; i < 100 && !atomic_load(&intruder.is_done); i++)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

void __real_rv_reasoning_bank_note(struct rv_reasoning_bank *bank, const struct rv_trace *trace, double quality,
                                   int64_t seq, int64_t time_us);
void __wrap_rv_reasoning_bank_note(struct rv_reasoning_bank *bank, const struct rv_trace *trace, double quality,
                                   int64_t seq, int64_t time_us);

void __wrap_rv_reasoning_bank_note(struct rv_reasoning_bank *bank, const struct rv_trace *trace, double quality,
                                   int64_t seq, int64_t time_us)
{
    if (intruder.learner && !intruder.at_checkpoint) {
        intruder.seq = seq;
        let_forget();
    }
    __real_rv_reasoning_bank_note(bank, trace, quality, seq, time_us);
}

ruvllm_status __real_rv_store_checkpoints_put(struct ruvllm_store *store, const char *tenant, const char *model,
                                              int64_t seq, int64_t n_forgotten, const void *data, size_t len,
                                              struct ruvllm_error *err);
ruvllm_status __wrap_rv_store_checkpoints_put(struct ruvllm_store *store, const char *tenant, const char *model,
                                              int64_t seq, int64_t n_forgotten, const void *data, size_t len,
                                              struct ruvllm_error *err);

ruvllm_status __wrap_rv_store_checkpoints_put(struct ruvllm_store *store, const char *tenant, const char *model,
                                              int64_t seq, int64_t n_forgotten, const void *data, size_t len,
                                              struct ruvllm_error *err)
{
    if (intruder.learner && intruder.at_checkpoint) {
        intruder.at_checkpoint = false; // once
        let_forget();
    }
    return __real_rv_store_checkpoints_put(store, tenant, model, seq, n_forgotten, data, len, err);
}

static struct learn_fixture with(ruvllm_store *store, uint64_t tenant_bytes)
{
    return (struct learn_fixture){
        .n_dims = DIMS, .n_rows = ROWS, .rank = 2, .store = store, .tenant_bytes = tenant_bytes};
}

/* An answer and a vote on it, which the id decides. */
static int64_t vote(struct rv_learner *learner, const char *tenant, uint64_t id)
{
    const struct learn_fixture f = with(NULL, 0);
    struct rv_learner_result result;

    learn_fixture_answer(learner, &f, tenant, id);
    assert_ok(rv_learner_vote(learner, tenant, id, (double)(id % 5) / 4, &result, err));
    return result.generation;
}

static void go_back(struct rv_learner *learner, const char *tenant, int64_t generation)
{
    struct rv_learner_result result;

    assert_ok(rv_learner_go_back(learner, tenant, generation, &result, err));
}

static void expect_same(struct rv_learner *a, struct rv_learner *b, const char *tenant)
{
    int64_t of_a, of_b;

    assert_true(learn_fixture_bits(a, tenant, &of_a) == learn_fixture_bits(b, tenant, &of_b));
    assert_int_equal(of_a, of_b);
}

/* One step of a long story, the same for both: votes of many tenants in turn, now and then a way back. */
static void tell(struct rv_learner *learner, int i)
{
    char tenant[8];

    snprintf(tenant, sizeof(tenant), "t%d", i % 7);
    if (i % 41 == 40)
        go_back(learner, tenant, i / 7 - 3);
    else
        vote(learner, tenant, (uint64_t)i + 1);
}

static int64_t number_of(const char *path, const char *sql)
{
    sqlite3_stmt *s;
    sqlite3 *db;
    int64_t n;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    n = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return n;
}

static void change(const char *path, const char *sql)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void who_went_comes_back_to_the_bit(void **state)
{
    const char *path = store_memory_path();
    ruvllm_store *store = store_open(path);
    const struct learn_fixture small = with(store, 1), unbounded = with(NULL, 0); // nobody stays
    struct rv_learner *forgetful = learn_fixture_open(&small), *sure = learn_fixture_open(&unbounded);
    struct rv_tenant_table_stats stats;
    char tenant[8];

    (void)state;
    for (int i = 0; i < 7 * 80; i++) {
        tell(forgetful, i);
        tell(sure, i);
    }
    rv_learner_tenants(forgetful, &stats);
    assert_true(stats.n <= 1 && stats.n_gone > 500);
    assert_true(number_of(path, "SELECT count(*) FROM checkpoint") == 7); // each has had more than 64 events
    for (int i = 0; i < 7; i++) {
        snprintf(tenant, sizeof(tenant), "t%d", i);
        expect_same(forgetful, sure, tenant);
        go_back(forgetful, tenant, 50); // generations from before the last checkpoint are there as well
        go_back(sure, tenant, 50);
        expect_same(forgetful, sure, tenant);
    }
    rv_learner_free(forgetful);
    rv_learner_free(sure);
    ruvllm_store_close(store);
}

static void only_what_a_checkpoint_lacks_is_read_again(void **state)
{
    const char *path = store_memory_path();
    ruvllm_store *store = store_open(path);
    const struct learn_fixture small = with(store, 1), unbounded = with(NULL, 0);
    struct rv_learner *learner = learn_fixture_open(&small), *sure = learn_fixture_open(&unbounded);

    (void)state;
    for (uint64_t i = 1; i <= 100; i++) {
        vote(learner, "anna", i);
        vote(sure, "anna", i);
    }
    rv_learner_free(learner);
    change(path, "DELETE FROM event WHERE seq <= (SELECT seq FROM checkpoint)");
    assert_true(number_of(path, "SELECT count(*) FROM event") < 64);
    learner = learn_fixture_open(&small);
    expect_same(learner, sure, "anna");
    vote(learner, "anna", 101);
    vote(sure, "anna", 101);
    expect_same(learner, sure, "anna");
    rv_learner_free(learner);
    rv_learner_free(sure);
    ruvllm_store_close(store);
}

static void a_busy_tenant_has_a_checkpoint_now_and_then(void **state)
{
    const char *path = store_memory_path();
    ruvllm_store *store = store_open(path);
    const struct learn_fixture roomy = with(store, (uint64_t)1 << 30);
    struct rv_learner *learner = learn_fixture_open(&roomy);

    (void)state;
    for (uint64_t i = 1; i <= 1030; i++)
        vote(learner, "anna", i);
    assert_int_equal(number_of(path, "SELECT seq FROM checkpoint"), 1024);
    rv_learner_free(learner);
    ruvllm_store_close(store);
}

static void a_damaged_checkpoint_is_not_believed(void **state)
{
    static const char *const wounds[] = {
        "UPDATE checkpoint SET content = x''",
        "UPDATE checkpoint SET content = substr(content, 1, length(content) - 1)",
        "UPDATE checkpoint SET content = CAST(content || x'00' AS BLOB)",
        "UPDATE checkpoint SET content = zeroblob(length(content))",
        "UPDATE checkpoint SET content = CAST(substr(content, 1, 40) || x'FF' || substr(content, 42) AS BLOB)",
    };
    ruvllm_store *store;
    const char *path = store_memory_path();
    const struct learn_fixture unbounded = with(NULL, 0);
    struct rv_learner *learner, *sure = learn_fixture_open(&unbounded);

    (void)state;
    store = store_open(path);
    for (size_t w = 0; w < sizeof(wounds) / sizeof(wounds[0]); w++) {
        const struct learn_fixture small = with(store, 1);

        learner = learn_fixture_open(&small);
        for (uint64_t i = 70 * w + 1; i <= 70 * (w + 1); i++) {
            vote(learner, "anna", i);
            vote(sure, "anna", i);
        }
        expect_same(learner, sure, "anna");
        change(path, wounds[w]);
        rv_learner_free(learner);
        learner = learn_fixture_open(&small);
        expect_same(learner, sure, "anna");
        rv_learner_free(learner);
    }
    rv_learner_free(sure);
    ruvllm_store_close(store);
}

/* A checkpoint is of one rank: with another the log gives other bits. */
static void another_rank_reads_the_whole_log(void **state)
{
    const char *path = store_memory_path();
    ruvllm_store *store = store_open(path);
    struct learn_fixture two = with(store, 1), four = two;
    struct rv_learner *learner = learn_fixture_open(&two), *again;
    uint64_t bits;

    (void)state;
    four.rank = 4;
    for (uint64_t i = 1; i <= 80; i++)
        vote(learner, "anna", i);
    rv_learner_free(learner);
    again = learn_fixture_open(&four);
    bits = learn_fixture_bits(again, "anna", NULL);
    rv_learner_free(again);
    change(path, "DELETE FROM checkpoint");
    again = learn_fixture_open(&four);
    assert_true(learn_fixture_bits(again, "anna", NULL) == bits);
    rv_learner_free(again);
    ruvllm_store_close(store);
}

static void what_others_wrote_in_between_counts_in_its_place(void **state)
{
    const char *path = store_memory_path();
    ruvllm_store *store = store_open(path), *other_store = store_open(path);
    const struct learn_fixture here = with(store, 0), there = with(other_store, 0);
    struct learn_fixture model = here;
    struct rv_learner *a = learn_fixture_open(&here), *b = learn_fixture_open(&there), *fresh, *of_model;

    (void)state;
    model.model = "another";
    of_model = learn_fixture_open(&model);
    for (uint64_t i = 1; i <= 30; i++) {
        vote(i % 3 ? a : b, "anna", i);
        if (i % 4 == 0)
            vote(of_model, "anna", i); // numbers of the same log
        if (i % 10 == 0)
            go_back(b, "anna", 2);
    }
    vote(a, "anna", 99);
    fresh = learn_fixture_open(&here);
    expect_same(a, fresh, "anna");
    rv_learner_free(fresh);
    rv_learner_free(of_model);
    rv_learner_free(a);
    rv_learner_free(b);
    ruvllm_store_close(store);
    ruvllm_store_close(other_store);
}

/* The disk says that it failed, and did not: who tries again has voted once. Or it did fail: likewise. */
static void a_vote_in_doubt_counts_once(void **state)
{
    (void)state;
    for (int written = 0; written < 2; written++) {
        const char *path = store_memory_path();
        ruvllm_store *store = store_open(path);
        const struct learn_fixture here = with(store, 0), unbounded = with(NULL, 0);
        struct rv_learner *learner = learn_fixture_open(&here), *sure = learn_fixture_open(&unbounded);
        struct ruvllm_error failure = {0};
        struct rv_learner_result result;
        int64_t last;

        vote(learner, "anna", 1);
        vote(sure, "anna", 1);
        learn_fixture_answer(learner, &here, "anna", 2);
        append_mode = written ? SAYS_IO_BUT_WRITES : SAYS_IO;
        assert_fails(rv_learner_vote(learner, "anna", 2, 0.5, &result, &failure), RUVLLM_IO, failure, "went away");
        append_mode = HONEST;
        assert_ok(rv_learner_vote(learner, "anna", 2, 0.5, &result, err));
        assert_true(result.generation == 2 && result.seq == 2);
        vote(sure, "anna", 2);
        expect_same(learner, sure, "anna");
        append_mode = written ? SAYS_IO_BUT_WRITES : SAYS_IO;
        assert_fails(rv_learner_go_back(learner, "anna", 1, &result, &failure), RUVLLM_IO, failure, "went away");
        append_mode = HONEST;
        go_back(learner, "anna", 1);
        go_back(sure, "anna", 1);
        expect_same(learner, sure, "anna");
        vote(learner, "anna", 2); // and once more on purpose is once more
        vote(sure, "anna", 2);
        expect_same(learner, sure, "anna");
        assert_ok(rv_store_events_last(store, "anna", &last, err));
        assert_int_equal(last, 4);
        rv_learner_free(learner);
        rv_learner_free(sure);
        ruvllm_store_close(store);
    }
}

/* Two votes, of which the second, on answer 2, was written and is said to have failed. */
static void vote_with_doubt(struct rv_learner *learner, const struct learn_fixture *here)
{
    struct ruvllm_error failure = {0};
    struct rv_learner_result result;

    vote(learner, "anna", 1);
    learn_fixture_answer(learner, here, "anna", 2);
    append_mode = SAYS_IO_BUT_WRITES;
    assert_fails(rv_learner_vote(learner, "anna", 2, 0.5, &result, &failure), RUVLLM_IO, failure, "went away");
    append_mode = HONEST;
}

/* What is said meanwhile about another answer takes nothing away from it. */
static void a_vote_in_doubt_counts_once_whatever_comes_between(void **state)
{
    ruvllm_store *store = store_open(store_memory_path());
    const struct learn_fixture here = with(store, 0);
    struct rv_learner *learner = learn_fixture_open(&here);
    struct rv_learner_result result;
    int64_t last;

    (void)state;
    vote_with_doubt(learner, &here);
    vote(learner, "anna", 3);
    assert_ok(rv_learner_vote(learner, "anna", 2, 0.5, &result, err));
    assert_int_equal(result.seq, 2);
    assert_ok(rv_store_events_last(store, "anna", &last, err));
    assert_int_equal(last, 3);
    rv_learner_free(learner);
    ruvllm_store_close(store);
}

/* The history names generations by which people go back, also of what others came before. */
static void the_history_has_the_generations_that_came(void **state)
{
    enum { N = 9 };
    const char *path = store_memory_path();
    ruvllm_store *store = store_open(path), *other_store = store_open(path);
    const struct learn_fixture here = with(store, 0), there = with(other_store, 0);
    struct rv_learner *a = learn_fixture_open(&here), *b = learn_fixture_open(&there), *fresh;
    struct rv_history history;

    (void)state;
    for (uint64_t i = 1; i <= N; i++)
        vote(i % 3 ? a : b, "anna", i); // nobody hears of the other before he writes
    assert_ok(rv_learner_history(a, "anna", 0, 100, &history, err));
    assert_int_equal(history.n, N);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(history.rows[i].note.generation, history.rows[i].seq);
    rv_history_release(&history);
    fresh = learn_fixture_open(&here); // and what was set right is what it was
    expect_same(b, fresh, "anna");     // who wrote last has all
    rv_learner_free(fresh);
    rv_learner_free(a);
    rv_learner_free(b);
    ruvllm_store_close(store);
    ruvllm_store_close(other_store);
}

/* A generation that went while others taught: nothing is gone back to, and that is what is said. */
static void going_back_to_what_just_went_fails(void **state)
{
    enum { KEPT = 32, N = 40 };
    const char *path = store_memory_path();
    ruvllm_store *store = store_open(path), *other_store = store_open(path);
    const struct learn_fixture here = with(store, 0), there = with(other_store, 0);
    struct rv_learner *a = learn_fixture_open(&here), *b = learn_fixture_open(&there), *fresh;
    struct ruvllm_error failure = {0};
    struct rv_learner_result result;

    (void)state;
    for (uint64_t i = 1; i <= N; i++)
        vote(a, "anna", i);
    expect_same(a, b, "anna");
    vote(a, "anna", N + 1);
    assert_fails(rv_learner_go_back(b, "anna", N - KEPT + 1, &result, &failure), RUVLLM_NOT_FOUND, failure,
                 "nothing was gone back to");
    fresh = learn_fixture_open(&here);
    expect_same(b, fresh, "anna");
    expect_same(a, fresh, "anna");
    go_back(b, "anna", N);
    rv_learner_free(fresh);
    rv_learner_free(a);
    rv_learner_free(b);
    ruvllm_store_close(store);
    ruvllm_store_close(other_store);
}

/* What was said while the database is away has no number that others know; what was said before has. */
static void going_back_waits_for_numbers(void **state)
{
    ruvllm_store *store = store_open(store_memory_path());
    const struct learn_fixture here = with(store, 0);
    struct rv_learner *learner = learn_fixture_open(&here);
    struct ruvllm_error failure = {0};
    struct rv_learner_result result;

    (void)state;
    vote(learner, "anna", 1);
    vote(learner, "anna", 2);
    append_mode = SPOOLS;
    vote(learner, "anna", 3);
    vote(learner, "anna", 4);
    assert_fails(rv_learner_go_back(learner, "anna", 3, &result, &failure), RUVLLM_IO, failure,
                 "waits for the database");
    go_back(learner, "anna", 2);
    append_mode = HONEST;
    assert_fails(rv_learner_go_back(learner, "anna", 3, &result, &failure), RUVLLM_NOT_FOUND, failure, "kept");
    rv_learner_free(learner);
    ruvllm_store_close(store);
}

/* A tick that fails between a vote in doubt and its second try takes nothing away from it. */
static void a_tick_in_doubt_leaves_a_votes_doubt_alone(void **state)
{
    ruvllm_store *store = store_open(store_memory_path());
    const struct learn_fixture here = with(store, 0);
    struct rv_learner *learner = learn_fixture_open(&here);
    struct rv_store_event tick = {.kind = RV_STORE_EVENT_TICK};
    struct ruvllm_error failure = {0};
    struct rv_learner_result result;
    struct rv_learner_tenant *t;
    bool is_next;
    int64_t last;

    (void)state;
    vote_with_doubt(learner, &here);
    append_mode = SAYS_IO;
    assert_ok(rv_learner_tenant_begin(learner, "anna", &t, err));
    assert_fails(rv_learner_tenant_append(learner, t, &tick, 2, &is_next, &result, &failure), RUVLLM_IO, failure,
                 "went away");
    rv_learner_tenant_leave(learner, t);
    append_mode = HONEST;
    assert_ok(rv_learner_vote(learner, "anna", 2, 0.5, &result, err));
    assert_true(result.generation == 2 && result.seq == 2);
    assert_ok(rv_store_events_last(store, "anna", &last, err));
    assert_int_equal(last, 2);
    rv_learner_free(learner);
    ruvllm_store_close(store);
}

/* However soon a vote is forgotten, its pattern goes with it. */
static void who_forgets_a_vote_forgets_its_pattern(void **state)
{
    ruvllm_store *store = store_open(store_memory_path());
    const struct learn_fixture here = with(store, 0);
    struct rv_learner *learner = learn_fixture_open(&here);
    struct rv_reasoning_pattern patterns[4];
    size_t n;

    (void)state;
    vote(learner, "anna", 1);
    intruder.learner = learner;
    intruder.is_done = false;
    vote(learner, "anna", 2);
    assert_int_equal(pthread_join(intruder.thread, NULL), 0);
    intruder.learner = NULL;
    assert_int_equal(intruder.rc, RUVLLM_OK);
    assert_ok(rv_reasoning_bank_list(rv_learner_bank(learner), "anna", patterns, 4, &n, NULL, err));
    assert_int_equal(n, 1);
    assert_int_equal(patterns[0].seq, 1);
    rv_learner_free(learner);
    ruvllm_store_close(store);
}

/* What is forgotten while a tenant that goes is kept does not come back with what was kept. */
static void a_checkpoint_brings_nothing_back_that_was_forgotten(void **state)
{
    const char *path = store_memory_path();
    ruvllm_store *store = store_open(path);
    const struct learn_fixture small = with(store, 1); // nobody stays
    struct rv_learner *learner = learn_fixture_open(&small);
    int64_t generation;
    uint64_t kept;

    (void)state;
    for (uint64_t id = 1; id <= 63; id++)
        vote(learner, "anna", id);
    intruder.learner = learner;
    intruder.seq = 3;
    intruder.at_checkpoint = true;
    intruder.is_done = false;
    vote(learner, "anna", 64); // the 64th that is in no checkpoint
    assert_false(intruder.at_checkpoint);
    assert_int_equal(pthread_join(intruder.thread, NULL), 0);
    intruder.learner = NULL;
    assert_int_equal(intruder.rc, RUVLLM_OK);
    rv_learner_free(learner);
    learner = learn_fixture_open(&small);
    kept = learn_fixture_bits(learner, "anna", &generation);
    rv_learner_free(learner);
    change(path, "DELETE FROM checkpoint");
    learner = learn_fixture_open(&small);
    assert_true(learn_fixture_bits(learner, "anna", &generation) == kept);
    rv_learner_free(learner);
    ruvllm_store_close(store);
}

/* Somebody who asks while the tenant's lock is held, as it is across the wait for the disk. */
struct asker {
    struct rv_learner *learner;
    pthread_t thread;
    int64_t generation;
    uint64_t bits;
    _Atomic bool is_done;
};

static void *ask(void *arg)
{
    struct asker *a = arg;

    a->bits = learn_fixture_bits(a->learner, "anna", &a->generation);
    atomic_store(&a->is_done, true);
    return NULL;
}

/* Whether there is an answer within so many milliseconds, before the lock is free again. */
static bool is_answered(struct asker *a, int ms)
{
    struct rv_learner_tenant *t;
    bool is_done = false;

    a->is_done = false;
    assert_ok(rv_learner_tenant_take(a->learner, "anna", &t, err));
    assert_int_equal(pthread_create(&a->thread, NULL, ask, a), 0);
    for (; ms > 0 && !is_done; ms -= 2) {
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        is_done = atomic_load(&a->is_done);
    }
    rv_learner_tenant_leave(a->learner, t);
    assert_int_equal(pthread_join(a->thread, NULL), 0);
    return is_done;
}

static void answers_do_not_wait_for_an_event(void **state)
{
    ruvllm_store *store = store_open(store_memory_path());
    const struct learn_fixture here = with(store, 0);
    struct asker asker = {.learner = learn_fixture_open(&here)};
    struct rv_learner_tenant *t;

    (void)state;
    assert_false(is_answered(&asker, 40)); // its log was not read yet
    vote(asker.learner, "anna", 1);
    vote(asker.learner, "anna", 2);
    assert_true(is_answered(&asker, 5000));
    assert_int_equal(asker.generation, 2);
    assert_true(asker.bits == learn_fixture_bits(asker.learner, "anna", NULL));
    go_back(asker.learner, "anna", 1);
    assert_true(is_answered(&asker, 5000));
    assert_int_equal(asker.generation, 3);
    assert_true(asker.bits == learn_fixture_bits(asker.learner, "anna", NULL));
    assert_ok(rv_learner_tenant_take(asker.learner, "anna", &t, err));
    t->is_lost = true; // something that was acknowledged is in the log alone
    rv_learner_tenant_leave(asker.learner, t);
    assert_false(is_answered(&asker, 40));
    assert_int_equal(asker.generation, 3);
    rv_learner_free(asker.learner);
    ruvllm_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_went_comes_back_to_the_bit),
        cmocka_unit_test(only_what_a_checkpoint_lacks_is_read_again),
        cmocka_unit_test(a_busy_tenant_has_a_checkpoint_now_and_then),
        cmocka_unit_test(a_damaged_checkpoint_is_not_believed),
        cmocka_unit_test(another_rank_reads_the_whole_log),
        cmocka_unit_test(what_others_wrote_in_between_counts_in_its_place),
        cmocka_unit_test(a_vote_in_doubt_counts_once),
        cmocka_unit_test(a_vote_in_doubt_counts_once_whatever_comes_between),
        cmocka_unit_test(a_tick_in_doubt_leaves_a_votes_doubt_alone),
        cmocka_unit_test(the_history_has_the_generations_that_came),
        cmocka_unit_test(going_back_to_what_just_went_fails),
        cmocka_unit_test(going_back_waits_for_numbers),
        cmocka_unit_test(who_forgets_a_vote_forgets_its_pattern),
        cmocka_unit_test(a_checkpoint_brings_nothing_back_that_was_forgotten),
        cmocka_unit_test(answers_do_not_wait_for_an_event),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
