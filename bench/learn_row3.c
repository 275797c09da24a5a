/*
 * Row 3: fifty made-up facts, each corrected once. Asked the same again; asked with another beginning and the same last
 * clause (near); and in other words (far, for which row 4 is). Controls: nothing learned; and corrections that belong
 * to other questions.
 */
#include "learn_facts.h"

enum { N_FACTS = 50, N_SHORT = 12, RANK = 2 };

static void print(struct learn_args *args, const char *what, double value, enum learn_bound bound, double must,
                  double short_must)
{
    learn_figure_print(args, &(struct learn_figure){
                                 .what = what, .value = value, .bound = bound, .must = must, .short_must = short_must});
}

void learn_row3(struct learn_args *args)
{
    int n = args->is_short ? N_SHORT : N_FACTS;
    struct learn_fact facts[N_FACTS];
    struct lessons l;

    lessons_open(&l, args, RANK);
    learn_facts_make(facts, n, &l.lab.rng);
    print(args, "frozen", learn_facts_score(&l, facts, n, LEARN_FACT_TAUGHT), LEARN_AT_MOST, 0.02, 0.1);
    learn_facts_teach(&l, facts, n, 0);
    print(args, "taught", learn_facts_score(&l, facts, n, LEARN_FACT_TAUGHT), LEARN_AT_LEAST, 0.98, 0.9);
    print(args, "near", learn_facts_score(&l, facts, n, LEARN_FACT_NEAR), LEARN_AT_LEAST, 0.45, 0.2);
    print(args, "far", learn_facts_score(&l, facts, n, LEARN_FACT_FAR), LEARN_FREE, 0, 0);
    print(args, "self", lessons_self(&l), LEARN_AT_MOST, 0.005, 0.02);
    print(args, "keys", rv_memory_n_keys(l.now.memory), LEARN_FREE, 0, 0);
    lessons_forget(&l, RANK);
    learn_facts_teach(&l, facts, n, 1);
    print(args, "shuffled", learn_facts_score(&l, facts, n, LEARN_FACT_TAUGHT), LEARN_AT_MOST, 0.02, 0.1);
    lessons_close(&l);
}
