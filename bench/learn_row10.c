/*
 * Row 10: a tenant that has learned something is flooded with 200 votes that mean nothing: all bad, all good, random,
 * and scores that are no numbers. What is forgotten, what of the skill is left, and that every generation that is kept
 * can be gone back to, bit by bit.
 */
#include "learn_common.h"
#include "learn_skill.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_GENERATIONS = 1024 };

enum flood { ALL_BAD, ALL_GOOD, RANDOM, NO_NUMBERS, N_FLOODS };

/* The adapter of every generation of the flood; 0: not looked at. */
struct past {
    uint64_t hashes[MAX_GENERATIONS];
};

static uint64_t hash_now(const struct skill *skill)
{
    struct rv_adapter *adapter = lab_publish(skill->lab, &skill->learner->now.adapter);
    uint64_t hash = lab_hash_adapter(adapter);

    rv_adapter_unref(adapter);
    return hash;
}

static void note(const struct skill *skill, struct past *past)
{
    int64_t generation = skill->learner->now.generation;

    if (generation < MAX_GENERATIONS)
        past->hashes[generation] = hash_now(skill);
}

static double score_of(struct skill *skill, enum flood flood)
{
    return flood == ALL_BAD ? 0 : flood == ALL_GOOD ? 1 : rv_rng_uniform(&skill->lab->rng);
}

/* A vote that must be refused and change nothing; false when it does not. */
static bool is_refused(struct skill *skill, const struct rv_trace *trace, double score)
{
    uint64_t before = hash_now(skill);
    int64_t generation = skill->learner->now.generation;
    struct rv_tenant_vote vote = {0};
    struct ruvllm_error err;

    if (rv_tenant_learner_weigh(skill->learner, trace, score, &vote, &err) != RUVLLM_INVALID) {
        rv_tenant_learner_release_vote(&vote);
        return false;
    }
    return generation == skill->learner->now.generation && before == hash_now(skill);
}

struct flooding {
    enum flood flood;
    struct past *past;
    int n, n_refused;
};

static void flood_one(void *user, struct skill *skill, struct rv_trace *trace, const int32_t *answer)
{
    static const double none[] = {NAN, INFINITY, -INFINITY, -0.5, 1.5};
    struct flooding *f = user;

    (void)answer;
    if (f->flood == NO_NUMBERS)
        f->n_refused += is_refused(skill, trace, none[(size_t)f->n % (sizeof(none) / sizeof(none[0]))]);
    else
        ticks_vote(&skill->ticks, skill->learner, trace, score_of(skill, f->flood));
    note(skill, f->past);
    f->n++;
}

/* Goes back to every generation that is kept, the oldest first, and to none: the share that has its bits again. */
static double share_restored(struct skill *skill, const struct past *past)
{
    int64_t newest = skill->learner->now.generation;
    int n = 0, n_same = 0;
    struct ruvllm_error err;

    for (int64_t g = 1; g <= newest && g < MAX_GENERATIONS; g++) {
        if (past->hashes[g] == 0 || !rv_tenant_learner_has(skill->learner, g))
            continue;
        if (rv_tenant_learner_go_back(skill->learner, g, &err))
            lab_die("back", &err);
        n++;
        n_same += hash_now(skill) == past->hashes[g];
    }
    if (rv_tenant_learner_go_back(skill->learner, 0, &err))
        lab_die("back", &err);
    n++;
    n_same += hash_now(skill) == lab_hash_adapter(NULL) && fabs(skill_self(skill, skill->others.n)) <= 0;
    return (double)n_same / n;
}

/* What every flood meets. */
struct beginning {
    struct skill *skill;
    enum flood flood;
    double learned, self; // before it
    int n_flood, n_answers;
};

static void print(struct learn_args *args, const char *flood, const char *what, double value, enum learn_bound bound,
                  double must)
{
    char name[48];

    (void)snprintf(name, sizeof(name), "%s.%s", flood, what);
    learn_figure_print(args,
                       &(struct learn_figure){
                           .rank = 8, .what = name, .value = value, .bound = bound, .must = must, .short_must = must});
}

static void run(struct learn_args *args, void *user)
{
    static const char *const names[N_FLOODS] = {"bad", "good", "random", "nan"};
    const struct beginning *b = user;
    const char *name = names[b->flood];
    double left;
    struct past past = {{0}};
    struct flooding flooding = {.flood = b->flood, .past = &past};

    note(b->skill, &past);
    skill_answer(b->skill, b->n_flood, flood_one, &flooding);
    left = skill_rate(b->skill, false, b->n_answers);
    print(args, name, "self", (1 + skill_self(b->skill, b->skill->others.n)) / (1 + b->self) - 1, LEARN_AT_MOST,
          0.02); // the flood's own
    print(args, name, "skill", left, LEARN_FREE, 0);
    print(args, name, "alarms", b->skill->ticks.n_alarms, LEARN_FREE, 0);
    print(args, name, "skill_lost", b->learned > 0 ? 1 - left / b->learned : 0, LEARN_FREE, 0);
    if (b->flood == NO_NUMBERS)
        print(args, name, "refused", (double)flooding.n_refused / b->n_flood, LEARN_AT_LEAST, 1);
    print(args, name, "restored", share_restored(b->skill, &past), LEARN_AT_LEAST, 1);
}

void learn_row10(struct learn_args *args)
{
    struct beginning b = {.n_flood = args->is_short ? 60 : 200, .n_answers = 128};
    struct skill skill;
    struct lab lab;

    lab_open(&lab, args->path, args->seed);
    lab_whiten(&lab);
    skill_begin(&skill, &lab, skill_word(args->model), 8, args->is_short ? 8 : 16);
    skill_teach(&skill, SKILL_HONEST, 0, args->is_short ? 100 : 400);
    b.skill = &skill;
    b.learned = skill_rate(&skill, false, b.n_answers);
    b.self = skill_self(&skill, skill.others.n);
    learn_figure_print(args, &(struct learn_figure){.rank = 8, .what = "learned", .value = b.learned});
    for (int flood = 0; flood < N_FLOODS; flood++) {
        b.flood = (enum flood)flood;
        learn_figure_apart(args, run, &b);
    }
    skill_end(&skill);
    lab_close(&lab);
}
