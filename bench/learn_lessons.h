/*
 * Corrections in a lab, for the rows that teach by them: texts are read as answers, become lessons, and what was
 * learned (adapter and memory) then reads or writes. By the code the engine does it with.
 */
#ifndef RV_BENCH_LEARN_LESSONS_H
#define RV_BENCH_LEARN_LESSONS_H

#include "learn_common.h"

/* What a tenant has learned, as requests use it. */
struct learned {
    struct rv_adapter *adapter;
    const struct rv_memory *memory;
};

struct lessons {
    struct lab lab;
    struct rv_tenant_learner *learner;
    struct learned now;
    struct lab_texts own; // of the model's, to see what is lost
    double own_nll;
    float *state; // scratch
};

/* A model that has learned nothing; with the radius of memories measured on its own texts. */
void lessons_open(struct lessons *l, const struct learn_args *args, int32_t rank);
void lessons_close(struct lessons *l);
/* Back to nothing. */
void lessons_forget(struct lessons *l, int32_t rank);

/* Teaches to answer the first n_prompt of n tokens with the rest. */
void lessons_correct(struct lessons *l, const int32_t *tokens, int32_t n_prompt, int32_t n);
/* Goes on greedily from n_prompt tokens with n more. */
void lessons_answer(struct lessons *l, int32_t *tokens, int32_t n_prompt, int32_t n);
/* Mean negative log-likelihood of the tokens from number `from` on. */
double lessons_nll(struct lessons *l, const int32_t *tokens, int32_t n, int32_t from);
/* By how much the model's own texts have become less likely. */
double lessons_self(struct lessons *l);

/* Tokens of a text: with the one every text begins with, or as it goes on. At most `max`; how many. */
int32_t lessons_tokens(const struct lessons *l, const char *text, bool begins, int32_t *out, int32_t max);

#endif
