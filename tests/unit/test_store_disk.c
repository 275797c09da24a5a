/*
 * A disk that is full, and one whose every nth operation fails: nothing is acknowledged that is not there, nothing is
 * added twice by trying again, and the store goes on without being opened anew. A layer between SQLite and the files
 * plays the disk.
 */
#include "base/alloc.h"
#include "store/store_events.h"
#include "store/store_generations.h"
#include "store/store_learner.h"
#include "store/store_patterns.h"
#include "store/store_policies.h"
#include "support/store_fixture.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* ---- the disk ------------------------------------------------------------------------------ */

static sqlite3_vfs *plain; // the real files
static sqlite3_vfs layer;
static atomic_long n_until_failure; // counts down; the one that reaches 0 fails
static atomic_bool stays_broken;    // and all after it
static atomic_int failure_code;
static atomic_long n_failed;
static atomic_long n_synced; // how often the database itself was, and not its log

struct layered {
    sqlite3_file base; // first, as SQLite wants it
    sqlite3_file *real;
    bool is_database;
};

static int fails_now(int fallback)
{
    long left = atomic_fetch_sub(&n_until_failure, 1);
    int code = atomic_load(&failure_code);

    if (left > 1 || left <= (atomic_load(&stays_broken) ? -1000000 : 0))
        return SQLITE_OK;
    atomic_fetch_add(&n_failed, 1);
    return code ? code : fallback;
}

static void heal(void)
{
    atomic_store(&stays_broken, false);
    atomic_store(&n_until_failure, 0);
}

static void break_at(long n, int code, bool stays)
{
    atomic_store(&n_failed, 0);
    atomic_store(&failure_code, code);
    atomic_store(&stays_broken, stays);
    atomic_store(&n_until_failure, n);
}

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((struct layered *)file)->real;
}

static int layer_close(sqlite3_file *file)
{
    int code = real_of(file)->pMethods ? real_of(file)->pMethods->xClose(real_of(file)) : SQLITE_OK;

    return code;
}

static int layer_read(sqlite3_file *file, void *out, int n, sqlite3_int64 at)
{
    return real_of(file)->pMethods->xRead(real_of(file), out, n, at);
}

static int layer_write(sqlite3_file *file, const void *data, int n, sqlite3_int64 at)
{
    int code = fails_now(SQLITE_IOERR_WRITE);

    return code ? code : real_of(file)->pMethods->xWrite(real_of(file), data, n, at);
}

static int layer_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    int code = fails_now(SQLITE_IOERR_TRUNCATE);

    return code ? code : real_of(file)->pMethods->xTruncate(real_of(file), size);
}

static int layer_sync(sqlite3_file *file, int flags)
{
    (void)flags;
    atomic_fetch_add(&n_synced, ((struct layered *)file)->is_database);
    return fails_now(SQLITE_IOERR_FSYNC); // nobody pulls the plug here: the real one would only take time
}

static int layer_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int layer_lock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int layer_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int layer_reserved(sqlite3_file *file, int *out)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), out);
}

static int layer_control(sqlite3_file *file, int op, void *arg)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), op, arg);
}

static int layer_sector(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int layer_traits(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int layer_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **out)
{
    return real_of(file)->pMethods->xShmMap(real_of(file), page, size, extend, out);
}

static int layer_shm_lock(sqlite3_file *file, int at, int n, int flags)
{
    return real_of(file)->pMethods->xShmLock(real_of(file), at, n, flags);
}

static void layer_shm_barrier(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int layer_shm_unmap(sqlite3_file *file, int is_deleted)
{
    return real_of(file)->pMethods->xShmUnmap(real_of(file), is_deleted);
}

static const sqlite3_io_methods layer_methods = {
    .iVersion = 2,
    .xClose = layer_close,
    .xRead = layer_read,
    .xWrite = layer_write,
    .xTruncate = layer_truncate,
    .xSync = layer_sync,
    .xFileSize = layer_size,
    .xLock = layer_lock,
    .xUnlock = layer_unlock,
    .xCheckReservedLock = layer_reserved,
    .xFileControl = layer_control,
    .xSectorSize = layer_sector,
    .xDeviceCharacteristics = layer_traits,
    .xShmMap = layer_shm_map,
    .xShmLock = layer_shm_lock,
    .xShmBarrier = layer_shm_barrier,
    .xShmUnmap = layer_shm_unmap,
};

static int layer_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out_flags)
{
    struct layered *l = (struct layered *)file;
    int code;

    (void)vfs;
    l->real = (sqlite3_file *)(l + 1);
    l->is_database = (flags & SQLITE_OPEN_MAIN_DB) != 0;
    l->base.pMethods = NULL;
    code = plain->xOpen(plain, name, l->real, flags, out_flags);
    if (l->real->pMethods)
        l->base.pMethods = &layer_methods;
    return code;
}

static void put_layer(void)
{
    plain = sqlite3_vfs_find(NULL);
    assert_non_null(plain);
    layer = *plain;
    layer.zName = "layer";
    layer.szOsFile = (int)sizeof(struct layered) + plain->szOsFile;
    layer.xOpen = layer_open;
    assert_int_equal(sqlite3_vfs_register(&layer, 1), SQLITE_OK);
}

/* ---- a full disk --------------------------------------------------------------------------- */

static ruvllm_status append(ruvllm_store *store, int i, int64_t *seq, struct ruvllm_error *err)
{
    static const char delta[8192] = {1};
    struct rv_store_event e = {
        .tenant = "acme", .kind = RV_STORE_EVENT_VOTE, .score = i, .delta = {.data = delta, .len = sizeof(delta)}};
    ruvllm_status rc;

    e.uid[0] = 'd';
    memcpy(e.uid + 4, &i, sizeof(i));
    rc = rv_store_events_append(store, &e, 1, err);
    *seq = rc ? 0 : e.seq;
    return rc;
}

struct counted {
    int n;
    int counts[64];
};

static bool count(void *user, const struct rv_store_event *e)
{
    struct counted *c = user;

    c->n++;
    c->counts[(int)e->score]++;
    return true;
}

static void a_full_disk_is_told_and_later_it_goes_on(void **state)
{
    const char *path = store_temp_path();
    ruvllm_store *store = store_open(path);
    struct ruvllm_error failure = {0};
    struct counted c = {0};
    char key[RUVLLM_KEY_SIZE];
    int64_t seq;

    (void)state;
    store_make_key(store, "acme", key, NULL);
    assert_ok(append(store, 0, &seq, err));
    break_at(1, SQLITE_FULL, true);
    for (int i = 1; i < 5; i++)
        assert_fails(append(store, i, &seq, &failure), RUVLLM_NO_SPACE, failure, "the disk is full");
    assert_int_equal(store_check(store, key, NULL), RUVLLM_KEY_VALID); // answers go on
    assert_ok(rv_store_events_replay(store, "acme", 0, count, &c, err));
    assert_int_equal(c.n, 1);
    heal();
    for (int i = 1; i < 5; i++) {
        assert_ok(append(store, i, &seq, err));
        assert_int_equal(seq, i + 1); // failures took no numbers
    }
    ruvllm_store_close(store);
    store = store_open(path);
    c = (struct counted){0};
    assert_ok(rv_store_events_replay(store, "acme", 0, count, &c, err));
    assert_int_equal(c.n, 5);
    ruvllm_store_close(store);
}

/* ---- every operation in turn --------------------------------------------------------------- */

enum { N_EVENTS = 6 };

struct round {
    bool has_event[N_EVENTS];
    int64_t seqs[N_EVENTS];
    bool has_generation, has_learner, has_pattern, has_policy;
    ruvllm_status rc; // of the first that failed
    struct ruvllm_error err;
};

static void note(struct round *r, ruvllm_status rc, bool *has)
{
    *has = !rc;
    if (rc && !r->rc)
        r->rc = rc;
}

static void use(ruvllm_store *store, struct round *r)
{
    struct rv_store_generation gen = {
        .tenant = "acme", .model = "m", .kind = RV_STORE_GENERATION_INSTANT, .is_active = true};
    struct rv_store_learner learner = {.tenant = "acme", .model = "m", .applied_seq = 3};
    struct rv_store_pattern pattern = {.tenant = "acme", .model = "m", .outcome = 1};

    for (int i = 0; i < N_EVENTS; i++)
        note(r, append(store, i, &r->seqs[i], &r->err), &r->has_event[i]);
    note(r, rv_store_generations_add(store, &gen, "content", 7, &r->err), &r->has_generation);
    note(r, rv_store_learner_put(store, &learner, &r->err), &r->has_learner);
    note(r, rv_store_patterns_add(store, &pattern, &r->err), &r->has_pattern);
    note(r, rv_store_policies_put(store, "acme", "p", "v", 1, &r->err), &r->has_policy);
}

static bool count_pattern(void *user, const struct rv_store_pattern *pattern)
{
    (void)pattern;
    ++*(int *)user;
    return true;
}

/* What was acknowledged is there; trying again adds what is missing and nothing else. */
static void expect_whole(ruvllm_store *store, const struct round *r)
{
    struct rv_store_generation gen;
    struct rv_store_learner learner;
    struct counted c = {0};
    int64_t seq;
    int n_patterns = 0;
    bool found;
    char *value;
    void *content;

    assert_ok(rv_store_events_replay(store, "acme", 0, count, &c, err));
    for (int i = 0; i < N_EVENTS; i++) {
        assert_true(c.counts[i] <= 1 && c.counts[i] >= r->has_event[i]);
        assert_ok(append(store, i, &seq, err));
        assert_true(!r->has_event[i] || seq == r->seqs[i]);
    }
    c = (struct counted){0};
    assert_ok(rv_store_events_replay(store, "acme", 0, count, &c, err));
    assert_int_equal(c.n, N_EVENTS);
    assert_ok(rv_store_generations_active(store, "acme", "m", &gen, &found, err));
    assert_true(found || !r->has_generation);
    if (found) {
        assert_ok(rv_store_generations_content(store, &gen, &content, err));
        rv_free(content);
    }
    assert_ok(rv_store_learner_get(store, "acme", "m", &learner, err));
    assert_true(learner.applied_seq == 3 || !r->has_learner);
    assert_ok(rv_store_patterns_list(store, "acme", "m", 0, count_pattern, &n_patterns, err));
    assert_true(n_patterns == 1 || !r->has_pattern);
    assert_ok(rv_store_policies_get(store, "acme", "p", &value, &found, err));
    assert_true(found || !r->has_policy);
    rv_free(value);
}

/* With the nth operation failing; false when there are not that many. */
static bool survives(const char *path, long n, int code, bool stays)
{
    struct ruvllm_error failure = {0};
    struct round r = {0};
    ruvllm_store *store;
    ruvllm_status rc;

    store_remove(path);
    break_at(n, code, stays);
    rc = ruvllm_store_open(&store, path, NULL, &failure);
    if (!rc) {
        use(store, &r);
        heal();
        expect_whole(store, &r); // without being opened anew
    }
    heal();
    ruvllm_store_close(store);
    if (rc && (rc == RUVLLM_INTERNAL || !failure.message[0]))
        fail_msg("operation %ld: %s: %s", n, ruvllm_status_name(rc), failure.message);
    if (r.rc && r.rc != RUVLLM_NO_SPACE && r.rc != RUVLLM_IO)
        fail_msg("operation %ld: %s: %s", n, ruvllm_status_name(r.rc), r.err.message);
    if (code == SQLITE_FULL && r.rc && r.rc != RUVLLM_NO_SPACE)
        fail_msg("operation %ld: a full disk is '%s'", n, ruvllm_status_name(r.rc));
    store = store_open(path);
    expect_whole(store, &r);
    ruvllm_store_close(store);
    return atomic_load(&n_failed) > 0;
}

static void every_operation_may_fail(void **state)
{
    static const struct {
        int code;
        bool stays;
    } kinds[] = {{0, false}, {0, true}, {SQLITE_FULL, false}, {SQLITE_FULL, true}};
    const char *path = store_temp_path();

    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        long n = 1;

        while (survives(path, n, kinds[i].code, kinds[i].stays))
            n++;
        print_message("%ld operations\n", n - 1);
        assert_true(n > 40);
    }
}

/* ---- many who wait, and the disk fails ----------------------------------------------------- */

struct waiter {
    ruvllm_store *store;
    int i;
    int64_t seq;
    ruvllm_status rc;
};

static void *wait_for_commit(void *arg)
{
    struct waiter *w = arg;

    w->rc = append(w->store, w->i, &w->seq, NULL);
    return NULL;
}

static void all_who_share_a_failed_commit_are_told(void **state)
{
    const char *path = store_temp_path();
    ruvllm_store *store = store_open(path);
    struct waiter waiters[16];
    struct counted c = {0};
    pthread_t threads[16];

    (void)state;
    for (long n = 1; n < 40; n += 3) {
        break_at(n, SQLITE_FULL, false);
        for (int i = 0; i < 16; i++) {
            waiters[i] = (struct waiter){.store = store, .i = i};
            assert_int_equal(pthread_create(&threads[i], NULL, wait_for_commit, &waiters[i]), 0);
        }
        for (int i = 0; i < 16; i++)
            pthread_join(threads[i], NULL);
        heal();
        for (int i = 0; i < 16; i++)
            assert_true(waiters[i].rc == RUVLLM_OK || waiters[i].rc == RUVLLM_NO_SPACE);
        c = (struct counted){0};
        assert_ok(rv_store_events_replay(store, "acme", 0, count, &c, err));
        for (int i = 0; i < 16; i++)
            assert_true(c.counts[i] <= 1 && (c.counts[i] == 1 || waiters[i].rc));
    }
    ruvllm_store_close(store);
}

/* ---- the write-ahead log ------------------------------------------------------------------- */

/* Somebody reads an old state all the while, so no checkpoint is whole; SQLite itself syncs after whole ones only. */
static void what_leaves_the_log_goes_to_the_disk_while_others_write(void **state)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    const char *path = store_temp_path();
    ruvllm_store *store = store_open(path);
    sqlite3 *reader;
    int64_t seq;
    long before;

    (void)state;
    heal();
    assert_ok(append(store, 0, &seq, err));
    assert_int_equal(sqlite3_open(path, &reader), SQLITE_OK);
    assert_int_equal(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM event", NULL, NULL, NULL), SQLITE_OK);
    before = atomic_load(&n_synced);
    for (int i = 1; i < 250; i++)
        assert_ok(append(store, i, &seq, err));
    for (int i = 0; i < 10000 && atomic_load(&n_synced) == before; i++)
        (void)nanosleep(&nap, NULL);
    assert_true(atomic_load(&n_synced) > before);
    sqlite3_close(reader);
    ruvllm_store_close(store);
}

static void the_log_begins_anew_before_it_is_long(void **state)
{
    enum { LENGTH = 1 << 20, N = 110, LOG_MAX = 72 << 20 }; // 64 MiB, and what comes while somebody looks
    const char *path = store_memory_path();
    ruvllm_store *store = store_open(path);
    char *delta = calloc(1, LENGTH), name[256];
    struct stat log;

    (void)state;
    heal();
    assert_non_null(delta);
    snprintf(name, sizeof(name), "%s-wal", path);
    for (int i = 0; i < N; i++) {
        struct rv_store_event e = {
            .tenant = "acme", .kind = RV_STORE_EVENT_VOTE, .score = i, .delta = {.data = delta, .len = LENGTH}};

        assert_ok(rv_store_events_append(store, &e, 1, err));
        assert_int_equal(e.seq, i + 1);
    }
    assert_int_equal(stat(name, &log), 0);
    assert_true(log.st_size < LOG_MAX);
    free(delta);
    ruvllm_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_disk_is_told_and_later_it_goes_on),
        cmocka_unit_test(every_operation_may_fail),
        cmocka_unit_test(all_who_share_a_failed_commit_are_told),
        cmocka_unit_test(what_leaves_the_log_goes_to_the_disk_while_others_write),
        cmocka_unit_test(the_log_begins_anew_before_it_is_long),
    };

    put_layer();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
