/*
 * Row 4: fifty made-up facts, each corrected once, after a deep run on the corrections: asked the same again, asked
 * with another beginning (near), and in other words (far); and what it costs the model's own texts. First as it is
 * served, with what the corrections left in the memory and at the head; then by the weights alone. Controls: the model
 * as it came; and answers that belong to other questions, by the weights alone.
 */
#include "learn_deep.h"
#include "learn_facts.h"

#include <stdlib.h>

enum {
    N_FACTS = 50,
    N_SHORT = 8,
    RANK = 16,
    HEAD_RANK = 2,
    EPOCHS = 60,
    EPOCHS_LARGE = 22, // more than 20: a long run, whose guard has slack at first
    EPOCHS_SHORT = 25,
    N_ANCHORS = 1024, // few are learned by heart, and then hold nothing else in place
    N_ANCHORS_LARGE = 384,
    N_ANCHORS_SHORT = 96,
    ANCHORS_AT_ONCE = 24, // in an epoch
};

struct row {
    int32_t tokens[2 * LEARN_FACTS_TOKENS];
    float weights[2 * LEARN_FACTS_TOKENS];
    int32_t n;
};

static void make_row(const struct lessons *l, const struct learn_fact *asked, const struct learn_fact *answered,
                     struct row *out)
{
    int32_t n_prompt = learn_facts_ask(l, asked, LEARN_FACT_TAUGHT, out->tokens);

    out->n = n_prompt + learn_facts_answer(l, answered, out->tokens + n_prompt);
    for (int32_t i = n_prompt; i < out->n; i++)
        out->weights[i] = 1.0f;
}

/* Corrects all answers; of other facts when `shift` is not 0. */
static void train(struct deep_bed *bed, const struct lessons *l, const struct learn_fact *facts, int n, int shift)
{
    struct deep_recipe recipe = {.rank = RANK,
                                 .n_epochs = n == N_SHORT         ? EPOCHS_SHORT
                                             : deep_is_large(bed) ? EPOCHS_LARGE
                                                                  : EPOCHS,
                                 .kl_weight = 2,
                                 .n_variants = 2,
                                 .batch_tokens = 512,
                                 .n_turns = deep_turns(bed, ANCHORS_AT_ONCE),
                                 .max_self = 0.022f};
    struct row *rows = lab_need(calloc((size_t)n, sizeof(*rows)));
    struct rv_deep_sample samples[N_FACTS];

    for (int i = 0; i < n; i++) {
        make_row(l, &facts[i], &facts[(i + shift) % n], &rows[i]);
        samples[i] =
            (struct rv_deep_sample){.tokens = rows[i].tokens, .n = rows[i].n, .weights = rows[i].weights, .episode = i};
    }
    (void)deep_train(bed, samples, (size_t)n, &recipe);
    free(rows);
}

static void print(struct learn_args *args, const char *what, double value, enum learn_bound bound, double must,
                  double short_must)
{
    learn_figure_print(
        args, &(struct learn_figure){
                  .rank = RANK, .what = what, .value = value, .bound = bound, .must = must, .short_must = short_must});
}

/* The rise of the mean NLL of the bed's own texts, read with all that the lessons have. */
static double own_rise(const struct deep_bed *bed, struct lessons *l)
{
    double sum = 0;

    for (int32_t i = 0; i < bed->own.n; i++)
        sum += lessons_nll(l, bed->own.tokens + i * bed->own.length, bed->own.length, 1);
    return sum / bed->own.n / bed->own_nll - 1;
}

void learn_row4(struct learn_args *args)
{
    int n = args->is_short ? N_SHORT : N_FACTS;
    struct learn_fact facts[N_FACTS];
    struct deep_bed bed;
    struct lessons l;

    deep_open(&bed, args, args->is_short ? N_ANCHORS_SHORT : N_ANCHORS,
              args->is_short ? N_ANCHORS_SHORT : N_ANCHORS_LARGE);
    lessons_open(&l, args, HEAD_RANK);
    learn_facts_make(facts, n, &bed.lab.rng);
    print(args, "frozen", learn_facts_score(&l, facts, n, LEARN_FACT_TAUGHT), LEARN_AT_MOST, 0.02, 0.13);
    learn_facts_teach(&l, facts, n, 0);
    train(&bed, &l, facts, n, 0);
    l.lab.deep = bed.adapter;
    print(args, "taught", learn_facts_score(&l, facts, n, LEARN_FACT_TAUGHT), LEARN_AT_LEAST, 0.95, 0.5);
    print(args, "near", learn_facts_score(&l, facts, n, LEARN_FACT_NEAR), LEARN_AT_LEAST, 0.90, 0.3);
    print(args, "far", learn_facts_score(&l, facts, n, LEARN_FACT_FAR), LEARN_AT_LEAST, 0.25, 0);
    print(args, "self", own_rise(&bed, &l), LEARN_AT_MOST, 0.03, 0.06);
    lessons_forget(&l, HEAD_RANK);
    print(args, "weights.taught", learn_facts_score(&l, facts, n, LEARN_FACT_TAUGHT), LEARN_FREE, 0, 0);
    print(args, "weights.near", learn_facts_score(&l, facts, n, LEARN_FACT_NEAR), LEARN_FREE, 0, 0);
    print(args, "weights.far", learn_facts_score(&l, facts, n, LEARN_FACT_FAR), LEARN_FREE, 0, 0);
    print(args, "weights.self", deep_self(&bed), LEARN_FREE, 0, 0);
    if (!args->is_short && !deep_is_large(&bed)) { // what it controls is the same code on any model
        deep_forget(&bed);
        train(&bed, &l, facts, n, 1);
        l.lab.deep = bed.adapter;
        print(args, "shuffled", learn_facts_score(&l, facts, n, LEARN_FACT_TAUGHT), LEARN_AT_MOST, 0.02, 0.13);
    }
    lessons_close(&l);
    deep_close(&bed);
}
