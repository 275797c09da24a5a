/* The map of ids against a plain list. */
#include "base/id_map.h"
#include "base/rng.h"
#include "support/test.h"

enum { IDS = 300 };

static void what_was_added_is_found_until_it_is_removed(void **state)
{
    struct rv_id_map map;

    (void)state;
    assert_ok(rv_id_map_init(&map, 2, err));
    assert_int_equal(rv_id_map_find(&map, 7), -1);
    assert_true(rv_id_map_add(&map, 7, 70));
    assert_true(rv_id_map_add(&map, 0, 0));
    assert_int_equal(rv_id_map_find(&map, 7), 70);
    assert_int_equal(rv_id_map_find(&map, 0), 0);
    assert_true(rv_id_map_remove(&map, 7));
    assert_false(rv_id_map_remove(&map, 7));
    assert_int_equal(rv_id_map_find(&map, 7), -1);
    assert_int_equal(rv_id_map_find(&map, 0), 0);
    rv_id_map_release(&map);
}

static void an_id_is_added_once_and_a_full_map_refuses(void **state)
{
    struct rv_id_map map;

    (void)state;
    assert_ok(rv_id_map_init(&map, 2, err));
    assert_true(rv_id_map_add(&map, 1, 10));
    assert_false(rv_id_map_add(&map, 1, 11));
    assert_int_equal(rv_id_map_find(&map, 1), 10);
    assert_true(rv_id_map_add(&map, 2, 20));
    assert_false(rv_id_map_add(&map, 3, 30));
    assert_int_equal(rv_id_map_find(&map, 3), -1);
    rv_id_map_release(&map);
}

/* Few more slots than ids, so runs are long and removals leave gaps in the middle of them. */
static void random_use_agrees_with_a_list(void **state)
{
    int32_t list[IDS];
    struct rv_id_map map;
    struct rv_rng rng;
    size_t n = 0;

    (void)state;
    assert_ok(rv_id_map_init(&map, IDS / 2, err));
    rv_rng_init(&rng, 3);
    for (int i = 0; i < IDS; i++)
        list[i] = -1;
    for (int i = 0; i < 50000; i++) {
        uint64_t id = rv_rng_below(&rng, IDS);

        if (rv_rng_below(&rng, 2)) {
            bool can = list[id] < 0 && n < IDS / 2;

            assert_int_equal(rv_id_map_add(&map, id, i), can);
            list[id] = can ? i : list[id];
            n += can;
        } else {
            assert_int_equal(rv_id_map_remove(&map, id), list[id] >= 0);
            n -= list[id] >= 0;
            list[id] = -1;
        }
        id = rv_rng_below(&rng, IDS);
        assert_int_equal(rv_id_map_find(&map, id), list[id]);
    }
    for (uint64_t id = 0; id < IDS; id++)
        assert_int_equal(rv_id_map_find(&map, id), list[id]);
    rv_id_map_release(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_is_found_until_it_is_removed),
        cmocka_unit_test(an_id_is_added_once_and_a_full_map_refuses),
        cmocka_unit_test(random_use_agrees_with_a_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
