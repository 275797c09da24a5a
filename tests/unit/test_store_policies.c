/* Policies, on the kind of store this run is about. */
#include "base/alloc.h"
#include "store/store_policies.h"
#include "support/store_fixture.h"

#include <stdio.h>
#include <string.h>

static void put(ruvllm_store *store, const char *tenant, const char *name, const char *value)
{
    assert_ok(rv_store_policies_put(store, tenant, name, value, strlen(value), err));
}

static bool see(void *user, const struct rv_store_policy *p)
{
    char *text = user;

    snprintf(text + strlen(text), 4096 - strlen(text), "%s=%s ", p->name, p->value.data);
    return strcmp(p->name, "stop") != 0;
}

static void policies_are_put_found_listed_and_deleted(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct ruvllm_error failure = {0};
    char text[4096] = "", *value;
    bool found;

    (void)state;
    put(store, "acme", "b.route", "{\"model\":\"small\"}");
    put(store, "acme", "a.kv", "q8");
    put(store, "acme", "a.kv", "q4");
    put(store, "acme", "B", "");
    put(store, "other", "a.kv", "f16");
    assert_ok(rv_store_policies_list(store, "acme", see, text, err));
    assert_string_equal(text, "B= a.kv=q4 b.route={\"model\":\"small\"} "); // in the order of bytes
    assert_ok(rv_store_policies_get(store, "acme", "a.kv", &value, &found, err));
    assert_true(found);
    assert_string_equal(value, "q4");
    rv_free(value);
    assert_ok(rv_store_policies_delete(store, "acme", "a.kv", err));
    assert_fails(rv_store_policies_delete(store, "acme", "a.kv", &failure), RUVLLM_NOT_FOUND, failure, "'a.kv'");
    assert_ok(rv_store_policies_get(store, "acme", "a.kv", &value, &found, err));
    assert_true(!found && !value);
    assert_ok(rv_store_policies_get(store, "other", "a.kv", &value, &found, err));
    assert_true(found);
    rv_free(value);
    ruvllm_store_close(store);
}

static void wrong_policies_are_refused(void **state)
{
    static char large[RV_STORE_POLICY_VALUE_MAX + 1];
    ruvllm_store *store = store_open(store_temp_url());
    struct ruvllm_error failure = {0};

    (void)state;
    memset(large, 'x', sizeof(large));
    assert_fails(rv_store_policies_put(store, "acme", "a b", "", 0, &failure), RUVLLM_INVALID, failure, "a policy");
    assert_fails(rv_store_policies_put(store, "acme", "", "", 0, &failure), RUVLLM_INVALID, failure, "a policy");
    assert_fails(rv_store_policies_put(store, "acme", "a", large, sizeof(large), &failure), RUVLLM_TOO_LARGE, failure,
                 "larger");
    assert_fails(rv_store_policies_put(store, "acme", "a", "\0", 1, &failure), RUVLLM_INVALID, failure, "NUL");
    ruvllm_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_are_put_found_listed_and_deleted),
        cmocka_unit_test(wrong_policies_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
