/*
 * Row 6: a domain the model does not know, by a deep run on samples of it: how much likelier another part of the domain
 * becomes, and how much less likely what the model writes itself. The domain is a part of Shakespeare; samples and what
 * is measured are far apart in it. Controls: without steps nothing is gained; and samples whose words are shuffled.
 */
#include "learn_deep.h"

#include <string.h>

enum {
    N_SAMPLES = 256,
    N_SHORT = 24,
    N_HELD = 24,
    RANK = 16,
    N_ANCHORS = 384, // few are learned by heart, and then hold nothing else in place
    N_ANCHORS_LARGE = 192,
    N_ANCHORS_SHORT = 96,
    ANCHORS_AT_ONCE = 72, // in an epoch
    EPOCHS = 12,
    EPOCHS_LARGE = 4,
    EPOCHS_SHORT = 6
};

static const char *const FILE_NAME = "tinyshakespeare.txt";
static const size_t HELD_AT = 600000;

static void print(struct learn_args *args, const char *what, double value, enum learn_bound bound, double must,
                  double short_must)
{
    learn_figure_print(
        args, &(struct learn_figure){
                  .rank = RANK, .what = what, .value = value, .bound = bound, .must = must, .short_must = short_must});
}

static void shuffle_words(struct deep_bed *bed, struct deep_domain *d)
{
    for (int32_t i = 0; i < d->n; i++) {
        int32_t *row = d->tokens + i * (DEEP_SAMPLE + 1);

        for (uint32_t k = DEEP_SAMPLE; k > 1; k--) {
            uint32_t other = 1 + (uint32_t)rv_rng_below(&bed->lab.rng, k);
            int32_t token = row[k];

            row[k] = row[other];
            row[other] = token;
        }
    }
}

void learn_row6(struct learn_args *args)
{
    struct deep_recipe recipe = {.rank = RANK,
                                 .n_epochs = args->is_short ? EPOCHS_SHORT : EPOCHS,
                                 .kl_weight = 4,
                                 .held_out = 0.1f,
                                 .batch_tokens = 512,
                                 .max_self = 0.038f};
    int32_t n = args->is_short ? N_SHORT : N_SAMPLES;
    struct deep_domain taught, held;
    struct deep_bed bed;
    double base;

    deep_open(&bed, args, args->is_short ? N_ANCHORS_SHORT : N_ANCHORS,
              args->is_short ? N_ANCHORS_SHORT : N_ANCHORS_LARGE);
    recipe.n_turns = deep_turns(&bed, ANCHORS_AT_ONCE);
    if (deep_is_large(&bed))
        recipe.n_epochs = EPOCHS_LARGE;
    deep_domain_open(&taught, &bed, FILE_NAME, 2000 + 10000 * (size_t)(args->seed % 16), n, 0);
    deep_domain_open(&held, &bed, FILE_NAME, HELD_AT, N_HELD, 0);
    base = deep_domain_nll(&bed, &held);
    print(args, "base", base, LEARN_FREE, 0, 0);
    print(args, "published", deep_train(&bed, taught.samples, (size_t)n, &recipe), LEARN_AT_LEAST, 1, 1);
    print(args, NULL, deep_domain_nll(&bed, &held) / base - 1, LEARN_AT_MOST, -0.20, -0.02);
    print(args, "self", deep_self(&bed), LEARN_AT_MOST, 0.05, 0.10);
    if (!args->is_short && !deep_is_large(&bed)) { // what it controls is the same code on any model
        deep_forget(&bed);
        shuffle_words(&bed, &taught);
        (void)deep_train(&bed, taught.samples, (size_t)n, &recipe);
        print(args, "shuffled", deep_domain_nll(&bed, &held) / base - 1, LEARN_FREE, 0, 0);
    }
    deep_close(&bed);
    deep_domain_close(&taught);
    deep_domain_close(&held);
}
