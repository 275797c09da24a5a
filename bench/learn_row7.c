/*
 * Row 7: five domains, one after the other, each by a deep run that goes on from the one before. As in an engine, whose
 * log keeps what was said, a run is given the samples of earlier domains too. What is measured after the last: how much
 * less likely each earlier domain has become since it was learned, and what the model writes itself.
 */
#include "learn_deep.h"

#include <math.h>
#include <string.h>

enum {
    N_DOMAINS = 5,
    N_SAMPLES = 64,
    N_SAMPLES_LARGE = 32,
    N_SHORT = 10,
    N_HELD = 12,
    RANK = 16,
    N_ANCHORS = 384, // few are learned by heart, and then hold nothing else in place
    N_ANCHORS_LARGE = 192,
    N_ANCHORS_SHORT = 96,
    ANCHORS_AT_ONCE = 72, // in an epoch
    ANCHORS_AT_ONCE_LARGE = 48,
    EPOCHS = 6,
    EPOCHS_LARGE = 2,
    EPOCHS_SHORT = 4
};

static const struct {
    const char *file;
    size_t taught_at;
    size_t held_at;
} domains[N_DOMAINS] = {
    {"tinyshakespeare.txt", 2000, 600000},
    {"gsm8k_test.jsonl", 1000, 500000},
    {"mbpp.jsonl", 1000, 400000},
    {"wikitext2_raw_test_crlf_noblank.txt", 1000, 700000},
    {"instruction_data_1100.json", 500, 170000},
};

static void print(struct learn_args *args, const char *what, double value, enum learn_bound bound, double must,
                  double short_must)
{
    learn_figure_print(
        args, &(struct learn_figure){
                  .rank = RANK, .what = what, .value = value, .bound = bound, .must = must, .short_must = short_must});
}

struct stage {
    struct deep_domain taught, held;
    double base;    // of the model as it came
    double learned; // right after its own run
};

/* Learns domain `i` with all before it. */
static void learn(struct deep_bed *bed, struct stage *stages, int i, int32_t n, const struct deep_recipe *recipe)
{
    struct rv_deep_sample all[N_DOMAINS * N_SAMPLES];
    size_t n_all = 0;

    for (int k = 0; k <= i; k++) {
        memcpy(all + n_all, stages[k].taught.samples, (size_t)n * sizeof(*all));
        n_all += (size_t)n;
    }
    (void)deep_train(bed, all, n_all, recipe);
    stages[i].learned = deep_domain_nll(bed, &stages[i].held);
}

void learn_row7(struct learn_args *args)
{
    struct deep_recipe recipe = {.rank = RANK,
                                 .n_epochs = args->is_short ? EPOCHS_SHORT : EPOCHS,
                                 .kl_weight = 8,
                                 .held_out = 0.1f,
                                 .batch_tokens = 512,
                                 .ewc = 30,
                                 .max_self = 0.016f};
    int32_t n = args->is_short ? N_SHORT : N_SAMPLES;
    struct stage stages[N_DOMAINS];
    struct deep_bed bed;
    double worst = -INFINITY, gain = 0;

    deep_open(&bed, args, args->is_short ? N_ANCHORS_SHORT : N_ANCHORS,
              args->is_short ? N_ANCHORS_SHORT : N_ANCHORS_LARGE);
    recipe.n_turns = deep_turns(&bed, deep_is_large(&bed) ? ANCHORS_AT_ONCE_LARGE : ANCHORS_AT_ONCE);
    if (deep_is_large(&bed)) {
        recipe.n_epochs = EPOCHS_LARGE;
        n = n < N_SAMPLES_LARGE ? n : N_SAMPLES_LARGE;
    }
    for (int i = 0; i < N_DOMAINS; i++) {
        size_t offset = domains[i].taught_at + 1000 * (size_t)(args->seed % 16);

        deep_domain_open(&stages[i].taught, &bed, domains[i].file, offset, n, 1000 * i);
        deep_domain_open(&stages[i].held, &bed, domains[i].file, domains[i].held_at, N_HELD, 0);
        stages[i].base = deep_domain_nll(&bed, &stages[i].held);
    }
    for (int i = 0; i < N_DOMAINS; i++) {
        learn(&bed, stages, i, n, &recipe);
        learn_figure_curve(args, RANK, "self", i + 1, deep_self(&bed));
    }
    for (int i = 0; i < N_DOMAINS; i++) {
        double now = deep_domain_nll(&bed, &stages[i].held);

        learn_figure_curve(args, RANK, "kept", i + 1, now / stages[i].learned - 1);
        worst = i + 1 < N_DOMAINS ? fmax(worst, now / stages[i].learned - 1) : worst;
        gain += (now / stages[i].base - 1) / N_DOMAINS;
    }
    print(args, NULL, worst, LEARN_AT_MOST, 0.05, 0.10);
    print(args, "self", deep_self(&bed), LEARN_AT_MOST, 0.02, 0.05);
    print(args, "gain", gain, LEARN_AT_MOST, 0, 0);
    for (int i = 0; i < N_DOMAINS; i++) {
        deep_domain_close(&stages[i].taught);
        deep_domain_close(&stages[i].held);
    }
    deep_close(&bed);
}
