/* The arena: aligned pieces, a hard ceiling, and pieces that stay valid after it is hit. */
#include "base/arena.h"
#include "support/test.h"

#include <string.h>

static void pieces_are_aligned_and_do_not_overlap(void **state)
{
    struct rv_arena arena;
    unsigned char *pieces[2000];

    (void)state;
    rv_arena_init(&arena, 1 << 20);
    for (size_t i = 0; i < 2000; i++) {
        pieces[i] = rv_arena_alloc(&arena, i % 67);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 8, 0);
        memset(pieces[i], (int)(i & 255), i % 67);
    }
    for (size_t i = 0; i < 2000; i++)
        for (size_t k = 0; k < i % 67; k++)
            assert_int_equal(pieces[i][k], i & 255);
    rv_arena_release(&arena);
}

static void the_ceiling_holds_and_earlier_pieces_stay(void **state)
{
    struct rv_arena arena;
    char *first;

    (void)state;
    rv_arena_init(&arena, 10000);
    first = rv_arena_alloc(&arena, 5000);
    assert_non_null(first);
    memset(first, 'x', 5000);
    assert_null(rv_arena_alloc(&arena, 6000));
    assert_int_equal(arena.failed, RUVLLM_TOO_LARGE);
    assert_null(rv_arena_alloc(&arena, 1));
    assert_true(arena.reserved <= 10000);
    assert_int_equal(first[4999], 'x');
    rv_arena_release(&arena);
}

static void absurd_sizes_fail_instead_of_wrapping(void **state)
{
    struct rv_arena arena;

    (void)state;
    rv_arena_init(&arena, 1 << 20);
    assert_null(rv_arena_alloc(&arena, SIZE_MAX));
    rv_arena_release(&arena);
    rv_arena_init(&arena, SIZE_MAX);
    assert_null(rv_arena_calloc(&arena, SIZE_MAX / 2, 3));
    rv_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_aligned_and_do_not_overlap),
        cmocka_unit_test(the_ceiling_holds_and_earlier_pieces_stay),
        cmocka_unit_test(absurd_sizes_fail_instead_of_wrapping),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
