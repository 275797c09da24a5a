/* Row 2: a skill from votes alone, at rank 8 and 2; what was learned on unseen prompts, and what was forgotten. */
#include "learn_common.h"
#include "learn_skill.h"

#include <math.h>

/* How long a run is. */
struct course {
    int n_votes, n_points;    // of the curve, after none
    int n_answers;            // that measure the end, and the beginning
    int n_between;            // and points on the way
    int32_t n_others;         // texts that do
    int32_t n_others_between; // and on the way
};

/*
 * What so much skill costs at least, as `self`: telling answers with the word from those without it cannot tell two
 * models better apart than the whole answers do, so KL(before || after) of an answer is no less than that of a coin.
 */
static double least_self(double before, double after, double nll)
{
    double kl = before * log(before / after) + (1 - before) * log((1 - before) / (1 - after));

    return kl / SKILL_ANSWER / nll;
}

static void learn(struct learn_args *args, struct skill *skill, int32_t rank, const struct course *c, double before)
{
    double after = 0, self = 0;

    skill_restart(skill, rank);
    rv_rng_init(&skill->lab->rng, args->seed);
    learn_figure_curve(args, rank, "skill", 0, before);
    learn_figure_curve(args, rank, "self", 0, 0);
    for (int i = 1; i <= c->n_points; i++) {
        skill_teach(skill, SKILL_HONEST, 0, c->n_votes / c->n_points);
        after = skill_rate(skill, false, i < c->n_points ? c->n_between : c->n_answers);
        self = skill_self(skill, i < c->n_points ? c->n_others_between : c->n_others);
        learn_figure_curve(args, rank, "skill", c->n_votes / c->n_points * i, after);
        learn_figure_curve(args, rank, "self", c->n_votes / c->n_points * i, self);
    }
    learn_figure_print(args, &(struct learn_figure){.rank = rank,
                                                    .value = after,
                                                    .bound = LEARN_AT_LEAST,
                                                    .must = rank >= 8 ? 0.55 : 0.25,
                                                    .short_must = 2 * before});
    learn_figure_print(
        args,
        &(struct learn_figure){
            .rank = rank, .what = "self", .value = self, .bound = LEARN_AT_MOST, .must = 0.02, .short_must = 0.10});
    if (before > 0 && before < after && after < 1)
        learn_figure_print(
            args, &(struct learn_figure){.rank = rank,
                                         .what = "least_self",
                                         .value = least_self(before, after, skill_others_nll(skill, c->n_others))});
}

void learn_row2(struct learn_args *args)
{
    const struct course whole = {
        .n_votes = 1000, .n_points = 5, .n_answers = 600, .n_between = 64, .n_others = 64, .n_others_between = 24};
    const struct course quick = {.n_votes = 400, .n_points = 1, .n_answers = 320, .n_others = 8};
    const struct course *course = args->is_short ? &quick : &whole;
    struct skill skill;
    struct lab lab;
    double before;

    lab_open(&lab, args->path, args->seed);
    lab_whiten(&lab);
    skill_begin(&skill, &lab, args->extra ? args->extra : skill_word(args->model), 8, course->n_others);
    before = skill_rate(&skill, true, course->n_answers);
    learn_figure_print(
        args, &(struct learn_figure){
                  .what = "before", .value = before, .bound = LEARN_AT_MOST, .must = 0.05, .short_must = 0.08});
    learn(args, &skill, 8, course, before);
    if (!args->is_short)
        learn(args, &skill, 2, course, before);
    skill_end(&skill);
    lab_close(&lab);
}
