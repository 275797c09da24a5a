/* Slices are what was asked for, are handed on to threads, and are given back; elsewhere nothing happens. */
#define _GNU_SOURCE // SCHED_IDLE
#include "base/time_slice.h"
#include "support/test.h"

#include <pthread.h>
#include <sched.h>

static void *read_slice(void *out)
{
    *(int64_t *)out = rv_time_slice_set(0);
    return NULL;
}

static int64_t slice_of_a_new_thread(void)
{
    pthread_t thread;
    int64_t us;

    assert_int_equal(pthread_create(&thread, NULL, read_slice, &us), 0);
    pthread_join(thread, NULL);
    return us;
}

static void what_was_asked_for_is_handed_on_and_given_back(void **state)
{
    int64_t usual = rv_time_slice_set(RV_TIME_SLICE_COMPUTING);

    (void)state;
    if (usual == 0) {
        print_message("kernels before 6.12 do not tell: nothing is to be seen here\n");
        return;
    }
    assert_int_equal(slice_of_a_new_thread(), RV_TIME_SLICE_COMPUTING);
    assert_int_equal(rv_time_slice_set(RV_TIME_SLICE_WAITED_FOR), RV_TIME_SLICE_COMPUTING);
    assert_int_equal(slice_of_a_new_thread(), RV_TIME_SLICE_WAITED_FOR);
    assert_int_equal(rv_time_slice_set(usual), RV_TIME_SLICE_WAITED_FOR);
    assert_int_equal(rv_time_slice_set(0), usual);
}

static void *set_as_idle(void *out)
{
    if (pthread_setschedparam(pthread_self(), SCHED_IDLE, &(struct sched_param){0}) == 0)
        *(int64_t *)out = rv_time_slice_set(RV_TIME_SLICE_COMPUTING);
    return NULL;
}

static void a_thread_with_a_policy_of_its_own_is_left_alone(void **state)
{
    pthread_t thread;
    int64_t us = -1;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, set_as_idle, &us), 0);
    pthread_join(thread, NULL);
    assert_int_equal(us, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_asked_for_is_handed_on_and_given_back),
        cmocka_unit_test(a_thread_with_a_policy_of_its_own_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
