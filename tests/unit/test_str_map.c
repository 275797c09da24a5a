/* The string index: what was added is found, what was not is not, repeats are refused. */
#include "base/str_map.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

static void every_added_key_is_found_and_no_other(void **state)
{
    static char keys[5000][16];
    struct rv_str_map map;

    (void)state;
    assert_ok(rv_str_map_init(&map, 5000, err));
    for (int i = 0; i < 5000; i++) {
        snprintf(keys[i], sizeof(keys[i]), "key%d", i);
        assert_true(rv_str_map_add(&map, keys[i], strlen(keys[i]), i));
    }
    for (int i = 0; i < 5000; i++)
        assert_int_equal(rv_str_map_find(&map, keys[i], strlen(keys[i])), i);
    assert_int_equal(rv_str_map_find(&map, "key5000", 7), -1);
    assert_int_equal(rv_str_map_find(&map, "", 0), -1);
    rv_str_map_release(&map);
}

static void a_repeated_key_is_refused_and_the_first_value_stays(void **state)
{
    struct rv_str_map map;

    (void)state;
    assert_ok(rv_str_map_init(&map, 4, err));
    assert_true(rv_str_map_add(&map, "a\0b", 3, 7));
    assert_false(rv_str_map_add(&map, "a\0b", 3, 8));
    assert_int_equal(rv_str_map_find(&map, "a\0b", 3), 7);
    assert_int_equal(rv_str_map_find(&map, "a", 1), -1);
    rv_str_map_release(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_added_key_is_found_and_no_other),
        cmocka_unit_test(a_repeated_key_is_refused_and_the_first_value_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
