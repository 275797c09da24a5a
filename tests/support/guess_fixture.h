/*
 * Two engines of one model, of which one guesses ahead: both are asked the same, and their answers are held against
 * each other. Part of suites that include test.h.
 *
 * An answer that differs is excused where the two tokens it differs by are closer than twice what steps of more rows do
 * to a log-probability: ggml multiplies one row and many with different kernels. That noise is measured on all tokens
 * that agree.
 */
#ifndef RV_TESTS_SUPPORT_GUESS_FIXTURE_H
#define RV_TESTS_SUPPORT_GUESS_FIXTURE_H

#include "ruvllm.h"

#include <stdint.h>

/* The name of the adapter that guess_fixture_publish gives both engines. */
#define GUESS_FIXTURE_ADAPTER "x"

struct guess_fixture {
    ruvllm_engine *plain, *guessing;
};

struct guess_question {
    const char *text;
    const char *adapter; // NULL: the model alone
    struct ruvllm_generate_params params;
};

/* What came of comparing; zeroed: nothing yet. */
struct guess_tally {
    int32_t n, n_identical; // answers
    size_t n_tokens;
    double noise;      // largest difference of a log-probability where the tokens agree
    double widest_gap; // between the two tokens of a first difference; 0: there is none
    int64_t n_guessed, n_right;
};

/* A model of the test data; without a draft model the text guesses. */
void guess_fixture_open(struct guess_fixture *f, const char *model, const char *draft);
void guess_fixture_close(struct guess_fixture *f);
void guess_fixture_publish(struct guess_fixture *f);

uint64_t guess_fixture_submit(ruvllm_engine *engine, const struct guess_question *question);
/* Asks both at once, and counts. */
void guess_fixture_ask(const struct guess_fixture *f, const struct guess_question *question, struct guess_tally *tally);

/* Counts the answers without guesses and with, and frees them. */
void guess_tally_compare(struct guess_tally *tally, struct ruvllm_response *plain, struct ruvllm_response *guessing);
void guess_tally_add(struct guess_tally *sum, const struct guess_tally *tally);
/* Some guesses held; what differs is excused by a noise that is small, and at most one token in five hundred. */
void guess_tally_check(const struct guess_tally *tally);

#endif
