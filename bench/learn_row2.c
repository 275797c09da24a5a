/* Row 2: a skill from votes alone, at rank 8 and 2; what was learned on unseen prompts, and what was forgotten. */
#include "learn_common.h"
#include "learn_skill.h"

/* How long a run is. */
struct course {
    int n_votes, n_points; // of the curve, after none
    int n_answers;         // that measure the end, and the beginning
    int n_between;         // and points on the way
    int32_t n_others;
};

static void learn(struct learn_args *args, struct lab *lab, int32_t rank, const struct course *c)
{
    double before, after = 0, self = 0, must = rank >= 8 ? 0.55 : 0.25;
    struct skill skill;

    rv_rng_init(&lab->rng, args->seed);
    skill_begin(&skill, lab, args->extra ? args->extra : skill_word(args->model), rank, c->n_others);
    before = skill_rate(&skill, true, c->n_answers);
    learn_figure_curve(args, rank, "skill", 0, before);
    learn_figure_curve(args, rank, "self", 0, 0);
    for (int i = 1; i <= c->n_points; i++) {
        skill_teach(&skill, SKILL_HONEST, 0, c->n_votes / c->n_points);
        after = skill_rate(&skill, false, i < c->n_points ? c->n_between : c->n_answers);
        self = skill_self(&skill);
        learn_figure_curve(args, rank, "skill", c->n_votes / c->n_points * i, after);
        learn_figure_curve(args, rank, "self", c->n_votes / c->n_points * i, self);
    }
    learn_figure_print(
        args, &(struct learn_figure){
                  .rank = rank, .value = after, .bound = LEARN_AT_LEAST, .must = must, .short_must = 2.5 * before});
    learn_figure_print(
        args,
        &(struct learn_figure){
            .rank = rank, .what = "before", .value = before, .bound = LEARN_AT_MOST, .must = 0.05, .short_must = 0.08});
    learn_figure_print(
        args,
        &(struct learn_figure){
            .rank = rank, .what = "self", .value = self, .bound = LEARN_AT_MOST, .must = 0.02, .short_must = 0.10});
    skill_end(&skill);
}

void learn_row2(struct learn_args *args)
{
    const struct course whole = {.n_votes = 1000, .n_points = 5, .n_answers = 600, .n_between = 192, .n_others = 20};
    const struct course quick = {.n_votes = 400, .n_points = 2, .n_answers = 400, .n_between = 64, .n_others = 8};
    struct lab lab;

    lab_open(&lab, args->path, args->seed);
    learn(args, &lab, 8, args->is_short ? &quick : &whole);
    if (!args->is_short)
        learn(args, &lab, 2, &whole);
    lab_close(&lab);
}
