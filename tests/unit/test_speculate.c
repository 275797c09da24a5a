/* Guessing ahead: what is found in a text, and how many guesses pay. */
#include "sched/speculate.h"
#include "support/test.h"

#define LOOK_UP(out, n_max, ...)                                                                                       \
    rv_speculate_look_up((const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t),     \
                         n_max, out)

static void what_followed_before_is_found(void **state)
{
    int32_t out[RV_SPECULATE_MAX];

    (void)state;
    assert_int_equal(LOOK_UP(out, 8, 1, 2, 3, 4, 5), 0);
    assert_int_equal(LOOK_UP(out, 8, 7, 1, 2, 3, 9, 2), 0); // one token is not enough
    assert_int_equal(LOOK_UP(out, 3, 1, 2, 3, 4, 5, 6, 1, 2), 3);
    assert_memory_equal(out, ((int32_t[]){3, 4, 5}), 3 * sizeof(*out));
    assert_int_equal(LOOK_UP(out, 0, 1, 2, 3, 1, 2), 0);
    assert_int_equal(LOOK_UP(out, 8, 5), 0);
}

static void the_longest_place_wins_and_of_equals_the_latest(void **state)
{
    int32_t out[RV_SPECULATE_MAX];

    (void)state;
    assert_int_equal(LOOK_UP(out, 1, 9, 1, 2, 50, 8, 1, 2, 60, 9, 1, 2), 1);
    assert_int_equal(out[0], 50);
    assert_int_equal(LOOK_UP(out, 1, 8, 1, 2, 50, 8, 1, 2, 60, 9, 1, 2), 1);
    assert_int_equal(out[0], 60);
}

static void a_text_that_repeats_itself_goes_on(void **state)
{
    int32_t out[RV_SPECULATE_MAX];

    (void)state;
    assert_int_equal(LOOK_UP(out, 8, 4, 1, 2, 3, 1, 2, 3, 1, 2), 8);
    assert_memory_equal(out, ((int32_t[]){3, 1, 2, 3, 1, 2, 3, 1}), 8 * sizeof(*out));
}

/* A machine on which a row more takes `each` of what a step of one takes. */
static struct rv_speculate_clock clock_of(double each)
{
    struct rv_speculate_clock clock = {0};

    for (int32_t n = 1; n <= 32; n++) {
        for (int i = 0; i < 2; i++) // the first of a size does not count
            rv_speculate_note_step(&clock, n, (int64_t)(10000 * (1 + each * (n - 1))));
    }
    return clock;
}

static struct rv_speculate_record record_of(int n_right, int n_wrong)
{
    struct rv_speculate_record record = {0};

    for (int i = 0; i < 50; i++)
        rv_speculate_note_guesses(&record, n_right, n_right + n_wrong);
    return record;
}

static void nothing_is_guessed_before_steps_were_timed(void **state)
{
    struct rv_speculate_clock clock = {0};
    struct rv_speculate_record record = {0};

    (void)state;
    assert_int_equal(rv_speculate_choose(&record, &clock, 1, 1, 8), 0);
    rv_speculate_note_step(&clock, 1, 10000);
    assert_int_equal(rv_speculate_choose(&record, &clock, 1, 1, 8), 0);
    rv_speculate_note_step(&clock, 1, 10000);
    assert_int_equal(rv_speculate_choose(&record, &clock, 1, 1, 8), 8); // what more rows cost will be seen
}

static void good_guesses_on_a_machine_with_cheap_rows_are_many(void **state)
{
    struct rv_speculate_clock cheap = clock_of(0.05), dear = clock_of(0.6);
    struct rv_speculate_record good = record_of(8, 0), bad = record_of(0, 1);

    (void)state;
    assert_int_equal(rv_speculate_choose(&good, &cheap, 1, 1, 8), 8);
    assert_int_equal(rv_speculate_choose(&good, &cheap, 1, 1, 3), 3);
    assert_in_range(rv_speculate_choose(&good, &dear, 1, 1, 8), 1, 8);
    assert_int_equal(rv_speculate_choose(&bad, &dear, 1, 1, 8), 0);
    /* With sixteen in the step the same row brings as much, but takes it from sixteen. */
    assert_int_equal(rv_speculate_choose(&bad, &cheap, 16, 16, 8), 0);
}

static void who_gave_up_tries_again(void **state)
{
    struct rv_speculate_clock dear = clock_of(0.9);
    struct rv_speculate_record record = record_of(0, 1);
    int n_tried = 0;

    (void)state;
    for (int i = 0; i < 320; i++)
        n_tried += rv_speculate_choose(&record, &dear, 1, 1, 8);
    assert_int_equal(n_tried, 10);
}

static void one_slow_step_does_not_count_for_much(void **state)
{
    struct rv_speculate_clock clock = clock_of(0.1);

    (void)state;
    rv_speculate_note_step(&clock, 4, 10000000);
    assert_true(clock.us[4] < 1.2 * 13000);
    rv_speculate_note_step(&clock, 0, 1);
    rv_speculate_note_step(&clock, RV_SPECULATE_MAX_ROWS + 1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_followed_before_is_found),
        cmocka_unit_test(the_longest_place_wins_and_of_equals_the_latest),
        cmocka_unit_test(a_text_that_repeats_itself_goes_on),
        cmocka_unit_test(nothing_is_guessed_before_steps_were_timed),
        cmocka_unit_test(good_guesses_on_a_machine_with_cheap_rows_are_many),
        cmocka_unit_test(who_gave_up_tries_again),
        cmocka_unit_test(one_slow_step_does_not_count_for_much),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
