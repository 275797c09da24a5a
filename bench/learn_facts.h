/*
 * Made-up facts and the ways to ask for them: as they were taught; with another beginning and the same last clause
 * (near); and in other words (far).
 */
#ifndef RV_BENCH_LEARN_FACTS_H
#define RV_BENCH_LEARN_FACTS_H

#include "learn_lessons.h"

enum { LEARN_FACTS_WORD = 16, LEARN_FACTS_TEXT = 256, LEARN_FACTS_TOKENS = 96 };

struct learn_fact {
    char name[LEARN_FACTS_WORD];
    char answer[LEARN_FACTS_WORD];
    int number;
};

enum learn_fact_way { LEARN_FACT_TAUGHT, LEARN_FACT_NEAR, LEARN_FACT_FAR };

void learn_facts_make(struct learn_fact *facts, int n, struct rv_rng *rng);
/* Tokens of the question, and of the answer with the space before it and the full stop behind; how many. */
int32_t learn_facts_ask(const struct lessons *l, const struct learn_fact *fact, enum learn_fact_way way,
                        int32_t tokens[LEARN_FACTS_TOKENS]);
int32_t learn_facts_answer(const struct lessons *l, const struct learn_fact *fact, int32_t tokens[LEARN_FACTS_TOKENS]);

/* Corrects all answers; of other facts when `shift` is not 0. */
void learn_facts_teach(struct lessons *l, const struct learn_fact *facts, int n, int shift);
/* The share of facts that are answered word by word. */
double learn_facts_score(struct lessons *l, const struct learn_fact *facts, int n, enum learn_fact_way way);

#endif
