/* The pool of cells: placing, trimming, what a row may see. */
#include "kv/kv_cache.h"
#include "support/test.h"

#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

enum { CELLS = 64 };

struct fixture {
    struct rv_device *device;
    struct rv_kv_cache *kv;
};

static int setup(void **state)
{
    static struct fixture f;
    struct rv_hparams h = {.n_layers = 2, .n_heads = 2, .n_kv_heads = 1, .head_dim = 32};

    assert_ok(rv_device_open(&f.device, "cpu", 1, err));
    assert_ok(rv_kv_cache_new(&f.kv, &h, f.device, CELLS, err));
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    rv_kv_cache_free(f->kv);
    rv_device_close(f->device);
    return 0;
}

static void a_single_sequence_fills_cells_in_order(void **state)
{
    struct rv_kv_cache *kv = ((struct fixture *)*state)->kv;
    int32_t pos[3] = {0, 1, 2}, seq[3] = {5, 5, 5};
    int64_t cells[3];

    assert_true(rv_kv_cache_place(kv, pos, seq, 3, cells));
    assert_int_equal(cells[0], 0);
    assert_int_equal(cells[2], 2);
    assert_int_equal(rv_kv_cache_extent(kv), 3);
    assert_true(rv_kv_cache_check(kv));
}

static void a_batch_that_does_not_fit_takes_nothing(void **state)
{
    struct rv_kv_cache *kv = ((struct fixture *)*state)->kv;
    int32_t pos[CELLS + 1], seq[CELLS + 1] = {0};
    int64_t cells[CELLS + 1];

    for (int32_t i = 0; i <= CELLS; i++)
        pos[i] = i;
    assert_false(rv_kv_cache_place(kv, pos, seq, CELLS + 1, cells));
    assert_int_equal(rv_kv_cache_extent(kv), 1);
    assert_true(rv_kv_cache_place(kv, pos, seq, CELLS, cells));
    assert_false(rv_kv_cache_place(kv, pos, seq, 1, cells));
    assert_true(rv_kv_cache_check(kv));
}

static void trimming_frees_only_the_tail_of_that_sequence(void **state)
{
    struct rv_kv_cache *kv = ((struct fixture *)*state)->kv;
    int32_t pos[6] = {0, 0, 1, 1, 2, 2}, seq[6] = {0, 1, 0, 1, 0, 1};
    int64_t cells[6], again[2];

    assert_true(rv_kv_cache_place(kv, pos, seq, 6, cells));
    rv_kv_cache_seq_trim(kv, 0, 1);
    assert_true(rv_kv_cache_check(kv));
    assert_true(rv_kv_cache_place(kv, pos + 2, seq, 1, again));
    assert_int_equal(again[0], cells[2]); /* the first hole is used again */
    assert_int_equal(rv_kv_cache_extent(kv), 6);
}

/* Mask values against the definition, cell by cell. */
static void a_row_sees_its_own_past_inside_the_window_and_nothing_else(void **state)
{
    struct rv_kv_cache *kv = ((struct fixture *)*state)->kv;
    int32_t pos[8] = {0, 1, 2, 3, 0, 1, 2, 3}, seq[8] = {0, 0, 0, 0, 1, 1, 1, 1};
    int32_t row_pos[2] = {3, 2}, row_seq[2] = {0, 1};
    int64_t cells[8];
    ggml_fp16_t mask[2 * 16];

    assert_true(rv_kv_cache_place(kv, pos, seq, 8, cells));
    for (int32_t window = 0; window <= 2; window++) {
        rv_kv_cache_mask(kv, row_pos, row_seq, 2, window, 16, mask);
        for (int row = 0; row < 2; row++) {
            for (int cell = 0; cell < 16; cell++) {
                bool used = cell < 8;
                bool sees = used && seq[cell] == row_seq[row] && pos[cell] <= row_pos[row] &&
                            (window == 0 || row_pos[row] - pos[cell] < window);
                assert_int_equal(mask[row * 16 + cell], sees ? 0 : 0xFC00);
            }
        }
    }
}

static void random_use_keeps_the_books_straight(void **state)
{
    struct rv_kv_cache *kv = ((struct fixture *)*state)->kv;
    int32_t length[4] = {0};
    struct rv_rng rng;

    rv_rng_init(&rng, 7);
    for (int i = 0; i < 5000; i++) {
        int32_t seq = (int32_t)rv_rng_below(&rng, 4);
        int64_t cell;

        if (rv_rng_below(&rng, 3) > 0) {
            if (rv_kv_cache_place(kv, &length[seq], &seq, 1, &cell))
                length[seq]++;
        } else {
            int32_t to = (int32_t)rv_rng_below(&rng, (uint64_t)length[seq] + 1);
            rv_kv_cache_seq_trim(kv, seq, to);
            length[seq] = to;
        }
        assert_true(rv_kv_cache_check(kv));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_single_sequence_fills_cells_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(a_batch_that_does_not_fit_takes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(trimming_frees_only_the_tail_of_that_sequence, setup, teardown),
        cmocka_unit_test_setup_teardown(a_row_sees_its_own_past_inside_the_window_and_nothing_else, setup, teardown),
        cmocka_unit_test_setup_teardown(random_use_keeps_the_books_straight, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
