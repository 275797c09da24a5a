/* Forms of the tables: old databases are made here, by the old steps themselves. */
#include "store/migration.h"
#include "store/sqlite_db.h"
#include "support/store_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct rv_store_db *connect_to(const char *path)
{
    struct rv_store_db *db;
    FILE *file = fopen(path, "ab");

    assert_non_null(file);
    fclose(file);
    assert_ok(rv_sqlite_db_open(&db, path, 1000, err));
    assert_ok(rv_sqlite_db_settle(db, 1000, err));
    return db;
}

static void run_sql(struct rv_store_db *db, const char *sql)
{
    assert_ok(rv_sql_db_run(db, sql, "run the test's SQL", err));
}

/* All of the schema and all rows of keys, as one text. */
static int add_cells(void *user, int n, char **cells, char **names)
{
    char *text = user;

    (void)names;
    for (int i = 0; i < n; i++) {
        strncat(text, cells[i] ? cells[i] : "NULL", 16383 - strlen(text));
        strncat(text, "|", 16383 - strlen(text));
    }
    return 0;
}

static void dump(struct rv_store_db *db, const char *sql, char out[16384])
{
    out[0] = '\0';
    assert_int_equal(sqlite3_exec(rv_sqlite_db_of(db)->handle, sql, add_cells, out, NULL), SQLITE_OK);
}

static const char SCHEMA[] = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name";
static const char KEYS[] = "SELECT id, hex(hash), tenant, name, share, created FROM api_key ORDER BY row";
static const char ADD_KEY[] =
    "INSERT INTO api_key VALUES (7, 'abcdefgh', zeroblob(32), 'acme', 'old one', 5, 2.0, 1, 1000, 0, 0, 0)";

static void up_down_up_gives_the_same_tables_and_keeps_what_has_a_place(void **state)
{
    char schema[16384], keys[16384], again[16384];
    struct rv_store_db *db = connect_to(store_temp_path());
    int32_t version;

    (void)state;
    assert_ok(rv_migration_run(db, rv_migration_newest(), err));
    run_sql(db, ADD_KEY);
    dump(db, SCHEMA, schema);
    dump(db, KEYS, keys);
    for (int32_t to = rv_migration_newest() - 1; to >= 1; to--) {
        assert_ok(rv_migration_run(db, to, err));
        assert_ok(rv_migration_version(db, &version, err));
        assert_int_equal(version, to);
        dump(db, KEYS, again);
        assert_string_equal(again, keys);
    }
    assert_ok(rv_migration_run(db, rv_migration_newest(), err));
    dump(db, SCHEMA, again);
    assert_string_equal(again, schema);
    dump(db, KEYS, again);
    assert_string_equal(again, keys);
    assert_ok(rv_migration_run(db, 0, err));
    dump(db, SCHEMA, again);
    assert_string_equal(again, "");
    assert_ok(rv_migration_run(db, rv_migration_newest(), err));
    dump(db, SCHEMA, again);
    assert_string_equal(again, schema);
    rv_sql_db_close(db);
}

static void a_store_of_every_old_version_opens_with_its_keys(void **state)
{
    (void)state;
    for (int32_t from = 0; from <= rv_migration_newest(); from++) {
        const char *path = store_temp_path();
        struct rv_store_db *db = connect_to(path);
        struct store_rows rows = {0};
        ruvllm_store *store;

        assert_ok(rv_migration_run(db, from, err));
        if (from >= 1)
            run_sql(db, ADD_KEY);
        rv_sql_db_close(db);
        store = store_open(path);
        assert_ok(ruvllm_keys_list(store, NULL, store_row_key, &rows, err));
        assert_string_equal(rows.text, from >= 1 ? "acme old one\n" : "");
        ruvllm_store_close(store);
    }
}

static void expect_untouched(const char *path, ruvllm_status status, const char *text)
{
    struct ruvllm_error failure = {0};
    size_t before_len, after_len;
    char *before = test_read_file(path, &before_len), *after;
    struct stat facts;
    char wal[128];
    ruvllm_store *store;

    assert_fails(ruvllm_store_open(&store, path, NULL, &failure), status, failure, text);
    assert_null(store);
    after = test_read_file(path, &after_len);
    assert_int_equal(before_len, after_len);
    assert_memory_equal(before, after, after_len);
    snprintf(wal, sizeof(wal), "%s-wal", path);
    assert_true(stat(wal, &facts) != 0 || facts.st_size == 0); // SQLite may leave an empty one
    free(before);
    free(after);
}

static void a_newer_store_is_refused_and_stays_byte_for_byte(void **state)
{
    const char *path = store_temp_path();

    (void)state;
    ruvllm_store_close(store_open(path));
    {
        struct rv_store_db *db = connect_to(path);

        run_sql(db, "PRAGMA user_version=99");
        rv_sql_db_close(db);
    }
    expect_untouched(path, RUVLLM_UNSUPPORTED, "version 99");
}

static void a_newer_store_with_a_log_beside_it_keeps_both(void **state)
{
    const char *path = store_temp_path();
    struct ruvllm_error failure = {0};
    char wal[128];
    char *before, *after;
    size_t before_len, after_len;
    struct rv_store_db *db;
    ruvllm_store *store;

    (void)state;
    snprintf(wal, sizeof(wal), "%s-wal", path);
    ruvllm_store_close(store_open(path));
    db = connect_to(path); // stays open, so that the log is not written back
    run_sql(db, "PRAGMA user_version=99");
    before = test_read_file(wal, &before_len);
    assert_true(before_len > 0);
    assert_fails(ruvllm_store_open(&store, path, NULL, &failure), RUVLLM_UNSUPPORTED, failure, "version 99");
    after = test_read_file(wal, &after_len);
    assert_int_equal(before_len, after_len);
    assert_memory_equal(before, after, after_len);
    rv_sql_db_close(db);
    free(before);
    free(after);
}

static void another_programs_database_is_refused_and_stays_as_it_is(void **state)
{
    const char *path = store_temp_path();
    sqlite3 *other;

    (void)state;
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "CREATE TABLE cookies (x)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    expect_untouched(path, RUVLLM_FORMAT, "another program");
}

static void what_is_no_database_is_refused_and_stays_as_it_is(void **state)
{
    static const char text[] =
        "This is a letter to my mother, and by no means a database. It is long enough to be looked "
        "at as one, though, for a header has a hundred bytes.";
    const char *path = store_temp_path();

    (void)state;
    test_write_file(path, text, sizeof(text));
    expect_untouched(path, RUVLLM_FORMAT, "not a SQLite database");
    test_write_file(path, "hi", 2); // a single byte counts as nothing, says SQLite
    expect_untouched(path, RUVLLM_FORMAT, "not a SQLite database");
}

/* A step fails in the middle: the version and the tables are those before it. */
static void a_failed_step_leaves_the_version_before_it(void **state)
{
    struct rv_store_db *db = connect_to(store_temp_path());
    struct ruvllm_error failure = {0};
    char before[16384], after[16384];
    int32_t version;

    (void)state;
    assert_ok(rv_migration_run(db, 1, err));
    run_sql(db, "CREATE TABLE witness_by_tenant (x)"); // takes the name of an index that step 2 makes last
    dump(db, SCHEMA, before);
    assert_fails(rv_migration_run(db, 2, &failure), RUVLLM_FORMAT, failure, "version 2");
    dump(db, SCHEMA, after);
    assert_string_equal(after, before);
    assert_ok(rv_migration_version(db, &version, err));
    assert_int_equal(version, 1);
    rv_sql_db_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(up_down_up_gives_the_same_tables_and_keeps_what_has_a_place),
        cmocka_unit_test(a_store_of_every_old_version_opens_with_its_keys),
        cmocka_unit_test(a_newer_store_is_refused_and_stays_byte_for_byte),
        cmocka_unit_test(a_newer_store_with_a_log_beside_it_keeps_both),
        cmocka_unit_test(another_programs_database_is_refused_and_stays_as_it_is),
        cmocka_unit_test(what_is_no_database_is_refused_and_stays_as_it_is),
        cmocka_unit_test(a_failed_step_leaves_the_version_before_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
