/* The greedy answers recorded in the test data's models/reference.json. */
#ifndef RV_TESTS_GOLDEN_REFERENCE_H
#define RV_TESTS_GOLDEN_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reference_case {
    int32_t *prompt;
    size_t n_prompt;
    int32_t *answer;
    size_t n_answer;
    size_t n_stable;  // leading ids that every engine must give
    bool ends_stably; // the answer ends there, and that too is required
};

struct reference {
    struct reference_case *cases;
    size_t n_cases;
};

/* Reads the cases of one model, none when the file does not name it; fails the case when it cannot be read. */
void reference_read(struct reference *reference, const char *path, const char *model);
void reference_release(struct reference *reference);

#endif
