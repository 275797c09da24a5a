/*
 * Cuts a row of logits down to the tokens worth drawing from: top-k, locally typical (Meister et al. 2022), top-p
 * (nucleus, Holtzman et al. 2019) and min-p. None of them sorts: each finds the key at which its cut falls by narrowing
 * a histogram over the keys, then keeps in one pass what lies above. Equal keys are kept by lower token id.
 *
 * Candidates always stand in token order. Memory is the caller's; nothing here allocates or fails.
 */
#ifndef RV_SAMPLE_TRUNCATE_H
#define RV_SAMPLE_TRUNCATE_H

#include <stddef.h>
#include <stdint.h>

struct rv_candidate {
    int32_t token;
    uint32_t key; // what the cut being made orders by, larger first
    float logit;
    float weight; // see sample/weight.h
};

struct rv_candidates {
    struct rv_candidate *items;
    size_t n;
    size_t cap;
};

/*
 * The tokens whose weight is at least `floor` and above 0, in a set emptied first; `cap` must be at least n_vocab.
 * `weights` belong to `logits`, one each.
 */
void rv_truncate_gather(struct rv_candidates *set, const float *logits, const float *weights, size_t n_vocab,
                        float floor);
/*
 * A floor for rv_truncate_gather below which no token can belong to the top-p set: fewer than n tokens lie under it, so
 * together they hold less than the (1 - p) of `total` that top-p leaves out.
 */
float rv_truncate_top_p_floor(float p, double total, size_t n);

/* The k largest finite logits, straight from the row; weights are left at 1. `cap` must be at least 2 * k. */
void rv_truncate_top_k(struct rv_candidates *set, const float *logits, size_t n_vocab, size_t k);

/* Gives every candidate its weight and returns their sum. */
double rv_truncate_weigh(struct rv_candidates *set, float max, float scale);
double rv_truncate_total(const struct rv_candidates *set);

/*
 * Keeps the tokens whose information content lies nearest the set's entropy, until their share of the set is above
 * p. `max` and `scale` are those the weights were made with.
 */
void rv_truncate_typical(struct rv_candidates *set, float p, float max, float scale);
/*
 * Keeps the likeliest tokens until their share of `total` (the set's weight before anything certain to be cut was
 * left out) reaches p.
 */
void rv_truncate_top_p(struct rv_candidates *set, float p, double total);
/* Keeps the tokens at least p times as likely as the likeliest. */
void rv_truncate_min_p(struct rv_candidates *set, float p);

#endif
