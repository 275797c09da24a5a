/*
 * As much of cmocka as the suites of src/kernels use, for machines that the library is not installed for: a failed
 * assertion says where it is and ends the program.
 */
#ifndef RV_TESTS_CROSS_CMOCKA_H
#define RV_TESTS_CROSS_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

/* clang-format off */
#define cmocka_unit_test(function) {#function, function}
/* clang-format on */
#define cmocka_run_group_tests(tests, setup, teardown) cross_run(tests, sizeof(tests) / sizeof((tests)[0]))
#define print_message printf
#define fail_msg(...)                                                                                                  \
    do {                                                                                                               \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                                                \
        fprintf(stderr, __VA_ARGS__);                                                                                  \
        fprintf(stderr, "\n");                                                                                         \
        exit(1);                                                                                                       \
    } while (0)
#define assert_true(x)                                                                                                 \
    do {                                                                                                               \
        if (!(x))                                                                                                      \
            fail_msg("%s does not hold", #x);                                                                          \
    } while (0)
#define assert_non_null(x) assert_true((x) != NULL)
#define assert_int_equal(a, b) assert_true((long long)(a) == (long long)(b))
#define assert_memory_equal(a, b, bytes) assert_true(memcmp(a, b, bytes) == 0)

static inline int cross_run(const struct CMUnitTest *tests, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *state = NULL;

        tests[i].run(&state);
        printf("ok %s\n", tests[i].name);
    }
    return 0;
}

#endif
