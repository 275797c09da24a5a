/*
 * Row 3: fifty made-up facts, each corrected once. Asked the same again; asked with another beginning and the same last
 * clause (near); and in other words (far, for which row 4 is). Controls: nothing learned; and corrections that belong
 * to other questions.
 */
#include "learn_facts.h"
#include "learn_lessons.h"

#include <string.h>

enum { N_FACTS = 50, N_SHORT = 12, MAX_TOKENS = 96, RANK = 2 };

/* The question, asked in one of three ways; how many tokens. */
static int32_t ask(const struct lessons *l, const struct learn_fact *f, enum learn_fact_way way, int32_t *tokens)
{
    char text[LEARN_FACTS_TEXT];

    learn_facts_ask(f, way, text);
    return lessons_tokens(l, text, true, tokens, MAX_TOKENS);
}

static int32_t answer_of(const struct lessons *l, const struct learn_fact *f, int32_t *tokens)
{
    char text[LEARN_FACTS_TEXT];

    learn_facts_answer(f, text);
    return lessons_tokens(l, text, false, tokens, MAX_TOKENS);
}

/* The share of facts that are answered word by word. */
static double score(struct lessons *l, const struct learn_fact *facts, int n, enum learn_fact_way way)
{
    int n_right = 0;

    for (int i = 0; i < n; i++) {
        int32_t tokens[2 * MAX_TOKENS], wanted[MAX_TOKENS];
        int32_t n_prompt = ask(l, &facts[i], way, tokens), n_answer = answer_of(l, &facts[i], wanted);

        lessons_answer(l, tokens, n_prompt, n_answer);
        n_right += memcmp(tokens + n_prompt, wanted, (size_t)n_answer * sizeof(*wanted)) == 0;
    }
    return (double)n_right / n;
}

/* Corrects all answers; of other facts when `shift` is not 0. */
static void teach(struct lessons *l, const struct learn_fact *facts, int n, int shift)
{
    for (int i = 0; i < n; i++) {
        int32_t tokens[2 * MAX_TOKENS], n_prompt = ask(l, &facts[i], LEARN_FACT_TAUGHT, tokens);
        int32_t n_answer = answer_of(l, &facts[(i + shift) % n], tokens + n_prompt);

        lessons_correct(l, tokens, n_prompt, n_prompt + n_answer);
    }
}

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
    print(args, "frozen", score(&l, facts, n, LEARN_FACT_TAUGHT), LEARN_AT_MOST, 0.02, 0.1);
    teach(&l, facts, n, 0);
    print(args, "taught", score(&l, facts, n, LEARN_FACT_TAUGHT), LEARN_AT_LEAST, 0.98, 0.9);
    print(args, "near", score(&l, facts, n, LEARN_FACT_NEAR), LEARN_AT_LEAST, 0.45, 0.2);
    print(args, "far", score(&l, facts, n, LEARN_FACT_FAR), LEARN_FREE, 0, 0);
    print(args, "self", lessons_self(&l), LEARN_AT_MOST, 0.005, 0.02);
    print(args, "keys", rv_memory_n_keys(l.now.memory), LEARN_FREE, 0, 0);
    lessons_forget(&l, RANK);
    teach(&l, facts, n, 1);
    print(args, "shuffled", score(&l, facts, n, LEARN_FACT_TAUGHT), LEARN_AT_MOST, 0.02, 0.1);
    lessons_close(&l);
}
