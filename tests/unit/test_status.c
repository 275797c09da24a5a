/* Names and numbers of the public enumerations: complete, distinct, and safe for values from outside. */
#include "support/test.h"

#include <string.h>

static void every_status_has_its_own_name(void **state)
{
    (void)state;
    for (int a = RUVLLM_CONFLICT; a <= RUVLLM_OK; a++) {
        assert_string_not_equal(ruvllm_status_name((ruvllm_status)a), "unknown");
        for (int b = a + 1; b <= RUVLLM_OK; b++)
            assert_string_not_equal(ruvllm_status_name((ruvllm_status)a), ruvllm_status_name((ruvllm_status)b));
    }
    assert_string_equal(ruvllm_status_name((ruvllm_status)1), "unknown");
    assert_string_equal(ruvllm_status_name((ruvllm_status)-99), "unknown");
}

static void the_fifteen_kinds_have_their_prefixes(void **state)
{
    static const char *const prefixes[] = {
        "Storage error", "Session error",       "KV cache error",     "Paged attention error", "Adapter error",
        "SONA error",    "Configuration error", "Out of memory",      "Invalid operation",     "Not found",
        "Backend error", "Model error",         "Tokenization error", "Generation error",      "IO error",
    };

    (void)state;
    assert_int_equal(sizeof(prefixes) / sizeof(prefixes[0]), 15);
    for (int i = 0; i < 15; i++)
        assert_string_equal(ruvllm_error_kind_prefix((ruvllm_error_kind)i), prefixes[i]);
    assert_string_equal(ruvllm_error_kind_prefix((ruvllm_error_kind)15), "Unknown error");
    assert_string_equal(ruvllm_error_kind_prefix((ruvllm_error_kind)-1), "Unknown error");
}

static void precisions_count_their_block_scales(void **state)
{
    static const double bits[] = {32, 16, 16, 8.5, 4.5, 4.5};

    (void)state;
    for (int i = 0; i < 6; i++)
        assert_true(ruvllm_precision_bits((ruvllm_precision)i) == bits[i]);
    assert_true(ruvllm_precision_bits((ruvllm_precision)6) == 0.0);
}

static void sizes_change_at_one_three_and_thirteen_billion(void **state)
{
    const uint64_t billion = 1000000000;

    (void)state;
    assert_int_equal(ruvllm_model_size_of(0), RUVLLM_SIZE_TINY);
    assert_int_equal(ruvllm_model_size_of(billion - 1), RUVLLM_SIZE_TINY);
    assert_int_equal(ruvllm_model_size_of(billion), RUVLLM_SIZE_SMALL);
    assert_int_equal(ruvllm_model_size_of(3 * billion - 1), RUVLLM_SIZE_SMALL);
    assert_int_equal(ruvllm_model_size_of(3 * billion), RUVLLM_SIZE_MEDIUM);
    assert_int_equal(ruvllm_model_size_of(13 * billion), RUVLLM_SIZE_MEDIUM);
    assert_int_equal(ruvllm_model_size_of(13 * billion + 1), RUVLLM_SIZE_LARGE);
    assert_string_equal(ruvllm_model_size_name(RUVLLM_SIZE_LARGE), "large");
    assert_string_equal(ruvllm_model_size_name((ruvllm_model_size)4), "unknown");
}

static void every_stop_reason_has_a_name(void **state)
{
    (void)state;
    for (int i = RUVLLM_STOP_EOS; i <= RUVLLM_STOP_CALLBACK; i++)
        assert_string_not_equal(ruvllm_stop_reason_name((ruvllm_stop_reason)i), "unknown");
    assert_string_equal(ruvllm_stop_reason_name((ruvllm_stop_reason)(RUVLLM_STOP_CALLBACK + 1)), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_its_own_name),
        cmocka_unit_test(the_fifteen_kinds_have_their_prefixes),
        cmocka_unit_test(precisions_count_their_block_scales),
        cmocka_unit_test(sizes_change_at_one_three_and_thirteen_billion),
        cmocka_unit_test(every_stop_reason_has_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
