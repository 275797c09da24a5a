/* PostgreSQL as an engine. By itself the suite has no server to talk to; with_postgres.py gives it one. */
#include "store/migration.h"
#include "store/postgres_db.h"
#include "store/sql_statement.h"
#include "support/store_fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void a_server_that_is_not_there_is_an_io_failure(void **state)
{
    struct ruvllm_error failure = {0};
    struct rv_store_db *db;

    (void)state;
    assert_fails(rv_postgres_db_open(&db, "postgresql://me:hush@127.0.0.1:1/x", false, &failure), RUVLLM_IO, failure,
                 "cannot connect");
    assert_null(db);
    assert_null(strchr(failure.message, '\n'));
    assert_fails(rv_postgres_db_open(&db, "postgresql://?nonsense=1", false, &failure), RUVLLM_IO, failure, "nonsense");
}

static void servers_with_known_holes_are_told_apart(void **state)
{
    (void)state;
    assert_true(rv_postgres_db_is_mended(150016) && rv_postgres_db_is_mended(150020));
    assert_false(rv_postgres_db_is_mended(150015));
    assert_true(rv_postgres_db_is_mended(140021) && rv_postgres_db_is_mended(160012));
    assert_false(rv_postgres_db_is_mended(140020) || rv_postgres_db_is_mended(160011));
    assert_false(rv_postgres_db_is_mended(170007) || rv_postgres_db_is_mended(180001));
    assert_false(rv_postgres_db_is_mended(130023)); // nobody mends that one any more
    assert_true(rv_postgres_db_is_mended(190000));
}

static struct rv_store_db *connect_to(const char *url)
{
    struct rv_store_db *db;

    assert_ok(rv_postgres_db_open(&db, url, false, err));
    return db;
}

static int64_t number(struct rv_store_db *db, const char *sql)
{
    struct rv_sql_statement s;
    int64_t n = -1;
    bool has_row;

    assert_ok(rv_sql_statement_begin(&s, db, sql, "count", err));
    assert_ok(rv_sql_statement_step(&s, &has_row, err));
    if (has_row)
        n = rv_sql_statement_int(&s);
    assert_ok(rv_sql_statement_status(&s, err));
    rv_sql_statement_end(&s);
    return n;
}

static const char N_COLUMNS[] = "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'ruvllm'";
static const char N_TABLES[] = "SELECT count(*) FROM pg_tables WHERE schemaname = 'ruvllm'";
static const char ADD_KEY[] = "INSERT INTO api_key VALUES (7, 'abcdefgh', decode(repeat('00', 32), 'hex'), 'acme',"
                              " 'old one', 5, 2.0, 1, 1000, 0, 0, 0)";

static void the_tables_go_up_and_down_and_keep_what_has_a_place(void **state)
{
    struct rv_store_db *db = connect_to(store_temp_url());
    int64_t n_columns;
    int32_t version;

    (void)state;
    assert_ok(rv_migration_version(db, &version, err));
    assert_int_equal(version, 0);
    assert_ok(rv_migration_run(db, rv_migration_newest(), err));
    assert_ok(rv_sql_db_run(db, ADD_KEY, "run the test's SQL", err));
    n_columns = number(db, N_COLUMNS);
    assert_true(n_columns > 80);
    for (int32_t to = rv_migration_newest() - 1; to >= 1; to--) {
        assert_ok(rv_migration_run(db, to, err));
        assert_ok(rv_migration_version(db, &version, err));
        assert_int_equal(version, to);
        assert_int_equal(number(db, "SELECT count(*) FROM api_key"), 1);
    }
    assert_ok(rv_migration_run(db, rv_migration_newest(), err));
    assert_int_equal(number(db, N_COLUMNS), n_columns);
    assert_int_equal(number(db, "SELECT count(*) FROM api_key"), 1);
    assert_ok(rv_migration_run(db, 0, err));
    assert_int_equal(number(db, N_TABLES), 0);
    assert_ok(rv_migration_run(db, rv_migration_newest(), err));
    assert_int_equal(number(db, N_COLUMNS), n_columns);
    rv_sql_db_close(db);
}

static void refused(const char *url, ruvllm_status status, const char *text)
{
    struct ruvllm_error failure = {0};
    ruvllm_store *store;

    assert_fails(ruvllm_store_open(&store, url, NULL, &failure), status, failure, text);
    assert_null(store);
}

static void a_newer_store_and_a_foreign_schema_are_refused(void **state)
{
    const char *url = store_temp_url(), *other = store_temp_url();
    struct ruvllm_store_params params = ruvllm_store_params_default();
    struct ruvllm_error failure = {0};
    struct rv_store_db *db;
    ruvllm_store *store;

    (void)state;
    params.must_exist = true;
    assert_fails(ruvllm_store_open(&store, url, &params, &failure), RUVLLM_NOT_FOUND, failure, "no store");
    ruvllm_store_close(store_open(url));
    db = connect_to(url);
    assert_ok(rv_sql_db_run(db, "UPDATE ruvllm.version SET n = 99", "run the test's SQL", err));
    refused(url, RUVLLM_UNSUPPORTED, "version 99");
    assert_int_equal(number(db, "SELECT n FROM ruvllm.version"), 99);
    rv_sql_db_close(db);
    db = connect_to(other);
    assert_ok(rv_sql_db_run(db, "CREATE SCHEMA ruvllm; CREATE TABLE ruvllm.cookies (x int)", "prepare", err));
    refused(other, RUVLLM_FORMAT, "another program");
    assert_int_equal(number(db, N_TABLES), 1);
    rv_sql_db_close(db);
}

/* What the server says, and what it means to us. */
static void failures_keep_their_meaning(void **state)
{
    static const struct {
        const char *sql;
        ruvllm_status status;
    } rows[] = {
        {"DO $$ BEGIN RAISE SQLSTATE '53100'; END $$", RUVLLM_NO_SPACE},
        {"DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$", RUVLLM_BUSY},
        {"DO $$ BEGIN RAISE SQLSTATE '55P03'; END $$", RUVLLM_BUSY},
        {"DO $$ BEGIN RAISE SQLSTATE '53200'; END $$", RUVLLM_NO_MEMORY},
        {"SELECT * FROM no_such_table", RUVLLM_FORMAT},
        {"DO $$ BEGIN RAISE SQLSTATE '23505'; END $$", RUVLLM_INTERNAL},
    };
    struct rv_store_db *db = connect_to(store_temp_url());
    struct ruvllm_error failure = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_fails(rv_sql_db_run(db, rows[i].sql, "test", &failure), rows[i].status, failure, "the database says");
        assert_false(rv_sql_db_is_lost(db));
    }
    /* A transaction in which something failed does not count as written. */
    assert_ok(rv_sql_db_begin(db, err));
    assert_int_not_equal(rv_sql_db_run(db, "SELECT 1/0", "test", &failure), RUVLLM_OK);
    assert_fails(rv_sql_db_end(db, RUVLLM_OK, &failure), RUVLLM_IO, failure, "undid");
    /* Inside one a lost connection stays lost; after it, it comes back. */
    assert_ok(rv_sql_db_begin(db, err));
    assert_int_equal(rv_sql_db_run(db, "SELECT pg_terminate_backend(pg_backend_pid())", "test", &failure), RUVLLM_IO);
    assert_true(rv_sql_db_is_lost(db));
    assert_int_equal(rv_sql_db_end(db, RUVLLM_IO, NULL), RUVLLM_IO);
    assert_int_equal(number(db, "SELECT 1"), 1);
    rv_sql_db_close(db);
}

static void a_reader_cannot_write(void **state)
{
    const char *url = store_temp_url();
    struct ruvllm_error failure = {0};
    struct rv_store_db *db;

    (void)state;
    ruvllm_store_close(store_open(url));
    assert_ok(rv_postgres_db_open(&db, url, true, err));
    assert_fails(rv_sql_db_run(db, ADD_KEY, "write", &failure), RUVLLM_IO, failure, "read-only");
    rv_sql_db_close(db);
}

struct slow {
    const char *url;
    ruvllm_status rc;
    bool is_lost;
    int n_rows;
};

/* Rows too large to be held back, one a second: it takes longer than a silence may last, and is never silent. */
static void *read_slowly(void *arg)
{
    static const char ROWS[] = "SELECT pg_sleep(1), repeat('x', 100000) FROM generate_series(1, 12)";
    struct slow *slow = arg;
    struct rv_sql_statement s;
    bool has_row = true;
    struct rv_store_db *db = connect_to(slow->url);

    slow->rc = rv_sql_statement_begin(&s, db, ROWS, "read slowly", NULL);
    while (!slow->rc && has_row) {
        slow->rc = rv_sql_statement_step(&s, &has_row, NULL);
        slow->n_rows += !slow->rc && has_row;
    }
    rv_sql_statement_end(&s);
    slow->is_lost = rv_sql_db_is_lost(db);
    rv_sql_db_close(db);
    return NULL;
}

/* As a change of the tables' form that goes over many rows. */
static void *change_slowly(void *arg)
{
    struct slow *slow = arg;
    struct rv_store_db *db = connect_to(slow->url);

    slow->rc = db->sql->begin_alone(db, NULL);
    if (!slow->rc)
        slow->rc = rv_sql_db_end(db, rv_sql_db_run(db, "SELECT pg_sleep(12)", "change slowly", NULL), NULL);
    slow->is_lost = rv_sql_db_is_lost(db);
    rv_sql_db_close(db);
    return NULL;
}

/* Nothing else is silent for so long, unless nobody is there. */
static void *keep_silent(void *arg)
{
    struct slow *slow = arg;
    struct rv_store_db *db = connect_to(slow->url);

    slow->rc = rv_sql_db_run(db, "SELECT pg_sleep(20)", "keep silent", NULL);
    slow->is_lost = rv_sql_db_is_lost(db);
    rv_sql_db_close(db);
    return NULL;
}

static void who_is_slow_is_not_taken_for_one_who_is_gone(void **state)
{
    static void *(*const ways[])(void *) = {read_slowly, change_slowly, keep_silent};
    const char *url = store_temp_url();
    struct slow slow[3] = {{.url = url}, {.url = url}, {.url = url}};
    pthread_t threads[3];

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ways[i], &slow[i]), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_ok(slow[0].rc);
    assert_int_equal(slow[0].n_rows, 12);
    assert_ok(slow[1].rc);
    assert_true(!slow[0].is_lost && !slow[1].is_lost);
    assert_int_equal(slow[2].rc, RUVLLM_IO);
    assert_true(slow[2].is_lost);
}

/* Somebody's lock is the server's to speak of, before its silence is taken for its end. */
static void waiting_for_a_lock_is_busy_not_lost(void **state)
{
    static const char LOCK[] = "LOCK TABLE ruvllm.version IN ACCESS EXCLUSIVE MODE";
    const char *url = store_temp_url();
    struct ruvllm_error failure = {0};
    struct rv_store_db *db, *other;

    (void)state;
    ruvllm_store_close(store_open(url));
    db = connect_to(url);
    other = connect_to(url);
    assert_ok(rv_sql_db_begin(db, err));
    assert_ok(rv_sql_db_run(db, LOCK, "lock", err));
    assert_ok(rv_sql_db_begin(other, err));
    assert_fails(rv_sql_db_run(other, LOCK, "lock", &failure), RUVLLM_BUSY, failure, "lock timeout");
    assert_false(rv_sql_db_is_lost(other));
    assert_int_equal(rv_sql_db_end(other, RUVLLM_BUSY, NULL), RUVLLM_BUSY);
    assert_ok(rv_sql_db_end(db, RUVLLM_OK, err));
    rv_sql_db_close(other);
    rv_sql_db_close(db);
}

int main(void)
{
    const struct CMUnitTest alone[] = {
        cmocka_unit_test(a_server_that_is_not_there_is_an_io_failure),
        cmocka_unit_test(servers_with_known_holes_are_told_apart),
    };
    const struct CMUnitTest server[] = {
        cmocka_unit_test(the_tables_go_up_and_down_and_keep_what_has_a_place),
        cmocka_unit_test(a_newer_store_and_a_foreign_schema_are_refused),
        cmocka_unit_test(failures_keep_their_meaning),
        cmocka_unit_test(a_reader_cannot_write),
        cmocka_unit_test(who_is_slow_is_not_taken_for_one_who_is_gone),
        cmocka_unit_test(waiting_for_a_lock_is_busy_not_lost),
    };
    int failed = cmocka_run_group_tests(alone, NULL, NULL);

    return failed + (store_is_postgres() ? cmocka_run_group_tests(server, NULL, NULL) : 0);
}
