/* What suites about a kind of grammar share: one fixture for all cases, texts that are taken or not, hostile texts. */
#ifndef RV_TESTS_SUPPORT_GRAMMAR_SUITE_H
#define RV_TESTS_SUPPORT_GRAMMAR_SUITE_H

#include "base/rng.h"
#include "support/grammar_fixture.h"
#include "support/test.h"

/* Of the running suite, between the next two, which are for cmocka_run_group_tests. */
extern struct grammar_fixture grammar_suite;
int grammar_suite_set_up(void **state);
int grammar_suite_tear_down(void **state);

/* Whether a mask allows a token. */
bool grammar_suite_allows(const uint64_t *bits, int32_t token);
/* A random token that it allows, or one that it does not, but none that ends an answer; -1: there is none. */
int32_t grammar_suite_pick(const uint64_t *bits, bool is_allowed, struct rv_rng *rng);

/* A list for the next one. */
#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
/* Fails the case unless the grammar takes every text of the first list and none of the second. */
void grammar_suite_check(enum rv_grammar_kind kind, const char *grammar, const char *const *good,
                         const char *const *bad);

/* `unit` n times between two texts; for the next one. */
char *grammar_suite_repeat(const char *before, const char *unit, size_t n, const char *after);
/* A text and a part of what is said against it. */
struct grammar_suite_refusal {
    char *text; // of grammar_suite_repeat
    const char *message;
};
/* As grammar_fixture_refuses for each of them; frees their texts. */
void grammar_suite_refuse(enum rv_grammar_kind kind, const struct grammar_suite_refusal *refusals, size_t n);

#endif
