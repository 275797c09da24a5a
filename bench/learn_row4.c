/*
 * Row 4: fifty made-up facts, each corrected once, after a deep run on the corrections: asked the same again, asked
 * with another beginning (near), and in other words (far); and what it costs the model's own texts. The weights alone
 * answer: no memory, no adapter at the head. Controls: the model as it came; and answers that belong to other
 * questions.
 */
#include "learn_deep.h"
#include "learn_facts.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_FACTS = 50,
    N_SHORT = 8,
    MAX_TOKENS = 96,
    RANK = 16,
    EPOCHS = 60,
    EPOCHS_LARGE = 22,
    EPOCHS_SHORT = 25,
    N_ANCHORS = 1024, // few are learned by heart, and then hold nothing else in place
    N_ANCHORS_LARGE = 512,
    N_ANCHORS_SHORT = 96,
    ANCHORS_AT_ONCE = 24, // in an epoch
};

struct row {
    int32_t tokens[2 * MAX_TOKENS];
    float weights[2 * MAX_TOKENS];
    int32_t n_prompt, n;
};

static int32_t encode(const struct deep_bed *bed, const char *text, bool begins, int32_t *out)
{
    const struct rv_vocab *vocab = bed->lab.model->vocab;
    int32_t bos = rv_vocab_bos(vocab), n = 0, *ids;
    struct ruvllm_error err;
    size_t n_ids;

    /* A vocabulary that puts a space before the first word puts it where one stands already. */
    if (!begins && *text == ' ' && rv_vocab_adds_space(vocab))
        text++;
    if (rv_vocab_encode(vocab, text, strlen(text), NULL, 0, &ids, &n_ids, &err))
        lab_die("tokens", &err);
    if (begins && bos >= 0)
        out[n++] = bos;
    for (size_t i = 0; i < n_ids && n < MAX_TOKENS; i++)
        out[n++] = ids[i];
    rv_free(ids);
    return n;
}

static void make_row(const struct deep_bed *bed, const struct learn_fact *asked, const struct learn_fact *answered,
                     enum learn_fact_way way, struct row *out)
{
    char text[LEARN_FACTS_TEXT];

    memset(out, 0, sizeof(*out));
    learn_facts_ask(asked, way, text);
    out->n_prompt = encode(bed, text, true, out->tokens);
    learn_facts_answer(answered, text);
    out->n = out->n_prompt + encode(bed, text, false, out->tokens + out->n_prompt);
    for (int32_t i = out->n_prompt; i < out->n; i++)
        out->weights[i] = 1.0f;
}

/* Leaves nothing to choose but the likeliest. */
static void choose_best(void *user, int32_t answer, int32_t i, const float *state, float *logits)
{
    size_t n = *(const size_t *)user;
    float max = -INFINITY;

    (void)answer;
    (void)i;
    (void)state;
    for (size_t v = 0; v < n; v++)
        max = logits[v] > max ? logits[v] : max;
    for (size_t v = 0; v < n; v++)
        logits[v] = logits[v] < max ? -INFINITY : logits[v];
}

/* The share of facts that are answered word by word. */
static double score(struct deep_bed *bed, const struct learn_fact *facts, int n, enum learn_fact_way way)
{
    int n_right = 0;

    for (int i = 0; i < n; i++) {
        int32_t tokens[2 * MAX_TOKENS];
        struct lab_answer answer = {.tokens = tokens, .adapter = bed->adapter};
        struct row wanted;

        make_row(bed, &facts[i], &facts[i], way, &wanted);
        memcpy(tokens, wanted.tokens, (size_t)wanted.n_prompt * sizeof(*tokens));
        lab_generate(&bed->lab, &answer, 1, wanted.n_prompt, wanted.n - wanted.n_prompt, choose_best,
                     &bed->lab.n_vocab);
        n_right += memcmp(tokens, wanted.tokens, (size_t)wanted.n * sizeof(*tokens)) == 0;
    }
    return (double)n_right / n;
}

/* Corrects all answers; of other facts when `shift` is not 0. */
static void train(struct deep_bed *bed, const struct learn_fact *facts, int n, int shift)
{
    struct deep_recipe recipe = {.rank = RANK,
                                 .n_epochs = n == N_SHORT         ? EPOCHS_SHORT
                                             : deep_is_large(bed) ? EPOCHS_LARGE
                                                                  : EPOCHS,
                                 .kl_weight = 2,
                                 .n_variants = 2,
                                 .batch_tokens = 512,
                                 .n_turns = deep_turns(bed, ANCHORS_AT_ONCE),
                                 .max_self = 0.026f};
    struct row *rows = lab_need(calloc((size_t)n, sizeof(*rows)));
    struct rv_deep_sample samples[N_FACTS];

    for (int i = 0; i < n; i++) {
        make_row(bed, &facts[i], &facts[(i + shift) % n], LEARN_FACT_TAUGHT, &rows[i]);
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

void learn_row4(struct learn_args *args)
{
    int n = args->is_short ? N_SHORT : N_FACTS, n_anchors = args->is_short ? N_ANCHORS_SHORT : N_ANCHORS;
    struct learn_fact facts[N_FACTS];
    struct deep_bed bed;
    bool has_control;

    deep_open(&bed, args, n_anchors, args->is_short ? N_ANCHORS_SHORT : N_ANCHORS_LARGE);
    learn_facts_make(facts, n, &bed.lab.rng);
    print(args, "frozen", score(&bed, facts, n, LEARN_FACT_TAUGHT), LEARN_AT_MOST, 0.02, 0.13);
    train(&bed, facts, n, 0);
    print(args, "taught", score(&bed, facts, n, LEARN_FACT_TAUGHT), LEARN_AT_LEAST, 0.95, 0.5);
    print(args, "near", score(&bed, facts, n, LEARN_FACT_NEAR), LEARN_AT_LEAST, 0.90, 0.3);
    print(args, "far", score(&bed, facts, n, LEARN_FACT_FAR), LEARN_AT_LEAST, 0.25, 0);
    print(args, "self", deep_self(&bed), LEARN_AT_MOST, 0.03, 0.06);
    has_control = !args->is_short && !deep_is_large(&bed); // what it controls is the same code on any model
    deep_close(&bed);
    if (has_control) {
        deep_open(&bed, args, n_anchors, N_ANCHORS_LARGE);
        train(&bed, facts, n, 1);
        print(args, "shuffled", score(&bed, facts, n, LEARN_FACT_TAUGHT), LEARN_AT_MOST, 0.02, 0.13);
        deep_close(&bed);
    }
}
