/* Keys through the public calls. The linker puts our sodium_memcmp before libsodium's, to see that it is the judge. */
#include "support/store_fixture.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int __real_sodium_memcmp(const void *a, const void *b, size_t len);
int __wrap_sodium_memcmp(const void *a, const void *b, size_t len);

static size_t n_compared; // calls of sodium_memcmp over 32 bytes
static int compare_says;  // what it adds to the truth

int __wrap_sodium_memcmp(const void *a, const void *b, size_t len)
{
    n_compared += len == 32;
    return __real_sodium_memcmp(a, b, len) | compare_says;
}

static void a_key_is_valid_from_its_creation_to_its_revocation(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct ruvllm_key_info info, found;
    int64_t began = time(NULL);
    char key[RUVLLM_KEY_SIZE];

    (void)state;
    store_make_key(store, "acme", key, &info);
    assert_int_equal(strlen(key), RUVLLM_KEY_SIZE - 1);
    assert_memory_equal(key, "rv-", 3);
    assert_memory_equal(key + 3, info.id, 8);
    assert_int_equal(store_check(store, key, &found), RUVLLM_KEY_VALID);
    assert_string_equal(found.id, info.id);
    assert_string_equal(found.tenant, "acme");
    assert_true(found.created >= began && found.created <= time(NULL));
    assert_ok(ruvllm_keys_revoke(store, info.id, err));
    assert_int_equal(store_check(store, key, &found), RUVLLM_KEY_REVOKED);
    assert_true(found.revoked >= info.created);
    assert_ok(ruvllm_keys_revoke(store, info.id, err));
    ruvllm_store_close(store);
}

static void everything_that_was_asked_for_comes_back_also_after_reopening(void **state)
{
    const char *path = store_temp_url();
    ruvllm_store *store = store_open(path);
    struct ruvllm_key_params params = ruvllm_key_params_default();
    struct ruvllm_key_info info;
    char key[RUVLLM_KEY_SIZE];

    (void)state;
    params.tenant = "A.b_c-9";
    params.name = "Zo\xC3\xAB's laptop";
    params.requests_per_minute = 600;
    params.share = 2.5f;
    params.is_admin = true;
    params.expires = time(NULL) + 1000;
    assert_ok(ruvllm_keys_create(store, &params, key, NULL, err));
    ruvllm_store_close(store);
    store = store_open(path);
    assert_int_equal(store_check(store, key, &info), RUVLLM_KEY_VALID);
    assert_string_equal(info.tenant, params.tenant);
    assert_string_equal(info.name, params.name);
    assert_int_equal(info.requests_per_minute, 600);
    assert_true(info.share == 2.5f);
    assert_true(info.is_admin);
    assert_int_equal(info.expires, params.expires);
    assert_int_equal(info.revoked, 0);
    ruvllm_store_close(store);
}

static void whatever_is_not_a_key_is_unknown(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct ruvllm_key_info info = {.struct_size = sizeof(info)};
    char key[RUVLLM_KEY_SIZE], wrong[RUVLLM_KEY_SIZE];
    ruvllm_key_verdict verdict;

    (void)state;
    store_make_key(store, "acme", key, NULL);
    assert_int_equal(store_check(store, "", &info), RUVLLM_KEY_UNKNOWN);
    assert_int_equal(store_check(store, "rv-", NULL), RUVLLM_KEY_UNKNOWN);
    assert_int_equal(store_check(store, "' OR 1=1 --", NULL), RUVLLM_KEY_UNKNOWN);
    for (size_t i = 0; i < RUVLLM_KEY_SIZE - 1; i++) { // one character other, in every place
        memcpy(wrong, key, sizeof(key));
        wrong[i] = wrong[i] == 'A' ? 'B' : 'A';
        assert_int_equal(store_check(store, wrong, &info), RUVLLM_KEY_UNKNOWN);
        assert_string_equal(info.tenant, "");
        memcpy(wrong, key, sizeof(key));
        wrong[i] = '\0';
        assert_ok(ruvllm_keys_check(store, wrong, RUVLLM_KEY_SIZE - 1, &verdict, NULL, err));
        assert_int_equal(verdict, RUVLLM_KEY_UNKNOWN);
        assert_ok(ruvllm_keys_check(store, key, i, &verdict, NULL, err)); // the beginning alone
        assert_int_equal(verdict, RUVLLM_KEY_UNKNOWN);
    }
    assert_ok(ruvllm_keys_check(store, key, RUVLLM_KEY_SIZE, &verdict, NULL, err)); // with its NUL
    assert_int_equal(verdict, RUVLLM_KEY_UNKNOWN);
    ruvllm_store_close(store);
}

static void the_last_word_is_a_comparison_in_constant_time(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    char key[RUVLLM_KEY_SIZE];

    (void)state;
    store_make_key(store, "acme", key, NULL);
    n_compared = 0;
    assert_int_equal(store_check(store, key, NULL), RUVLLM_KEY_VALID);
    assert_int_equal(n_compared, 1);
    compare_says = -1;
    assert_int_equal(store_check(store, key, NULL), RUVLLM_KEY_UNKNOWN);
    compare_says = 0;
    ruvllm_store_close(store);
}

/* A key that ends soon, and when. A machine so slow that it is over before it is made gets a longer one. */
static int64_t make_short_key(ruvllm_store *store, char key[RUVLLM_KEY_SIZE])
{
    struct ruvllm_key_params params = ruvllm_key_params_default();

    params.tenant = "acme";
    for (int64_t seconds = 2; seconds < 100; seconds *= 3) {
        params.expires = time(NULL) + seconds;
        if (!ruvllm_keys_create(store, &params, key, NULL, NULL))
            return params.expires;
    }
    fail_msg("no key of a few seconds can be made");
    return 0;
}

static void an_expired_key_says_so(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct ruvllm_key_params params = ruvllm_key_params_default();
    struct ruvllm_error failure = {0};
    char key[RUVLLM_KEY_SIZE], lasting[RUVLLM_KEY_SIZE];
    ruvllm_key_verdict verdict;
    int64_t expires;
    uint64_t n;

    (void)state;
    params.tenant = "acme";
    params.expires = time(NULL) + 100000;
    assert_ok(ruvllm_keys_create(store, &params, lasting, NULL, err));
    expires = make_short_key(store, key);
    verdict = store_check(store, key, NULL);
    assert_ok(ruvllm_keys_count(store, &n, err));
    if (time(NULL) < expires) // so it was when we asked
        assert_true(verdict == RUVLLM_KEY_VALID && n == 2);
    while (time(NULL) < expires) {
        struct timespec pause = {.tv_nsec = 50000000};

        nanosleep(&pause, NULL);
    }
    assert_int_equal(store_check(store, key, NULL), RUVLLM_KEY_EXPIRED);
    assert_int_equal(store_check(store, lasting, NULL), RUVLLM_KEY_VALID);
    assert_ok(ruvllm_keys_count(store, &n, err));
    assert_int_equal(n, 1);
    params.expires = time(NULL) - 1;
    assert_fails(ruvllm_keys_create(store, &params, key, NULL, &failure), RUVLLM_INVALID, failure, "in the future");
    ruvllm_store_close(store);
}

static void lists_are_in_the_order_of_creation_and_by_tenant(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct ruvllm_key_params params = ruvllm_key_params_default();
    struct store_rows all = {0}, ours = {0}, two = {.stop_after = 2};
    char key[RUVLLM_KEY_SIZE], name[16], text[65536] = "", mine[65536] = "";

    (void)state;
    for (int i = 0; i < 150; i++) { // more than two pages
        snprintf(name, sizeof(name), "n%d", i);
        params.tenant = i % 3 ? "acme" : "other";
        params.name = name;
        assert_ok(ruvllm_keys_create(store, &params, key, NULL, err));
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s %s\n", params.tenant, name);
        if (i % 3 == 0)
            snprintf(mine + strlen(mine), sizeof(mine) - strlen(mine), "other %s\n", name);
    }
    assert_ok(ruvllm_keys_list(store, NULL, store_row_key, &all, err));
    assert_string_equal(all.text, text);
    assert_ok(ruvllm_keys_list(store, "other", store_row_key, &ours, err));
    assert_string_equal(ours.text, mine);
    assert_ok(ruvllm_keys_list(store, NULL, store_row_key, &two, err));
    assert_int_equal(two.n, 2);
    ruvllm_store_close(store);
}

static void last_use_is_noted_once_a_minute(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct ruvllm_key_info info;
    int64_t began = time(NULL);
    char key[RUVLLM_KEY_SIZE];

    (void)state;
    store_make_key(store, "acme", key, NULL);
    assert_int_equal(store_check(store, key, &info), RUVLLM_KEY_VALID);
    assert_int_equal(info.last_used, 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(store_check(store, key, &info), RUVLLM_KEY_VALID);
    assert_ok(ruvllm_witness_flush(store, err));
    assert_int_equal(store_check(store, key, &info), RUVLLM_KEY_VALID);
    assert_true(info.last_used >= began && info.last_used <= time(NULL));
    ruvllm_store_close(store);
}

static void wrong_wishes_are_refused_and_leave_no_key_behind(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct ruvllm_key_params good = ruvllm_key_params_default(), params;
    struct ruvllm_error failure = {0};
    char key[RUVLLM_KEY_SIZE];
    static const float shares[] = {0.0f, -1.0f, 1001.0f, NAN, INFINITY, -INFINITY};
    uint64_t n;

    (void)state;
    good.tenant = "acme";
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
        params = good;
        params.share = shares[i];
        memset(key, 'x', sizeof(key));
        assert_fails(ruvllm_keys_create(store, &params, key, NULL, &failure), RUVLLM_INVALID, failure, "share");
        assert_int_equal(key[0], '\0');
    }
    params = good;
    params.requests_per_minute = -1;
    assert_fails(ruvllm_keys_create(store, &params, key, NULL, &failure), RUVLLM_INVALID, failure, "per_minute");
    params = good;
    params.tenant = NULL;
    assert_fails(ruvllm_keys_create(store, &params, key, NULL, &failure), RUVLLM_INVALID, failure, "tenant");
    assert_fails(ruvllm_keys_create(store, NULL, key, NULL, &failure), RUVLLM_INVALID, failure, "tenant");
    params = good;
    params.name = "two\nlines";
    assert_fails(ruvllm_keys_create(store, &params, key, NULL, &failure), RUVLLM_INVALID, failure, "name");
    assert_fails(ruvllm_keys_revoke(store, "abcdefgh", &failure), RUVLLM_NOT_FOUND, failure, "abcdefgh");
    assert_fails(ruvllm_keys_revoke(store, "a' OR 1", &failure), RUVLLM_INVALID, failure, "8 characters");
    assert_fails(ruvllm_keys_list(store, "a'b", store_row_key, NULL, &failure), RUVLLM_INVALID, failure, "tenant");
    assert_ok(ruvllm_keys_count(store, &n, err));
    assert_int_equal(n, 0);
    ruvllm_store_close(store);
}

static bool holds(const char *path, const char *end, const char *text, size_t len)
{
    char name[128];
    size_t size;
    char *data;
    bool found = false;

    snprintf(name, sizeof(name), "%s%s", path, end);
    data = test_read_file(name, &size);
    for (size_t i = 0; !found && i + len <= size; i++)
        found = memcmp(data + i, text, len) == 0;
    free(data);
    return found;
}

static void the_key_itself_is_never_in_the_files(void **state)
{
    const char *path = store_temp_path();
    ruvllm_store *store = store_open(path);
    struct ruvllm_key_info info;
    char key[RUVLLM_KEY_SIZE];

    (void)state;
    store_make_key(store, "canary-tenant", key, &info);
    assert_int_equal(store_check(store, key, NULL), RUVLLM_KEY_VALID);
    assert_ok(ruvllm_witness_flush(store, err));
    assert_true(holds(path, "-wal", "canary-tenant", 13)); // the search finds what is there
    assert_true(holds(path, "-wal", info.id, 8));
    assert_false(holds(path, "-wal", key + 11, 12)); // what follows the id
    assert_false(holds(path, "-wal", key, 12));
    ruvllm_store_close(store);
    assert_true(holds(path, "", "canary-tenant", 13));
    assert_false(holds(path, "", key + 11, 12));
    assert_false(holds(path, "", key, 12));
}

static void what_one_process_revokes_another_refuses_at_once(void **state)
{
    const char *path = store_temp_url();
    ruvllm_store *server = store_open(path), *command = store_open(path);
    struct ruvllm_key_info info;
    char key[RUVLLM_KEY_SIZE];

    (void)state;
    store_make_key(command, "acme", key, &info);
    assert_int_equal(store_check(server, key, NULL), RUVLLM_KEY_VALID);
    assert_ok(ruvllm_keys_revoke(command, info.id, err));
    assert_int_equal(store_check(server, key, NULL), RUVLLM_KEY_REVOKED);
    ruvllm_store_close(command);
    ruvllm_store_close(server);
}

/* A damaged or hostile file: rows that no store would have written. */
static void a_row_that_breaks_its_limits_is_damaged_and_never_overruns(void **state)
{
    static const char *const wounds[] = {
        "UPDATE api_key SET tenant = hex(zeroblob(500))",    "UPDATE api_key SET name = hex(zeroblob(5000))",
        "UPDATE api_key SET name = CAST(x'610062' AS TEXT)", "UPDATE api_key SET requests_per_minute = 1099511627776",
        "UPDATE api_key SET requests_per_minute = -1",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wounds) / sizeof(wounds[0]); i++) {
        const char *path = store_temp_path();
        ruvllm_store *store = store_open(path);
        struct ruvllm_error failure = {0};
        struct store_rows rows = {0};
        ruvllm_key_verdict verdict;
        char key[RUVLLM_KEY_SIZE];
        sqlite3 *other;

        store_make_key(store, "acme", key, NULL);
        assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
        assert_int_equal(sqlite3_exec(other, wounds[i], NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(other);
        assert_fails(ruvllm_keys_list(store, NULL, store_row_key, &rows, &failure), RUVLLM_FORMAT, failure, "damaged");
        assert_fails(ruvllm_keys_check(store, key, RUVLLM_KEY_SIZE - 1, &verdict, NULL, &failure), RUVLLM_FORMAT,
                     failure, "damaged");
        assert_int_equal(verdict, RUVLLM_KEY_UNKNOWN);
        ruvllm_store_close(store);
    }
}

static void what_is_missing_is_named(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct ruvllm_key_info info = {.struct_size = 3};
    struct ruvllm_key_params params = ruvllm_key_params_default();
    struct ruvllm_error failure = {0};
    char key[RUVLLM_KEY_SIZE];
    ruvllm_key_verdict verdict;
    uint64_t n;

    (void)state;
    params.tenant = "acme";
    assert_fails(ruvllm_keys_create(NULL, &params, key, NULL, &failure), RUVLLM_INVALID, failure, "'store'");
    assert_fails(ruvllm_keys_create(store, &params, NULL, NULL, &failure), RUVLLM_INVALID, failure, "'key'");
    assert_fails(ruvllm_keys_create(store, &params, key, &info, &failure), RUVLLM_INVALID, failure, "struct_size");
    assert_ok(ruvllm_keys_count(store, &n, err)); // refused before a key was made
    assert_int_equal(n, 0);
    assert_fails(ruvllm_keys_check(store, NULL, 5, &verdict, NULL, &failure), RUVLLM_INVALID, failure, "'key'");
    assert_fails(ruvllm_keys_check(store, "x", 1, NULL, NULL, &failure), RUVLLM_INVALID, failure, "'verdict'");
    assert_fails(ruvllm_keys_list(store, NULL, NULL, NULL, &failure), RUVLLM_INVALID, failure, "'fn'");
    assert_fails(ruvllm_keys_revoke(store, NULL, &failure), RUVLLM_INVALID, failure, "'id'");
    assert_fails(ruvllm_keys_count(store, NULL, &failure), RUVLLM_INVALID, failure, "'n'");
    assert_string_equal(ruvllm_key_verdict_name(RUVLLM_KEY_VALID), "valid");
    assert_string_equal(ruvllm_key_verdict_name(RUVLLM_KEY_REVOKED), "revoked");
    ruvllm_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_valid_from_its_creation_to_its_revocation),
        cmocka_unit_test(everything_that_was_asked_for_comes_back_also_after_reopening),
        cmocka_unit_test(whatever_is_not_a_key_is_unknown),
        cmocka_unit_test(the_last_word_is_a_comparison_in_constant_time),
        cmocka_unit_test(an_expired_key_says_so),
        cmocka_unit_test(lists_are_in_the_order_of_creation_and_by_tenant),
        cmocka_unit_test(last_use_is_noted_once_a_minute),
        cmocka_unit_test(wrong_wishes_are_refused_and_leave_no_key_behind),
        cmocka_unit_test(the_key_itself_is_never_in_the_files),
        cmocka_unit_test(a_row_that_breaks_its_limits_is_damaged_and_never_overruns),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(what_one_process_revokes_another_refuses_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
