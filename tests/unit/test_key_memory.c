/* Keys remembered for the time their database is away. */
#include "store/key_memory.h"
#include "support/test.h"

#include <string.h>

static struct rv_store_key key(uint8_t first, const char *tenant)
{
    struct rv_store_key k = {.hash = {first, 7, 9}};

    strncpy(k.info.tenant, tenant, sizeof(k.info.tenant) - 1);
    return k;
}

static void a_key_is_known_for_ten_minutes(void **state)
{
    struct rv_key_memory *memory = rv_key_memory_new();
    struct rv_store_key a = key(1, "acme"), got;
    const int64_t now = 1000;

    (void)state;
    assert_non_null(memory);
    assert_false(rv_key_memory_find(memory, a.hash, now, &got));
    rv_key_memory_put(memory, &a, now);
    assert_true(rv_key_memory_find(memory, a.hash, now + 600000000, &got));
    assert_string_equal(got.info.tenant, "acme");
    assert_false(rv_key_memory_find(memory, a.hash, now + 600000001, &got));
    rv_key_memory_drop(memory, a.hash);
    assert_false(rv_key_memory_find(memory, a.hash, now, &got));
    rv_key_memory_free(memory);
    rv_key_memory_free(NULL);
}

static void keys_of_one_place_are_not_taken_for_each_other(void **state)
{
    struct rv_key_memory *memory = rv_key_memory_new();
    struct rv_store_key a = key(1, "acme"), b = key(1, "other"), got;

    (void)state;
    assert_non_null(memory);
    b.hash[31] = 1;
    rv_key_memory_put(memory, &a, 1);
    assert_false(rv_key_memory_find(memory, b.hash, 1, &got));
    rv_key_memory_drop(memory, b.hash); // is not there
    assert_true(rv_key_memory_find(memory, a.hash, 1, &got));
    rv_key_memory_put(memory, &b, 1);
    assert_false(rv_key_memory_find(memory, a.hash, 1, &got));
    assert_true(rv_key_memory_find(memory, b.hash, 1, &got));
    assert_string_equal(got.info.tenant, "other");
    rv_key_memory_free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_known_for_ten_minutes),
        cmocka_unit_test(keys_of_one_place_are_not_taken_for_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
