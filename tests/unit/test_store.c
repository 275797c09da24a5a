/* Opening: which URL means what, who may read the file, and files that are damaged. */
#include "support/store_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void refused(const char *url, ruvllm_status status, const char *text)
{
    struct ruvllm_error failure = {0};
    ruvllm_store *store;

    assert_fails(ruvllm_store_open(&store, url, NULL, &failure), status, failure, text);
    assert_null(store);
}

static void a_url_names_a_file_or_is_explained(void **state)
{
    char url[128];
    const char *path = store_temp_path();
    ruvllm_store *store;

    (void)state;
    snprintf(url, sizeof(url), "sqlite:%s", path);
    assert_ok(ruvllm_store_open(&store, url, NULL, err));
    ruvllm_store_close(store);
    assert_int_equal(access(path, R_OK), 0);
#ifdef RUVLLM_POSTGRES
    refused("postgres://me@127.0.0.1:1/x", RUVLLM_IO, "cannot open store 'postgres://': cannot connect");
#else
    refused("postgres://localhost/x", RUVLLM_UNSUPPORTED, "in SQLite alone");
    refused("postgresql:x", RUVLLM_UNSUPPORTED, "in SQLite alone");
#endif
    refused("mysql:x", RUVLLM_INVALID, "no such kind of store");
    refused("", RUVLLM_INVALID, "a store is a file");
    refused(":memory:", RUVLLM_INVALID, "a store is a file");
    refused("sqlite:", RUVLLM_INVALID, "a store is a file");
    refused("/tmp", RUVLLM_INVALID, "not a file");
    refused("/dev/null/x/store.db", RUVLLM_IO, "cannot open store");
    ruvllm_store_close(NULL);
}

/* The password of a URL is in no message. */
static void a_url_is_not_repeated(void **state)
{
    struct ruvllm_error failure = {0};
    ruvllm_store *store;

    (void)state;
    assert_int_not_equal(ruvllm_store_open(&store, "postgresql://me:hush@127.0.0.1:1/x", NULL, &failure), RUVLLM_OK);
    assert_null(strstr(failure.message, "hush"));
    assert_int_not_equal(ruvllm_store_open(&store, "mysql://me:hush@127.0.0.1:1/x", NULL, &failure), RUVLLM_OK);
    assert_null(strstr(failure.message, "hush"));
}

static int mode_of(const char *path, const char *end)
{
    char name[160];
    struct stat facts;

    snprintf(name, sizeof(name), "%s%s", path, end);
    assert_int_equal(stat(name, &facts), 0);
    return (int)(facts.st_mode & 0777);
}

static void only_the_owner_can_read_what_was_made(void **state)
{
    char folder[96], path[128];
    mode_t before = umask(0);
    ruvllm_store *store;

    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/ruvllm-store-%d-deep", (int)getpid());
    snprintf(path, sizeof(path), "%s/a/b/store.db", folder);
    store = store_open(path);
    assert_int_equal(mode_of(path, ""), 0600);
    assert_int_equal(mode_of(path, "-wal"), 0600);
    assert_int_equal(mode_of(path, "-shm"), 0600);
    assert_int_equal(mode_of(folder, ""), 0700);
    assert_int_equal(mode_of(folder, "/a/b"), 0700);
    ruvllm_store_close(store);
    umask(before);
    store_remove(path);
    for (int i = 0; i < 3; i++) {
        *strrchr(path, '/') = '\0';
        assert_int_equal(rmdir(path), 0);
    }
}

static void a_store_that_must_exist_is_not_made(void **state)
{
    struct ruvllm_store_params params = ruvllm_store_params_default();
    struct ruvllm_error failure = {0};
    const char *path = store_temp_path();
    ruvllm_store *store;

    (void)state;
    params.must_exist = true;
    assert_fails(ruvllm_store_open(&store, path, &params, &failure), RUVLLM_NOT_FOUND, failure, "no such file");
    assert_int_equal(access(path, F_OK), -1);
    ruvllm_store_close(store_open(path));
    assert_ok(ruvllm_store_open(&store, path, &params, err));
    ruvllm_store_close(store);
}

static void params_out_of_range_are_refused(void **state)
{
    struct ruvllm_store_params params;
    struct ruvllm_error failure = {0};
    ruvllm_store *store;

    (void)state;
    params = ruvllm_store_params_default();
    params.witness_buffer = 255;
    assert_fails(ruvllm_store_open(&store, "x", &params, &failure), RUVLLM_INVALID, failure, "'witness_buffer' is 255");
    params = ruvllm_store_params_default();
    params.witness_flush_ms = 9;
    assert_fails(ruvllm_store_open(&store, "x", &params, &failure), RUVLLM_INVALID, failure, "'witness_flush_ms'");
    params = ruvllm_store_params_default();
    params.busy_timeout_ms = -1;
    assert_fails(ruvllm_store_open(&store, "x", &params, &failure), RUVLLM_INVALID, failure, "'busy_timeout_ms'");
    params = ruvllm_store_params_default();
    params.struct_size = 4;
    assert_fails(ruvllm_store_open(&store, "x", &params, &failure), RUVLLM_INVALID, failure, "'struct_size'");
    assert_fails(ruvllm_store_open(&store, NULL, NULL, &failure), RUVLLM_INVALID, failure, "'url' is NULL");
}

static void the_default_path_follows_the_environment(void **state)
{
    char *path;
    struct ruvllm_error failure = {0};

    (void)state;
    setenv("XDG_STATE_HOME", "/state", 1);
    assert_ok(ruvllm_store_default_path(&path, err));
    assert_string_equal(path, "/state/ruvllm/ruvllm.db");
    ruvllm_free(path);
    setenv("XDG_STATE_HOME", "relative", 1);
    setenv("HOME", "/me", 1);
    assert_ok(ruvllm_store_default_path(&path, err));
    assert_string_equal(path, "/me/.local/state/ruvllm/ruvllm.db");
    ruvllm_free(path);
    unsetenv("XDG_STATE_HOME");
    unsetenv("HOME");
    assert_fails(ruvllm_store_default_path(&path, &failure), RUVLLM_INVALID, failure, "give its path");
    assert_null(path);
}

/* ---- damaged files ------------------------------------------------------------------------- */

static bool count_key(void *user, const struct ruvllm_key_info *key)
{
    (void)key;
    ++*(size_t *)user;
    return true;
}

static bool count_session(void *user, const struct ruvllm_session *session)
{
    (void)session;
    ++*(size_t *)user;
    return true;
}

/* Uses everything; whatever fails does so with a sentence and a status that is not a bug of ours. */
static void use(ruvllm_store *store)
{
    struct ruvllm_error failure[7] = {{0}};
    struct ruvllm_witness entry = store_witness(1, "acme", "m");
    struct ruvllm_session *got = NULL;
    struct store_rows rows = {0};
    ruvllm_status rc[7];
    size_t n = 0;

    rc[0] = ruvllm_keys_list(store, NULL, count_key, &n, &failure[0]);
    rc[1] = ruvllm_witness_query(store, NULL, store_row_witness, &rows, &failure[1]);
    rc[2] = ruvllm_sessions_list(store, "acme", 0, NULL, 100, count_session, &n, &failure[2]);
    rc[3] = ruvllm_sessions_get(store, "acme", "s1", &got, &failure[3]);
    rc[4] = ruvllm_witness_append(store, &entry, &failure[4]);
    rc[5] = ruvllm_witness_flush(store, &failure[5]);
    rc[6] = ruvllm_sessions_delete(store, "acme", "s2", &failure[6]);
    for (size_t i = 0; i < 7; i++)
        assert_true(rc[i] == RUVLLM_OK || (rc[i] != RUVLLM_INTERNAL && failure[i].message[0]));
    ruvllm_free(got);
}

static char *make_filled(const char *path, size_t *len)
{
    ruvllm_store *store = store_open(path);
    char key[RUVLLM_KEY_SIZE], id[8];

    for (int32_t i = 0; i < 40; i++) {
        struct ruvllm_witness entry = store_witness(i, "acme", "m");
        struct ruvllm_session s = {.struct_size = sizeof(s), .tenant = "acme", .id = id, .title = "t"};

        snprintf(id, sizeof(id), "s%d", i);
        store_make_key(store, "acme", key, NULL);
        assert_ok(ruvllm_witness_append(store, &entry, err));
        assert_ok(ruvllm_sessions_put(store, &s, err));
    }
    ruvllm_store_close(store);
    return test_read_file(path, len);
}

static void open_damaged(const char *path, const char *data, size_t len, size_t *n_opened)
{
    struct ruvllm_store_params params = ruvllm_store_params_default();
    struct ruvllm_error failure = {0};
    ruvllm_store *store;
    ruvllm_status rc;

    params.busy_timeout_ms = 100;
    store_remove(path);
    test_write_file(path, data, len);
    rc = ruvllm_store_open(&store, path, &params, &failure);
    if (rc) {
        assert_null(store);
        assert_true(rc == RUVLLM_FORMAT || rc == RUVLLM_UNSUPPORTED || rc == RUVLLM_IO);
        assert_non_null(strstr(failure.message, "cannot open store"));
        return;
    }
    ++*n_opened;
    use(store);
    ruvllm_store_close(store);
}

static void damaged_files_open_or_fail_cleanly(void **state)
{
    const char *path = store_temp_path(), *hurt = store_temp_path();
    size_t len, n_opened = 0;
    uint32_t luck = 12345;
    char *data = make_filled(path, &len);

    (void)state;
    for (int i = 0; i < 200; i++) {
        size_t at;
        char was;

        luck = luck * 1664525u + 1013904223u;
        at = i < 60 ? (size_t)i % 100 : luck % len; // the header gets its share
        was = data[at];
        data[at] = (char)(was ^ (1 << (luck >> 16) % 8));
        open_damaged(hurt, data, len, &n_opened);
        data[at] = was;
        luck = luck * 1664525u + 1013904223u;
        if (i % 4 == 0)
            open_damaged(hurt, data, luck % len, &n_opened);
    }
    assert_true(n_opened > 50); // most of a file is content: it opens, and the rows tell
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_url_names_a_file_or_is_explained),
        cmocka_unit_test(a_url_is_not_repeated),
        cmocka_unit_test(only_the_owner_can_read_what_was_made),
        cmocka_unit_test(a_store_that_must_exist_is_not_made),
        cmocka_unit_test(params_out_of_range_are_refused),
        cmocka_unit_test(damaged_files_open_or_fail_cleanly),
        cmocka_unit_test(the_default_path_follows_the_environment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
