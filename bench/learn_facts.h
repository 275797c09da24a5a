/*
 * Made-up facts and the ways to ask for them: as they were taught; with another beginning and the same last clause
 * (near); and in other words (far).
 */
#ifndef RV_BENCH_LEARN_FACTS_H
#define RV_BENCH_LEARN_FACTS_H

#include "base/rng.h"

#include <stddef.h>

enum { LEARN_FACTS_WORD = 16, LEARN_FACTS_TEXT = 256 };

struct learn_fact {
    char name[LEARN_FACTS_WORD];
    char answer[LEARN_FACTS_WORD];
    int number;
};

enum learn_fact_way { LEARN_FACT_TAUGHT, LEARN_FACT_NEAR, LEARN_FACT_FAR };

void learn_facts_make(struct learn_fact *facts, int n, struct rv_rng *rng);
void learn_facts_ask(const struct learn_fact *fact, enum learn_fact_way way, char out[LEARN_FACTS_TEXT]);
/* With the space before it and the full stop behind. */
void learn_facts_answer(const struct learn_fact *fact, char out[LEARN_FACTS_TEXT]);

#endif
