/* Rows by number. */
#include "kernels/gather.h"
#include "support/test.h"

static void rows_come_in_the_order_asked_for(void **state)
{
    const float table[] = {0, 1, 10, 11, 20, 21}, wanted[] = {20, 21, 0, 1, 20, 21};
    const int32_t ids[] = {2, 0, 2};
    float out[6];

    (void)state;
    rv_gather_rows(table, 2, ids, 3, out);
    assert_memory_equal(out, wanted, sizeof(out));
}

static void the_first_wrong_number_is_found(void **state)
{
    const int32_t ids[] = {0, 2, -1, 3};

    (void)state;
    assert_int_equal(rv_gather_first_bad(ids, 4, 3), 2);
    assert_int_equal(rv_gather_first_bad(ids, 2, 3), 2);
    assert_int_equal(rv_gather_first_bad(ids, 2, 2), 1);
    assert_int_equal(rv_gather_first_bad(ids, 0, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_in_the_order_asked_for),
        cmocka_unit_test(the_first_wrong_number_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
