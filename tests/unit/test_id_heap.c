/* The heap against a search through all keys. */
#include "base/id_heap.h"
#include "base/rng.h"
#include "support/test.h"

enum { IDS = 64 };

static void ids_come_out_smallest_key_first(void **state)
{
    static const uint64_t keys[5] = {30, 10, 50, 20, 40};
    static const int32_t order[5] = {1, 3, 0, 4, 2};
    struct rv_id_heap heap;

    (void)state;
    assert_ok(rv_id_heap_init(&heap, 5, err));
    assert_int_equal(rv_id_heap_first(&heap), -1);
    for (int32_t i = 0; i < 5; i++)
        rv_id_heap_put(&heap, i, keys[i]);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(rv_id_heap_first(&heap), order[i]);
        rv_id_heap_remove(&heap, order[i]);
        assert_false(rv_id_heap_has(&heap, order[i]));
    }
    assert_int_equal(rv_id_heap_first(&heap), -1);
    rv_id_heap_remove(&heap, 3);
    assert_true(rv_id_heap_check(&heap));
    rv_id_heap_release(&heap);
}

static void a_key_may_change_either_way(void **state)
{
    struct rv_id_heap heap;

    (void)state;
    assert_ok(rv_id_heap_init(&heap, 4, err));
    for (int32_t i = 0; i < 4; i++)
        rv_id_heap_put(&heap, i, (uint64_t)i);
    rv_id_heap_put(&heap, 0, 9);
    assert_int_equal(rv_id_heap_first(&heap), 1);
    rv_id_heap_put(&heap, 3, 0);
    assert_int_equal(rv_id_heap_first(&heap), 3);
    assert_int_equal(heap.n, 4);
    rv_id_heap_release(&heap);
}

static void random_use_agrees_with_a_search(void **state)
{
    struct rv_id_heap heap;
    struct rv_rng rng;

    (void)state;
    assert_ok(rv_id_heap_init(&heap, IDS, err));
    rv_rng_init(&rng, 5);
    for (int i = 0; i < 20000; i++) {
        int32_t id = (int32_t)rv_rng_below(&rng, IDS);
        uint64_t least = UINT64_MAX;

        if (rv_rng_below(&rng, 3) > 0)
            rv_id_heap_put(&heap, id, rv_rng_below(&rng, 100));
        else
            rv_id_heap_remove(&heap, id);
        for (id = 0; id < IDS; id++) {
            if (rv_id_heap_has(&heap, id) && heap.keys[id] < least)
                least = heap.keys[id];
        }
        id = rv_id_heap_first(&heap);
        assert_true(id < 0 ? least == UINT64_MAX : heap.keys[id] == least);
        assert_true(rv_id_heap_check(&heap));
    }
    rv_id_heap_release(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_come_out_smallest_key_first),
        cmocka_unit_test(a_key_may_change_either_way),
        cmocka_unit_test(random_use_agrees_with_a_search),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
