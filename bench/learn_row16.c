/*
 * Row 16: what must not teach. Shuffled votes, votes that nothing is made of, and the gradient that some would put in
 * place of the real one: the number score x 0.01. None may gain beyond three standard errors; and beside them, in the
 * same run, honest votes, because a control says nothing where nothing can be learned.
 */
#include "learn_common.h"
#include "learn_skill.h"

#include <math.h>

enum { N_VOTES = 320 };

struct control {
    const char *what;
    enum skill_teacher teacher;
    bool is_frozen;
    bool must_gain;
    int n_short; // votes of the short form
};

/* What every course begins with. */
struct beginning {
    struct skill *skill;
    const struct control *control;
    double before;
    int n_answers;
};

static void run(struct learn_args *args, void *user)
{
    const struct beginning *b = user;
    double limit = b->before + 3 * sqrt(2 * (b->before + 0.005) * (1 - b->before) / b->n_answers);
    double slack = b->control->must_gain ? 0 : 0.02;

    if (!b->control->is_frozen)
        skill_teach(b->skill, b->control->teacher, b->before, args->is_short ? b->control->n_short : N_VOTES);
    learn_figure_print(args, &(struct learn_figure){.rank = 8,
                                                    .what = b->control->what,
                                                    .value = skill_rate(b->skill, false, b->n_answers),
                                                    .bound = b->control->must_gain ? LEARN_AT_LEAST : LEARN_AT_MOST,
                                                    .must = limit,
                                                    .short_must = limit + slack});
}

void learn_row16(struct learn_args *args)
{
    static const struct control controls[] = {
        {.what = "shuffled", .teacher = SKILL_SHUFFLED, .n_short = 200},
        {.what = "frozen", .is_frozen = true},
        {.what = "constant", .teacher = SKILL_CONSTANT, .n_short = 200},
        {.what = "honest", .teacher = SKILL_HONEST, .must_gain = true, .n_short = 240}};
    struct beginning b = {.n_answers = 320};
    size_t n = sizeof(controls) / sizeof(controls[0]);
    struct skill skill;
    struct lab lab;

    lab_open(&lab, args->path, args->seed);
    lab_whiten(&lab);
    skill_begin(&skill, &lab, skill_word(args->model), 8, 1);
    b.skill = &skill;
    b.before = skill_rate(&skill, true, b.n_answers);
    learn_figure_print(args, &(struct learn_figure){.rank = 8, .what = "before", .value = b.before});
    for (size_t i = 0; i < n; i++) {
        b.control = &controls[i];
        learn_figure_apart(args, run, &b);
    }
    skill_end(&skill);
    lab_close(&lab);
}
