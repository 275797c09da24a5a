/*
 * Row 16: what must not teach. Shuffled votes, votes that nothing is made of, and the gradient that some would put in
 * place of the real one: the number score x 0.01. None may gain beyond three standard errors; and beside them, in the
 * same run, honest votes, because a control says nothing where nothing can be learned.
 */
#include "learn_common.h"
#include "learn_skill.h"

#include <math.h>

struct control {
    const char *what;
    enum skill_teacher teacher;
    bool is_frozen;
};

static double run(struct learn_args *args, struct lab *lab, const struct control *c, int n_votes, int n_answers,
                  double *before)
{
    struct skill skill;
    double after;

    rv_rng_init(&lab->rng, args->seed);
    skill_begin(&skill, lab, skill_word(args->model), 8, 8);
    *before = skill_rate(&skill, true, n_answers);
    if (!c->is_frozen)
        skill_teach(&skill, c->teacher, *before, n_votes);
    after = skill_rate(&skill, false, n_answers);
    skill_end(&skill);
    return after;
}

void learn_row16(struct learn_args *args)
{
    static const struct control controls[] = {
        {"shuffled", SKILL_SHUFFLED, false}, {"frozen", SKILL_HONEST, true}, {"constant", SKILL_CONSTANT, false}};
    const struct control honest = {.teacher = SKILL_HONEST};
    int n_votes = args->is_short ? 200 : 500, n_answers = args->is_short ? 320 : 600;
    double before, after, limit;
    struct lab lab;

    lab_open(&lab, args->path, args->seed);
    for (size_t i = 0; i < sizeof(controls) / sizeof(controls[0]); i++) {
        after = run(args, &lab, &controls[i], n_votes, n_answers, &before);
        limit = before + 3 * sqrt(2 * (before + 0.005) * (1 - before) / n_answers);
        learn_figure_print(args, &(struct learn_figure){.rank = 8,
                                                        .what = controls[i].what,
                                                        .value = after,
                                                        .bound = LEARN_AT_MOST,
                                                        .must = limit,
                                                        .short_must = limit + 0.02});
    }
    learn_figure_print(args, &(struct learn_figure){.rank = 8, .what = "before", .value = before});
    after = run(args, &lab, &honest, n_votes, n_answers, &before);
    limit = before + 3 * sqrt(2 * (before + 0.005) * (1 - before) / n_answers);
    learn_figure_print(args, &(struct learn_figure){.rank = 8,
                                                    .what = "honest",
                                                    .value = after,
                                                    .bound = args->is_short ? LEARN_FREE : LEARN_AT_LEAST,
                                                    .must = limit});
    lab_close(&lab);
}
