/* The ring against what a list that drops its oldest would hold. */
#include "store/witness_ring.h"
#include "support/test.h"

#include <string.h>

static struct rv_store_witness numbered(int32_t i)
{
    struct rv_store_witness row;

    memset(&row, 0, sizeof(row));
    row.numbers.prompt_tokens = i;
    return row;
}

static void push_range(struct rv_witness_ring *ring, int32_t from, int32_t to)
{
    for (int32_t i = from; i < to; i++) {
        struct rv_store_witness row = numbered(i);

        (void)rv_witness_ring_push(ring, &row);
    }
}

static void expect(struct rv_witness_ring *ring, int32_t from, int32_t to)
{
    struct rv_store_witness out[16];
    size_t n = rv_witness_ring_pop(ring, out, 16);

    assert_int_equal(n, to - from);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(out[i].numbers.prompt_tokens, from + (int32_t)i);
}

static void what_goes_in_comes_out_in_order(void **state)
{
    struct rv_witness_ring ring;

    (void)state;
    assert_ok(rv_witness_ring_init(&ring, 8, err));
    for (int32_t start = 0; start < 100; start += 7) {
        push_range(&ring, start, start + 7);
        expect(&ring, start, start + 7);
    }
    expect(&ring, 0, 0);
    rv_witness_ring_release(&ring);
}

static void a_full_ring_drops_its_oldest_and_says_so(void **state)
{
    struct rv_store_witness row = numbered(8);
    struct rv_witness_ring ring;

    (void)state;
    assert_ok(rv_witness_ring_init(&ring, 8, err));
    push_range(&ring, 0, 7);
    row = numbered(7);
    assert_false(rv_witness_ring_push(&ring, &row));
    row = numbered(8);
    assert_true(rv_witness_ring_push(&ring, &row));
    push_range(&ring, 9, 30);
    expect(&ring, 22, 30);
    rv_witness_ring_release(&ring);
}

static void what_is_put_back_comes_first_and_loses_its_oldest_when_room_lacks(void **state)
{
    struct rv_store_witness out[5];
    struct rv_witness_ring ring;

    (void)state;
    assert_ok(rv_witness_ring_init(&ring, 8, err));
    push_range(&ring, 0, 8);
    assert_int_equal(rv_witness_ring_pop(&ring, out, 5), 5);
    assert_int_equal(rv_witness_ring_unpop(&ring, out, 5), 0);
    expect(&ring, 0, 8);
    push_range(&ring, 0, 8);
    assert_int_equal(rv_witness_ring_pop(&ring, out, 5), 5);
    push_range(&ring, 8, 11);
    assert_int_equal(rv_witness_ring_unpop(&ring, out, 5), 3);
    expect(&ring, 3, 11);
    rv_witness_ring_release(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_in_comes_out_in_order),
        cmocka_unit_test(a_full_ring_drops_its_oldest_and_says_so),
        cmocka_unit_test(what_is_put_back_comes_first_and_loses_its_oldest_when_room_lacks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
