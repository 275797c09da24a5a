/*
 * Fits a head adapter to answers that were voted on, with exact gradients and no pass through the model: the head's
 * input does not depend on the adapter, so likelihoods under any adapter follow from the states and a few rows of the
 * head. What it may cost elsewhere is bounded by the mean KL divergence on anchors.
 *
 * Likelihoods are taken over a set of tokens: the row's likeliest, its own, those that the good answers have and the
 * others have not, and some that stand for all the rest. One thread at a time.
 */
#ifndef RV_LEARN_HEAD_FIT_H
#define RV_LEARN_HEAD_FIT_H

#include "learn/anchor_draw.h"
#include "learn/anchors.h"
#include "learn/credit.h"
#include "learn/head_adapter.h"
#include "learn/head_table.h"
#include "learn/rehearsal.h"
#include "learn/tail_draw.h"

enum {
    RV_HEAD_FIT_COMMON = 64,
    RV_HEAD_FIT_SET = RV_TRACE_TOP + 1 + RV_HEAD_FIT_COMMON + RV_TAIL_DRAW_MAX,
    RV_HEAD_FIT_COMPARED = 512
};

/* One token of an answer. */
struct rv_head_fit_row {
    const uint16_t *state;
    const int32_t *top;
    int32_t token;
    float logprob; // when it was drawn
    float scale;
    float weight; // of its side: above 0
};

/* What to learn from: tokens to raise and tokens to lower, each side's weights summing to 1. */
struct rv_head_fit_side {
    struct rv_head_fit_row *rows;
    float *sums; // of weights, up to and with each row
    size_t n;
    size_t cap;
    float strength; // of its evidence: what the weights summed to before
};

struct rv_head_fit {
    struct rv_head_table *table;
    const struct rv_whitening *whitening;
    const struct rv_anchors *anchors;
    int32_t rank;
    struct rv_head_fit_side up, down;
    struct rv_credit credit;
    int32_t common[RV_HEAD_FIT_COMMON];
    size_t n_common;
    struct rv_tail_draw tail; // drawn anew for every load and step
    uint64_t n_draws;
    double n_good; // answers that count, by their weights
    float *memory; // scratch of the rest
    struct rv_anchor_draw draw;
    uint32_t *marks;
    uint32_t mark;
    double pull; // of the anchors against the feedback; found on the way and kept
};

RV_CHECKED ruvllm_status rv_head_fit_init(struct rv_head_fit *out, struct rv_head_table *table,
                                          const struct rv_whitening *whitening, const struct rv_anchors *anchors,
                                          int32_t rank, struct ruvllm_error *err);
void rv_head_fit_release(struct rv_head_fit *fit);

/*
 * Weighs answers, those held out (or those not) alone: better than `mean` is good. They must stay until the next call.
 * Which tokens the scores are about is asked of those not held out, and kept for those that are.
 */
RV_CHECKED ruvllm_status rv_head_fit_load(struct rv_head_fit *fit, struct rv_rehearsal_answer *const *answers, size_t n,
                                          double mean, bool held_out, struct ruvllm_error *err);
/*
 * Improves the adapter for up to n_steps, and as long as the clock says. Its mean KL divergence on the anchors is at
 * most `budget` after that. The same inputs and number of steps give the same bits.
 */
void rv_head_fit_run(struct rv_head_fit *fit, struct rv_head_adapter *adapter, double budget, int n_steps,
                     int64_t until_us);
/* Mean KL(model || adapted model) on the anchors, in nats a token. */
double rv_head_fit_kl(struct rv_head_fit *fit, const struct rv_head_adapter *adapter);
/* Mean entropy of the model as it came on those anchors, in nats a token: what its own text says. */
double rv_head_fit_entropy(struct rv_head_fit *fit);
/* By how much the loaded answers' tokens became more likely (those to lower: less), in nats a token. */
double rv_head_fit_gain(struct rv_head_fit *fit, const struct rv_head_adapter *adapter);
/*
 * By how much `after` is better than `before` on the loaded answers, in nats a token, and the standard error of that.
 * Looks at up to RV_HEAD_FIT_COMPARED rows of either side.
 */
struct rv_head_fit_verdict {
    double better;
    double error;
};
struct rv_head_fit_verdict rv_head_fit_compare(struct rv_head_fit *fit, const struct rv_head_adapter *before,
                                               const struct rv_head_adapter *after);
/*
 * Of up to n of the loaded rows: the state, and the gradient of -log p(token) by the head's input under the adapter.
 * Both are borrowed for the call.
 */
typedef void (*rv_head_fit_fn)(void *user, const float *state, const float *gradient);
void rv_head_fit_each(struct rv_head_fit *fit, const struct rv_head_adapter *adapter, size_t n, rv_head_fit_fn fn,
                      void *user);
/* Scales the change down until the anchors are within the budget; the KL divergence then. */
double rv_head_fit_project(struct rv_head_fit *fit, struct rv_head_adapter *adapter, double budget);

#endif
