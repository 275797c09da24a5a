/*
 * Other ways to ask what was corrected. A correction says what follows after one text; learned as it is, it is learned
 * for that text. So it is also put behind others: sentences before the one that matters are left out, a sentence of the
 * model's own comes in their place, and now and then words are left out or exchanged for some of the model's own.
 *
 * What the question is about must stay: that are the words which the frozen model did not expect, at least half as
 * surprising as the most surprising one. What all questions have in common at their end stays too, and so does what is
 * not text: control tokens, and the lines of a template around the last turn.
 */
#ifndef RV_LEARN_DEEP_VARIANTS_H
#define RV_LEARN_DEEP_VARIANTS_H

#include "learn/deep.h"
#include "text/vocab.h"

struct rv_deep_variants_config {
    const struct rv_deep_config *run; // the model, its team, the longest sample and the seed are read
    const struct rv_vocab *vocab;
    int32_t n_each;    // of one correction; they take turns
    int32_t n_at_once; // so many of them in an epoch
};

struct rv_deep_variants {
    struct rv_deep_sample *items; // those given, then the variants; what they point to is borrowed from those given
    size_t n;
    size_t n_given; // behind them a variant's tokens are its own
};

/*
 * Of samples of a run: corrections, which are neither votes nor pairs and whose first weight comes after a question;
 * sentences are taken from anchors that are no guard. A function of samples, config and seed. On failure nothing is
 * left to release.
 */
RV_CHECKED ruvllm_status rv_deep_variants_init(struct rv_deep_variants *out,
                                               const struct rv_deep_variants_config *config,
                                               const struct rv_deep_sample *samples, size_t n_samples,
                                               struct ruvllm_error *err);
void rv_deep_variants_release(struct rv_deep_variants *variants);

#endif
