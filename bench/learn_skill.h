/*
 * A skill taught by votes alone: answers that contain a word which few do by themselves. Prompts are beginnings of the
 * model's own texts, 300 to teach with and 100 others to see what was learned.
 */
#ifndef RV_BENCH_LEARN_SKILL_H
#define RV_BENCH_LEARN_SKILL_H

#include "learn_ticks.h"

enum { SKILL_PROMPT = 12, SKILL_ANSWER = 48, SKILL_TAUGHT = 300, SKILL_UNSEEN = 100, SKILL_AT_ONCE = 4 };

/* Where scores come from. All but the first are controls, which must gain nothing. */
enum skill_teacher {
    SKILL_HONEST,   // 1 for answers with the word, else 0
    SKILL_SHUFFLED, // as many ones, for whichever answers
    SKILL_CONSTANT, // honest, but every gradient is the number score x 0.01, as some would have it
};

struct skill {
    struct lab *lab;
    const char *word;
    struct lab_texts prompts; // the taught ones, then the unseen
    struct lab_texts others;  // for what is forgotten
    double *others_nll;       // of each, by the model as it came
    struct rv_tenant_learner *learner;
    struct ticks ticks; // what is done between votes
    struct rv_trace *traces[SKILL_AT_ONCE];
};

/* The word for a model, chosen once on other prompts than these; NULL: there is none. */
const char *skill_word(const char *model);

/* `word` is borrowed. `n_others` texts measure what is forgotten. */
void skill_begin(struct skill *skill, struct lab *lab, const char *word, int32_t rank, int32_t n_others);
void skill_end(struct skill *skill);
/* Forgets what was learned and begins again, perhaps with another rank. */
void skill_restart(struct skill *skill, int32_t rank);

/* Votes on `n` answers, a few of which are made at once, as a server's users would. `rate` is of shuffled ones. */
void skill_teach(struct skill *skill, enum skill_teacher teacher, double rate, int n);
/* Answers to `n` taught prompts with what is learned by then, a few at once, each handed over with its trace. */
typedef void (*skill_answer_fn)(void *user, struct skill *skill, struct rv_trace *trace, const int32_t *answer);
void skill_answer(struct skill *skill, int n, skill_answer_fn on_answer, void *user);
/* The share of `n` answers to unseen prompts that have the word; without what was learned (`is_base`) or with it. */
double skill_rate(struct skill *skill, bool is_base, int n);
/* The mean negative log-likelihood of the first n other texts, by the model as it came. */
double skill_others_nll(const struct skill *skill, int32_t n);
/* By how much the likelihood of the first n other texts has fallen: the rise of their mean negative log-likelihood. */
double skill_self(struct skill *skill, int32_t n);

#endif
