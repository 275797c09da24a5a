/*
 * One tick of the background loop, on copies: goes over recent answers again, keeps what the model does elsewhere
 * within the tenant's budget, makes one adapter of the old one and the new one, and lets pass only what does not do
 * worse on answers that were held out. Nothing here waits for anybody. One thread at a time.
 */
#ifndef RV_LEARN_TICK_H
#define RV_LEARN_TICK_H

#include "learn/consolidate.h"
#include "learn/study.h"

enum rv_tick_verdict {
    RV_TICK_NOTHING = 1, // nothing to do: too few votes, and anchors within the budget
    RV_TICK_ACCEPTED,
    RV_TICK_HALVED,  // accepted in part
    RV_TICK_REJECTED // what was found does worse on what was held out: all stays as it is
};

struct rv_tick_config {
    const struct rv_manifest *manifest;
    const struct rv_hparams *hparams;
    const struct rv_whitening *whitening;
    const struct rv_anchors *anchors;
    int32_t rank;
    enum rv_consolidate_strategy strategy;
    double budget; // of the divergence on anchors, as a share of their entropy; RV_TICK_BUDGET
};

#define RV_TICK_BUDGET 0.0175

enum { RV_TICK_STEPS = 64 };

struct rv_tick {
    struct rv_tick_config config;
    struct rv_head_table table;
    struct rv_head_fit fit;
    struct rv_head_fisher fisher; // of what was fitted
    struct rv_head_adapter now, fitted, made;
    double budget; // nats a token; 0: the anchors were not looked at yet
};

struct rv_tick_result {
    enum rv_tick_verdict verdict;
    int32_t n_halvings;
    double budget;    // of the divergence on anchors, nats a token; 0: they were not looked at
    double kl_before; // on anchors
    double kl;
    double better; // on answers held out, in nats a token
    double error;  // of that
};

/* What the configuration points to outlives it. */
RV_CHECKED ruvllm_status rv_tick_init(struct rv_tick *out, const struct rv_tick_config *config,
                                      struct ruvllm_error *err);
void rv_tick_release(struct rv_tick *tick);
/* Takes the adapter to begin with: tick->now is a copy. */
void rv_tick_begin(struct rv_tick *tick, const struct rv_head_adapter *now);
/*
 * Works on tick->now; what is to be is then in tick->made, in numbers that bfloat16 has. `mean` is the tenant's mean
 * score. Of the study only what is the background's own is used. Looks at the clock while it fits.
 */
RV_CHECKED ruvllm_status rv_tick_run(struct rv_tick *tick, struct rv_study *study,
                                     struct rv_rehearsal_answer *const *answers, size_t n, double mean,
                                     int64_t until_us, struct rv_tick_result *result, struct ruvllm_error *err);

#endif
